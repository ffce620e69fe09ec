"""The plan of an orbit evaluation: blocks of samples, files whose keys hash everything that they depend on, and the manifest."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Size, Tensor

from veracity.core import fingerprint
from veracity.core.explainers import Explainer
from veracity.core.inputs import Inputs
from veracity.core.measures import Direction
from veracity.engine.memory import Budget
from veracity.engine.problem import Problem
from veracity.engine.store import SCHEMA, RunFolder
from veracity.engine.store.manifest import Kind
from veracity.engine.versions import versions
from veracity.orbits.folder import CONSENSUS, TRUTH, equivariance_column
from veracity.orbits.grids import Orbit
from veracity.orbits.models import EvaluatedModel
from veracity.orbits.pictures import Picture
from veracity.orbits.tasks import Task

if TYPE_CHECKING:
    from veracity.orbits.evaluation import OrbitEvaluation

ALGORITHMS = 3
"""To be raised whenever a change of this package changes numbers, so that old files are not mixed with new ones."""
BLOCK = 64
"""The most samples of a block."""
HELD = 64 << 20
"""The most bytes of one model's outputs that are held at once; a block has at least one sample."""


@dataclass(frozen=True)
class Block:
    """Consecutive samples, and the key of their pictures."""

    start: int
    stop: int
    pictures: str

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def samples(self) -> Tensor:
        """Their numbers, (n,)."""
        return torch.arange(self.start, self.stop)


@dataclass(frozen=True)
class Cell:
    """One model on one block: what one table of metrics holds; with an explainer, how that follows the orbit."""

    key: str
    model: str
    explainer: str
    block: Block

    def entry(self) -> dict[str, Any]:
        """The cell's record in the manifest."""
        return {"key": self.key, "model": self.model, "explainer": self.explainer, "start": self.block.start, "stop": self.block.stop}


