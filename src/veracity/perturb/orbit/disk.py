"""Points in space, turned about the axes of a plane."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from veracity.core.errors import SpecError
from veracity.core.registry import ORBITS
from veracity.perturb.group.base import describe
from veracity.perturb.group.rotation3 import Rotations3D
from veracity.perturb.orbit.base import WHOLE_TURN, Axis, Layout, Orbit, crossed, turns

HALF_TURN = 180.0
PLANES = ("xy", "xz", "yz")


@ORBITS.add
@dataclass(frozen=True, kw_only=True)
class DiskOrbit(Orbit):
    """Clouds (P, 3) turned about an axis in a plane: its direction 0, step ... and the angle step, 2 step ... 180 degrees.

    On a disk the polar angle is the axis' direction and the radius the angle of rotation, so that the identity, listed once and
    first, is the centre. Opposite points of the rim are the same rotation, by 180 degrees either way: it is listed once, for
    directions below 180.

    >>> orbit = DiskOrbit(plane="xy", step=90.0)
    >>> len(orbit.coordinates()), orbit.label(orbit.coordinates()[4])
    (7, '180° about 90° in xy')
    """

    name = "disk_orbit"
    reference = "Zhao et al., Evaluating machine learning models with NERO, section 3.3 and Figure 11"

    plane: str = "xy"
    step: float = 15.0

    @property
    def layout(self) -> Layout:
        """A disk."""
        return Layout.DISK

    @property
    def space(self) -> Rotations3D:
        """SO(3)."""
        return Rotations3D()

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Where the axis points, and by how much is turned about it."""
        direction = Axis(
            name="direction",
            label=f"direction of the axis in {self.plane}",
            unit="°",
            low=0.0,
            high=WHOLE_TURN - self.step,
            period=WHOLE_TURN,
            step=self.step,
        )
        return direction, Axis(name="angle", label="angle of rotation", unit="°", low=0.0, high=HALF_TURN, step=self.step)

    def coordinates(self) -> Tensor:
        """(direction, angle) in degrees, (K, 2): the identity, then direction by direction; every rotation once."""
        half = turns(self, self.step, HALF_TURN)
        disk = torch.cat((torch.zeros(1, 2, dtype=torch.float64), crossed(turns(self, self.step), half + self.step).flip(1)))
        again = (disk > HALF_TURN - self.step / 2).all(dim=1)
        return disk[~again]

    def locate(self, at: Tensor) -> Tensor:
        """Unit quaternions (cos a / 2, sin a / 2 u) about u = cos d e_1 + sin d e_2, where the plane's axes are e_1 and e_2."""
        if self.plane not in PLANES:
            raise SpecError(f"{describe(self)} needs one of the planes {', '.join(PLANES)}, not {self.plane!r}.")
        direction, half = at[:, 0].double().deg2rad(), at[:, 1].double().clamp(0.0, HALF_TURN).deg2rad() / 2.0
        found = torch.zeros(len(at), 4, dtype=torch.float64)
        found[:, 0] = half.cos()
        first, second = (1 + "xyz".index(axis) for axis in self.plane)
        found[:, first], found[:, second] = half.sin() * direction.cos(), half.sin() * direction.sin()
        return found

    def label(self, at: Tensor) -> str:
        """The angle and the axis."""
        direction, angle = float(at[0]), float(at[1])
        return f"{angle:g}° about {direction:g}° in {self.plane}" if angle else "0°"
