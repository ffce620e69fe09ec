"""The public facade: say what to audit, run it into a folder, read the result."""

from __future__ import annotations

import platform
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from veracity import __version__
from veracity.core.component import encode
from veracity.core.errors import InputError, Note, SpecError
from veracity.core.explainers import Explainer
from veracity.core.inputs import Inputs, TensorInputs
from veracity.core.models import device_of, evaluating
from veracity.core.registry import GROUPS, WALKS
from veracity.core.scores import Defaults, Reads, Score
from veracity.core.spaces import InputSpace
from veracity.core.targets import as_target
from veracity.core.walks import Walk
from veracity.engine.admission import admit, check_mode, first_budget
from veracity.engine.batching import Budget
from veracity.engine.executors import Task, executor
from veracity.engine.forecast import Forecast, forecast
from veracity.engine.plan import Job, plan
from veracity.engine.problem import AuditedModel, Outputs, Problem
from veracity.engine.progress import over_jobs
from veracity.engine.store import RunFolder
from veracity.explain import CONTROLS, as_explainer
from veracity.interpret import ActionFloor, SelfAgreement
from veracity.interpret.build import as_score
from veracity.results import Result
from veracity.walk import Exhaustive, MonteCarlo

PACKAGES = ("veracity", "torch", "captum", "numpy", "scipy", "pandas", "pyarrow", "safetensors")
EXHAUSTIVE_UP_TO = 512


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What to audit: models, data, explainers, the symmetry they should respect, and the scores to measure.

    models       {"name": module}, or one module
    inputs       a tensor (samples, ...), or an Inputs
    targets      labels (samples,), needed only for target="label" and for the accuracy
    explainers   names, Explainers, Captum classes, functions (model, inputs, targets) -> maps; a list or {"label": ...}
    symmetry     the space of transforms for scores given by name, for example CyclicShift(axes=(-1,))
    scores       names or Score objects
    walk         how to explore the symmetry; all of it up to 512 elements, else 50 random ones, unless given
    target       which output is explained: "predicted", "label", a class number, a Target, a function of the output
    controls     whether the controls (random, constant, edges) stand beside the explainers
    reference    a reference set for explainers that need one
    outputs      "logits", "probabilities" or "raw" if the outputs should not be recognised by themselves
    """

    models: Mapping[str, nn.Module] | nn.Module
    inputs: Tensor | Inputs
    targets: Tensor | None = None
    explainers: Sequence[Any] | Mapping[str, Any] = ()
    symmetry: Any = None
    scores: Sequence[Any] = ("equivariance", "model_invariance")
    walk: Any = None
    target: Any = "predicted"
    controls: bool = True
    reference: Tensor | None = None
    outputs: str | None = None
    seed: int = 0
    confidence: float = 0.95
    title: str | None = None
    about: Mapping[str, Any] = field(default_factory=dict)

    def run(
        self,
        folder: str | Path,
        *,
        workers: int = 1,
        batch: int | None = None,
        memory: int | None = None,
        progress: bool = True,
    ) -> Result:
        """Measure what the folder does not hold yet, and return the result."""
        store = RunFolder(str(folder))
        with store.writing():
            store.check_writable()
            store.sweep()
            prepared = self.prepare(workers=workers, batch=batch, memory=memory)
            store.write_manifest(prepared.manifest(store))
            finished = store.finished()
            left = [job for job in (job.without(finished) for job in prepared.jobs) if job.cells]
            task = Task(prepared.problem, store.root, prepared.budgets)
            with over_jobs(left, enabled=progress) as ended:
                executor(workers).run(left, task, ended)
        result = Result(str(folder))
        for row in result.failures().drop_duplicates(["model", "explainer", "error"]).to_dict("records"):
            warnings.warn(f"{row['model']} / {row['explainer'] or row['score']} failed: {row['error']}", Note, stacklevel=2)
        return result

    def forecast(
        self, folder: str | Path | None = None, *, workers: int = 1, batch: int | None = None, memory: int | None = None
    ) -> Forecast:
        """What a run would cost: passes, seconds, memory. Nothing is written."""
        prepared = self.prepare(workers=workers, batch=batch, memory=memory)
        finished = RunFolder(str(folder)).finished() if folder is not None else set()
        return forecast(prepared.problem, prepared.jobs, finished, prepared.budgets, workers)

    def prepare(self, *, workers: int = 1, batch: int | None = None, memory: int | None = None) -> Prepared:
        """Resolve every name, look at every model, and plan; raises on anything that could not work."""
        for what, value in (("batch", batch), ("workers", workers), ("memory", memory)):
            if value is not None and value < 1:
                raise InputError(f"{what} must be at least 1, not {value}.")
        inputs = self.inputs if not isinstance(self.inputs, Tensor) else TensorInputs(self.inputs)
        labels = as_labels(self.targets, inputs.size())
        space = as_space(self.symmetry, inputs)
        explainers = {label: one.bind(self.reference) for label, one in labelled(self.explainers, self.controls).items()}
        asked, scores = all_scores(self.scores)
        target = as_target(self.target)
        kind = as_outputs(self.outputs)
        budgets: dict[str, Budget] = {}
        models: dict[str, AuditedModel] = {}
        accuracies: dict[str, float | None] = {}
        for name, module in as_models(self.models).items():
            check_mode(name, module)
            budgets[name] = first_budget(name, module, inputs, memory, batch, workers)
            models[name], accuracies[name] = admit(name, module, inputs, labels, target, kind, budgets[name])
        walk = as_walk(self.walk, space)
        problem = Problem(models, inputs, explainers, scores, target, Defaults(space, walk), self.seed)
        notes = examined(problem)
        return Prepared(self, problem, plan(problem), budgets, accuracies, notes, asked)

    def spec(self) -> dict[str, Any]:
        """The audit as plain data."""
        return {
            "models": list(as_models(self.models)),
            "explainers": [one.spec() for one in labelled(self.explainers, self.controls).values() if not one.control],
            "symmetry": encode(self.symmetry),
            "scores": [encode(score) for score in self.scores],
            "walk": encode(self.walk),
            "target": encode(self.target),
            "controls": self.controls,
            "reference": encode(self.reference),
            "seed": self.seed,
            "confidence": self.confidence,
            **dict(self.about),
        }


@dataclass(frozen=True)
class Prepared:
    """An audit that has been looked at and planned."""

    audit: Audit
    problem: Problem
    jobs: list[Job]
    budgets: dict[str, Budget]
    accuracies: dict[str, float | None]
    notes: list[dict[str, str]]
    asked: tuple[str, ...]

    def manifest(self, store: RunFolder) -> dict[str, Any]:
        """Everything that a reader of the folder needs besides the measurements."""
        problem, space = self.problem, self.problem.defaults.space
        before = store.manifest() if store.files.exists("manifest.json") else {}
        return {
            "created": before.get("created") or datetime.now(UTC).isoformat(timespec="seconds"),
            "title": self.audit.title,
            "seed": problem.seed,
            "symmetry": described(space, problem.defaults.walk) if space else "",
            "spec": self.audit.spec(),
            "scores": list(self.asked),
            "score_specs": {name: score.spec() for name, score in problem.scores.items()},
            "versions": versions(),
            "data": {"samples": problem.inputs.size(), "shape": list(problem.inputs.shape), "fingerprint": problem.inputs.fingerprint()},
            "models": {
                name: {"fingerprint": model.fingerprint, "accuracy": self.accuracies[name], "outputs": model.outputs.value}
                for name, model in problem.models.items()
            },
            "notes": self.notes,
            "cells": [entry for job in self.jobs for entry in self.entries(job)],
        }

    def entries(self, job: Job) -> list[dict[str, Any]]:
        """The manifest's lines on one job's cells."""
        explainer = self.problem.explainers.get(job.explainer)
        return [
            {
                "key": cell.key,
                "model": job.model,
                "explainer": job.explainer,
                "control": explainer is not None and explainer.control,
                "signed": explainer is None or explainer.signed,
                "score": cell.score,
                "start": job.start,
                "stop": job.stop,
                "sampling": asdict(cell.request.walk.sampling(cell.request.space)),
                "bounds": [str(bound) for bound in self.problem.scores[cell.score].measure.range],
                "direction": self.problem.scores[cell.score].measure.direction.value,
            }
            for cell in job.cells
        ]


def as_models(models: Mapping[str, nn.Module] | nn.Module) -> dict[str, nn.Module]:
    """Models by name."""
    named = dict(models) if isinstance(models, Mapping) else {"model": models}
    if not named:
        raise InputError("There is no model to audit: pass models={'name': module}.")
    for name, module in named.items():
        if not isinstance(module, nn.Module):
            raise InputError(f"Model '{name}' must be a torch.nn.Module, not {type(module).__name__}.")
    return named


def as_labels(targets: Tensor | None, size: int) -> Tensor | None:
    """Labels on the CPU, one a sample."""
    if targets is None:
        return None
    labels = torch.as_tensor(targets).detach().cpu()
    if labels.ndim != 1 or len(labels) != size:
        raise InputError(f"The targets must have one entry for each of the {size} inputs, not the shape {tuple(labels.shape)}.")
    return labels


def as_space(symmetry: Any, inputs: Inputs) -> InputSpace | None:
    """The symmetry, fitted to the inputs and found meaningful on them."""
    if symmetry is None:
        return None
    space = GROUPS.build(symmetry)
    if not isinstance(space, InputSpace):
        raise InputError(f"The symmetry must be a space that acts on inputs, such as CyclicShift(axes=(-1,)), not {symmetry!r}.")
    fitted = space.fit(inputs.shape)
    fitted.check(inputs.take(torch.arange(min(inputs.size(), 256))))
    return fitted


def as_walk(walk: Any, space: InputSpace | None) -> Walk:
    """The walk, or else all of a small space and fifty draws from a large one."""
    if walk is not None:
        built: Walk = WALKS.build(walk)
        return built
    small = space is not None and space.order is not None and space.order <= EXHAUSTIVE_UP_TO
    return Exhaustive() if small else MonteCarlo(draws=50)


def as_outputs(outputs: str | None) -> Outputs | None:
    """What the outputs are, if the user said it."""
    known = [kind.value for kind in Outputs]
    if outputs is not None and outputs not in known:
        raise SpecError(f"The outputs are one of {', '.join(known)}, not '{outputs}'.")
    return None if outputs is None else Outputs(outputs)


def labelled(explainers: Sequence[Any] | Mapping[str, Any], controls: bool) -> dict[str, Explainer]:
    """Explainers under unique labels: their name, with their settings where two share it; then the controls."""
    if isinstance(explainers, str):
        raise SpecError(f"The explainers are a list, such as ['{explainers}'], not one name.")
    if isinstance(explainers, Mapping):
        named = {label: as_explainer(one) for label, one in explainers.items()}
    else:
        built = [as_explainer(one) for one in explainers]
        shared = Counter(one.name for one in built)
        labels = [one.name if shared[one.name] == 1 else with_settings(one) for one in built]
        twice = next((label for label, count in Counter(labels).items() if count > 1), None)
        if twice:
            raise SpecError(f"Two explainers are the same, '{twice}': name them apart with explainers={{'label': ...}}.")
        named = dict(zip(labels, built, strict=True))
    for control in CONTROLS if controls and named else ():
        named.setdefault(control.name, control())
    return named


def with_settings(explainer: Explainer) -> str:
    """A name with the settings that differ from their defaults."""
    parts = []
    for item in fields(explainer):
        value = getattr(explainer, item.name)
        default = item.default_factory() if item.default_factory is not MISSING else item.default
        if isinstance(value, Tensor) or value != default:
            parts.append(f"{item.name}={'tensor' if isinstance(value, Tensor) else value}")
    return f"{explainer.name}({', '.join(parts)})" if parts else explainer.name


def all_scores(scores: Sequence[Any]) -> tuple[tuple[str, ...], dict[str, Score]]:
    """The names that were asked for, and all scores by name: self-agreement and the action's floor come along."""
    built = [as_score(score) for score in scores]
    if not built:
        raise SpecError("There is no score to measure: pass scores=['equivariance', ...].")
    named = {score.name: score for score in built}
    if len(named) < len(built):
        raise SpecError("Two scores have the same name: audit them in two runs.")
    about_maps = [score for score in built if score.reads is Reads.EXPLANATION]
    symmetric = next((score for score in built if isinstance(getattr(score, "space", score), (InputSpace, type(None)))), None)
    asked = list(named)
    if about_maps and "self_agreement" not in named:
        named["self_agreement"] = SelfAgreement(measure=about_maps[0].measure)
    if symmetric is not None and "action_floor" not in named:
        named["action_floor"] = ActionFloor(space=getattr(symmetric, "space", None), walk=getattr(symmetric, "walk", None))
        asked.append("action_floor")
    return tuple(asked), named


