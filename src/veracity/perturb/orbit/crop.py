"""A window that moves over a scene."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from veracity.core.errors import SpecError
from veracity.core.registry import ORBITS
from veracity.core.settings import Count
from veracity.perturb.group.base import describe
from veracity.perturb.group.crop import Crop
from veracity.perturb.orbit.base import Axis, Layout, Orbit, crossed


@ORBITS.add
@dataclass(frozen=True, kw_only=True)
class CropOrbit(Orbit):
    """Windows of a scene whose key object lies at the centre, moved by (dx, dy) from -reach to reach - step: real pixels at every shift.

    Element number row * columns + column has dx of its column and dy of its row. As the window goes right, what it shows goes left.

    >>> orbit = CropOrbit(window=8, reach=4, step=2)
    >>> orbit.coordinates().shape, orbit.identity, orbit.label(orbit.coordinates()[0])
    (torch.Size([16, 2]), 10, '(-4, -4) px')
    """

    name = "crop_orbit"
    reference = "Zhao et al., Evaluating machine learning models with NERO, section 3.1 and Figure 7"

    window: Count = 128
    reach: Count = 64
    step: Count = 4

    @property
    def layout(self) -> Layout:
        """A heat map."""
        return Layout.HEATMAP

    @property
    def space(self) -> Crop:
        """The shifts of the window."""
        return Crop(window=self.window, reach=self.reach)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Columns and rows, in pixels."""
        low, high = float(-self.reach), float(self.reach - self.step)
        across = Axis(name="dx", label="shift to the right", unit="px", low=low, high=high, step=float(self.step))
        return across, Axis(name="dy", label="shift down", unit="px", low=low, high=high, step=float(self.step))

    @property
    def identity(self) -> int:
        """The window at the centre."""
        half = self.checked()
        return half * 2 * half + half

    def coordinates(self) -> Tensor:
        """(dx, dy) in pixels, (K, 2)."""
        self.checked()
        along = torch.arange(-self.reach, self.reach, self.step, dtype=torch.float64)
        return crossed(along, along)

    def locate(self, at: Tensor) -> Tensor:
        """The nearest whole pixels within reach."""
        return at.double().round().clamp(-self.reach, self.reach).long()

    def label(self, at: Tensor) -> str:
        """(dx, dy), the whole pixels that the window moves by."""
        dx, dy = self.locate(at[None])[0].tolist()
        return f"({dx}, {dy}) px"

    def checked(self) -> int:
        """How many steps make the reach; raises unless it is a whole number of them."""
        if self.reach % self.step:
            raise SpecError(f"{describe(self)} needs a reach that is a multiple of the step, such as 64 and 4.")
        return self.reach // self.step
