"""One input of a person's own, measured by the engine as the audit measured its samples: prediction, explanations, scores.

The models, explainers, scores, strengths, lessons and ranges of values are those of the run; only the input is another one. Its random
draws are those of a first sample. Nothing is written into the run's folder: the engine gets a temporary one.
"""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import groupby
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from veracity.app.forms import Form, Given, form_of
from veracity.audit import Audit
from veracity.core.errors import InputError, Note, unknown
from veracity.core.explainers import GivenMaps, Inquirer, learner, with_all_inside
from veracity.core.features import Features
from veracity.core.inputs import FirstSamples
from veracity.core.models import device_of, evaluating, in_precision
from veracity.core.randomness import Draws, gpus_in_use, seeded
from veracity.core.scores import Reads, Request, Score, reads_after, reads_before
from veracity.core.spaces import SampleSpace, TrainingSpace, WeightSpace
from veracity.core.targets import Label, Outputs
from veracity.core.walks import Search
from veracity.engine.admission import admit, first_pass
from veracity.engine.later import Later
from veracity.engine.loop import measure
from veracity.engine.memory import Budget
from veracity.engine.plan import Job, fusion, plan
from veracity.engine.preliminaries import recall
from veracity.engine.prepare import AuditPlan
from veracity.engine.problem import Problem
from veracity.engine.reader import Block
from veracity.engine.resolve import class_names
from veracity.engine.store import RunFolder
from veracity.engine.store.folder import NUMBERS
from veracity.engine.trial import Guard
from veracity.models.transformers import config_classes
from veracity.perturb.refits import Refits
from veracity.report.figures import images
from veracity.report.interactive.cases import Shown, series_of
from veracity.results import Result
from veracity.results.series import dense, derive, gather

ROUNDING = 1e-5
"""Values closer than this, relative to their size, count as equal: the batch they are measured in changes the last digits."""
HELD = 8
"""How many inputs are held ready for a model at once."""
TOP = 5
"""How many classes, or values, of a prediction are told."""
ONE = torch.zeros(1, dtype=torch.long)
OTHER = (
    "The audit at hand is not the one that made this run: its models, data or settings differ, or its command had options. "
    "Run it again, or serve the right audit from Python."
)


@dataclass(frozen=True)
class NewSample(FirstSamples):
    """A single sample, beside what is known of the audited ones: what their values mean, and between which numbers they lie."""

    audited: Problem

    @property
    def features(self) -> Features | None:
        """What the values mean."""
        return self.audited.features

    def span(self) -> tuple[float, float]:
        """The smallest and the largest audited value."""
        return self.audited.span


@dataclass(frozen=True, kw_only=True)
class Ready:
    """An input that a model has admitted: what is measured of it, by which budget, and why some scores are not."""

    given: Given
    problem: Problem
    budget: Budget
    jobs: Mapping[str, Job]
    without: Mapping[str, str]


