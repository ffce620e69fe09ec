"""The manifest of an orbit evaluation: how it is written, and what it says by name."""

from __future__ import annotations

import math
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from veracity.core.measures import Direction
from veracity.engine.prepare import versions
from veracity.engine.store import RunFolder
from veracity.engine.store.manifest import Kind
from veracity.orbits.folder import equivariance_column
from veracity.orbits.grids import Orbit
from veracity.orbits.tasks import Metric

if TYPE_CHECKING:
    from veracity.orbits.plan import OrbitPlan


def describe(plan: OrbitPlan, store: RunFolder) -> dict[str, Any]:
    """Everything that a reader of the folder needs besides the measurements."""
    before = store.manifest_before(Kind.ORBITS)
    return {
        "kind": Kind.ORBITS,
        "created": before.get("created") or datetime.now(UTC).isoformat(timespec="seconds"),
        "title": plan.title,
        "about": dict(plan.about),
        "seed": plan.seed,
        "spec": plan.spec,
        "versions": versions(),
        "models": {name: one.about() for name, one in plan.models.items()},
        "data": {"samples": plan.inputs.size(), "shape": list(plan.inputs.shape), "fingerprint": plan.inputs.fingerprint()},
        "orbit": orbit_entry(plan.orbit),
        "task": {"kind": plan.task.kind, "classes": list(getattr(plan.task, "classes", ()))},
        "metrics": [
            *(metric_entry(one, plan.references) for one in plan.task.metrics),
            *(explainer_entry(label, plan.references) for label in plan.explainers),
        ],
        "explainers": list(plan.explainers),
        "labels": None if plan.labels is None else plan.labels.tolist(),
        "groups": list(plan.groups),
        "truth_classes": plan.truth.tolist() if plan.truth is not None and plan.task.kind == "classification" else None,
        "input": {"kind": plan.picture.value, "shape": list(plan.inputs.shape), "window": plan.window, "span": list(plan.span)},
        "notes": list(plan.notes),
        "pictures": [{"key": block.pictures, "start": block.start, "stop": block.stop} for block in plan.blocks],
        "cells": [cell.entry() for cell in plan.cells],
    }


def explainer_entry(label: str, references: tuple[str, ...]) -> dict[str, Any]:
    """An explainer's line among the metrics; its values are the same whatever outputs are judged against."""
    name = equivariance_column(label)
    plain = {"name": name, "label": name, "unit": "", "low": -1.0, "high": 1.0, "higher_is_better": True}
    return {**plain, "references": list(references), "explainer": label}


def metric_entry(metric: Metric, references: tuple[str, ...]) -> dict[str, Any]:
    """A metric's line in the manifest; an infinite bound is null."""
    low, high = (bound if math.isfinite(bound) else None for bound in metric.bounds)
    better = metric.direction is Direction.HIGHER
    plain = {"name": metric.name, "label": metric.title, "unit": metric.unit, "low": low, "high": high, "higher_is_better": better}
    return {**plain, "references": list(references), "explainer": None}


def orbit_entry(orbit: Orbit) -> dict[str, Any]:
    """Where the orbit's transforms lie and what they are called."""
    coordinates = orbit.coordinates()
    return {
        "spec": orbit.spec(),
        "layout": orbit.layout.value,
        "axes": [asdict(axis) for axis in orbit.axes],
        "coordinates": coordinates.tolist(),
        "identity": orbit.identity,
        "elements": [orbit.label(at) for at in coordinates],
        "plane": getattr(orbit, "plane", None),
    }


class ManifestReader:
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
