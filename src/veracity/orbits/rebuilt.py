"""Orbits of the package from what a manifest says of them, so that a stored run can move its inputs without the code that made it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Size

from veracity.core.errors import SpecError, VeracityError
from veracity.core.registry import GROUPS, SPACES
from veracity.perturb.orbit import CropOrbit, DiskOrbit, FlowOrbit, GroupOrbit, Orbit, RotationOrbit

KNOWN: dict[str, type[Orbit]] = {kind.name: kind for kind in (CropOrbit, DiskOrbit, FlowOrbit, GroupOrbit, RotationOrbit)}


def orbit_of(spec: Mapping[str, Any], shape: Size) -> Orbit:
    """The orbit of a spec for inputs of this shape; raises if it, or its group, is not the package's own.

    >>> orbit_of({"name": "rotation_orbit", "step": 90.0}, Size([1, 8, 8])).elements.shape
    torch.Size([4, 1])
    """
    settings = dict(spec)
    name = settings.pop("name", None)
    if name not in KNOWN or "code" in settings:
        raise SpecError(f"The orbit '{name}' is not one of this package: only the evaluation that made the run can move its inputs.")
    if "space" in settings:
        space = dict(settings["space"])
        settings["space"] = (GROUPS if space.get("name") in GROUPS else SPACES).build(space)
    return KNOWN[name](**settings).fit(shape)


def orbit_or_none(spec: Mapping[str, Any], shape: Size) -> Orbit | None:
    """The orbit, or None where it cannot be made again."""
    try:
        return orbit_of(spec, shape)
    except (VeracityError, TypeError):
        return None
