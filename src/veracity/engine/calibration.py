"""How strong a perturbation must be before a model answers by chance: found once per model and data set, stored with the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from veracity.core import fingerprint
from veracity.core.errors import InputError
from veracity.core.explainers import Cost
from veracity.core.inputs import Signals
from veracity.core.models import device_of, evaluating
from veracity.core.randomness import Draws
from veracity.core.spaces import InputSpace, Space, WeightSpace, open_end
from veracity.engine.memory import Budget
from veracity.engine.plan import ALGORITHMS
from veracity.engine.problem import Problem
from veracity.engine.progress import LATE, bar
from veracity.engine.store import SCHEMA, RunFolder
from veracity.perturb.path import calibrate, strength_range, tolerance
from veracity.perturb.weights.copies import ScratchModel, generator
from veracity.perturb.weights.copies import key as stream

DRAWS = 40
MOST = 640
SAMPLES = 256
EVALUATIONS = 8
"""How many strengths are tried at least: two that enclose the right one, five in between, and one beyond."""
EXPECTED = 12
"""How many are tried as a rule, for the time left."""
KIND = "calibrations"


def open_strengths(problem: Problem) -> dict[tuple[str, str], Space]:
    """The spaces whose strength is still to be found, by (model, what they are)."""
    found: dict[tuple[str, str], Space] = {}
    for name, model in problem.models.items():
        for explainer in (None, *problem.explainers.values()):
            subject = problem.subject(name, explainer)
            for score in problem.scores.values():
                for request in score.for_subject(subject).requests(subject, problem.defaults):
                    space = request.space.of(model.module) if isinstance(request.space, WeightSpace) else request.space
                    end = open_end(space, 1.0)
                    if end is not None:
                        found[name, fingerprint.of_json(end.spec())] = space
    return found


@dataclass
class Strengths:
    """By (model, what is perturbed): the strength that was found, or why there is none; and what a reader must know."""

    sigmas: dict[tuple[str, str], float] = field(default_factory=dict)
    failures: dict[tuple[str, str], str] = field(default_factory=dict)
    records: list[dict[str, Any]] = field(default_factory=list)

    def failure(self, model: str, space: Space) -> str | None:
        """Why a space cannot be walked for a model."""
        end = open_end(space, 1.0)
        return None if end is None else self.failures.get((model, fingerprint.of_json(end.spec())))


def calibrate_all(problem: Problem, budgets: Mapping[str, Budget], folder: RunFolder, progress: bool = True) -> Strengths:
    """The strength of every such space for every model, or why it has none."""
    spaces = open_strengths(problem)
    found = Strengths()
    with bar("calibrating", len(spaces) * EXPECTED, progress, after=LATE) as advance:
        for (name, what), space in spaces.items():
            steps = iter(range(EXPECTED - 1))

            def heard(name: str = name, steps: Iterator[int] = steps) -> None:
                advance(0 if next(steps, None) is None else 1, f"calibrating {name}")

            advance(0, f"calibrating {name}")
            try:
                record = calibration(problem, name, what, space, budgets[name], folder, heard)
                found.sigmas[name, what] = record["sigma"]
                found.records.append({"model": name, "space": space.name, **record})
            except InputError as error:
                found.failures[name, what] = str(error)
            advance(1 + sum(1 for _ in steps), f"calibrating {name}")
    return found


def key_of(problem: Problem, name: str, what: str) -> str:
    """The key of one space and one model: everything that the strength depends on."""
    model = problem.models[name]
    about = [SCHEMA, ALGORITHMS, model.fingerprint, model.outputs.value, problem.inputs.fingerprint()]
    return fingerprint.of_json([*about, what, problem.seed, DRAWS, MOST, SAMPLES])


def known_strengths(problem: Problem, folder: RunFolder | None) -> tuple[dict[tuple[str, str], float], list[str]]:
    """The strengths that the folder holds, by (model, what is perturbed), and the model of each that it does not; nothing is computed."""
    sigmas, missing = dict[tuple[str, str], float](), list[str]()
    for name, what in open_strengths(problem):
        record = None if folder is None else folder.read_table(KIND, key_of(problem, name, what))
        if record is None:
            missing.append(name)
        else:
            sigmas[name, what] = record["sigma"]
    return sigmas, missing


def least_cost(problem: Problem) -> Cost:
    """The passes that the search for one strength needs at least."""
    return Cost(forward=min(SAMPLES, problem.inputs.size()) * (1 + EVALUATIONS * DRAWS))


def calibration(
    problem: Problem, name: str, what: str, space: Space, budget: Budget, folder: RunFolder, heard: Callable[[], None]
) -> dict[str, Any]:
    """One space and one model, from the folder where it is there; `heard` is called after each strength that was tried."""
    model, key = problem.models[name], key_of(problem, name, what)
    kept = folder.read_table(KIND, key)
    if kept is not None:
        return kept
    with evaluating(model.module), torch.no_grad():
        trial = Agreement(problem, name, budget)
        try:
            agreement = trial.agreement_along(space, heard)
            found = asdict(calibrate(agreement, trial.classes))
            beyond = 2.0 * max(sigma for sigma, _ in found["curve"] if sigma <= 2.0 * found["sigma"])
            if beyond not in trial.kept:  # what the agreement levels off at, for the range of the strength
                found["curve"] = sorted([*found["curve"], (beyond, agreement(beyond))])
        except InputError as error:
            raise InputError(f"On model '{name}': {error}") from error
    low, high = strength_range(trial.kept, trial.classes, generator("strength", problem.seed))
    found |= {
        "draws": len(trial.kept[found["sigma"]]),
        "low": min(low, found["sigma"]),
        "high": max(high, found["sigma"]),
        "independent": trial.independent(found["sigma"]),
        "classes": trial.classes,
    }
    return folder.write_table(KIND, key, found)


class Agreement:
    """How often a perturbed model agrees with the unperturbed one."""

    def __init__(self, problem: Problem, name: str, budget: Budget) -> None:
        self.model, self.seed, self.budget = problem.models[name], problem.seed, budget
        self.samples = torch.arange(min(SAMPLES, problem.inputs.size()))
        self.x = problem.inputs.take(self.samples).to(device_of(self.model.module))
        probabilities = self.probabilities(self.model.module, self.x)
        self.classes = probabilities.shape[1]
        self.predicted = probabilities.argmax(1)
        self.kept: dict[float, Tensor] = {}
        self.classes_then: dict[float, Tensor] = {}

    def probabilities(self, module: torch.nn.Module, x: Signals) -> Tensor:
        """What a module gives for rows, within the budget."""
        parts: list[Tensor] = []
        self.budget.spend(len(x), 1, lambda part: parts.append(self.model.outputs.read(x[part].through(module))))
        return torch.cat(parts)

    def agreement_along(self, space: Space, heard: Callable[[], None]) -> Callable[[float], float]:
        """Mean agreement as a function of the strength, over the same draws at every strength.

        At least 40 draws, and up to 640 as long as it is not clear on which side of chance the mean lies, by four standard
        errors, nor known to half the tolerance: with few classes a copy of the model agrees on nearly all samples or on
        hardly any.
        """
        copies = ScratchModel(self.model.module, stream("calibration", self.seed)) if isinstance(space, WeightSpace) else None
        around = tolerance(self.classes)

        def agreement(sigma: float) -> float:
            end, answers = open_end(space, sigma), list[Tensor]()
            shares = list[float]()
            while len(shares) < DRAWS or (len(shares) < MOST and undecided(shares, 1.0 / self.classes + around, around / 2)):
                draws = range(len(shares), max(DRAWS, 2 * len(shares)))
                if copies is not None and isinstance(end, WeightSpace):
                    answers += self.under_copies(copies, end, draws)
                elif isinstance(end, InputSpace):
                    answers += [self.answer(self.model.module, end.move(self.noise(end, draw), self.x)) for draw in draws]
                else:
                    raise InputError(f"The space '{space.name}' has no strength to find.")
                shares = [float((answer == self.predicted).double().mean()) for answer in answers]
            every = torch.stack(answers)
            self.kept[sigma] = (every == self.predicted).cpu()
            self.classes_then[sigma] = torch.bincount(every.flatten(), minlength=self.classes).double().cpu() / every.numel()
            heard()
            return sum(shares) / len(shares)

        return agreement

    def independent(self, sigma: float) -> float:
        """How often predictions would be kept if those of the copies had nothing to do with the model's: sum over c of p_c q_c."""
        own = torch.bincount(self.predicted, minlength=self.classes).double().cpu() / len(self.predicted)
        return float(own @ self.classes_then[sigma])

    def under_copies(self, copies: ScratchModel, space: WeightSpace, draws: range) -> list[Tensor]:
        """What every copy predicts."""
        found, some = list[Tensor](), copies.at_once(self.x.values)
        for first in range(0, len(draws), some):
            pairs = [(draw, 0) for draw in draws[first : first + some]]
            weights = copies.weights(space, pairs)
            found += [self.answer(copies.become(weights, number), self.x) for number in range(len(pairs))]
        return found

    def noise(self, space: InputSpace, draw: int) -> Tensor:
        """One draw for every sample."""
        element = space.decode(Draws.of(self.seed, self.samples, draw).normal(space.latents, stream="calibration"))
        return space.at(element, torch.zeros_like(self.samples)).to(self.x.values.device)

    def answer(self, module: torch.nn.Module, x: Signals) -> Tensor:
        """The predicted classes (samples,)."""
        return self.probabilities(module, x).argmax(1)


def undecided(shares: list[float], target: float, enough: float) -> bool:
    """Whether the mean of independent draws is neither known well enough nor clearly on one side of the target."""
    values = torch.tensor(shares, dtype=torch.float64)
    error = float(values.std() / len(shares) ** 0.5)
    return error > enough and abs(float(values.mean()) - target) < 4 * error
