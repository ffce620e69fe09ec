"""Orbits: a grid of transforms with a layout to draw it in; and the orbit of any group or finite space."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Self, cast

import torch
from torch import Size, Tensor

from veracity.core.component import Component
from veracity.core.errors import SpecError
from veracity.core.randomness import Draws
from veracity.core.registry import ORBITS
from veracity.core.settings import Count, Whole, short_repr
from veracity.core.spaces import FiniteSpace, InputSpace
from veracity.perturb.groups.base import Group, describe
from veracity.perturb.groups.product import Product
from veracity.perturb.groups.shifts import CyclicShift, WindowShift

WHOLE_TURN = 360.0
ROUNDING = 1e-9


class Layout(StrEnum):
    """How values along an orbit are drawn: a polar line, a heat map, heat maps by angle, tiles, a disk, or a plain line."""

    POLAR = "polar"
    HEATMAP = "heatmap"
    SLICES = "slices"
    TILES = "tiles"
    DISK = "disk"
    LINE = "line"


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One coordinate of an orbit: its grid runs from `low` to `high` by `step`, and begins again after `period` where it has one."""

    name: str
    label: str
    unit: str = ""
    low: float
    high: float
    period: float | None = None
    step: float


@dataclass(frozen=True, kw_only=True)
class Orbit(Component, ABC):
    """K transforms of one input, G(x) = {phi(g, x)}: which they are, where they lie, and what they are called.

    A transform is known by its element (p,) of `space`, and by its coordinates (one number per axis of `axes`) for people: degrees,
    pixels, numbers. `locate(coordinates())` are the `elements`.
    """

    role = "orbit"
    reference = "Zhao et al., Evaluating machine learning models with NERO, section 2 and appendix B"

    def fit(self, shape: Size) -> Self:
        """The orbit for inputs of this shape (one sample's, without the batch axis); raises if it does not fit or has no grid."""
        self.locate(self.coordinates())
        self.space.fit(shape)
        return self

    @property
    @abstractmethod
    def layout(self) -> Layout:
        """How it is drawn."""

    @property
    @abstractmethod
    def space(self) -> InputSpace:
        """The space of its elements, which moves inputs: `space.move(elements, signals)`."""

    @property
    @abstractmethod
    def axes(self) -> tuple[Axis, ...]:
        """The meaning of its coordinates."""

    @abstractmethod
    def coordinates(self) -> Tensor:
        """Where the grid's transforms lie: (K, axes), float64."""

    @abstractmethod
    def locate(self, at: Tensor) -> Tensor:
        """Elements (N, p) at any coordinates (N, axes): between the grid's where the group is continuous, else the nearest."""

    @property
    def elements(self) -> Tensor:
        """The grid, (K, p)."""
        return self.locate(self.coordinates())

    @property
    def identity(self) -> int:
        """Which of the K transforms moves nothing."""
        return 0

    @abstractmethod
    def label(self, at: Tensor) -> str:
        """What the transform at some coordinates (axes,) is called."""


def turns(orbit: Orbit, step: float, whole: float = WHOLE_TURN) -> Tensor:
    """The angles 0, step, 2 step ... below `whole`, in degrees, float64; raises unless steps make up the whole.

    >>> from veracity.orbits.layouts import RotationOrbit
    >>> turns(RotationOrbit(), 90.0)
    tensor([  0.,  90., 180., 270.], dtype=torch.float64)
    """
    number = isinstance(step, (int, float)) and not isinstance(step, bool) and 0 < step <= whole
    count = round(whole / step) if number else 0
    if not number or abs(count * step - whole) > ROUNDING * whole:
        raise SpecError(f"{describe(orbit)} needs a step in degrees that divides {whole:g}, such as 5, not {short_repr(step)}.")
    return torch.arange(count, dtype=torch.float64) * (whole / count)


def column_first_pairs(slow: Tensor, fast: Tensor) -> Tensor:
    """All pairs (slow x fast, 2) as (fast, slow), the first coordinate turning fastest, as pixels (column, row) of an image.

    >>> column_first_pairs(torch.tensor([0., 1.]), torch.tensor([5., 6.])).tolist()
    [[5.0, 0.0], [6.0, 0.0], [5.0, 1.0], [6.0, 1.0]]
    """
    return torch.stack([part.flatten() for part in torch.meshgrid(slow, fast, indexing="ij")][::-1], dim=1)


SHIFTS = CyclicShift()


