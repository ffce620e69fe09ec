"""What the manifest of an orbit evaluation says."""

from __future__ import annotations

import math
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from veracity.core.measures import Direction
from veracity.engine.prepare import versions
from veracity.engine.store import RunFolder
from veracity.engine.store.manifest import Kind
from veracity.orbits.folder import equivariance_column
from veracity.orbits.grids import Orbit

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
        "metrics": metric_entries(plan),
        "explainers": list(plan.explainers),
        "labels": None if plan.labels is None else plan.labels.tolist(),
        "groups": list(plan.groups),
        "truth_classes": plan.truth.tolist() if plan.truth is not None and plan.task.kind == "classification" else None,
        "input": {"kind": plan.picture.value, "shape": list(plan.inputs.shape), "window": plan.window, "span": list(plan.span)},
        "notes": list(plan.notes),
        "pictures": [{"key": block.pictures, "start": block.start, "stop": block.stop} for block in plan.blocks],
        "cells": [cell.entry() for cell in plan.cells],
    }


def metric_entries(plan: OrbitPlan) -> list[dict[str, Any]]:
    """One line per metric; an infinite bound is null. How well the maps of an explainer move along is a metric too."""
    outputs = [(one.name, one.title, one.unit, one.bounds, one.direction is Direction.HIGHER, None) for one in plan.task.metrics]
    maps = [(name := equivariance_column(label), name, "", (-1.0, 1.0), True, label) for label in plan.explainers]
    return [
        {
            "name": name,
            "label": label,
            "unit": unit,
            "low": low if math.isfinite(low) else None,
            "high": high if math.isfinite(high) else None,
            "higher_is_better": better,
            "references": list(plan.references),
            "explainer": explainer,
        }
        for name, label, unit, (low, high), better, explainer in (*outputs, *maps)
    ]


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
