"""Quarter turns and mirror images of a grid. They are exact, because they only move pixels."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import Self

import torch
from torch import Size, Tensor

from veracity.core.errors import InputError
from veracity.core.registry import GROUPS
from veracity.perturb.groups.base import UNMOVED, FiniteGroup, PermutationAction, describe, flat_index, lengths


@dataclass(frozen=True, kw_only=True)
class SquareSymmetry(PermutationAction, FiniteGroup, ABC):
    """Element k + 4 s mirrors left to right if s = 1, then makes k quarter turns anticlockwise (as `torch.rot90`)."""

    axes: tuple[int, int] = (-2, -1)

    def fit(self, shape: Size) -> Self:
        """The same group; raises if inputs of this shape are not square."""
        self.side(lengths(self, shape, self.axes))
        return self

    def side(self, sizes: tuple[int, ...]) -> int:
        """Side length; raises if the input is not square."""
        if len(sizes) != 2 or sizes[0] != sizes[1]:
            raise InputError(f"{describe(self)} needs square inputs, but the signals measure {sizes} along its axes.")
        return sizes[0]

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        """r^k f^s r^l f^t = r^(k + l or k - l) f^(s + t), because a mirror image turns the other way."""
        turn = (g % 4 + (1 - 2 * (g // 4)) * (h % 4)) % 4
        return turn + 4 * ((g // 4) ^ (h // 4))

    def inverse(self, g: Tensor) -> Tensor:
        """The opposite turn; a mirror image is its own inverse."""
        return torch.where(g < 4, (-g) % 4, g)

    def words(self, element: Tensor) -> str:
        """The mirror image, if any, and the turn in degrees.

        >>> Dihedral().words(torch.tensor([5])), Dihedral().words(torch.tensor([0]))
        ('mirrored, turned by 90°', 'as it is')
        """
        mirror, turn = divmod(int(element[0]), 4)
        return ", ".join(["mirrored"] * mirror + [f"turned by {90 * turn}°"] * (turn > 0)) or UNMOVED

    def source(self, elements: Tensor, sizes: tuple[int, ...]) -> Tensor:
        """The flat indices of the transformed grid."""
        side = self.side(sizes)
        grid = torch.arange(side * side, device=elements.device).reshape(side, side)
        table = torch.stack([face.rot90(turns) for face in (grid, grid.fliplr()) for turns in range(4)])
        return table.flatten(1)[elements[:, 0]]


@GROUPS.add
@dataclass(frozen=True, kw_only=True)
class Dihedral(SquareSymmetry):
    """The eight symmetries of a square image, D4: quarter turns and mirror images.

    >>> Dihedral().act(torch.tensor([[1]]), torch.tensor([[[1, 2], [3, 4]]]))
    tensor([[[2, 4],
             [1, 3]]])
    """

    name = "d4"
    reference = "Cohen and Welling, Group equivariant convolutional networks, ICML 2016"
    order = 8


@GROUPS.add
@dataclass(frozen=True, kw_only=True)
class Rotations(SquareSymmetry):
    """The four quarter turns of a square image, C4."""

    name = "c4"
    reference = "Cohen and Welling, Group equivariant convolutional networks, ICML 2016"
    order = 4


@dataclass(frozen=True, kw_only=True)
class Reflection(PermutationAction, FiniteGroup, ABC):
    """Element number b mirrors the axes whose bit of b is set; the last axis has the lowest bit."""

    @property
    def order(self) -> int:
        """2^k for k axes."""
        return int(2 ** len(self.axes))

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        """Two mirror images along the same axis cancel."""
        return g ^ h

    def inverse(self, g: Tensor) -> Tensor:
        """A mirror image is its own inverse."""
        return g

    def words(self, element: Tensor) -> str:
        """The mirrored axes.

        >>> Flips().words(torch.tensor([1])), Flips().words(torch.tensor([3]))
        ('mirrored along axis -1', 'mirrored along axes -2 and -1')
        """
        axes = sorted(axis for bit, axis in enumerate(reversed(self.axes)) if int(element[0]) >> bit & 1)
        along = " and ".join(map(str, axes))
        return f"mirrored along {'axes' if len(axes) > 1 else 'axis'} {along}" if axes else UNMOVED

    def source(self, elements: Tensor, sizes: tuple[int, ...]) -> Tensor:
        """Entry i comes from n - 1 - i along the mirrored axes."""
        bits = [elements >> (len(sizes) - 1 - axis) & 1 for axis in range(len(sizes))]
        return flat_index([(torch.arange(size, device=bit.device) - bit * (size - 1)).abs() for bit, size in zip(bits, sizes, strict=True)])


@GROUPS.add
@dataclass(frozen=True, kw_only=True)
class Flips(Reflection):
    """Mirror images left to right, top to bottom, and both: the Klein four-group, for images of any size."""

    name = "flips"
    reference = "Cohen and Welling, Group equivariant convolutional networks, ICML 2016"

    axes: tuple[int, ...] = (-2, -1)


@GROUPS.add
@dataclass(frozen=True, kw_only=True)
class Mirror(Reflection):
    """The mirror image along one axis, for signals of any size.

    >>> Mirror(axis=-1).act(torch.tensor([[1]]), torch.tensor([[1., 2., 3.]]))
    tensor([[3., 2., 1.]])
    """

    name = "mirror"

    axis: int = -1

    @property
    def axes(self) -> tuple[int, ...]:
        """The axis as a tuple."""
        return (self.axis,)
