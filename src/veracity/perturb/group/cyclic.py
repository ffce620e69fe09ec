"""Cyclic shifts: what leaves on one side enters on the other."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Size, Tensor

from veracity.core.registry import GROUPS
from veracity.core.settings import Count
from veracity.perturb.group.action import PermutationAction, flat_index, lengths, same_sizes, steps
from veracity.perturb.group.base import FiniteGroup, known


@GROUPS.add
@dataclass(frozen=True, kw_only=True)
class CyclicShift(PermutationAction, FiniteGroup):
    """Shifts with wrap-around along one or more axes, Z_n or Z_n x Z_m: (rho[s] x)_i = x_(i - s) mod n.

    Elements (N, k) are the shifts along each of the k axes, as in `torch.roll`.

    >>> shifts = CyclicShift(axes=(-1,)).fit(Size([4]))
    >>> shifts.act(torch.tensor([[1]]), torch.tensor([[1., 2., 3., 4.]]))
    tensor([[4., 1., 2., 3.]])
    >>> CyclicShift(axes=(-2, -1)).fit(Size([1, 8, 6])).order
    48
    """

    name = "cyclic_shift"
    reference = "Crabbé and van der Schaar, NeurIPS 2023, Table 4 (187 shifts of an ECG)"

    axes: tuple[int, ...] = (-1,)
    sizes: tuple[Count, ...] | None = None

    def fit(self, shape: Size) -> Self:
        """The shifts of inputs of this shape."""
        sizes = lengths(self, shape, self.axes)
        same_sizes(self, self.sizes, sizes)
        return replace(self, sizes=sizes)

    @property
    def order(self) -> int:
        """The product of the axes' lengths."""
        return math.prod(self.lengths)

    @property
    def lengths(self) -> tuple[int, ...]:
        """The axes' lengths, once fitted."""
        known(self, self.sizes)
        return tuple(self.sizes or ())

    def unrank(self, index: Tensor) -> Tensor:
        """The number's digits, the last axis turning fastest: (N, k)."""
        return torch.stack(torch.unravel_index(index.long(), self.lengths), dim=1)

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        """Shifts add up."""
        return (g + h).remainder(g.new_tensor(self.lengths))

    def inverse(self, g: Tensor) -> Tensor:
        """Back by as much."""
        return (-g).remainder(g.new_tensor(self.lengths))

    def source(self, elements: Tensor, sizes: tuple[int, ...]) -> Tensor:
        """Entry i comes from i - s."""
        same_sizes(self, self.sizes, sizes)
        return rolled(elements, sizes)


def rolled(shifts: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """Flat source indices (N, d) of rolling axes of these sizes by shifts (N, k).

    >>> rolled(torch.tensor([[1]]), (4,))
    tensor([[3, 0, 1, 2]])
    """
    return flat_index([(steps(size, shifts) - shifts[:, [axis]]).remainder(size) for axis, size in enumerate(sizes)])
