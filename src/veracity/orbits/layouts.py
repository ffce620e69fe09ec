"""Orbits with a layout of their own: a turned or zoomed image, a window over a scene, turned points in space, turned frame pairs.

An orbit of this package can be made again from its spec, so that a stored run can move its inputs without the code that made it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Size, Tensor

from veracity.core.errors import InputError, SpecError
from veracity.core.registry import GROUPS, ORBITS, SPACES
from veracity.core.settings import Count, Positive, short_repr
from veracity.orbits.grids import ROUNDING, WHOLE_TURN, Axis, GroupOrbit, Layout, Orbit, column_first_pairs, turns
from veracity.perturb.groups.base import UNMOVED, describe
from veracity.perturb.groups.dihedral import Dihedral, Mirror
from veracity.perturb.groups.product import FiniteGroupProduct
from veracity.perturb.groups.rigid import RigidMotion
from veracity.perturb.groups.rotations import TURN, Rotation, Rotations3D
from veracity.perturb.groups.scaling import Scaling
from veracity.perturb.groups.shifts import Crop


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
    layout = Layout.HEATMAP

    window: Count = 128
    reach: Count = 64
    step: Count = 4

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
        half = self.reach // self.step
        return half * 2 * half + half

    def coordinates(self) -> Tensor:
        """(dx, dy) in pixels, (K, 2)."""
        if self.reach % self.step:
            raise SpecError(f"{describe(self)} needs a reach that is a multiple of the step, such as 64 and 4.")
        along = torch.arange(-self.reach, self.reach, self.step, dtype=torch.float64)
        return column_first_pairs(along, along)

    def locate(self, at: Tensor) -> Tensor:
        """The nearest whole pixels within reach."""
        return at.double().round().clamp(-self.reach, self.reach).long()

    def label(self, at: Tensor) -> str:
        """(dx, dy), the whole pixels that the window moves by."""
        dx, dy = self.locate(at[None])[0].tolist()
        return f"({dx}, {dy}) px"


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
    layout, space = Layout.DISK, Rotations3D()

    plane: str = "xy"
    step: float = 15.0

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The direction of the axis, and the angle of the rotation about it."""
        label, last = f"direction of the axis in {self.plane}", WHOLE_TURN - self.step
        direction = Axis(name="direction", label=label, unit="°", low=0.0, high=last, period=WHOLE_TURN, step=self.step)
        return direction, Axis(name="angle", label="angle of rotation", unit="°", low=0.0, high=HALF_TURN, step=self.step)

    def coordinates(self) -> Tensor:
        """(direction, angle) in degrees, (K, 2): the identity, then direction by direction; every rotation once."""
        half = turns(self, self.step, HALF_TURN)
        disk = torch.cat((torch.zeros(1, 2, dtype=torch.float64), column_first_pairs(turns(self, self.step), half + self.step).flip(1)))
        again = (disk > HALF_TURN - self.step / 2).all(dim=1)
        return disk[~again]

    def locate(self, at: Tensor) -> Tensor:
        """Unit quaternions (cos a / 2, sin a / 2 u) about u = cos d e_1 + sin d e_2, where the plane's axes are e_1 and e_2."""
        if self.plane not in PLANES:
            raise SpecError(f"{describe(self)} needs one of the planes {', '.join(PLANES)}, not {short_repr(self.plane)}.")
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


