"""The Deep Sets network of the symmetry paper (Table 8, after Zaheer et al. 2017), exactly invariant to the order of points.

Maxima are taken with `amax`, so that tied points share the gradient; with `torch.max` it would go to one of them, and
explanations would depend on the points' order. The shipped weights are for 64 features where the paper has 256, and scored
.9966 on the 295 test shapes of three classes (see `veracity_papers.data.modelnet`). The paper's Equiv layer is "equivariant2",
its Inv layer "linear1".
"""

from __future__ import annotations

from collections import OrderedDict

from torch import Tensor, nn

from veracity.core.training import Checkpoint
from veracity_papers.zoo.storage import checkpoints as shipped
from veracity_papers.zoo.storage import loaded

EQUIVARIANT, INVARIANT = "equivariant2", "linear1"
NAME = "modelnet-deep-sets"
WIDTH = 64


class SubtractMax(nn.Module):
    """Each feature less its maximum over the set: x_(s,i) - max_s' x_(s',i)."""

    def forward(self, x: Tensor) -> Tensor:
        """From (N, P, F) to (N, P, F)."""
        return x - x.amax(dim=1, keepdim=True)


class SetMax(nn.Module):
    """Each feature's maximum over the set."""

    def forward(self, x: Tensor) -> Tensor:
        """From (N, P, F) to (N, F)."""
        return x.amax(dim=1)


def deep_sets(classes: int, width: int = 256, features: int = 3, dropout: float = 0.5) -> nn.Sequential:
    """Three equivariant layers, a maximum over the set and two dense layers: from (N, P, features) to logits (N, classes)."""
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for number, before in enumerate((features, width, width), start=1):
        layers[f"subtract{number}"] = SubtractMax()
        layers[f"equivariant{number}"], layers[f"tanh{number}"] = nn.Linear(before, width), nn.Tanh()
    layers["pool"], layers["dropout1"] = SetMax(), nn.Dropout(dropout)
    layers["linear1"], layers["tanh4"], layers["dropout2"] = nn.Linear(width, width), nn.Tanh(), nn.Dropout(dropout)
    layers["linear2"] = nn.Linear(width, classes)
    return nn.Sequential(layers)


def pretrained() -> nn.Sequential:
    """The network for bench, chair and monitor with the weights that `python -m veracity_papers.zoo.train modelnet` made."""
    return loaded(deep_sets(3, WIDTH), NAME)


def checkpoints() -> tuple[Checkpoint, ...]:
    """The checkpoints of its training."""
    return shipped(NAME)
