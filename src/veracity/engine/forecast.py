"""What a run would cost, before it starts."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from veracity.core.errors import InputError
from veracity.core.explainers import Cost
from veracity.core.inputs import Signals
from veracity.core.models import device_of, evaluating, out_of_memory
from veracity.core.wording import count
from veracity.engine.memory import Budget, row_bytes
from veracity.engine.plan import Job, unfinished
from veracity.engine.preliminaries import Preliminaries
from veracity.engine.problem import Problem


@dataclass(frozen=True)
class Forecast:
    """Model passes in rows, the seconds they take at the measured speed, and the memory of one batch.

    Foreign explainers count by the seconds that they took in their trial.

    They include the least passes of what must be done first: `calibrations`, the strengths to be found, and `lessons`, what explainers
    must learn about a model. They do not include the training of `folds` models, whose cost is unknown.
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

    def __str__(self) -> str:
        """One sentence.

        >>> print(Forecast(cells=8, finished=2, forward=1200, backward=10, seconds=61.0, memory=2**20))
        8 cells, 2 of them finished; 1,200 forward and 10 backward passes to go; about 1 min 1 s, 1 MiB for the largest batches.
        """
        return f"{'; '.join(self.lines())}."

    def lines(self) -> list[str]:
        """What there is to do, what comes first, the passes, and the time and memory that they take."""
        minutes, seconds = divmod(round(self.seconds), 60)
        first = [
            *([f"calibration of {count(self.calibrations, 'path')}"] if self.calibrations else []),
            *([f"learning by {count(self.lessons, 'explainer')}"] if self.lessons else []),
            *([f"training of {count(self.folds, 'fold')}, which is not counted"] if self.folds else []),
        ]
        least = "at least " if first else ""
        return [
            f"{self.cells} cells, {self.finished} of them finished",
            *([f"before the first cell: {'; '.join(first)}"] if first else []),
            f"{least}{self.forward:,} forward and {self.backward:,} backward passes to go",
            f"about {minutes} min {seconds} s, {self.memory / 2**20:,.0f} MiB for the largest batches",
        ]


def forecast(
    problem: Problem, jobs: Sequence[Job], finished: set[str], budgets: dict[str, Budget], workers: int, ahead: Preliminaries
) -> Forecast:
    """Count what is left to do and time one batch of each model."""
    left, total, seconds, memory = unfinished(jobs, finished), Cost(), 0.0, 0
    for name, model in problem.models.items():
        budget = budgets[name]
        forward, backward = budget.attempt(partial(speed, problem, name, budget))
        first = ahead.cost(problem, name)
        total += first
        seconds += first.forward * forward
        for job in (job for job in left if job.model == name):
            total += job.cost
            seconds += job_seconds(problem, job, forward, backward) / workers
        memory = max(memory, workers * budget.rows * row_bytes(model.module, some_inputs(problem, name, 1)))
    cells = [cell for job in jobs for cell in job.cells]
    done = sum(cell.key in finished for cell in cells)
    before = len(ahead.calibrations), len(ahead.lessons), ahead.folds
    return Forecast(len(cells), done, total.forward, total.backward, seconds, memory, *before)


def job_seconds(problem: Problem, job: Job, forward: float, backward: float) -> float:
    """Seconds of a job from those of a forward and a backward pass; explanations of foreign code take what they took in its trial."""
    cost, explainer = job.cost, problem.explainers.get(job.explainer)
    each = explainer.cost(problem.inputs.shape) if explainer is not None else Cost()
    maps = cost.seconds / each.seconds if each.seconds else 0.0
    return cost.seconds + (cost.forward - maps * each.forward) * forward + (cost.backward - maps * each.backward) * backward


def some_inputs(problem: Problem, name: str, rows: int) -> Signals:
    """This many inputs on a model's device; repeated if there are fewer."""
    return problem.inputs.take(torch.arange(rows) % problem.inputs.size()).to(device_of(problem.models[name].module))


def speed(problem: Problem, name: str, budget: Budget) -> tuple[float, float]:
    """Seconds per row of a model for a forward pass and for the backward pass to the input, on a warm batch."""
    model, x = problem.models[name].module, some_inputs(problem, name, min(budget.rows, 64))

    def differentiate() -> None:
        with torch.enable_grad():
            values = x.values.detach().requires_grad_()
            torch.autograd.grad(Signals(values, x.structure).through(model).sum(), values)

    with evaluating(model):
        forward = best_time(lambda: x.through(model))
        try:
            both = best_time(differentiate)
        except InputError:  # a model without gradients, whose explainers only need outputs
            both = forward
        except RuntimeError as error:
            if out_of_memory(error):
                raise
            both = forward
    return forward / len(x), max(both - forward, 0.0) / len(x)


@torch.no_grad()
def best_time(work: Callable[[], object]) -> float:
    """The shortest of three calls, in seconds, with the GPU's queue drained."""
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return best
