"""Shifts of a padded signal inside its padding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Size, Tensor

from veracity.core.errors import InputError
from veracity.core.registry import GROUPS
from veracity.core.settings import Whole
from veracity.core.spaces import FiniteSpace
from veracity.perturb.group.action import PermutationAction, lengths
from veracity.perturb.group.base import describe
from veracity.perturb.group.cyclic import rolled


@GROUPS.add
@dataclass(frozen=True, kw_only=True)
class WindowShift(PermutationAction, FiniteSpace):
    """Shifts by up to `margin` along each axis of signals padded by as much: a set of transforms, not a group.

    Elements (N, k) lie in [-margin, margin]^k. Two of them may compose to a shift outside the set, so the set has no
    algebra; while the padding is blank nothing visible wraps, and rolling is the same as moving.

    >>> WindowShift(margin=10).order
    441
    >>> WindowShift(margin=1, axes=(-1,)).enumerate().flatten()
    tensor([ 0,  1, -1])
    """

    name = "window_shift"
    reference = "Crabbé and van der Schaar, NeurIPS 2023, appendix F (FashionMNIST padded by 10)"

    margin: Whole = 10
    axes: tuple[int, ...] = (-2, -1)

    def fit(self, shape: Size) -> Self:
        """The same shifts, if inputs of this shape are longer than the padding."""
        sizes = lengths(self, shape, self.axes)
        if min(sizes) <= 2 * self.margin:
            raise InputError(
                f"{describe(self)} needs axes longer than the padding on both sides, {2 * self.margin} entries, "
                f"but one sample has shape {tuple(shape)}: pad the inputs or choose a smaller margin."
            )
        return self

    @property
    def order(self) -> int:
        """(2 margin + 1)^k."""
        return int(self.span ** len(self.axes))

    @property
    def span(self) -> int:
        """How many shifts there are along one axis."""
        return 2 * self.margin + 1

    def unrank(self, index: Tensor) -> Tensor:
        """The number's digits 0, 1 ... 2 margin read as 0, 1 ... margin, -margin ... -1: number 0 moves nothing."""
        digits = torch.stack(torch.unravel_index(index.long(), (self.span,) * len(self.axes)), dim=1)
        return (digits + self.margin).remainder(self.span) - self.margin

    def source(self, elements: Tensor, sizes: tuple[int, ...]) -> Tensor:
        """Entry i comes from i - s."""
        return rolled(elements, sizes)

    def check(self, x: Tensor) -> None:
        """Raise unless the outer `margin` entries along each axis hold one value per sample and channel."""
        edges = [at_edge(size, self.margin) for size in lengths(self, x.shape[1:], self.axes)]
        frame = torch.stack(torch.meshgrid(*edges, indexing="ij")).any(dim=0).to(x.device)
        outer = x.movedim(self.axes, tuple(range(-len(self.axes), 0)))[..., frame]
        visible = int((outer != outer[..., :1]).flatten(1).any(dim=1).sum())
        if visible:
            raise InputError(
                f"{describe(self)} would wrap visible content of {visible} of {len(x)} inputs, whose outer {self.margin} entries "
                f"are not blank: pad the inputs by {self.margin} or choose a smaller margin."
            )


def at_edge(size: int, margin: int) -> Tensor:
    """Which entries of an axis lie in the margin, (size,).

    >>> at_edge(5, 1)
    tensor([ True, False, False, False,  True])
    """
    place = torch.arange(size)
    return (place < margin) | (place >= size - margin)
