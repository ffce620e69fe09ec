"""An orbit evaluation that has been looked at and planned, and the manifest that its folder will carry.

From what users write to what is evaluated: tensors are checked against the task, models are looked at, files are planned.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from veracity.core import fingerprint
from veracity.core.errors import InputError, Note, SpecError
from veracity.core.explainers import Explainer
from veracity.core.inputs import Inputs
from veracity.core.measures import Direction
from veracity.core.targets import Outputs, as_target, class_numbers
from veracity.engine.admission import mixing_note
from veracity.engine.memory import Budget
from veracity.engine.prepare import versions
from veracity.engine.problem import Problem
from veracity.engine.resolve import as_about, as_inputs, as_tensor, check_structure
from veracity.engine.store import SCHEMA, RunFolder
from veracity.engine.store.folder import ORBITS
from veracity.orbits.explanations import as_explainers, explained_problem
from veracity.orbits.folder import ALGORITHMS, CONSENSUS, TRUTH, Block, Cell, block_length, followed, spans
from veracity.orbits.grids import Orbit
from veracity.orbits.metrics import judge
from veracity.orbits.models import Examined, check_alike, examine
from veracity.orbits.pictures import Picture, picture_of, span_of
from veracity.orbits.tasks import Metric, Task
from veracity.perturb.groups.shifts import Crop


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
            "batch": budget.rows if problem.depends_on_batch(name, label) else None,
            "learnt": problem.learnt_key(name, label),
            "seed": problem.seed,
        }
        yield Cell(fingerprint.of_json(parts), name, label, block)


CHECKED = 256
"""How many inputs are looked at together."""
BOUNDS = [[int, int], [int, float], [float, int], [float, float]]
"""What a metric's two bounds may be."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What was written, models by name."""

    models: dict[str, nn.Module]
    inputs: Any
    targets: Any
    orbit: Orbit
    task: Task
    explainers: Sequence[Any] | Mapping[str, Any]
    labels: Any
    picture: str | None
    reference: Tensor | None
    target: Any
    notes: tuple[str, ...]
    seed: int


def prepare(
    asked: Asked, spec: dict[str, Any], title: str | None, about: Mapping[str, Any], memory: int | None, rows: int | None
) -> Prepared:
    """Everything resolved, checked and planned; raises on what could not work."""
    known = as_about(about)
    inputs = as_inputs(asked.inputs)
    orbit, task = checked(asked.orbit, asked.task, inputs)
    given = as_tensor(asked.targets, "targets")
    truth = None if given is None else task.check(given.cpu(), inputs.size())
    models: dict[str, Examined] = {}
    budgets: dict[str, Budget] = {}
    notes = [{"model": "", "explainer": "", "text": text} for text in asked.notes]
    for name, module in asked.models.items():
        models[name], budgets[name], few = examine(name, inputs.adapt(module), inputs, orbit, task, memory, rows)
        check_alike(models)
        if truth is not None:
            check_truth(name, models[name], truth)
        tried(models[name].task, orbit, few, truth)
        notes += doubts(name, task, models[name].task, few)
        notes += [{"model": name, "explainer": "", "text": mixing_note(models[name].mixing)}] if models[name].mixing else []
    labels, groups = as_groups(asked.labels, task, truth, inputs.size())
    explainers = as_explainers(asked.explainers, inputs, orbit, as_tensor(asked.reference, "reference"))
    problem: Problem | None = None
    if explainers:
        problem, said = explained_problem(models, budgets, inputs, orbit, explainers, as_target(asked.target), asked.seed, truth)
        notes += [one for one in said if one not in notes]
    window = orbit.space.window if isinstance(orbit.space, Crop) else None
    picture = picture_of(inputs.shape, orbit.layout.value, window, asked.picture)
    span = looked_through(orbit, inputs)
    elements = orbit.elements
    length = block_length(next(iter(models.values())).shape, len(elements))
    blocks = tuple(
        Block(start, stop, picture_key(start, stop, inputs, truth, orbit, task, picture, span))
        for start, stop in spans(inputs.size(), length)
    )
    cells = tuple(planned(models, problem, budgets, inputs, truth, orbit, blocks))
    return Prepared(
        spec=spec,
        title=title,
        about=known,
        notes=tuple(notes),
        inputs=inputs,
        truth=truth,
        labels=labels,
        groups=groups,
        orbit=orbit,
        elements=elements,
        task=task,
        models=models,
        budgets=budgets,
        problem=problem,
        picture=picture,
        span=span,
        window=window,
        blocks=blocks,
        cells=cells,
        seed=asked.seed,
    )


