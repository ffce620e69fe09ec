"""The three ECG networks of the symmetry paper (Tables 5 and 6), with trained weights.

Beats have 180 steps here (see `veracity_papers.data.ecg`), so that the flattening networks see 128 * 22 features, not 128 * 23.
The paper's Equiv layer is "conv3", its Inv layer "linear1". On the 21,018 test beats, of which .86 are normal, the shipped
weights scored .9285, .9541 and .9651.
"""

from __future__ import annotations

from torch import Size, nn

from veracity.core.training import Checkpoint
from veracity.demo import GlobalMean, all_cnn, flatten_cnn
from veracity_papers.data.ecg import LENGTH
from veracity_papers.zoo.storage import checkpoints as shipped
from veracity_papers.zoo.storage import loaded

NAMES = ("all-cnn", "augmented-cnn", "standard-cnn")
EQUIVARIANT, INVARIANT = "conv3", "linear1"


def build(name: str) -> nn.Sequential:
    """One of the three architectures, untrained."""
    if name == "all-cnn":
        return all_cnn((16, 64, 128), 2, GlobalMean(), hidden=32, axes=1)
    return flatten_cnn((16, 64, 128), 2, Size((LENGTH,)), hidden=32)


def pretrained(name: str) -> nn.Sequential:
    """One of the three networks with the weights that `python -m veracity_papers.zoo.train ecg` made."""
    return loaded(build(name), f"ecg-{name}")


def checkpoints(name: str) -> tuple[Checkpoint, ...]:
    """The checkpoints of its training."""
    return shipped(f"ecg-{name}")
