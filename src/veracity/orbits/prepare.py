"""Turn what users write into a plan: check tensors against the task, and try every model."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from veracity.core.errors import InputError, Note, SpecError
from veracity.core.inputs import Inputs
from veracity.core.targets import Outputs, as_target, class_numbers
from veracity.engine.memory import Budget
from veracity.engine.problem import Problem
from veracity.engine.resolve import as_about, as_inputs, as_tensor, check_structure
from veracity.engine.trial import mixing_note
from veracity.orbits.explanations import as_explainers, explained_problem
from veracity.orbits.grids import Orbit
from veracity.orbits.metrics import columns_of, references_of
from veracity.orbits.models import EvaluatedModel, as_modules, check_shapes, examine
from veracity.orbits.pictures import picture_of, span_of
from veracity.orbits.plan import OrbitPlan
from veracity.orbits.tasks import Metric, Task
from veracity.perturb.groups.shifts import Crop

if TYPE_CHECKING:
    from veracity.orbits.evaluation import OrbitEvaluation

CHECKED = 256
"""How many inputs are checked together."""
BOUNDS = [[int, int], [int, float], [float, int], [float, float]]
"""What a metric's two bounds may be."""


def prepare(evaluation: OrbitEvaluation, memory: int | None, rows: int | None) -> OrbitPlan:
    """The plan of an evaluation; raises on anything that cannot work."""
    about = as_about(evaluation.about)
    inputs = as_inputs(evaluation.inputs)
    orbit, task = fit(evaluation.orbit, evaluation.task, inputs)
    given = as_tensor(evaluation.targets, "targets")
    truth = None if given is None else task.check(given.cpu(), inputs.size())
    models: dict[str, EvaluatedModel] = {}
    budgets: dict[str, Budget] = {}
    sentences = (evaluation.notes,) if isinstance(evaluation.notes, str) else evaluation.notes
    notes = [{"model": "", "explainer": "", "text": text} for text in sentences]
    for name, module in as_modules(evaluation.models).items():
        models[name], budgets[name], few = examine(name, inputs.adapt(module), inputs, orbit, task, memory, rows)
        check_shapes(models)
        if truth is not None:
            check_truth(name, models[name], truth)
        try_metrics(models[name].task, orbit, few, truth)
        notes += doubts(name, task, models[name].task, few)
        notes += [{"model": name, "explainer": "", "text": mixing_note(models[name].mixing)}] if models[name].mixing else []
    labels, groups = as_groups(evaluation.labels, task, truth, inputs.size())
    explainers = as_explainers(evaluation.explainers, inputs, orbit, as_tensor(evaluation.reference, "reference"))
    problem: Problem | None = None
    if explainers:
        target = as_target(evaluation.target)
        problem, remarks = explained_problem(models, budgets, inputs, orbit, explainers, target, evaluation.seed, truth)
        notes += [one for one in remarks if one not in notes]
    window = orbit.space.window if isinstance(orbit.space, Crop) else None
    picture = picture_of(inputs.shape, orbit.layout.value, window, evaluation.picture)
    return OrbitPlan(
        evaluation=evaluation,
        about=about,
        notes=notes,
        inputs=inputs,
        truth=truth,
        labels=labels,
        groups=groups,
        orbit=orbit,
        task=task,
        models=models,
        budgets=budgets,
        problem=problem,
        picture=picture,
        span=value_range(orbit, inputs),
        window=window,
    )


def fit(orbit: Any, task: Any, inputs: Inputs) -> tuple[Orbit, Task]:
    """The orbit, fitted to the inputs, and the task; raises unless the two belong together."""
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
    """Raise unless the metrics have different names and proper bounds."""
    for one in metrics:
        if not isinstance(one.bounds, (tuple, list)) or [type(bound) for bound in one.bounds] not in BOUNDS:
            raise SpecError(f"The metric '{one.name}' needs bounds of two numbers, such as (0.0, math.inf), not {one.bounds!r}.")
    names = [one.name for one in metrics]
    if not names or any(names.count(name) > 1 or "@" in name or ":" in name for name in names):
        raise SpecError(f"The metrics of a task need names of their own without @ and :, one at least, not {names}.")


def check_truth(name: str, model: EvaluatedModel, truth: Tensor) -> None:
    """Raise unless a model gives what the truth is about."""
    kind = model.task.kind
    if kind == "classification":
        class_numbers(truth, model.shape[0], f"model '{name}'", least=-1)
    if kind in ("flow", "regression") and truth.shape[1:] != model.shape:
        wanted, given = tuple(truth.shape[1:]), tuple(model.shape)
        raise InputError(f"The targets have shape {wanted} per sample, but model '{name}' gives {given}: they must be the same.")


def doubts(name: str, given: Task, fitted: Task, few: Tensor) -> list[dict[str, str]]:
    """A note, with a warning, if a few outputs leave it open whether the model gives logits or probabilities."""
    found = None if getattr(given, "outputs", None) else getattr(fitted, "outputs", None)
    text = found.doubt(few) if isinstance(found, Outputs) else None
    if text is None:
        return []
    warnings.warn(f"{name} / outputs: {text}", Note, stacklevel=4)
    return [{"model": name, "explainer": "", "text": text}]


def try_metrics(task: Task, orbit: Orbit, few: Tensor, truth: Tensor | None) -> None:
    """Measure a few unmoved outputs (n, ...), so that a mistake in a metric is found before the models run."""
    known = None if truth is None else truth[: len(few)].to(few.device)
    element, outputs = orbit.elements[orbit.identity][None], few[:, None]
    columns_of(task, orbit.space, element, outputs, references_of(task, orbit.space, element, outputs, known, 0))


def as_groups(labels: Any, task: Task, truth: Tensor | None, samples: int) -> tuple[Tensor | None, tuple[str, ...]]:
    """The group of each sample (samples,) as a number, and the names of the groups; by default the true classes."""
    classes = tuple(str(name) for name in getattr(task, "classes", ()))
    if labels is None:
        if truth is None or task.kind not in ("classification", "detection"):
            return None, ()
        found = truth if task.kind == "classification" else truth[:, 0, -1].long()
        return found, classes or tuple(map(str, range(int(found.max()) + 1)))
    words = [] if isinstance(labels, (Tensor, np.ndarray)) else list(labels)
    if words and all(isinstance(word, str) for word in words):
        names = tuple(dict.fromkeys(words))
        found = torch.tensor([names.index(word) for word in words])
    else:
        given = as_tensor(labels, "labels")
        if given is None or given.is_floating_point() or (given.numel() and int(given.min()) < 0):
            raise InputError("The labels must be whole numbers from 0, or names, one for each sample.")
        found = given.cpu().long()
        last = int(found.max()) if found.numel() else -1
        names = classes if 0 <= last < len(classes) else tuple(map(str, range(last + 1)))
    if found.shape != (samples,):
        raise InputError(f"The labels must have one entry for each of the {samples} inputs, not the shape {tuple(found.shape)}.")
    return found, names


def value_range(orbit: Orbit, inputs: Inputs) -> tuple[float, float]:
    """The values that are drawn black and white; raises on an input that the orbit cannot move."""
    low, high = float("inf"), float("-inf")
    for part in torch.arange(inputs.size()).split(CHECKED):
        x = inputs.take(part).values
        orbit.space.check(x)
        least, most = torch.aminmax(x)
        low, high = min(low, float(least)), max(high, float(most))
    return span_of(low, high)
