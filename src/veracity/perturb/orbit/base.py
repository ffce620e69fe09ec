"""What an orbit is: a grid of transforms, laid out so that it can be drawn, walked through and dragged along."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

import torch
from torch import Size, Tensor

from veracity.core.component import Component
from veracity.core.errors import SpecError
from veracity.core.spaces import InputSpace
from veracity.perturb.group.base import describe

WHOLE_TURN = 360.0
ROUNDING = 1e-9


class Layout(StrEnum):
    """How values along an orbit are drawn: a polar line, a heat map, tiles, a disk, or a plain line."""

    POLAR = "polar"
    HEATMAP = "heatmap"
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

    A transform is known by its element (p,) of `space`, and by its coordinates (one a number of `axes`) for people: degrees,
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
        """What its elements belong to, and what moves inputs: `space.move(elements, signals)`."""

    @property
    @abstractmethod
    def axes(self) -> tuple[Axis, ...]:
        """What its coordinates mean."""

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

    >>> from veracity.perturb.orbit.rotation import RotationOrbit
    >>> turns(RotationOrbit(), 90.0)
    tensor([  0.,  90., 180., 270.], dtype=torch.float64)
    """
    number = isinstance(step, (int, float)) and not isinstance(step, bool) and 0 < step <= whole
    count = round(whole / step) if number else 0
    if not number or abs(count * step - whole) > ROUNDING * whole:
        raise SpecError(f"{describe(orbit)} needs a step in degrees that divides {whole:g}, such as 5, not {step!r}.")
    return torch.arange(count, dtype=torch.float64) * (whole / count)


def crossed(slow: Tensor, fast: Tensor) -> Tensor:
    """All pairs (slow x fast, 2) as (fast, slow), the first coordinate turning fastest, as pixels (column, row) of an image.

    >>> crossed(torch.tensor([0., 1.]), torch.tensor([5., 6.])).tolist()
    [[5.0, 0.0], [6.0, 0.0], [5.0, 1.0], [6.0, 1.0]]
    """
    return torch.stack([part.flatten() for part in torch.meshgrid(slow, fast, indexing="ij")][::-1], dim=1)