def examined(problem: Problem) -> list[dict[str, str]]:
    """What each explainer has to say about each model; printed as warnings and kept with the result."""
    notes = []
    for name, model in problem.models.items():
        x = problem.inputs.take(torch.arange(min(2, problem.inputs.size()))).to(device_of(model.module))
        targets = model.targets[: len(x)].to(x.device)
        with evaluating(model.module):
            view = problem.target.view(model.module)
            for label, explainer in problem.explainers.items():
                notes += [{"model": name, "explainer": label, "text": text} for text in explainer.check(view, x, targets)]
    for note in notes:
        warnings.warn(f"{note['model']} / {note['explainer']}: {note['text']}", Note, stacklevel=4)
    return notes


def described(space: InputSpace, walk: Walk) -> str:
    """The symmetry in words."""
    settings = ", ".join(f"{key} {value}" for key, value in space.spec().items() if key != "name" and value is not None)
    size = f"{space.order} elements" if space.order is not None and space.order < 10**9 else "more elements than can be counted out"
    visits = "all of them" if walk.sampling(space).exhaustive else f"{walk.length(space)} draws a sample ({walk.name})"
    return f"{space.name}{f' ({settings})' if settings else ''}: {size}, {visits}"


def versions() -> dict[str, str]:
    """The versions that a result depends on."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = __version__ if package == "veracity" else "not installed"
    return found
