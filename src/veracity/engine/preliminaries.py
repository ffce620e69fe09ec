"""What must be known about each model before the loop: found once, stored in the folder.

Calibration finds how strong a perturbation must be before a model answers by chance. Lessons are what an explainer learns about a
model before it explains anything.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from veracity.core import fingerprint
from veracity.core.errors import InputError, StoreError, error_text
from veracity.core.explainers import Context, Cost, learner
from veracity.core.inputs import Signals
from veracity.core.models import device_of, evaluating
from veracity.core.randomness import Draws, gpus_in_use, seeded
from veracity.core.spaces import InputSpace, Space, WeightSpace, open_end
from veracity.engine.memory import Budget
from veracity.engine.plan import ALGORITHMS, Job, unfinished
from veracity.engine.problem import Problem
from veracity.engine.progress import LATE, bar
from veracity.engine.store import SCHEMA, RunFolder
from veracity.engine.trial import Guard
from veracity.perturb.path import calibrate as find_strength
from veracity.perturb.path import strength_range, tolerance
from veracity.perturb.weights.copies import Remembered, ScratchModel, at_once, generator, remembering
from veracity.perturb.weights.copies import key as stream

DRAWS, MOST_DRAWS, SAMPLES = 40, 640, 256
"""Draws per strength, at least and at most, and the samples that are looked at."""
EVALUATIONS = 8
"""How many strengths are tried at least: two that enclose the right one, five in between, and one beyond."""
EXPECTED = 12
"""How many strengths are usually tried; for the progress bar."""
CALIBRATIONS, LEARNT = "calibrations", "learnt"
VISUALISED = "visualised"
"""Tables that say which lessons hold pictures: of which model, explainer, and strength of perturbation."""


@dataclass
class Strengths:
    """By (model, hash of the space): the strength that was found, or why there is none; and records for the manifest."""

    sigmas: dict[tuple[str, str], float] = field(default_factory=dict)
    failures: dict[tuple[str, str], str] = field(default_factory=dict)
    records: list[dict[str, Any]] = field(default_factory=list)

    def failure(self, model: str, space: Space) -> str | None:
        """Why a space cannot be walked for a model."""
        end = open_end(space, 1.0)
        return None if end is None else self.failures.get((model, fingerprint.of_json(end.spec())))

    def check(self, wanted: Iterable[tuple[str, Space]]) -> None:
        """Raise if no wanted (model, space) can be walked."""
        if self.failures and all(self.failure(model, space) for model, space in wanted):
            raise InputError(next(iter(self.failures.values())))


def open_strengths(problem: Problem) -> dict[tuple[str, str], Space]:
    """The spaces whose strength must be found, by (model, hash of the space)."""
    found: dict[tuple[str, str], Space] = {}
    for name in problem.models:
        for explainer in (None, *problem.explainers.values()):
            subject = problem.subject(name, explainer)
            for score in problem.scores.values():
                for request in score.for_subject(subject).requests(subject, problem.defaults):
                    space = problem.fitted(name, request.space)
                    end = open_end(space, 1.0)
                    if end is not None:
                        found[name, fingerprint.of_json(end.spec())] = space
    return found


def calibrate_all(problem: Problem, budgets: Mapping[str, Budget], folder: RunFolder, progress: bool = True) -> Strengths:
    """The strength of every open space for every model, or why it has none."""
    spaces = open_strengths(problem)
    found = Strengths()
    with bar("calibrating", len(spaces) * EXPECTED, progress, after=LATE) as advance:
        for (name, what), space in spaces.items():
            advance(0, f"calibrating {name}")
            try:
                record = calibrate(problem, name, what, space, budgets[name], folder, advance)
                found.sigmas[name, what] = record["sigma"]
                found.records.append({"model": name, "space": space.name, **record})
            except InputError as error:
                found.failures[name, what] = str(error)
    return found


def calibration_key(problem: Problem, name: str, what: str) -> str:
    """A hash of everything that the strength of one space for one model depends on."""
    model = problem.models[name]
    about = [SCHEMA, ALGORITHMS, model.fingerprint, model.outputs.value, problem.inputs.fingerprint()]
    return fingerprint.of_json([*about, what, problem.seed, DRAWS, MOST_DRAWS, SAMPLES])


def known_strengths(problem: Problem, folder: RunFolder | None) -> tuple[dict[tuple[str, str], float], list[str]]:
    """The strengths in the folder, by (model, hash of the space), and the model of each missing strength; nothing is computed."""
    sigmas, missing = dict[tuple[str, str], float](), list[str]()
    for name, what in open_strengths(problem):
        record = None if folder is None else folder.read_table(CALIBRATIONS, calibration_key(problem, name, what))
        if record is None:
            missing.append(name)
        else:
            sigmas[name, what] = record["sigma"]
    return sigmas, missing


def calibrate(
    problem: Problem, name: str, what: str, space: Space, budget: Budget, folder: RunFolder, advance: Callable[[int], None]
) -> dict[str, Any]:
    """The strength of one space for one model, from the folder or computed; `advance` gets EXPECTED steps in all."""
    left = EXPECTED

    def step() -> None:
        nonlocal left
        if left > 1:
            left -= 1
            advance(1)

    model, key = problem.models[name], calibration_key(problem, name, what)
    try:
        stored = folder.read_table(CALIBRATIONS, key)
        if stored is not None:
            return stored
        with evaluating(model.module), torch.no_grad(), remembering(Remembered()):
            trial = Agreement(problem, name, budget)
            try:
                agreement = trial.agreement_along(space, step)
                found = asdict(find_strength(agreement, trial.classes))
                beyond = 2.0 * max(sigma for sigma, _ in found["curve"] if sigma <= 2.0 * found["sigma"])
                if beyond not in trial.agrees:  # where the agreement levels off, for the range of the strength
                    found["curve"] = sorted([*found["curve"], (beyond, agreement(beyond))])
            except InputError as error:
                raise InputError(f"On model '{name}': {error}") from error
        low, high = strength_range(trial.agrees, trial.classes, generator("strength", problem.seed))
        found |= {
            "draws": len(trial.agrees[found["sigma"]]),
            "low": min(low, found["sigma"]),
            "high": max(high, found["sigma"]),
            "independent": trial.independent(found["sigma"]),
            "classes": trial.classes,
        }
        return folder.write_table(CALIBRATIONS, key, found)
    finally:
        advance(left)


PIXELS = 16
"""How many decisions per sample are looked at, if a model decides about every pixel."""
CACHED = 8 << 20
"""How many bytes of weights are made at once: little enough for a processor's cache, since copies are asked one after the other."""


