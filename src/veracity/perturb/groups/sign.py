"""A signal and its negative."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from veracity.core.registry import GROUPS
from veracity.core.spaces import Representation
from veracity.perturb.groups.base import UNMOVED, FiniteGroup, check_pairs


@GROUPS.add
@dataclass(frozen=True, kw_only=True)
class SignFlip(FiniteGroup):
    """A signal and its negative, Z_2: rho[1] x = -x, for inputs of any shape.

    >>> import torch
    >>> SignFlip().act(torch.tensor([[0], [1]]), torch.tensor([[2.0, 3.0], [2.0, 3.0]]))
    tensor([[ 2.,  3.],
            [-2., -3.]])
    """

    name = "sign_flip"
    representation = Representation.ORTHOGONAL
    order = 2

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        """Two changes of sign cancel."""
        return g ^ h

    def inverse(self, g: Tensor) -> Tensor:
        """A change of sign is its own inverse."""
        return g

    def words(self, element: Tensor) -> str:
        """Negated or not."""
        return "negated" if int(element[0]) else UNMOVED

    def act(self, elements: Tensor, x: Tensor) -> Tensor:
        """N signs times N signals."""
        check_pairs(self, elements, x)
        return x * (1 - 2 * elements.to(x)).reshape(-1, *[1] * (x.ndim - 1))