@ORBITS.add
@dataclass(frozen=True, kw_only=True)
class GroupOrbit(Orbit):
    """All elements of a space of up to `most`, in their order; of a larger one the identity and draws - 1 random ones.

    Shifts along one axis lie on a line, along two on a heat map of (dx, dy); everything else is a numbered line.

    >>> shifts = GroupOrbit(space=CyclicShift(axes=(-1,))).fit(Size([1, 4]))
    >>> shifts.elements.flatten().tolist(), shifts.label(shifts.coordinates()[3])
    ([0, 1, 2, 3], 'shifted by 3')
    """

    name = "group_orbit"

    space: InputSpace = SHIFTS
    most: Count = 4096
    draws: Count = 64
    seed: Whole = 0

    def fit(self, shape: Size) -> Self:
        """The orbit of the fitted space. The kind of a product is known only after the fit."""
        if not isinstance(self.space, Product):
            self.check_space()
        fitted = replace(self, space=self.space.fit(shape))
        fitted.check_space()
        return fitted

    @property
    def shifts(self) -> tuple[tuple[int, int, int | None], ...]:
        """Lowest and highest shift and period along each axis, columns before rows, where the space is all shifts of one or two axes."""
        space = self.space
        if not isinstance(space, (CyclicShift, WindowShift)) or len(space.axes) > 2 or space.order > self.most:
            return ()
        if isinstance(space, WindowShift):
            return ((-space.margin, space.margin, None),) * len(space.axes)
        return tuple((0, space.lengths[place] - 1, space.lengths[place]) for place in self.places)

    @property
    def places(self) -> list[int]:
        """Which column of an element is the shift along each axis: columns (the later axis) before rows."""
        axes = self.space.axes if isinstance(self.space, (CyclicShift, WindowShift)) else ()
        return sorted(range(len(axes)), key=lambda place: -axes[place])

    @property
    def layout(self) -> Layout:
        """A heat map for shifts along two axes, else a line."""
        return Layout.HEATMAP if len(self.shifts) == 2 else Layout.LINE

    @property
    def axes(self) -> tuple[Axis, ...]:
        """dx and dy, a shift, or numbers."""
        if not self.shifts:
            return (Axis(name="element", label="element", low=0.0, high=float(len(self.members) - 1), step=1.0),)
        names = (("shift", "shift"),) if len(self.shifts) == 1 else (("dx", "shift to the right"), ("dy", "shift down"))
        return tuple(
            Axis(name=name, label=label, low=float(low), high=float(high), period=None if period is None else float(period), step=1.0)
            for (name, label), (low, high, period) in zip(names, self.shifts, strict=True)
        )

    @property
    def identity(self) -> int:
        """The element at 0: the first one, except for shifts in both directions."""
        return int((self.coordinates() == 0).all(dim=1).nonzero()[0])

    def coordinates(self) -> Tensor:
        """Shifts or numbers, (K, axes)."""
        along = [torch.arange(low, high + 1, dtype=torch.float64) for low, high, _ in self.shifts]
        if len(along) == 2:
            return column_first_pairs(along[1], along[0])
        return (along[0] if along else torch.arange(len(self.members), dtype=torch.float64))[:, None]

    def locate(self, at: Tensor) -> Tensor:
        """The nearest elements."""
        whole = at.double().round().long()
        if not self.shifts:
            return self.members[whole[:, 0].clamp(0, len(self.members) - 1)]
        found = torch.empty_like(whole)
        for column, (place, (low, high, period)) in enumerate(zip(self.places, self.shifts, strict=True)):
            found[:, place] = whole[:, column].remainder(period) if period else whole[:, column].clamp(low, high)
        return found

    def label(self, at: Tensor) -> str:
        """The shift, what the element does in words, or its number."""
        said = [f"{float(value):g}" for value in at]
        if len(self.shifts) == 2:
            return f"({said[0]}, {said[1]}) px"
        return f"shifted by {said[0]}" if self.shifts else self.space.words(self.locate(at[None])[0]) or f"element {said[0]}"

    @cached_property
    def members(self) -> Tensor:
        """The elements by number, (K, p)."""
        self.check_space()
        space, order = self.space, self.space.order
        if isinstance(space, FiniteSpace) and order is not None and order <= self.most:
            return space.enumerate()
        rows = torch.arange(self.draws - 1)
        found = space.decode(Draws.of(self.seed, rows).normal(space.latents, stream="orbit"))
        if isinstance(space, FiniteSpace) and not isinstance(space, Group):
            return torch.cat((space.unrank(torch.zeros(1, dtype=torch.int64)), found))
        return torch.cat((cast("Group", space).identity(1), found))

    def check_space(self) -> None:
        """Raise unless the space has an identity and moves inputs within their frame."""
        space = self.space
        moves = isinstance(space, InputSpace) and space.moves_frame
        if not moves or not isinstance(space, (Group, FiniteSpace)):
            raise SpecError(f"An orbit needs a group or a finite space that moves inputs, such as CyclicShift(), not {short_repr(space)}.")