class Agreement:
    """How often a perturbed model predicts the same class as the unperturbed one, per strength.

    A model that decides about every pixel has several predictions per sample: those of some pixels that it gives the explained class.
    Most pixels are background, which a model may keep long after it has lost everything else. The prediction of a regression is
    whether its value lies above the median of the unperturbed values, so that chance is 1/2.
    """

    def __init__(self, problem: Problem, name: str, budget: Budget) -> None:
        self.model, self.seed, self.budget = problem.models[name], problem.seed, budget
        self.samples = torch.arange(min(SAMPLES, problem.inputs.size()))
        self.x = problem.inputs.take(self.samples).to(device_of(self.model.module))
        self.target = problem.target_of(name)
        self.pixels = self.explained_pixels()
        probabilities = self.probabilities(self.model.module, self.x)
        self.classes = max(probabilities.shape[1], 2)
        self.middle = float(probabilities.double().median()) if probabilities.shape[1] == 1 else None
        self.predicted = self.classified(probabilities)
        self.mapping: bool | None = None
        self.agrees: dict[float, Tensor] = {}
        self.shares: dict[float, Tensor] = {}
        """Per strength: whether each draw agrees on each sample (draws, samples), and the share of each predicted class (classes,)."""

    def explained_pixels(self) -> Tensor | None:
        """Some pixels (N, PIXELS) of every row, evenly spaced among those with the explained class; None for one decision per row."""
        deciding, parts = self.target.decisions(self.model.module), list[Tensor]()
        if deciding is self.model.module:
            return None

        def some(part: slice) -> None:
            found = self.x[part].through(deciding)
            if found.ndim == 3:
                chosen = found.argmax(2) == self.model.targets[self.samples[part]].to(found.device)[:, None]
                parts.extend(evenly(row if bool(row.any()) else ~row) for row in chosen)

        self.budget.spend(len(self.x), 1, some)
        return torch.stack(parts) if parts else None

    def probabilities(self, module: nn.Module, x: Signals) -> Tensor:
        """The output probabilities of all rows, or of some pixels of every row."""
        deciding, parts = self.target.decisions(module), list[Tensor]()

        def some(part: slice) -> None:
            found = x[part].through(deciding)
            if self.pixels is not None:
                found = found.gather(1, self.pixels[part][:, :, None].expand(-1, -1, found.shape[2])).flatten(0, 1)
            parts.append(self.model.outputs.read(found))

        self.budget.spend(len(x), 1, some)
        return torch.cat(parts)

    def classified(self, probabilities: Tensor) -> Tensor:
        """The predicted classes; for the values of a regression, 1 above the median of the unperturbed values and 0 below."""
        return probabilities.argmax(1) if self.middle is None else (probabilities[:, 0].double() > self.middle).long()

    def agreement_along(self, space: Space, step: Callable[[], None]) -> Callable[[float], float]:
        """Mean agreement as a function of the strength, over the same draws at every strength.

        It takes 40 draws, and up to 640 as long as the mean is neither known to half the tolerance nor four standard errors away
        from chance: with few classes, a copy of the model agrees on nearly all samples or on hardly any.
        """
        copies = ScratchModel(self.model.module, stream("calibration", self.seed)) if isinstance(space, WeightSpace) else None
        around = tolerance(self.classes)

        def agreement(sigma: float) -> float:
            end, answers = open_end(space, sigma), list[Tensor]()
            means = list[float]()
            while len(means) < DRAWS or (len(means) < MOST_DRAWS and undecided(means, 1.0 / self.classes + around, around / 2)):
                draws = range(len(means), max(DRAWS, 2 * len(means)))
                if copies is not None and isinstance(end, WeightSpace):
                    answers += self.under_copies(copies, end, draws)
                elif isinstance(end, InputSpace):
                    moved = (end.move(self.noise(end, draw), self.x) for draw in draws)
                    answers += [self.classified(self.probabilities(self.model.module, x)) for x in moved]
                else:
                    raise InputError(f"The space '{space.name}' has no strength to find.")
                means = [float((answer == self.predicted).double().mean()) for answer in answers]
            every = torch.stack(answers)
            self.agrees[sigma] = (every == self.predicted).cpu()
            self.shares[sigma] = torch.bincount(every.flatten(), minlength=self.classes).double().cpu() / every.numel()
            step()
            return sum(means) / len(means)

        return agreement

    def independent(self, sigma: float) -> float:
        """The agreement if predictions before and after were independent: sum over c of p_c q_c."""
        own = torch.bincount(self.predicted, minlength=self.classes).double().cpu() / len(self.predicted)
        return float(own @ self.shares[sigma])

    def under_copies(self, copies: ScratchModel, space: WeightSpace, draws: range) -> list[Tensor]:
        """The classes (samples,) that every copy predicts."""
        found, some = list[Tensor](), at_once(self.model.module, self.x.values, CACHED)
        chunks = [[(draw, 0) for draw in draws[first : first + some]] for first in range(0, len(draws), some)]
        for pairs, weights in zip(chunks, copies.ahead(space, chunks), strict=True):
            if self.mapping is None:
                self.mapping = self.maps_faster(copies, weights, len(pairs))
            if self.mapping:
                found += [self.classified(one) for one in self.mapped(copies, weights)]
            else:
                found += [self.classified(one) for one in self.one_by_one(copies, weights, len(pairs))]
        return found

    def one_by_one(self, copies: ScratchModel, weights: dict[str, Tensor], count: int) -> list[Tensor]:
        """The probabilities (samples, classes) of every copy, each by a pass of its own."""
        return [self.probabilities(copies.become(weights, number), self.x) for number in range(count)]

    def mapped(self, copies: ScratchModel, weights: dict[str, Tensor]) -> list[Tensor]:
        """The probabilities of every copy, by one pass of all of them."""
        copies.become({}, 0)

        def scores(own: dict[str, Tensor]) -> Tensor:
            found: Tensor = functional_call(copies.scratch, own, (self.x.values, *self.x.structure))
            return found

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # torch says which operations are not mapped, but done one by one
            found = torch.vmap(scores)(weights)
        return [self.model.outputs.read(one) for one in found.unbind()]

    def maps_faster(self, copies: ScratchModel, weights: dict[str, Tensor], count: int) -> bool:
        """Whether one pass of all copies gives the same numbers as one pass each, to the last bit, and takes less time.

        A pass of a few samples through a small model takes as long as its operations take to start.
        """
        module = self.model.module
        plain = self.target.decisions(module) is module and device_of(module).type == "cpu"
        if not plain or count < 2 or count * len(self.x) > self.budget.rows:
            return False
        try:
            together = self.mapped(copies, weights)
            start = time.perf_counter()
            self.mapped(copies, weights)
            middle = time.perf_counter()
            alone = self.one_by_one(copies, weights, count)
        except Exception:  # what cannot be mapped fails in many ways, and all of them can be read one by one
            return False
        same = all(torch.equal(one, other) for one, other in zip(together, alone, strict=True))
        return same and middle - start < time.perf_counter() - middle

    def noise(self, space: InputSpace, draw: int) -> Tensor:
        """One element per sample."""
        draws = Draws.of(self.seed, self.samples, draw).to(self.x.values.device)
        return space.at(space.decode(draws.normal(space.latents, stream="calibration")), torch.zeros_like(draws.sample))


