"""Four CIFAR-10 networks that stand for the symmetry paper's E(2)-WideResNets (Table 11), with trained weights.

"d4" is exactly invariant to D4; "relaxed" is made so and may unlearn it; "augmented" and "standard" are ordinary residual
networks, trained with and without random turns and mirror images. The paper's Equiv layer is "lift", its Inv layer "pool".
On the 10,000 test images the shipped weights scored .8493, .8844, .7783 and .8528 after 30 epochs.
"""

from __future__ import annotations

from torch import nn

from veracity.core.training import Checkpoint
from veracity_papers.zoo.dihedral import d4_resnet, ordinary_resnet, relaxed_resnet
from veracity_papers.zoo.store import checkpoint_names, facts, loaded
from veracity_papers.zoo.store import checkpoints as shipped

NAMES = ("d4", "relaxed", "augmented", "standard")
EQUIVARIANT, INVARIANT = "lift", "pool"


def build(name: str) -> nn.Sequential:
    """One of the four architectures, untrained."""
    if name == "d4":
        return d4_resnet(10)
    return relaxed_resnet(10) if name == "relaxed" else ordinary_resnet(10)


def pretrained(name: str) -> nn.Sequential:
    """One of the four networks with the weights that `python -m veracity_papers.zoo.train_cifar` made."""
    return loaded(build(name), f"cifar-{name}")


def checkpoints(name: str) -> tuple[Checkpoint, ...]:
    """The shipped checkpoints of its training; none of "standard"."""
    return shipped(f"cifar-{name}")


def evolution(name: str) -> dict[str, int]:
    """The shipped moments of a training, by name for `veracity_papers.zoo.store.state`, with the epochs done: eight of "relaxed"."""
    return {one: int(facts(one)["epochs"]) for one in checkpoint_names(f"cifar-{name}")}
