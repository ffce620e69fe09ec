"""An image turned about its centre."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from veracity.core.registry import ORBITS
from veracity.perturb.group.rotation import TURN, Rotation
from veracity.perturb.orbit.base import WHOLE_TURN, Axis, Layout, Orbit, turns


@ORBITS.add
@dataclass(frozen=True, kw_only=True)
class RotationOrbit(Orbit):
    """An image at every angle from 0 degrees, anticlockwise, by `step`; a whole turn is 0 again and not listed.

    >>> orbit = RotationOrbit(step=90.0)
    >>> orbit.coordinates().flatten().tolist(), orbit.label(orbit.coordinates()[1])
    ([0.0, 90.0, 180.0, 270.0], '90°')
    """

    name = "rotation_orbit"
    reference = "Zhao et al., Evaluating machine learning models with NERO, Figures 3 and 13 (SO(2))"

    step: float = 5.0

    @property
    def layout(self) -> Layout:
        """A polar line."""
        return Layout.POLAR

    @property
    def space(self) -> Rotation:
        """SO(2)."""
        return Rotation()

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The angle."""
        last = float(self.coordinates()[-1])
        return (Axis(name="angle", label="angle", unit="°", low=0.0, high=last, period=WHOLE_TURN, step=self.step),)

    def coordinates(self) -> Tensor:
        """Angles in degrees, (K, 1)."""
        return turns(self, self.step)[:, None]

    def locate(self, at: Tensor) -> Tensor:
        """The angles in [0, 2 pi)."""
        return at.double().remainder(WHOLE_TURN) * (TURN / WHOLE_TURN)

    def label(self, at: Tensor) -> str:
        """The angle."""
        return f"{float(at[0]):g}°"