def checked(orbit: Any, task: Any, inputs: Inputs) -> tuple[Orbit, Task]:
    """The orbit, fitted to the inputs, and the task, if they are such and belong together."""
    if not isinstance(orbit, Orbit):
        raise SpecError(f"The orbit is one such as RotationOrbit() or GroupOrbit(space=...), not {orbit!r}.")
    if not isinstance(task, Task):
        raise SpecError(f"The task is one such as Classification() or Detection(...), not {task!r}.")
    check_metrics(task.metrics)
    fitted = orbit.fit(inputs.shape)
    check_structure(fitted.space, inputs)
    window = getattr(task, "window", None)
    if isinstance(fitted.space, Crop) and window is not None and window != fitted.space.window:
        raise SpecError(f"The task has a window of {window} pixels and the orbit one of {fitted.space.window}: give both the same.")
    return fitted, task


def check_metrics(metrics: Sequence[Metric]) -> None:
    """Raise unless these are metrics that can be told apart."""
    for one in metrics:
        if not isinstance(one.bounds, (tuple, list)) or [type(bound) for bound in one.bounds] not in BOUNDS:
            raise SpecError(f"The metric '{one.name}' needs bounds of two numbers, such as (0.0, math.inf), not {one.bounds!r}.")
    names = [one.name for one in metrics]
    if not names or any(names.count(name) > 1 or "@" in name or ":" in name for name in names):
        raise SpecError(f"The metrics of a task need names of their own without @ and :, one at least, not {names}.")


def check_truth(name: str, model: Examined, truth: Tensor) -> None:
    """Raise unless a model gives what the truth is about."""
    kind = model.task.kind
    if kind == "classification":
        class_numbers(truth, model.shape[0], f"model '{name}'", least=-1)
    if kind in ("flow", "regression") and truth.shape[1:] != model.shape:
        wanted, given = tuple(truth.shape[1:]), tuple(model.shape)
        raise InputError(f"The targets have shape {wanted} a sample, but model '{name}' gives {given}: they must be the same.")


def doubts(name: str, given: Task, settled: Task, few: Tensor) -> list[dict[str, str]]:
    """What a reader must know of class scores that were recognised, from a few of them as they were read; warned about too."""
    found = None if getattr(given, "outputs", None) else getattr(settled, "outputs", None)
    text = found.doubt(few) if isinstance(found, Outputs) else None
    if text is None:
        return []
    warnings.warn(f"{name} / outputs: {text}", Note, stacklevel=4)
    return [{"model": name, "explainer": "", "text": text}]


def tried(task: Task, orbit: Orbit, few: Tensor, truth: Tensor | None) -> None:
    """Judge a few unmoved outputs (n, ...), so that a mistake in a metric does not come to light only after the passes."""
    known = None if truth is None else truth[: len(few)].to(few.device)
    judge(task, orbit.space, orbit.elements[orbit.identity][None], few[:, None], known, 0)


def as_groups(labels: Any, task: Task, truth: Tensor | None, samples: int) -> tuple[Tensor | None, tuple[str, ...]]:
    """The number of each sample's group (samples,) and the groups' names: as given, or the class of the truth."""
    classes = tuple(str(name) for name in getattr(task, "classes", ()))
    if labels is None:
        if truth is None or task.kind not in ("classification", "detection"):
            return None, ()
        found = truth if task.kind == "classification" else truth[:, 0, -1].long()
        return found, classes or numbered(found)
    words = [] if isinstance(labels, (Tensor, np.ndarray)) else list(labels)
    if words and all(isinstance(word, str) for word in words):
        names = tuple(dict.fromkeys(words))
        found = torch.tensor([names.index(word) for word in words])
    else:
        given = as_tensor(labels, "labels")
        if given is None or given.is_floating_point() or (given.numel() and int(given.min()) < 0):
            raise InputError("The labels must be whole numbers from 0, or names, one for each sample.")
        found = given.cpu().long()
        fits = found.numel() and int(found.max()) < len(classes)
        names = classes if fits else numbered(found)
    if found.shape != (samples,):
        raise InputError(f"The labels must have one entry for each of the {samples} inputs, not the shape {tuple(found.shape)}.")
    return found, names


def numbered(labels: Tensor) -> tuple[str, ...]:
    """Names for groups that have none: their numbers."""
    return tuple(str(number) for number in range(int(labels.max()) + 1)) if labels.numel() else ()


def looked_through(orbit: Orbit, inputs: Inputs) -> tuple[float, float]:
    """The values that are drawn black and white; raises if an input makes the orbit meaningless."""
    low, high = float("inf"), float("-inf")
    for part in torch.arange(inputs.size()).split(CHECKED):
        x = inputs.take(part).values
        orbit.space.check(x)
        least, most = torch.aminmax(x)
        low, high = min(low, float(least)), max(high, float(most))
    return span_of(low, high)


def picture_key(
    start: int, stop: int, inputs: Inputs, truth: Tensor | None, orbit: Orbit, task: Task, picture: Picture, span: tuple[float, float]
) -> str:
    """Everything that the pictures of a block depend on."""
    x = inputs.take(torch.arange(start, stop)).fingerprint()
    known = None if truth is None or task.kind == "classification" else [fingerprint.of_tensor(truth[start:stop]), task.action.spec()]
    return fingerprint.of_json([SCHEMA, ALGORITHMS, x, start, known, orbit.spec(), task.kind, picture.value, list(span)])
