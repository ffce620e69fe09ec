"""Orbits of the package from what a manifest says of them, so that a stored run can move its inputs without the code that made it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Size

from veracity.core.errors import SpecError, VeracityError
from veracity.core.registry import GROUPS, SPACES
from veracity.perturb.orbit import CropOrbit, DiskOrbit, FlowOrbit, GroupOrbit, Orbit, RotationOrbit

KNOWN: dict[str, type[Orbit]] = {kind.name: kind for kind in (CropOrbit, DiskOrbit, FlowOrbit, GroupOrbit, RotationOrbit)}


LENGTHS: dict[str, Callable[[Mapping[str, Any]], float]] = {
    RotationOrbit.name: lambda given: 360.0 / given["step"],
    DiskOrbit.name: lambda given: 360.0 / given["step"] * 180.0 / given["step"] - 180.0 / given["step"],
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


def orbit_or_none(spec: Mapping[str, Any], shape: Size, count: int) -> Orbit | None:
    """The orbit, or None where it cannot be made again."""
    try:
        return orbit_of(spec, shape, count)
    except (VeracityError, TypeError, ValueError, KeyError, ArithmeticError):
        return None
