"""Shifts: with wrap-around, inside the padding of a signal, and of a window over a larger scene."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Size, Tensor

from veracity.core.errors import InputError
from veracity.core.registry import GROUPS
from veracity.core.settings import Count, Whole
from veracity.core.spaces import FiniteSpace, check_known
from veracity.perturb.groups.base import FiniteGroup, PermutationAction, check_pairs, describe, flat_index, lengths, same_sizes


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
        """The lengths of the axes; raises before `fit`."""
        return check_known(self, self.sizes, "the inputs' size")

    def unrank(self, index: Tensor) -> Tensor:
        """The digits of the number, (N, k); the last axis changes fastest."""
        return torch.stack(torch.unravel_index(index.long(), self.lengths), dim=1)

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        """The sum of the shifts."""
        return (g + h).remainder(g.new_tensor(self.lengths))

    def inverse(self, g: Tensor) -> Tensor:
        """The opposite shift."""
        return (-g).remainder(g.new_tensor(self.lengths))

    def source(self, elements: Tensor, sizes: tuple[int, ...]) -> Tensor:
        """Entry i comes from i - s."""
        same_sizes(self, self.sizes, sizes)
        return roll_source(elements, sizes)


def roll_source(shifts: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """Flat source indices (N, d) for rolling axes of these sizes by shifts (N, k).

    >>> roll_source(torch.tensor([[1]]), (4,))
    tensor([[3, 0, 1, 2]])
    """
    device = shifts.device
    return flat_index([(torch.arange(size, device=device) - shifts[:, [axis]]).remainder(size) for axis, size in enumerate(sizes)])


@GROUPS.add
@dataclass(frozen=True, kw_only=True)
class WindowShift(PermutationAction, FiniteSpace):
    """Shifts by up to `margin` along each axis of signals that are padded by `margin`: a set of transforms, not a group.

    Elements (N, k) lie in [-margin, margin]^k. The composition of two may lie outside the set. As long as the padding is blank,
    nothing visible wraps around.

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
        """The same shifts; raises if inputs of this shape are not longer than the padding."""
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
        """The number of shifts along one axis."""
        return 2 * self.margin + 1

    def unrank(self, index: Tensor) -> Tensor:
        """The digits 0, 1 ... 2 margin of the number stand for 0, 1 ... margin, -margin ... -1; number 0 is the identity."""
        digits = torch.stack(torch.unravel_index(index.long(), (self.span,) * len(self.axes)), dim=1)
        return (digits + self.margin).remainder(self.span) - self.margin

    def source(self, elements: Tensor, sizes: tuple[int, ...]) -> Tensor:
        """Entry i comes from i - s."""
        return roll_source(elements, sizes)

    def check(self, x: Tensor) -> None:
        """Raise unless the outer `margin` entries along each axis hold one value per sample and channel."""
        places = [torch.arange(size) for size in lengths(self, x.shape[1:], self.axes)]
        edges = [(place < self.margin) | (place >= len(place) - self.margin) for place in places]
        frame = torch.stack(torch.meshgrid(*edges, indexing="ij")).any(dim=0).to(x.device)
        outer = x.movedim(self.axes, tuple(range(-len(self.axes), 0)))[..., frame]
        visible = int((outer != outer[..., :1]).flatten(1).any(dim=1).sum())
        if visible:
            raise InputError(
                f"{describe(self)} would wrap visible content of {visible} of {len(x)} inputs, whose outer {self.margin} entries "
                f"are not blank: pad the inputs by {self.margin} or choose a smaller margin."
            )


@dataclass(frozen=True, kw_only=True)
class Crop(FiniteSpace):
    """A square window of a scene, moved from its centre by (dx, dy) whole pixels: (N, C, H, W) -> (N, C, window, window).

    (rho[dx, dy] x)_(i, j) = x_(i + top + dy, j + left + dx), where the centred window begins at top = (H - window) // 2 and
    left = (W - window) // 2. Elements (N, 2) lie in [-reach, reach]^2. Windows cut the scene, so this is not a group.

    >>> scene = torch.arange(16.0).reshape(1, 1, 4, 4)
    >>> Crop(window=2, reach=1).act(torch.tensor([[1, 0]]), scene)
    tensor([[[[ 6.,  7.],
              [10., 11.]]]])
    """

    name = "crop"
    reference = "Zhao et al., Evaluating machine learning models with NERO, section 3.1 and Figure 7"

    window: Count = 128
    reach: Whole = 64

    def fit(self, shape: Size) -> Self:
        """The same windows; raises if scenes of this shape do not contain all of them."""
        need = self.window + 2 * self.reach
        if min(lengths(self, shape, (-2, -1))) < need:
            raise InputError(
                f"{describe(self)} needs scenes of at least {need} x {need} pixels, but one sample has shape {tuple(shape)}: "
                "give larger scenes or choose a smaller reach."
            )
        return self

    @property
    def order(self) -> int:
        """(2 reach + 1)^2."""
        return (2 * self.reach + 1) ** 2

    def unrank(self, index: Tensor) -> Tensor:
        """The digits of the number as (dx, dy), each read as 0 ... reach, -reach ... -1; dx changes fastest, number 0 is the centre."""
        span = 2 * self.reach + 1
        rows, columns = torch.unravel_index(index.long(), (span, span))
        return (torch.stack((columns, rows), dim=1) + self.reach).remainder(span) - self.reach

    def act(self, elements: Tensor, x: Tensor) -> Tensor:
        """N windows of N scenes."""
        check_pairs(self, elements, x)
        height, width = lengths(self, x.shape[1:], (-2, -1))
        inside = torch.arange(self.window, device=x.device)
        across, down = elements.to(x.device).unbind(dim=1)
        rows = inside + (down + (height - self.window) // 2)[:, None]
        columns = inside + (across + (width - self.window) // 2)[:, None]
        if len(x) and (min(int(rows.min()), int(columns.min())) < 0 or int(rows.max()) >= height or int(columns.max()) >= width):
            raise InputError(f"{describe(self)} was asked for a window outside of scenes of shape {tuple(x.shape[1:])}: shift it by less.")
        flat = (rows[:, :, None] * width + columns[:, None, :]).flatten(1)
        scenes = x.reshape(len(x), -1, height * width)
        cut = scenes.gather(2, flat[:, None, :].expand(-1, scenes.shape[1], -1))
        return cut.reshape(*x.shape[:-2], self.window, self.window)
