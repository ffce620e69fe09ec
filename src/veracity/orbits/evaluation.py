"""The entry point: choose models, inputs, an orbit and a task; check and try everything; run into a folder; read the result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from veracity.core.component import encode_setting
from veracity.core.errors import InputError, SpecError, warn
from veracity.core.failures import failures_of
from veracity.core.inputs import Inputs
from veracity.core.models import as_device, to_device
from veracity.core.settings import Inside, Whole, check_fields, short_repr
from veracity.core.targets import Outputs, as_target, class_numbers
from veracity.engine.admission import mixing_note
from veracity.engine.memory import Budget, gpu_limit
from veracity.engine.problem import Problem
from veracity.engine.progress import bar
from veracity.engine.resolve import as_about, as_tensor, as_whole, check_structure, labelled
from veracity.engine.store import RunFolder
from veracity.engine.store.manifest import Kind
from veracity.engine.stored_rows import known_rows, remember_rows, rows_key
from veracity.inputs import as_inputs
from veracity.orbits.explanations import as_explainers, explained_problem
from veracity.orbits.grids import Orbit
from veracity.orbits.loop import measure
from veracity.orbits.metrics import columns_of, references_of
from veracity.orbits.models import EvaluatedModel, as_modules, check_shapes, examine
from veracity.orbits.pictures import picture_of, span_of
from veracity.orbits.plan import OrbitPlan
from veracity.orbits.result import OrbitResult
from veracity.orbits.tasks import Metric, Task
from veracity.perturb.groups.shifts import Crop

CHECKED = 256
"""How many inputs are checked together."""
BOUNDS = [[int, int], [int, float], [float, int], [float, float]]
"""The types that the two bounds of a metric may have."""


@dataclass(frozen=True, kw_only=True, eq=False)
class OrbitEvaluation:
    """Which models to evaluate along the orbit of every input, and for what task (NERO evaluation).

    models      {"name": model}, or one model, as in `Audit`; a function of inputs (N, ...) may return what its task reads
    inputs      a tensor (samples, ...), or an Inputs; scenes larger than the window for a CropOrbit
    targets     the truth: class numbers (samples,), boxes (samples, objects, 5), fields (samples, 2, H, W), numbers (samples, ...);
                without it outputs are compared with their consensus alone
    orbit       RotationOrbit, ScaleOrbit, RigidOrbit, CropOrbit, FlowOrbit, DiskOrbit, or the GroupOrbit of any group
    task        Classification, Detection, Flow or Regression, with its metrics
    explainers  names, Explainers, functions; a list or {"label": ...}; each adds a metric: how well its maps follow the input
    labels      the group of each sample, as numbers or names (samples,); by default the classes of the targets
    picture     how inputs are drawn: image, scene, pair, cloud, series or none; inferred by default
    reference   a reference set for explainers that need one
    target      which output is explained, as in an Audit
    notes       sentences that a reader of the result must know
    about       further entries of the manifest, such as the recipe
    """

    models: Mapping[str, Any] | nn.Module
    inputs: Tensor | Inputs | Sequence[Any]
    orbit: Orbit
    task: Task
    targets: Any = None
    explainers: Sequence[Any] | Mapping[str, Any] = ()
    labels: Any = None
    picture: str | None = None
    reference: Tensor | None = None
    target: Any = "predicted"
    notes: Sequence[str] | str = ()
    seed: Whole = 0
    confidence: Inside = 0.95
    title: str | None = None
    about: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check every plain setting; `prepare` checks models, data and components."""
        check_fields(self, "the evaluation", others=("models", "inputs", "orbit", "task", "explainers", "picture", "reference", "about"))

    def run(
        self, folder: str | Path, *, workers: int | None = None, batch: int | None = None, memory: int | None = None, progress: bool = True
    ) -> OrbitResult:
        """Measure what the folder does not hold yet, and return the result.

        `workers` is how many threads models may use, `batch` how many rows they see at once, `memory` the budget in bytes.
        """
        if not isinstance(folder, (str, Path)):
            raise InputError(f"A run needs a folder to write to, such as run('runs/digits'), not {short_repr(folder)}.")
        store = RunFolder(str(folder))
        store.check_writable(Kind.ORBITS)
        with threads(workers), gpu_limit(as_modules(self.models).values(), memory):
            plan = self.prepare(batch=batch, memory=memory, rows=known_rows(store))
            with store.writing():
                with bar("checking stored files", store.count(), progress) as advance:
                    store.repair(advance)
                remember_rows(store, plan.measured)
                store.write_manifest(plan.manifest(store))
                measure(plan, store, progress, memory)
        result = OrbitResult(folder)
        for failure in failures_of(result.failures().to_dict("records")):
            warn(str(failure))
        return result

    def on(self, device: str) -> OrbitEvaluation:
        """The same evaluation with its models on a device; a model that is elsewhere is copied there."""
        where = as_device(device)
        return replace(self, models={name: to_device(name, one, where) for name, one in as_modules(self.models).items()})

    def serve(self, folder: str | Path, **settings: Any) -> None:
        """Measure what this folder does not hold yet, then show it in the browser: dragging along an orbit asks the models at hand.

        Settings are those of `veracity.serve`: port, host, open_browser, announce. It ends when the process is interrupted.
        """
        from veracity import serve

        serve(self, folder, **settings)

    def prepare(self, *, batch: int | None = None, memory: int | None = None, rows: Mapping[str, int] | None = None) -> OrbitPlan:
        """Resolve every name, try every model, and make the plan; raises on anything that cannot work.

        `rows` are the rows per call of models for which they were measured before.
        """
        for what, value in (("batch", batch), ("memory", memory)):
            if value is not None:
                as_whole(value, what, least=1)
        about = as_about(self.about)
        inputs = as_inputs(self.inputs)
        orbit, task = fit(self.orbit, self.task, inputs)
        given = as_tensor(self.targets, "targets")
        truth = None if given is None else task.check(given.cpu(), inputs.size())
        models: dict[str, EvaluatedModel] = {}
        budgets: dict[str, Budget] = {}
        measured: dict[str, int] = {}
        sentences = (self.notes,) if isinstance(self.notes, str) else self.notes
        notes = [{"model": "", "explainer": "", "text": text} for text in sentences]
        for name, module in as_modules(self.models).items():
            key = rows_key(name, module, inputs, memory) if batch is None else None
            at_once = (rows or {}).get(key or "") if batch is None else batch
            models[name], budgets[name], few = examine(name, inputs.adapt(module), inputs, orbit, task, memory, at_once)
            measured |= {} if key is None else {key: budgets[name].rows}
            check_shapes(models)
            if truth is not None:
                check_truth(name, models[name], truth)
            try_metrics(models[name].task, orbit, few, truth)
            notes += doubts(name, task, models[name].task, few)
            notes += [{"model": name, "explainer": "", "text": mixing_note(models[name].mixing)}] if models[name].mixing else []
        labels, groups = as_groups(self.labels, task, truth, inputs.size())
        explainers = as_explainers(self.explainers, inputs, orbit, as_tensor(self.reference, "reference"))
        problem: Problem | None = None
        if explainers:
            target = as_target(self.target)
            problem, remarks = explained_problem(models, budgets, inputs, orbit, explainers, target, self.seed, truth)
            notes += [one for one in remarks if one not in notes]
        window = orbit.space.window if isinstance(orbit.space, Crop) else None
        picture = picture_of(inputs.shape, orbit.layout.value, window, self.picture)
        return OrbitPlan(
            evaluation=self,
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
            measured=measured,
            problem=problem,
            picture=picture,
            span=value_range(orbit, inputs),
            window=window,
        )

    def spec(self) -> dict[str, Any]:
        """The evaluation as plain data."""
        return {
            "models": list(as_modules(self.models)),
            "orbit": encode_setting(self.orbit),
            "task": encode_setting(self.task),
            "explainers": {label: one.spec() for label, one in labelled(self.explainers, controls=False).items()},
            "target": encode_setting(self.target),
            "picture": self.picture,
            "seed": self.seed,
            "confidence": self.confidence,
        }


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Give models this many threads; the setting is restored afterwards."""
    if count is None:
        yield
        return
    as_whole(count, "workers", least=1)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(count)
        yield
    finally:
        torch.set_num_threads(before)


def fit(orbit: Any, task: Any, inputs: Inputs) -> tuple[Orbit, Task]:
    """The orbit, fitted to the inputs, and the task; raises unless the two belong together."""
    if not isinstance(orbit, Orbit):
        raise SpecError(f"The orbit is one such as RotationOrbit() or GroupOrbit(space=...), not {short_repr(orbit)}.")
    if not isinstance(task, Task):
        raise SpecError(f"The task is one such as Classification() or Detection(...), not {short_repr(task)}.")
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
            raise SpecError(f"The metric '{one.name}' needs bounds of two numbers, such as (0.0, math.inf), not {short_repr(one.bounds)}.")
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
    warn(f"{name} / outputs: {text}")
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
