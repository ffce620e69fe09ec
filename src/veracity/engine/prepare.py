"""Checks and notes before a run, and the plan of an audit with the manifest that its folder will carry."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import torch
from torch import Size, Tensor

from veracity.core import fingerprint
from veracity.core.errors import InputError, SpecError, warn
from veracity.core.explainers import Explainer
from veracity.core.features import CENTRES, background_note, other_baseline
from veracity.core.inputs import is_streamed, samples_to_read, shown_parts, shown_words, whole
from veracity.core.scores import Reads, Request, Score, reads_after
from veracity.core.settings import short_repr
from veracity.core.spaces import InputSpace, RangedSpace, WeightSpace
from veracity.core.targets import Class, Label, Predicted, Target, class_numbers
from veracity.core.walks import AdaptiveWalk, Sampling, Search, Walk
from veracity.engine.memory import Budget
from veracity.engine.plan import SAME_MODEL, Cell, Job, fusion
from veracity.engine.predictions import classes_shown
from veracity.engine.problem import Problem
from veracity.engine.resolve import Scores, by_class
from veracity.engine.store import RunFolder
from veracity.engine.store.manifest import Kind
from veracity.engine.versions import versions
from veracity.explain import bound_inside
from veracity.inputs.units import Groups, Units
from veracity.scores import SymmetryScore
from veracity.scores.faithfulness.masked import MaskingScore
from veracity.scores.robustness import Misinterpretation, SearchScore
from veracity.walk.gradient import has_slopes

BALL = ("radius", "norm", "range")
"""Settings of the ball that any other space takes the place of."""


def check_search(score: SearchScore, request: Request, target: Target, shape: Size) -> None:
    """Raise if a score of misinterpretation cannot be measured with this space, walk and target on inputs of this shape."""
    space, walk = request.space, request.walk
    unused = [item.name for item in fields(score) if item.name in BALL and getattr(score, item.name) != item.default]
    if score.space is not None and unused:
        raise SpecError(f"The score '{score.name}' looks in the space '{space.name}', and not in a ball: leave out {', '.join(unused)}.")
    if not isinstance(target, (Predicted, Label, Class)):
        raise SpecError(f"The score '{score.name}' is about predicted classes, and the target '{target.name}' looks at something else.")
    if request.follow and isinstance(target, Class):
        raise SpecError(
            f"The score '{score.name}' explains the class predicted for each perturbed input, and the target '{target.name}' "
            "is another: pass target='predicted', or give the score follow=False."
        )
    if isinstance(space, WeightSpace):
        raise SpecError(
            f"The space '{space.name}' knows copies of a model by their number alone, which '{score.name}' cannot search: "
            "use WeightNeighbourhood(sigma=...)."
        )
    if space.levels > 1:
        raise SpecError(f"The score '{score.name}' looks at one set of points, and the space '{space.name}' has {space.levels} levels.")
    if isinstance(walk, AdaptiveWalk) and not isinstance(walk, Search):
        raise SpecError(f"The walk '{walk.name}' stops when a mean is known, which '{score.name}' is not: use the walk 'monte_carlo'.")
    if isinstance(score, Misinterpretation):
        value, (low, high) = score.threshold, score.compare.range
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or not low <= value <= high:
            raise SpecError(
                f"The threshold of '{score.name}' is a value of its measure '{score.compare.name}', "
                f"from {low:g} to {high:g}, not {short_repr(value)}."
            )
        score.compare(*torch.rand((2, 1, *shape), generator=torch.Generator().manual_seed(0)))


def check_classes(problem: Problem, labels: Tensor | None) -> None:
    """Raise if a score that starts from correctly classified samples is asked of something that does not classify."""
    name = next((label for label, score in problem.scores.items() if score.correct_only), None)
    if name is None:
        return
    for model, audited in problem.models.items():
        if audited.classes is None or audited.classes < 2:
            raise InputError(
                f"The score '{name}' needs a model with one output for each of at least two classes, unlike '{model}': leave the "
                "score out, or pass a classifier."
            )
        if labels is not None:
            class_numbers(labels, audited.classes, f"model '{model}'", fix=f"the score '{name}' needs to know which samples it gets right")


def check_probabilities(problem: Problem, left_open: Mapping[str, Score]) -> list[dict[str, str]]:
    """Notes on scores that read the explained score because a model has no probability of it; raises if one was told to read that."""
    improbable = {problem.label(name): model.uncertain for name, model in problem.models.items() if model.uncertain}
    if not improbable:
        return []
    model, why = next(iter(improbable.items()))
    masking = {label: score for label, score in problem.scores.items() if isinstance(score, MaskingScore)}
    for label, score in masking.items():
        if score.softmax:
            call = type(score).__name__
            raise InputError(
                f"{call}(softmax=True), the score '{label}', needs {why} (model '{model}'): pass {call}(softmax=False), or leave "
                "softmax out."
            )
    found = [label for label in masking if getattr(left_open.get(label), "softmax", False) is None]
    verb = "reads" if len(found) == 1 else "read"
    mixed = len({problem.label(name) for name in problem.models}) > len(improbable)
    whom, who = (" of every model", f"'{model}'") if mixed else ("", "the model")
    text = f"{', '.join(found)} {verb} the explained score itself{whom} (softmax=False), because {who} gives no probability of it."
    if found and mixed:
        warn(text)
    return [{"model": "" if mixed else model, "explainer": "", "text": text}] if found else []


TRIED = 1024
"""Of a data set that is not held in memory, how many samples spaces are checked on before the run; the others when they are read."""
SHOWN = 10
"""How many samples a note names."""


def reader_notes(problem: Problem, jobs: Sequence[Job]) -> list[dict[str, str]]:
    """Every note once, as {model, explainer, text}; also a warning, unless it only says which range or baseline was chosen."""
    urgent = list(misclassification_notes(problem))
    slopes: list[dict[str, str]] = []
    ranges: list[dict[str, str]] = []
    for job, cell in [(one, cell) for one in jobs for cell in one.cells]:
        space, walk = cell.request.space, getattr(cell.score, "walk", None)
        if isinstance(space, RangedSpace) and space.caveat is not None:
            urgent.append({"model": "", "explainer": "", "text": space.caveat})
        control = job.explainer and problem.explainers[job.explainer].control
        if not control and isinstance(walk, Search) and walk.follows_slopes and walk.spec() != cell.request.walk.spec():
            sloping = isinstance(space, InputSpace) and has_slopes(space)
            why = "no differentiable form of the explainer is known" if sloping else "elements of the space do not vary smoothly"
            text = f"'{cell.name}' is searched without gradients, since {why}: its worst case may be weaker."
            slopes.append({"model": problem.label(job.model), "explainer": job.explainer, "text": text})
        ball = isinstance(cell.score, SearchScore) and cell.score.space is None and cell.score.range == "data"
        if ball and isinstance(space, InputSpace):
            low, high = problem.span
            text = f"the data are taken to lie between {low:g} and {high:g}, the smallest and largest value of the inputs (range=...)."
            ranges.append({"model": "", "explainer": "", "text": text})
        if problem.features is not None and getattr(cell.score, "perturb_baseline", None) in CENTRES:
            ranges.append({"model": "", "explainer": "", "text": background_note(problem.features)})
            text = other_baseline(problem.features, getattr(problem.explainers.get(job.explainer), "baseline", None))
            if text and not control:
                ranges.append({"model": "", "explainer": job.explainer, "text": text})
    urgent, ranges = ([*{tuple(note.values()): note for note in notes}.values()] for notes in (urgent + slopes, ranges))
    for note in urgent:
        warn(f"{note['model'] or 'all models'} / {note['explainer'] or 'scores'}: {note['text']}")
    return urgent + ranges


def misclassification_notes(problem: Problem) -> Iterator[dict[str, str]]:
    """Which samples are left out of scores that start from correctly classified ones."""
    names = [label for label, score in problem.scores.items() if score.correct_only]
    models = {problem.label(name): problem.correct(problem.label(name)) for name in problem.models}
    known = [correct for correct in models.values() if correct is not None]
    if names and known and len(known) == len(models) and not any(one.any() for one in known):
        raise InputError(f"No model classifies any of the {len(known[0])} samples correctly, so that '{names[0]}' has no seed.")
    for name, correct in models.items() if names else ():
        if correct is None:
            text = "the labels are not known, and the model's own predictions stand for them: pass targets=... to leave out its mistakes."
            yield {"model": name, "explainer": "", "text": text}
            continue
        wrong = (~correct).nonzero()[:, 0].tolist()
        if wrong:
            listed = ", ".join(str(number) for number in wrong[:SHOWN]) + (", ..." if len(wrong) > SHOWN else "")
            text = f"{len(wrong)} of {len(correct)} samples are misclassified and have no {', '.join(names)}: {listed}."
            yield {"model": name, "explainer": "", "text": text}


@dataclass(frozen=True)
class AuditPlan:
    """An audit that is checked and planned."""

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
    labels: Tensor | None = None
    meanings: tuple[dict[str, Any], ...] = ()
    measured: Mapping[str, int] = field(default_factory=dict)
    """Rows per call that were measured, by `rows_key`."""
    units: Units | None = None
    groups: tuple[Groups, ...] = ()

    def manifest(self, store: RunFolder) -> dict[str, Any]:
        """Everything that a reader of the folder needs besides the measurements."""
        problem, space = self.problem, self.problem.defaults.space
        before, words, parts = store.manifest_before(Kind.AUDIT), shown_words(problem.inputs), shown_parts(problem.inputs)
        return {
            "kind": Kind.AUDIT,
            "created": before.get("created") or datetime.now(UTC).isoformat(timespec="seconds"),
            "title": self.title,
            "seed": problem.seed,
            "symmetry": symmetry_text(space, problem.defaults.walk) if space else "",
            "spec": self.spec,
            "scores": list(self.scores.asked),
            "assumptions": self.scores.assumptions,
            "score_specs": {name: score.about() for name, score in problem.scores.items()},
            "versions": versions(),
            "data": {"samples": problem.inputs.size(), "shape": list(problem.inputs.shape), "fingerprint": problem.inputs.fingerprint()}
            | ({"block": problem.block} if problem.block else {})
            | ({"hashes": self.hashes()} if is_streamed(problem.inputs) else {})
            | ({"features": problem.features.about()} if problem.features is not None and problem.features.named else {})
            | ({"words": words, "unit": getattr(whole(problem.inputs), "unit", "word")} if words else {})
            | ({"parts": parts} if parts else {})
            | ({"units": self.units.record(problem.inputs.size())} if self.units is not None else {})
            | ({"groups": [one.record(problem.inputs.size()) for one in self.groups]} if self.groups else {}),
            "models": {name: self.about(name) for name in self.accuracies},
            **({"folds": self.folds, "blocks": self.blocks()} if self.folds else {}),
            "notes": self.notes,
            "facts": self.facts,
            "calibrations": self.calibrations,
            **({"meanings": self.meanings} if self.meanings else {}),
            "cells": [entry for job in self.jobs for entry in self.entries(job)],
        }

    def hashes(self) -> list[str]:
        """The hashes of all blocks, in their order; of models that are trained fold by fold, none."""
        return list({job.samples[0]: job.data for job in self.jobs if self.problem.models[job.model].place is None}.values())

    def check_same_data(self, store: RunFolder) -> None:
        """Raise if a dataset that is read by blocks holds other samples than those that the folder was measured on."""
        before, now = store.manifest_before(Kind.AUDIT).get("data") or {}, self.hashes()
        known, size, block = before.get("hashes") or [], self.problem.inputs.size(), self.problem.block or 1
        if not is_streamed(self.problem.inputs) or before.get("block") != self.problem.block:
            return
        both = min(size, int(before["samples"])) // block if size != before["samples"] else len(now)
        other = [place for place, (one, two) in enumerate(zip(known[:both], now[:both], strict=False)) if one != two]
        if other:
            first, more = other[0] * block, f", and of {len(other) - 1} more blocks," if len(other) > 1 else ""
            raise InputError(
                f"Samples {first} to {min(first + block, size) - 1}{more} of the dataset are not those that {store.root} was measured on: "
                "pass the data as they were, or choose a new folder."
            )

    def about(self, name: str) -> dict[str, Any]:
        """A model's line in the manifest; of a cross-trained one, all folds' models together."""
        problem = self.problem
        parts = [model for key, model in problem.models.items() if problem.label(key) == name]
        hashes = [model.fingerprint for model in parts]
        content = hashes[0] if parts[0].place is None else fingerprint.of_json(hashes)
        found = {"fingerprint": content, "accuracy": self.accuracies[name], "outputs": parts[0].outputs.value}
        texts = len(shown_words(problem.inputs)) if parts[0].place is None else 0
        classes = classes_shown(parts[0], self.labels, texts) if texts else {}
        return {**found, **({"classes": classes} if classes else {})}

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
                "directed": explainer is None or (explainer.signed and explainer.directed),
                "frame": explainer.frame.value if explainer else "",
                "categorical": explainer is not None and explainer.categorical,
                **({"null": null} if (null := self.problem.nulls.get(job.explainer)) else {}),
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


def check_requests(problem: Problem, jobs: list[Job], asked: Sequence[str]) -> None:
    """Every space must make sense on every input, and every walk must be able to start on its space."""
    if not any(cell.name in asked for job in jobs for cell in job.cells):
        raise InputError("There is nothing to measure: no score applies to these models and explainers.")
    check_bound(problem, jobs)
    measured = {(job.explainer, cell.name) for job in jobs for cell in job.cells}
    for name, score in problem.scores.items():
        left_out = [label for label, one in problem.explainers.items() if not one.control and (label, name) not in measured]
        if isinstance(score, SymmetryScore) and score.reads is Reads.EXPLANATION and left_out:
            warn(f"The score '{name}' does not apply to {', '.join(left_out)}: 'symmetry' does.")
    requests = {fusion(cell): (cell.request, cell.score) for job in jobs for cell in job.cells}
    for request, score in requests.values():
        first = torch.zeros(1, dtype=torch.long)
        if isinstance(score, SearchScore):
            check_search(score, request, problem.target, problem.inputs.shape)
            if isinstance(request.walk, Search):
                request.walk.searcher(request.space, first, problem.seed, score.event, torch.device("cpu"))
                continue
        request.walk.start(request.space, first, problem.seed, score.bounds)
    for space in {fingerprint.of_json(request.space.spec()): request.space for request, _ in requests.values()}.values():
        if not isinstance(space, InputSpace):
            continue
        size = problem.inputs.size()
        for part in torch.arange(min(size, TRIED) if is_streamed(problem.inputs) else size).split(256):
            space.check(samples_to_read(problem.inputs, part).values)


def check_bound(problem: Problem, jobs: list[Job]) -> None:
    """Raise if an explainer that was made for one model must explain other weights or other folds of it."""
    for job in jobs:
        found = bound_inside(problem.explainers.get(job.explainer))
        if found is None:
            continue
        if problem.models[job.model].place is not None:
            raise InputError(
                f"{found.name} explains one fitted model, and '{problem.label(job.model)}' is trained anew in every fold: {found.instead}."
            )
        for cell in job.cells:
            if not isinstance(cell.request.space, SAME_MODEL) and Reads.EXPLANATION in reads_after(cell.score):
                raise InputError(
                    f"{found.name} explains one fitted model, and the score '{cell.name}' explains others (with other weights): "
                    f"{found.instead}."
                )


def meanings_of(problem: Problem, budgets: Mapping[str, Budget]) -> tuple[dict[str, Any], ...]:
    """What the parts of explanations stand for, as far as explainers can tell; nothing of models that are trained fold by fold."""
    found: list[dict[str, Any]] = []

    def of(kind: type[Explainer], mine: Mapping[str, Explainer], name: str) -> Mapping[str, list[dict[str, Any]]]:
        return kind.meanings(mine, problem.models[name].module, problem.inputs, budgets[name].rows)

    for name, model in problem.models.items():
        for kind, mine in by_class(problem.explainers).items() if model.place is None else ():
            told = budgets[name].attempt(partial(of, kind, mine, name))
            found += [{"model": name, "explainer": label, **one} for label, records in told.items() for one in records]
    return tuple(found)


def symmetry_text(space: InputSpace, walk: Walk) -> str:
    """The symmetry in words."""
    settings = ", ".join(f"{key} {value}" for key, value in space.spec().items() if key != "name" and value is not None)
    size = f"{space.order} elements" if space.order is not None and space.order < 10**9 else "too many elements to list"
    visits = "all of them" if walk.sampling(space).exhaustive else f"{walk.length(space)} draws per sample ({walk.name})"
    return f"{space.name}{f' ({settings})' if settings else ''}: {size}, {visits}"
