"""Orbits of the package from what a manifest says of them, so that a stored run can move its inputs without the code that made it.

What the manifest of an orbit evaluation says, by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Size

from veracity.core.errors import SpecError, VeracityError
from veracity.core.registry import GROUPS, SPACES
from veracity.orbits.grids import GroupOrbit, Orbit
from veracity.orbits.layouts import CropOrbit, DiskOrbit, FlowOrbit, RotationOrbit

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


class Described:
    """N samples, K elements, models and metrics, as the manifest describes them."""

    def __init__(self, manifest: dict[str, Any]) -> None:
        self.manifest = manifest

    @property
    def models(self) -> tuple[str, ...]:
        """The models' names."""
        return tuple(self.manifest["models"])

    @property
    def samples(self) -> int:
        """N."""
        return int(self.manifest["data"]["samples"])

    @property
    def shape(self) -> tuple[int, ...]:
        """One sample's shape."""
        return tuple(self.manifest["data"]["shape"])

    @cached_property
    def labels(self) -> NDArray[np.int64] | None:
        """Which group each sample counts to, (N,); None where there are none."""
        found = self.manifest["labels"]
        return None if found is None else np.array(found, dtype=np.int64)

    @cached_property
    def truth_classes(self) -> NDArray[np.int64] | None:
        """Which class each sample truly has, (N,); None where models do not classify, or no truth was given."""
        found = self.manifest.get("truth_classes")
        return None if found is None else np.array(found, dtype=np.int64)

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups' names, by the numbers of the labels."""
        return tuple(self.manifest["groups"])

    @property
    def kind(self) -> str:
        """What the models are asked for: classification, detection, flow or regression."""
        return str(self.manifest["task"]["kind"])

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes that models tell apart, where they were given."""
        return tuple(self.manifest["task"]["classes"])

    @property
    def layout(self) -> str:
        """How the orbit is drawn: polar, heatmap, tiles, disk or line."""
        return str(self.manifest["orbit"]["layout"])

    @property
    def axes(self) -> list[dict[str, Any]]:
        """What the orbit's coordinates mean: name, label, unit, low, high, period, step."""
        return list(self.manifest["orbit"]["axes"])

    @cached_property
    def coordinates(self) -> NDArray[np.float64]:
        """Where the orbit's elements lie, (K, axes)."""
        return np.array(self.manifest["orbit"]["coordinates"], dtype=np.float64)

    @property
    def identity(self) -> int:
        """Which element moves nothing."""
        return int(self.manifest["orbit"]["identity"])

    @property
    def elements(self) -> tuple[str, ...]:
        """What the K elements are called."""
        return tuple(self.manifest["orbit"]["elements"])

    @property
    def plane(self) -> str | None:
        """The plane of a disk's axes of rotation."""
        found = self.manifest["orbit"]["plane"]
        return None if found is None else str(found)

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """What was measured: name, label, unit, low, high, higher_is_better, references, explainer."""
        return list(self.manifest["metrics"])

    @property
    def explainers(self) -> tuple[str, ...]:
        """The explainers that were followed along the orbit."""
        return tuple(self.manifest["explainers"])

    @property
    def references(self) -> tuple[str, ...]:
        """What outputs were judged against: truth and consensus, or consensus alone."""
        return tuple(self.manifest["metrics"][0]["references"])

    @property
    def picture_kind(self) -> str:
        """How inputs are drawn: image, scene, pair, cloud, series or none."""
        return str(self.manifest["input"]["kind"])

    @property
    def window(self) -> int | None:
        """The side of the window that moves over a scene."""
        found = self.manifest["input"]["window"]
        return None if found is None else int(found)

    @property
    def notes(self) -> list[str]:
        """What a reader must know, in sentences."""
        return [": ".join(filter(None, (note["model"], note["explainer"], note["text"]))) for note in self.manifest["notes"]]

    @property
    def confidence(self) -> float:
        """The level of the intervals."""
        return float(self.manifest["spec"]["confidence"])