def evenly(chosen: Tensor) -> Tensor:
    """The numbers of `PIXELS` evenly spaced entries (PIXELS,) among the chosen ones of (D,); some twice if there are fewer.

    >>> evenly(torch.tensor([False, True, True]))
    tensor([1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2])
    """
    places = chosen.nonzero()[:, 0]
    return places[torch.linspace(0, len(places) - 1, PIXELS, dtype=torch.float64).long().to(places.device)]


def undecided(means: list[float], target: float, enough: float) -> bool:
    """Whether the mean of independent draws is neither precise enough nor clearly on one side of the target."""
    values = torch.tensor(means, dtype=torch.float64)
    error = float(values.std() / len(means) ** 0.5)
    return error > enough and abs(float(values.mean()) - target) < 4 * error


@dataclass
class Lessons:
    """Facts for readers about what explainers learnt, and why some (model, explainer) could not learn."""

    facts: list[dict[str, Any]] = field(default_factory=list)
    failures: dict[tuple[str, str], str] = field(default_factory=dict)

    def warnings(self) -> list[str]:
        """The warnings among the facts, each once per model."""
        found: dict[tuple[str, str], str] = {}
        for fact in self.facts:
            if fact.get("warning"):
                text = f"{fact['model']} / {fact['explainer']}: {fact['warning']}"
                found.setdefault((fact["model"], fact["warning"]), text)
        return list(found.values())


