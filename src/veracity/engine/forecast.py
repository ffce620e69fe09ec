"""What a run would cost, before it starts."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from veracity.core.explainers import Cost
from veracity.core.inputs import Signals
from veracity.core.models import device_of, evaluating, out_of_memory
from veracity.engine import calibration, learning
from veracity.engine.memory import Budget, row_bytes
from veracity.engine.plan import Job
from veracity.engine.problem import Problem


@dataclass(frozen=True)
class Preliminaries:
    """What must be done before the first cell: the model of every calibration, who must learn about which model, folds to train."""

    calibrations: Sequence[str] = ()
    lessons: Sequence[tuple[str, str]] = ()
    folds: int = 0

    def cost(self, problem: Problem, name: str) -> Cost:
        """Passes of one model, at least; the training of folds is not among them."""
        paths = calibration.least_cost(problem) * sum(model == name for model in self.calibrations)
        return sum((learning.least_cost(problem, *place) for place in self.lessons if place[0] == name), paths)


@dataclass(frozen=True)
class Forecast:
    """Model passes in rows, the seconds they take at the measured speed, and the memory of one batch.

    Among them are the least passes of what must be done first: of `calibrations`, the strengths that are to be found, and of
    `lessons`, what explainers must learn about a model. What it takes to train `folds` models nobody knows, and it is not counted.
    """

    cells: int
    finished: int
    forward: int
    backward: int
    seconds: float
    memory: int
    calibrations: int = 0
    lessons: int = 0
    folds: int = 0


def forecast(
    problem: Problem, jobs: Sequence[Job], finished: set[str], budgets: dict[str, Budget], workers: int, ahead: Preliminaries
) -> Forecast:
    """Count what is left to do and time one batch of each model."""
    left = [job for job in (job.without(finished) for job in jobs) if job.cells]
    total, seconds, memory = Cost(), 0.0, 0
    for name, model in problem.models.items():
        forward, backward = budgets[name].attempt(partial(speed_of, problem, name, budgets[name]))
        cost = sum((job.cost for job in left if job.model == name), Cost())
        first = ahead.cost(problem, name)
        total += cost + first
        seconds += (cost.forward * forward + cost.backward * backward) / workers + first.forward * forward
        memory = max(memory, workers * budgets[name].rows * row_bytes(model.module, some(problem, name, 1)))
    cells = [cell for job in jobs for cell in job.cells]
    done = sum(cell.key in finished for cell in cells)
    before = len(ahead.calibrations), len(ahead.lessons), ahead.folds
    return Forecast(len(cells), done, total.forward, total.backward, seconds, memory, *before)


def some(problem: Problem, name: str, rows: int) -> Signals:
    """This many inputs on a model's device, in turn where there are fewer."""
    return problem.inputs.take(torch.arange(rows) % problem.inputs.size()).to(device_of(problem.models[name].module))


def speed_of(problem: Problem, name: str, budget: Budget) -> tuple[float, float]:
    """The speed of one model on a batch that fits."""
    return speed(problem.models[name].module, some(problem, name, min(budget.rows, 64)))


def speed(model: nn.Module, x: Signals) -> tuple[float, float]:
    """Seconds a row for a forward pass and for the backward pass to the input, from a warm batch."""
    with evaluating(model):
        forward = timed(lambda: x.through(model))
        try:
            both = timed(lambda: differentiate(model, x))
        except RuntimeError as error:
            if out_of_memory(error):
                raise
            both = forward
    return forward / len(x), max(both - forward, 0.0) / len(x)


def differentiate(model: nn.Module, x: Signals) -> Tensor:
    """The gradient of the summed outputs with respect to the input."""
    with torch.enable_grad():
        values = x.values.detach().requires_grad_()
        return torch.autograd.grad(Signals(values, x.structure).through(model).sum(), values)[0]


def timed(work: Callable[[], Tensor]) -> float:
    """The best of three calls, in seconds, with a GPU's queue drained."""
    best = float("inf")
    with torch.no_grad():
        for _ in range(3):
            start = time.perf_counter()
            work()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            best = min(best, time.perf_counter() - start)
    return best