class OwnInputs:
    """The models of an audit for inputs that people give; for one thread."""

    def __init__(self, audit: Audit, prepared: AuditPlan, store: RunFolder) -> None:
        self.audit, self.plan, self.store = audit, prepared, store
        self.learnt = {(job.model, job.explainer): job.learnt for job in prepared.jobs}
        self.keys = {cell.key for job in prepared.jobs for cell in job.cells}
        self.ready = lru_cache(maxsize=HELD)(self._ready)

    @cached_property
    def form(self) -> Form:
        """What a person can give; raises if there is no form for such samples."""
        models = [module for module in self.audit.modules.values() if isinstance(module, nn.Module)]
        if len(models) < len(self.audit.modules):
            raise InputError("Models that are trained fold by fold take no input of your own: nobody says which fold should answer.")
        return form_of(self.plan.problem.inputs, self.plan.problem.features, models)

    def about(self) -> dict[str, Any]:
        """What the page asks for."""
        needs = isinstance(self.plan.problem.target, Label)
        return {**self.form.about(), "label": needs, "models": list(self.plan.problem.models)}

    def answer(self, run: Result, given: Given, model: str, explainer: str, score: str) -> dict[str, Any]:
        """The prediction of a model; or the explanation by an explainer; or a score of that, or of the model if there is no explainer."""
        for what, name, known in (("model", model, self.plan.problem.models), ("explainer", explainer, self.plan.problem.explainers)):
            if name not in known and (name or what == "model"):
                raise unknown(f"{what} of this run", name, known)
        self.check(run, model, explainer, score)
        one = self.ready(given, model)
        about = {"model": model, "explainer": explainer, "score": score}
        if score:
            return {**about, **self.value(run, one, model, explainer, score)}
        return {**about, **(self.explanation(run, one, model, explainer) if explainer else self.prediction(run, one, model))}

    def check(self, run: Result, model: str, explainer: str, score: str) -> None:
        """Raise if the run has measured a model, an explainer of it or a score of that, and none of it is what this audit plans."""
        wanted = {"model": model, **({"explainer": explainer} if explainer else {}), **({"score": score} if score else {})}
        keys = {cell["key"] for cell in run.manifest["cells"] if all(cell[what] == name for what, name in wanted.items())}
        if keys and not keys & self.keys:
            raise InputError(OTHER)

    def prediction(self, run: Result, one: Ready, name: str) -> dict[str, Any]:
        """What the model says, the input as it is drawn, and what can be asked about it."""
        model, problem = one.problem.models[name], one.problem
        with torch.no_grad(), self._working(problem, model.module):
            values = model.read(problem.inputs.take(ONE).to(device_of(model.module)))[0].double().cpu()
        names, said = self.classes(name), dict[str, Any]()
        if model.outputs is Outputs.RAW or values.ndim != 1:
            said = {"values": [float(value) for value in values.flatten()[:TOP]], "of": values.numel()}
        else:
            order = values.argsort(descending=True, stable=True)[:TOP].tolist()
            explained = int(model.targets[0])
            said = {"top": [[class_name(names, place), float(values[place])] for place in order], "of": len(values)}
            if explained < len(values) and model.classes != 1:
                said["explained"] = [class_name(names, explained), float(values[explained])]
        asks = {label: list(dict.fromkeys(cell.name for cell in job.cells)) for label, job in one.jobs.items()}
        known = {label: [score for score in scores if score in run.manifest["scores"]] for label, scores in asks.items()}
        drawing = self._shown(run, one, name).input(images.to_array(problem.inputs.take(ONE).values[0]))
        if drawing["kind"] == "facts" and len(drawing["values"]) == len(one.given.cells):
            drawing["values"] = list(one.given.cells)
        return {
            "input": drawing,
            "steps": list(one.given.steps),
            "doubt": one.given.doubt,
            "invertible": one.given.invertible,
            "prediction": said,
            "scores": {label: scores for label, scores in known.items() if scores},
            "explainers": [label for label in problem.explainers if not why_no_explanation(problem, label)],
            "without": [[what, why] for what, why in one.without.items() if what in run.manifest["scores"]],
        }

    def classes(self, name: str) -> Sequence[Any] | None:
        """What a model calls its classes; None if it only counts them."""
        module = self.audit.modules[name]
        return class_names(self.audit.modules) or (config_classes(module) if isinstance(module, nn.Module) else None)

    def explanation(self, run: Result, one: Ready, name: str, label: str) -> dict[str, Any]:
        """The explanation as a drawing."""
        maps = self.maps(one, name, label)
        shown = self._shown(run, one, name)
        x = images.to_array(one.problem.inputs.take(ONE).values[0])
        return {"drawing": shown.map(images.to_array(maps), label, places=x if shown.layout is images.Layout.POINTS else None)}

    def maps(self, one: Ready, name: str, label: str) -> Tensor:
        """The explanation of the input."""
        if why := why_no_explanation(one.problem, label):
            raise InputError(f"'{label}' {why}.")
        with self._block(
            one, Job(name, label, range(1), "", "", "", one.problem.explainers[label].cost(one.problem.inputs.shape), ())
        ) as block:
            draws = Draws.of(block.seed, block.numbers)
            with torch.no_grad(), block.guard.watching():
                return block.finished(block.reader.by(block.source).explanation(block.x, block.targets, draws))[0].cpu()

    def value(self, run: Result, one: Ready, name: str, label: str, score: str) -> dict[str, Any]:
        """The value of a score, and how many audited samples have a value, a lower one, or the same one."""
        if label and (why := why_no_explanation(one.problem, label)):
            raise InputError(f"'{label}' {why}.")
        cells = [cell for cell in one.jobs[label].cells if cell.name == score] if label in one.jobs else []
        if not cells:
            if score in one.without:
                raise InputError(f"'{score}' is not measured of a single input: {one.without[score]}.")
            who = label or "the model itself"
            if label not in one.jobs:
                raise InputError(f"No score of {who} can be measured of a single input.")
            raise unknown(f"score of {who}:", score, {cell.name for cell in one.jobs[label].cells})
        with self._block(one, one.jobs[label]) as block:
            for _, group in groupby(sorted(cells, key=fusion), key=fusion):
                alike = list(group)
                for cell, lines in zip(alike, measure(block, alike), strict=True):
                    found = lines()
                    if isinstance(found, str):
                        raise InputError(found)
                    found.write(cell.key, block.folder, {})
            _, measured, _ = gather([dense(block.folder.read_cell(cell.key, NUMBERS)) for cell in cells])
        value = float(derive(run.manifest["score_specs"][score], measured)[1][0])
        audited = series_of(run, name, label, score).per_sample
        known = audited[np.isfinite(audited)]
        if not math.isfinite(value):
            return {"value": None, "of": len(known), "lower": 0, "same": 0}
        return {"value": value, "of": len(known), **placed(known, value)}

    def _ready(self, given: Given, name: str) -> Ready:
        """An input that the model was shown, and the plan of what is measured of it."""
        audited, model, module = self.plan.problem, self.plan.problem.models[name], self.audit.modules[name]
        if isinstance(audited.target, Label) and given.label is None:
            raise InputError("This audit explains the label of each sample: say the class of yours.")
        if given.label is not None and not 0 <= given.label < (model.classes or 1):
            raise InputError(f"There is no class {given.label}: model '{name}' has the classes 0 to {(model.classes or 1) - 1}.")
        if not isinstance(module, nn.Module):
            raise InputError("Models that are trained fold by fold take no input of your own.")
        inputs = NewSample(given.inputs, 1, audited)
        labels = None if given.label is None else torch.tensor([given.label])
        with self._working(audited, model.module):
            view, budget = first_pass(name, inputs.adapt(module), inputs, None, self.plan.budgets[name].rows)
            admitted, _ = admit(name, view, inputs, labels, audited.target, model.outputs, budget)
        kept = replace(admitted, fingerprint=model.fingerprint, checkpoints=model.checkpoints, mixing=model.mixing, doubt=model.doubt)
        problem = replace(audited, inputs=inputs, models={name: kept}, truth=None, block=1)
        without = reasons(problem, name)
        problem = replace(problem, scores={label: score for label, score in problem.scores.items() if label not in without})
        with self._working(problem, view):
            jobs = [without_lessons(job, problem) for job in plan(problem, {name: budget})]
        return Ready(given=given, problem=problem, budget=budget, jobs={job.explainer: job for job in jobs}, without=without)

    def _shown(self, run: Result, one: Ready, name: str) -> Shown:
        """How the input and its explanations are drawn."""
        shown = Shown(run, name, "", 0)
        shown.words = one.given.words
        return shown

    @contextmanager
    def _working(self, problem: Problem, module: nn.Module) -> Iterator[None]:
        """The precision of the audit, the model in evaluation mode, and random states that are put back; notes are those of the run."""
        with warnings.catch_warnings(), in_precision(problem.precision), evaluating(module), seeded(problem.seed, gpus_in_use()):
            warnings.simplefilter("ignore", Note)
            yield

    @contextmanager
    def _block(self, one: Ready, job: Job) -> Iterator[Block]:
        """The input as the engine's loop gets it, with a temporary folder."""
        problem, model = one.problem, one.problem.models[job.model]
        device = device_of(model.module)
        first = problem.inputs.take(ONE).to(device)
        with tempfile.TemporaryDirectory(prefix="veracity-input-") as folder, self._working(problem, model.module), Later() as later:
            learnt = recall(self.store, self.learnt.get((job.model, job.explainer), ""), device)
            guard = Guard(job.explainer, problem.explainers.get(job.explainer), model.module, first)
            yield Block(job, problem, one.budget, learnt, RunFolder(folder), lambda passes: None, guard, later, ONE)