def learn_all(problem: Problem, budgets: Mapping[str, Budget], folder: RunFolder, progress: bool = True) -> Lessons:
    """Let every explainer learn about every model; failures are recorded, and the others go on."""
    places = [(name, label) for name in problem.models for label in problem.explainers if problem.learnt_key(name, label)]
    found = Lessons()
    with bar("learning", len(places), progress, after=LATE) as advance:
        for name, label in places:
            advance(0, f"learning {name} / {label}")
            try:
                found.facts += learn(problem, name, label, budgets[name], folder)
            except StoreError:
                raise
            except Exception as error:
                found.failures[name, label] = error_text(error)
            advance(1)
    return found


def pending_lessons(problem: Problem, folder: RunFolder | None) -> list[tuple[str, str]]:
    """The (model, explainer) that must learn first; explainers that learn the same count once, and controls learn nothing."""
    keys = {
        problem.learnt_key(name, label): (name, label)
        for name in problem.models
        for label, explainer in problem.explainers.items()
        if learner(explainer) and not explainer.control
    }
    return [place for key, place in keys.items() if folder is None or folder.read_tensors(LEARNT, key) is None]


def learn(problem: Problem, name: str, label: str, budget: Budget, folder: RunFolder) -> list[dict[str, Any]]:
    """Let one explainer learn about one model; returns the facts without NaN, which JSON cannot write."""
    explainer, key = learner(problem.explainers[label]), problem.learnt_key(name, label)
    if explainer is None:
        return []

    def context() -> Context:
        training = problem.training_of(name, problem.explainers[label])
        return problem.lesson_context(name, explainer, budget.rows, training=training)

    about = context()
    learnt: Mapping[str, Tensor] | None = folder.read_tensors(LEARNT, key)
    if learnt is None:
        module, first = problem.models[name].module, problem.inputs.take(torch.arange(1))
        with (
            evaluating(module),
            seeded(problem.seed, gpus_in_use()),
            Guard(label, explainer, module, first.to(device_of(module))).watching(),
        ):
            learnt = budget.attempt(lambda: explainer.lesson.learn(problem.view(name), context()))
        folder.write_tensors(LEARNT, key, dict(learnt))
    if explainer.shown is not None:
        found = {"model": problem.label(name), "explainer": label, "tensor": explainer.shown, "base": key, "lesson": key, "strength": 0.0}
        folder.write_table(VISUALISED, fingerprint.of_json([name, label]), found)
    return [
        {"model": name, "explainer": label}
        | {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in fact.items()}
        for fact in explainer.facts(learnt, about)
    ]


