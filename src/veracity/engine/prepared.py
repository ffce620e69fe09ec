"""An audit that has been looked at and planned, and the manifest that its folder will carry."""

from __future__ import annotations

import platform
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from veracity import __version__
from veracity.core import fingerprint
from veracity.core.errors import InputError, Note
from veracity.core.explainers import Explainer
from veracity.core.scores import Reads, reads_after, reads_before
from veracity.core.searches import Search
from veracity.core.spaces import InputSpace
from veracity.core.walks import Sampling, Walk
from veracity.engine.admission import mixed
from veracity.engine.batching import Budget
from veracity.engine.hunted import check_hunted
from veracity.engine.plan import Cell, Job, fusion
from veracity.engine.problem import Problem
from veracity.engine.resolve import Scores
from veracity.engine.store import RunFolder
from veracity.engine.store.folder import AUDIT
from veracity.engine.trial import tried
from veracity.interpret import SymmetryScore
from veracity.interpret.robustness import Hunted

PACKAGES = (
    *("veracity", "torch", "torch_geometric", "captum", "scikit-learn", "numpy", "scipy", "pandas", "pyarrow", "safetensors"),
    *("opencv-python-headless", "umap-learn"),
)


@dataclass(frozen=True)
class Prepared:
    """An audit that has been looked at and planned."""

    spec: dict[str, Any]
    title: str | None
    problem: Problem
    jobs: list[Job]
    budgets: dict[str, Budget]
    accuracies: dict[str, float | None]
    notes: list[dict[str, str]]
    scores: Scores
    folds: tuple[dict[str, Any], ...] = ()
    facts: tuple[dict[str, Any], ...] = ()
    calibrations: tuple[dict[str, Any], ...] = ()

    def manifest(self, store: RunFolder) -> dict[str, Any]:
        """Everything that a reader of the folder needs besides the measurements."""
        problem, space = self.problem, self.problem.defaults.space
        before = store.manifest_before(AUDIT)
        return {
            "created": before.get("created") or datetime.now(UTC).isoformat(timespec="seconds"),
            "title": self.title,
            "seed": problem.seed,
            "symmetry": described(space, problem.defaults.walk) if space else "",
            "spec": self.spec,
            "scores": list(self.scores.asked),
            "assumptions": self.scores.assumptions,
            "score_specs": {name: score.about() for name, score in problem.scores.items()},
            "versions": versions(),
            "data": {"samples": problem.inputs.size(), "shape": list(problem.inputs.shape), "fingerprint": problem.inputs.fingerprint()},
            "models": {name: self.about(name) for name in self.accuracies},
            **({"folds": self.folds, "blocks": self.blocks()} if self.folds else {}),
            "notes": self.notes,
            "facts": self.facts,
            "calibrations": self.calibrations,
            "cells": [entry for job in self.jobs for entry in self.entries(job)],
        }

    def about(self, name: str) -> dict[str, Any]:
        """A model's line in the manifest; of a cross-trained one, all folds' models together."""
        problem = self.problem
        parts = [model for key, model in problem.models.items() if problem.label(key) == name]
        hashes = [model.fingerprint for model in parts]
        whole = hashes[0] if parts[0].place is None else fingerprint.of_json(hashes)
        return {"fingerprint": whole, "accuracy": self.accuracies[name], "outputs": parts[0].outputs.value}

    def blocks(self) -> dict[str, dict[str, list[int]]]:
        """The samples of every block of a cross-trained model, by the model's name and the first of them."""
        found: dict[str, dict[str, list[int]]] = {}
        for job in self.jobs:
            if self.problem.models[job.model].place is not None:
                found.setdefault(self.problem.label(job.model), {})[str(job.samples[0])] = list(job.samples)
        return found

    def entries(self, job: Job) -> list[dict[str, Any]]:
        """The manifest's lines on one job's cells."""
        explainer = self.problem.explainers.get(job.explainer)
        return [
            {
                "key": cell.key,
                "base": job.base_key,
                "model": self.problem.label(job.model),
                "explainer": job.explainer,
                "control": explainer is not None and explainer.control,
                "signed": explainer is None or explainer.signed,
                "frame": explainer.frame.value if explainer else "",
                "categorical": explainer is not None and explainer.categorical,
                "score": cell.name,
                "start": job.samples[0],
                "stop": job.samples[-1] + 1,
                "sampling": asdict(sampling_of(cell, explainer)),
                "bounds": [str(bound) for bound in cell.score.bounds],
                "direction": cell.score.direction.value,
            }
            for cell in job.cells
        ]


