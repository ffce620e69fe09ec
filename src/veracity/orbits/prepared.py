"""An orbit evaluation that has been looked at and planned, and the manifest that its folder will carry."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from torch import Tensor

from veracity.core import fingerprint
from veracity.core.explainers import Explainer
from veracity.core.inputs import Inputs
from veracity.core.measures import Direction
from veracity.engine.batching import Budget
from veracity.engine.prepared import versions
from veracity.engine.problem import Problem
from veracity.engine.store import SCHEMA, RunFolder
from veracity.engine.store.folder import ORBITS
from veracity.interpret.orbit import Metric, Task
from veracity.orbits.cells import ALGORITHMS, Block, Cell
from veracity.orbits.columns import CONSENSUS, TRUTH, followed
from veracity.orbits.models import Examined
from veracity.orbits.pictures import Picture
from veracity.perturb.orbit import Orbit


@dataclass(frozen=True)
class Prepared:
    """Everything that is evaluated, resolved and checked.

    `elements` (K, p) are the orbit's, `truth` (samples, ...) is as the task wants it, `labels` (samples,) count samples to the
    `groups`. `budgets` are the rows of each model that fit into memory at once; `problem` is what explainers are asked, if any.
    """

    spec: dict[str, Any]
    title: str | None
    about: Mapping[str, Any]
    notes: tuple[dict[str, str], ...]
    inputs: Inputs
    truth: Tensor | None
    labels: Tensor | None
    groups: tuple[str, ...]
    orbit: Orbit
    elements: Tensor
    task: Task
    models: Mapping[str, Examined]
    budgets: Mapping[str, Budget]
    problem: Problem | None
    picture: Picture
    span: tuple[float, float]
    window: int | None
    blocks: tuple[Block, ...]
    cells: tuple[Cell, ...]
    seed: int

    @property
    def explainers(self) -> Mapping[str, Explainer]:
        """What is followed along the orbit besides the outputs."""
        return {} if self.problem is None else self.problem.explainers

    @property
    def references(self) -> tuple[str, ...]:
        """What outputs can be judged against."""
        return (CONSENSUS,) if self.truth is None else (TRUTH, CONSENSUS)

    def manifest(self, store: RunFolder) -> dict[str, Any]:
        """Everything that a reader of the folder needs besides the measurements."""
        before = store.manifest_before(ORBITS)
        return {
            "kind": ORBITS,
            "created": before.get("created") or datetime.now(UTC).isoformat(timespec="seconds"),
            "title": self.title,
            "about": dict(self.about),
            "seed": self.seed,
            "spec": self.spec,
            "versions": versions(),
            "models": {name: one.about() for name, one in self.models.items()},
            "data": {"samples": self.inputs.size(), "shape": list(self.inputs.shape), "fingerprint": self.inputs.fingerprint()},
            "orbit": laid_out(self.orbit),
            "task": {"kind": self.task.kind, "classes": list(getattr(self.task, "classes", ()))},
            "metrics": [shown(one, self.references) for one in self.task.metrics] + [self.following(label) for label in self.explainers],
            "explainers": list(self.explainers),
            "labels": None if self.labels is None else self.labels.tolist(),
            "groups": list(self.groups),
            "truth_classes": self.truth.tolist() if self.truth is not None and self.task.kind == "classification" else None,
            "input": {"kind": self.picture.value, "shape": list(self.inputs.shape), "window": self.window, "span": list(self.span)},
            "notes": list(self.notes),
            "pictures": [{"key": block.pictures, "start": block.start, "stop": block.stop} for block in self.blocks],
            "cells": [cell.entry() for cell in self.cells],
        }

    def following(self, label: str) -> dict[str, Any]:
        """An explainer's line among the metrics: its values are the same whatever outputs are judged against."""
        name = followed(label)
        plain = {"name": name, "label": name, "unit": "", "low": -1.0, "high": 1.0, "higher_is_better": True}
        return {**plain, "references": list(self.references), "explainer": label}


def shown(metric: Metric, references: tuple[str, ...]) -> dict[str, Any]:
    """A metric's line in the manifest; a bound that is none is null."""
    low, high = (bound if math.isfinite(bound) else None for bound in metric.bounds)
    better = metric.direction is Direction.HIGHER
    plain = {"name": metric.name, "label": metric.title, "unit": metric.unit, "low": low, "high": high, "higher_is_better": better}
    return {**plain, "references": list(references), "explainer": None}


def laid_out(orbit: Orbit) -> dict[str, Any]:
    """An orbit as plain data: where its transforms lie and what they are called."""
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


def planned(
    models: Mapping[str, Examined],
    problem: Problem | None,
    budgets: Mapping[str, Budget],
    inputs: Inputs,
    truth: Tensor | None,
    orbit: Orbit,
    blocks: tuple[Block, ...],
) -> Iterator[Cell]:
    """Every cell, block by block."""
    for block in blocks:
        data = [inputs.take(block.samples).fingerprint(), block.start]
        known = None if truth is None else fingerprint.of_tensor(truth[block.start : block.stop])
        for name, model in models.items():
            base = {
                "algorithms": [SCHEMA, ALGORITHMS],
                "model": [*model.key, *([budgets[name].rows] if model.mixing else [])],
                "orbit": orbit.spec(),
                "block": data,
                "truth": known,
            }
            yield Cell(fingerprint.of_json(base), name, "", block)
            if problem is not None:
                yield from explained(problem, name, model, budgets[name], {"orbit": orbit.spec(), "block": data}, block)


def explained(problem: Problem, name: str, model: Examined, budget: Budget, base: dict[str, Any], block: Block) -> Iterator[Cell]:
    """The cells of one model's explainers on a block."""
    chosen = [problem.target.spec(), problem.models[name].targets[block.samples].tolist()]
    for label, explainer in problem.explainers.items():
        parts = {
            **base,
            "algorithms": [SCHEMA, ALGORITHMS],
            "model": model.fingerprint,
            "explainer": explainer.spec(),
            "target": chosen,
            "batch": budget.rows if problem.batched(name, label) else None,
            "learnt": problem.learnt_key(name, label),
            "seed": problem.seed,
        }
        yield Cell(fingerprint.of_json(parts), name, label, block)