@ORBITS.add
@dataclass(frozen=True, kw_only=True)
class FlowOrbit(Orbit):
    """Pairs of square frames (2, H, H) under D4 x time reversal: 16 transforms, as four rows of four quarter turns.

    Element number turn + 4 mirrored + 8 reversed mirrors left to right, then turns anticlockwise, and swaps the frames.

    >>> orbit = FlowOrbit()
    >>> orbit.coordinates()[13].tolist(), orbit.label(orbit.coordinates()[13])
    ([1.0, 1.0, 1.0], 'mirrored, turned by 90°, reversed')
    """

    name = "flow_orbit"
    reference = "Zhao et al., Evaluating machine learning models with NERO, section 3.2 and Figure 10"
    layout, space = Layout.TILES, FiniteGroupProduct(factors=(Mirror(axis=-3), Dihedral()))

    def fit(self, shape: Size) -> Self:
        """The same orbit, if one sample is two square frames."""
        if len(shape) != 3 or shape[0] != 2 or shape[1] != shape[2]:
            raise InputError(f"{describe(self)} needs pairs of square frames, of shape (2, side, side), but one sample has {tuple(shape)}.")
        return self

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Quarter turns, mirrored or not, reversed or not."""
        turn = Axis(name="turn", label="quarter turns", low=0.0, high=3.0, period=4.0, step=1.0)
        mirrored = Axis(name="mirrored", label="mirrored", low=0.0, high=1.0, step=1.0)
        return turn, mirrored, Axis(name="reversed", label="reversed in time", low=0.0, high=1.0, step=1.0)

    def coordinates(self) -> Tensor:
        """(turn, mirrored, reversed), (16, 3)."""
        number = torch.arange(16)
        return torch.stack((number % 4, number // 4 % 2, number // 8), dim=1).double()

    def locate(self, at: Tensor) -> Tensor:
        """The nearest transforms."""
        turn, mirrored, backwards = at.double().round().long().unbind(dim=1)
        return torch.stack((backwards.clamp(0, 1), turn.remainder(4) + 4 * mirrored.clamp(0, 1)), dim=1)

    def label(self, at: Tensor) -> str:
        """What is done, in words."""
        backwards, square = self.locate(at[None])[0]
        done = [word for word in (Dihedral().words(square[None]), "reversed" if backwards else UNMOVED) if word != UNMOVED]
        return ", ".join(done) or UNMOVED


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
    layout, space = Layout.POLAR, Rotation()

    step: float = 5.0

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


@ORBITS.add
@dataclass(frozen=True, kw_only=True)
class ScaleOrbit(Orbit):
    """An image shrunk and enlarged by factors of 2 to the power of -reach, -reach + step ... reach; 0 is the image itself.

    >>> orbit = ScaleOrbit(reach=1.0, step=0.5)
    >>> orbit.coordinates().flatten().tolist(), orbit.label(orbit.coordinates()[4])
    ([-1.0, -0.5, 0.0, 0.5, 1.0], '2 times')
    """

    name = "scale_orbit"
    layout, space = Layout.LINE, Scaling()

    reach: Positive = 1.0
    step: Positive = 0.125

    @property
    def half(self) -> int:
        """The number of steps to either side."""
        count = round(self.reach / self.step)
        if count < 1 or abs(count * self.step - self.reach) > ROUNDING * self.reach:
            raise SpecError(f"{describe(self)} needs a reach that is a multiple of the step, such as 1 and 0.125.")
        return count

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The power of 2."""
        return (Axis(name="zoom", label="zoom, as a power of 2", low=-self.reach, high=self.reach, step=self.step),)

    @property
    def identity(self) -> int:
        """Factor 1, in the middle."""
        return self.half

    def coordinates(self) -> Tensor:
        """Powers of 2, (K, 1)."""
        return torch.arange(-self.half, self.half + 1, dtype=torch.float64)[:, None] * (self.reach / self.half)

    def locate(self, at: Tensor) -> Tensor:
        """The logarithms of the factors."""
        return at.double() * math.log(2.0)

    def label(self, at: Tensor) -> str:
        """The factor."""
        return f"{2.0 ** float(at[0]):.4g} times"