def sampling_of(cell: Cell, explainer: Explainer | None) -> Sampling:
    """How a cell's draws came about: as its walk says, with the explainer's own noise in each if it has any."""
    space = cell.request.space
    found = replace(cell.request.walk.sampling(space), nested=space.nested)
    noisy = explainer is not None and explainer.stochastic and not cell.request.common_draws
    return found.noisy() if noisy else found


def examined(
    problem: Problem, budgets: Mapping[str, Budget], heard: Callable[[int, str], None] = lambda step, text: None
) -> tuple[Problem, list[dict[str, str]]]:
    """The problem with its explainers after a trial on each model, and what each has to say; warned about, and kept with the result.

    An explainer is random, or mixes the rows of a batch, if it did so on any model. `heard` is told of every one that is tried.
    """
    notes: list[dict[str, str]] = []
    settled: dict[str, Explainer] = {}
    mixing: set[str] = set()
    for name, model in problem.models.items():
        if model.place is not None and model.place.fold > 0:
            continue
        for label in problem.explainers:
            heard(0, f"trying {label} on {name}")
            found = budgets[name].attempt(partial(tried, problem, name, label, budgets[name]))
            heard(1, f"trying {label} on {name}")
            notes += [{"model": problem.label(name), "explainer": label, "text": text} for text in found.notes]
            mixing |= {label} if found.mixing else set()
            if label not in settled or found.explainer.stochastic:
                settled[label] = found.explainer
    for name, model in {problem.label(key): model for key, model in problem.models.items()}.items():
        if model.doubt and any(Reads.OUTPUT in reads_before(score) | reads_after(score) for score in problem.scores.values()):
            notes.append({"model": name, "explainer": "", "text": model.doubt})
        if model.mixing:
            notes.append({"model": name, "explainer": "", "text": mixed(model.mixing)})
    for note in notes:
        warnings.warn(f"{note['model']} / {note['explainer'] or 'outputs'}: {note['text']}", Note, stacklevel=4)
    return replace(problem, explainers=settled, mixing=frozenset(mixing)), notes


def check_requests(problem: Problem, jobs: list[Job], asked: Sequence[str]) -> None:
    """Every space must make sense on every input, and every walk must be able to start on its space."""
    if not any(cell.name in asked for job in jobs for cell in job.cells):
        raise InputError("There is nothing to measure: no score applies to these models and explainers.")
    measured = {(job.explainer, cell.name) for job in jobs for cell in job.cells}
    for name, score in problem.scores.items():
        left_out = [label for label, one in problem.explainers.items() if not one.control and (label, name) not in measured]
        if isinstance(score, SymmetryScore) and score.reads is Reads.EXPLANATION and left_out:
            warnings.warn(f"The score '{name}' does not apply to {', '.join(left_out)}: 'symmetry' does.", Note, stacklevel=4)
    requests = {fusion(cell): (cell.request, cell.score) for job in jobs for cell in job.cells}
    for request, score in requests.values():
        if isinstance(score, Hunted):
            check_hunted(score, request, problem.target, problem.inputs.shape)
        if isinstance(request.walk, Search) and isinstance(score, Hunted):
            request.walk.hunt(request.space, torch.zeros(1, dtype=torch.long), problem.seed, score.target, torch.device("cpu"))
        else:
            request.walk.start(request.space, torch.zeros(1, dtype=torch.long), problem.seed, score.bounds)
    for space in {fingerprint.of_json(request.space.spec()): request.space for request, _ in requests.values()}.values():
        if not isinstance(space, InputSpace):
            continue
        for part in torch.arange(problem.inputs.size()).split(256):
            space.check(problem.inputs.take(part).values)


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