def recall(folder: RunFolder, key: str, device: torch.device) -> dict[str, Tensor]:
    """What was learnt, on the model's device."""
    found = folder.read_tensors(LEARNT, key) if key else None
    return {name: value.to(device) for name, value in (found or {}).items()}


def skip_impossible(jobs: Sequence[Job], strengths: Strengths, lessons: Lessons, folder: RunFolder) -> list[Job]:
    """The jobs without the cells whose explainer could not learn or whose space has no strength; those are recorded as failed."""
    failed: dict[str, str] = {}
    for job in jobs:
        for cell in job.cells:
            reason = lessons.failures.get((job.model, job.explainer)) or strengths.failure(job.model, cell.request.space)
            if reason is not None:
                failed[cell.key] = reason
                if not folder.has(cell.key):
                    folder.write_failure(cell.key, reason)
    return unfinished(jobs, set(failed))


@dataclass(frozen=True)
class Preliminaries:
    """What must be done before the first cell: the model of every calibration, (model, explainer) of lessons, folds to train."""

    calibrations: Sequence[str] = ()
    lessons: Sequence[tuple[str, str]] = ()
    folds: int = 0

    def cost(self, problem: Problem, name: str) -> Cost:
        """The least passes of one model: of every strength that is tried, and of each training example; without the training of folds."""
        passes = min(SAMPLES, problem.inputs.size()) * (1 + EVALUATIONS * DRAWS) * sum(model == name for model in self.calibrations)
        for model, label in self.lessons:
            if model == name and (training := problem.training_of(name, problem.explainers[label])) is not None:
                passes += training.inputs.size()
        lessons = (problem.lesson_cost(name, problem.explainers[label]) for model, label in self.lessons if model == name)
        return sum(lessons, Cost(forward=passes))