@ORBITS.add
@dataclass(frozen=True, kw_only=True)
class RigidOrbit(Orbit):
    """An image rotated about its centre, then shifted by (dx, dy): all angles by `angle_step`, all shifts of up to `reach` by `shift_step`.

    Element number (angle * rows + row) * columns + column has dx of its column, dy of its row. Black comes in where the image was.

    >>> orbit = RigidOrbit(reach=2, shift_step=2, angle_step=90.0)
    >>> len(orbit.elements), orbit.identity, orbit.label(orbit.coordinates()[9])
    (36, 4, '(-2, -2) px, 90°')
    """

    name = "rigid_orbit"
    layout = Layout.SLICES

    reach: Count = 4
    shift_step: Count = 2
    angle_step: float = 30.0

    @property
    def space(self) -> RigidMotion:
        """Rotations followed by shifts."""
        return RigidMotion(reach=float(self.reach))

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Shifts in pixels, and the angle."""
        last = float(turns(self, self.angle_step)[-1])
        low, high, step = -float(self.reach), float(self.reach), float(self.shift_step)
        across = Axis(name="dx", label="shift to the right", unit="px", low=low, high=high, step=step)
        down = Axis(name="dy", label="shift down", unit="px", low=low, high=high, step=step)
        return across, down, Axis(name="angle", label="angle", unit="°", low=0.0, high=last, period=WHOLE_TURN, step=self.angle_step)

    @property
    def identity(self) -> int:
        """No shift at angle 0, in the middle of the first slice."""
        return (len(self.shifts) ** 2 - 1) // 2

    @property
    def shifts(self) -> Tensor:
        """Shifts along one axis, float64; raises unless they hold 0 and both ends."""
        if self.reach % self.shift_step:
            raise SpecError(f"{describe(self)} needs a reach that is a multiple of the step, such as reach=4, shift_step=2.")
        return torch.arange(-self.reach, self.reach + 1, self.shift_step, dtype=torch.float64)

    def coordinates(self) -> Tensor:
        """(dx, dy, angle in degrees), (K, 3)."""
        shifts, angles = column_first_pairs(self.shifts, self.shifts), turns(self, self.angle_step)
        return torch.cat((shifts.repeat(len(angles), 1), angles.repeat_interleave(len(shifts))[:, None]), dim=1)

    def locate(self, at: Tensor) -> Tensor:
        """The motions, whatever shift and angle."""
        shift, angle = at.double()[:, :2].clamp(-self.reach, self.reach), at.double()[:, 2:].remainder(WHOLE_TURN)
        return torch.cat((angle * (TURN / WHOLE_TURN), shift), dim=1)

    def label(self, at: Tensor) -> str:
        """Shift and angle."""
        across, down, angle = (f"{float(value):g}" for value in at)
        return f"({across}, {down}) px, {angle}°"


KNOWN: dict[str, type[Orbit]] = {
    kind.name: kind for kind in (CropOrbit, DiskOrbit, FlowOrbit, GroupOrbit, RigidOrbit, RotationOrbit, ScaleOrbit)
}
LENGTHS: dict[str, Callable[[Mapping[str, Any]], float]] = {
    RotationOrbit.name: lambda given: 360.0 / given["step"],
    DiskOrbit.name: lambda given: 360.0 / given["step"] * 180.0 / given["step"] - 180.0 / given["step"],
    ScaleOrbit.name: lambda given: 2.0 * given["reach"] / given["step"] + 1.0,
    RigidOrbit.name: lambda given: (2.0 * given["reach"] / given["shift_step"] + 1.0) ** 2 * 360.0 / given["angle_step"],
    CropOrbit.name: lambda given: (2.0 * given["reach"] / given["step"]) ** 2,
}
"""About how many elements an orbit has by its settings."""


def orbit_of(spec: Mapping[str, Any], shape: Size, count: int) -> Orbit:
    """The orbit of a spec, with `count` elements, for inputs of this shape; raises if it, or its group, is not the package's own.

    >>> orbit_of({"name": "rotation_orbit", "step": 90.0}, Size([1, 8, 8]), 4).elements.shape
    torch.Size([4, 1])
    """
    settings = dict(spec)
    name = settings.pop("name", None)
    if name not in KNOWN or "code" in settings:
        raise SpecError(f"The orbit '{name}' is not one of this package: only the evaluation that made the run can move its inputs.")
    if "space" in settings:
        space = dict(settings["space"])
        settings["space"] = (GROUPS if space.get("name") in GROUPS else SPACES).build(space)
    if name == GroupOrbit.name:
        settings |= {most: min(settings[most], count) for most in ("most", "draws") if most in settings}
    elif name in LENGTHS and not LENGTHS[name](settings) <= count + 1:
        raise SpecError(f"The orbit '{name}' does not have the {count} elements of this run.")
    orbit = KNOWN[name](**settings).fit(shape)
    if len(orbit.elements) != count:
        raise SpecError(f"The orbit '{name}' does not have the {count} elements of this run.")
    return orbit
