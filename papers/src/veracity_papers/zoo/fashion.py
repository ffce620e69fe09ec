"""The three FashionMNIST networks of the symmetry paper (Tables 9 and 10), with trained weights.

The printed Table 10 flattens to 294,912 features; its own three poolings of a 48x48 image leave 128*6*6 = 4,608,
which is what is built here, with 10 outputs. The paper's Equiv layer is "conv3", its Inv layer "linear1".
"""

from __future__ import annotations

from torch import Size, nn

from veracity.core.training import Checkpoint
from veracity.demo import GlobalMean, all_cnn, flatten_cnn
from veracity_papers.zoo.storage import checkpoints as shipped
from veracity_papers.zoo.storage import loaded

PADDING = 10
IMAGE = Size((48, 48))
NAMES = ("all-cnn", "augmented-cnn", "standard-cnn")
EQUIVARIANT, INVARIANT = "conv3", "linear1"


def build(name: str) -> nn.Sequential:
    """One of the three architectures, untrained."""
    if name == "all-cnn":
        return all_cnn((16, 64, 128), 10, GlobalMean(), hidden=32)
    return flatten_cnn((16, 64, 128), 10, IMAGE, hidden=32)


def pretrained(name: str) -> nn.Sequential:
    """One of the three networks with the weights that `python -m veracity_papers.zoo.train fashion` made."""
    return loaded(build(name), f"fashion-{name}")


def checkpoints(name: str) -> tuple[Checkpoint, ...]:
    """The checkpoints of its training."""
    return shipped(f"fashion-{name}")