def class_name(names: Sequence[Any] | None, place: int) -> str:
    """What a class is called."""
    return f"class {place}" if names is None or place >= len(names) else str(names[place])


def why_no_explanation(problem: Problem, label: str) -> str:
    """Why an explainer cannot explain another input; "" if it can."""
    explainer = problem.explainers[label]
    for one in with_all_inside(explainer):
        if isinstance(one, GivenMaps):
            return "holds maps of the audited samples alone"
        if isinstance(one, Inquirer):
            return "asks a language model, so that it does not explain live"
    return ""


def reasons(problem: Problem, name: str) -> dict[str, str]:
    """Why scores cannot be measured of a single new input, by their labels."""
    found = dict[str, str]()
    for label, score in problem.scores.items():
        for explainer in (None, *problem.explainers.values()):
            subject = problem.subject(name, explainer)
            own = score.for_subject(subject)
            for why in filter(None, (why_not(own, request) for request in own.requests(subject, problem.defaults))):
                found.setdefault(label, why)
    return found


def without_lessons(job: Job, problem: Problem) -> Job:
    """A job without the cells whose explainer would learn anew about every copy of the model."""
    if learner(problem.explainers.get(job.explainer)) is None:
        return job
    return replace(job, cells=tuple(cell for cell in job.cells if not isinstance(cell.request.space, WeightSpace)))


def why_not(score: Score, request: Request) -> str:
    """Why a score is not measured of a single new input, as the end of a sentence; "" if it is."""
    if score.pooled:
        return "it is one number for the whole data set"
    if Reads.TRUTH in reads_before(score) | reads_after(score):
        return "it needs the ground truth of the input"
    if isinstance(request.walk, Search):
        return "it is a long search"
    if isinstance(request.space, SampleSpace):
        return "it compares the input with other samples"
    if isinstance(request.space, (TrainingSpace, Refits)):
        return "it takes models that are trained again"
    return ""


def placed(known: NDArray[np.float64], value: float) -> dict[str, int]:
    """How many of the values that are known are lower than one, and how many are the same but for rounding.

    >>> placed(np.array([0.5, 1.0, 1.0 + 1e-7]), 1.0), placed(np.array([1e-9, 0.5]), 0.0)
    ({'lower': 1, 'same': 2}, {'lower': 0, 'same': 1})
    """
    largest = float(np.abs(known).max(initial=0.0))
    same = np.isclose(known, value, rtol=ROUNDING, atol=np.finfo(np.float32).eps * largest)
    return {"lower": int((known[~same] < value).sum()), "same": int(same.sum())}