@dataclass(frozen=True)
class OrbitPlan:
    """Everything that will be measured, resolved and checked.

    `truth` (samples, ...) is in the form that the task expects, and `labels` (samples,) are numbers of `groups`. `budgets` say how many
    rows of each model fit into memory at once, and `measured` which of these were measured. `problem` is what explainers are asked, None
    without explainers.
    """

    evaluation: OrbitEvaluation
    about: Mapping[str, Any]
    notes: list[dict[str, str]]
    inputs: Inputs
    truth: Tensor | None
    labels: Tensor | None
    groups: tuple[str, ...]
    orbit: Orbit
    task: Task
    models: Mapping[str, EvaluatedModel]
    budgets: Mapping[str, Budget]
    problem: Problem | None
    picture: Picture
    span: tuple[float, float]
    window: int | None
    measured: Mapping[str, int]

    @property
    def explainers(self) -> Mapping[str, Explainer]:
        """The explainers that are followed along the orbit."""
        return {} if self.problem is None else self.problem.explainers

    @cached_property
    def elements(self) -> Tensor:
        """The elements of the orbit, (K, p)."""
        return self.orbit.elements

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """Blocks of samples; the key of their pictures hashes everything that the pictures depend on."""
        length = block_length(next(iter(self.models.values())).shape, len(self.elements))
        found = []
        for start in range(0, self.inputs.size(), length):
            stop = min(start + length, self.inputs.size())
            x = self.inputs.take(torch.arange(start, stop)).fingerprint()
            known = None
            if self.truth is not None and self.task.kind != "classification":
                known = [fingerprint.of_tensor(self.truth[start:stop]), self.task.action.spec()]
            drawn = [self.orbit.spec(), self.task.kind, self.picture.value, list(self.span)]
            found.append(Block(start, stop, fingerprint.of_json([SCHEMA, ALGORITHMS, x, start, known, *drawn])))
        return tuple(found)

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """Every cell, block by block."""
        return tuple(cell for block in self.blocks for cell in self._cells(block))

    def _cells(self, block: Block) -> Iterator[Cell]:
        truth = None if self.truth is None else fingerprint.of_tensor(self.truth[block.start : block.stop])
        shared = {
            "algorithms": [SCHEMA, ALGORITHMS],
            "orbit": self.orbit.spec(),
            "block": [self.inputs.take(block.samples).fingerprint(), block.start],
        }
        for name, model in self.models.items():
            rows = self.budgets[name].rows
            own = [model.fingerprint, model.task.spec(), *([rows] if model.mixing else [])]
            yield Cell(fingerprint.of_json({**shared, "model": own, "truth": truth}), name, "", block)
            if self.problem is None:
                continue
            for label, explainer in self.problem.explainers.items():
                parts = {
                    **shared,
                    "model": model.fingerprint,
                    "explainer": explainer.spec(),
                    "target": [self.problem.target.spec(), self.problem.models[name].targets[block.samples].tolist()],
                    "batch": rows if self.problem.depends_on_batch(name, label) else None,
                    "learnt": self.problem.learnt_key(name, label),
                    "seed": self.problem.seed,
                }
                yield Cell(fingerprint.of_json(parts), name, label, block)

    def manifest(self, store: RunFolder) -> dict[str, Any]:
        """Everything that a reader of the folder needs besides the measurements."""
        before = store.manifest_before(Kind.ORBITS)
        shape = list(self.inputs.shape)
        return {
            "kind": Kind.ORBITS,
            "created": before.get("created") or datetime.now(UTC).isoformat(timespec="seconds"),
            "title": self.evaluation.title,
            "about": dict(self.about),
            "seed": self.evaluation.seed,
            "spec": self.evaluation.spec(),
            "versions": versions(),
            "models": {name: one.about() for name, one in self.models.items()},
            "data": {"samples": self.inputs.size(), "shape": shape, "fingerprint": self.inputs.fingerprint()},
            "orbit": orbit_entry(self.orbit),
            "task": {"kind": self.task.kind, "classes": list(getattr(self.task, "classes", ()))},
            "metrics": self._metric_entries(),
            "explainers": list(self.explainers),
            "labels": None if self.labels is None else self.labels.tolist(),
            "groups": list(self.groups),
            "truth_classes": self.truth.tolist() if self.truth is not None and self.task.kind == "classification" else None,
            "input": {"kind": self.picture.value, "shape": shape, "window": self.window, "span": list(self.span)},
            "notes": self.notes,
            "pictures": [{"key": block.pictures, "start": block.start, "stop": block.stop} for block in self.blocks],
            "cells": [cell.entry() for cell in self.cells],
        }

    def _metric_entries(self) -> list[dict[str, Any]]:
        """One record per metric; an infinite bound is null. How well the maps of an explainer move along is a metric too."""
        outputs = [
            (one.name, one.title, one.consensus_title, one.unit, one.bounds, one.direction is Direction.HIGHER, None)
            for one in self.task.metrics
        ]
        maps = [(name := equivariance_column(label), name, name, "", (-1.0, 1.0), True, label) for label in self.explainers]
        return [
            {
                "name": name,
                "label": label,
                "consensus_label": beside,
                "unit": unit,
                "low": low if math.isfinite(low) else None,
                "high": high if math.isfinite(high) else None,
                "higher_is_better": better,
                "references": [CONSENSUS] if self.truth is None else [TRUTH, CONSENSUS],
                "explainer": explainer,
            }
            for name, label, beside, unit, (low, high), better, explainer in (*outputs, *maps)
        ]


def block_length(output: Size, elements: int) -> int:
    """How many samples make a block, where one output has this shape: 64, or fewer whose float32 outputs can be held.

    >>> block_length(Size([10]), 72), block_length(Size([2, 256, 256]), 16)
    (64, 8)
    """
    return min(BLOCK, max(1, HELD // (4 * max(1, math.prod(output)) * elements)))


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
