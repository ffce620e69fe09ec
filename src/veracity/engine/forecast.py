"""What a run would cost, before it starts."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil

import torch

from veracity.core import fingerprint
from veracity.core.errors import InputError
from veracity.core.explainers import Cost
from veracity.core.inputs import Signals, is_streamed
from veracity.core.models import device_of, evaluating, out_of_memory
from veracity.core.wording import count, duration
from veracity.engine.later import Later
from veracity.engine.loop import JobRunner, forget_jobs
from veracity.engine.memory import Budget, row_bytes
from veracity.engine.plan import Job, plan, unfinished
from veracity.engine.preliminaries import CALIBRATIONS, LEARNT, Preliminaries, calibrate_all, learn_all
from veracity.engine.problem import Problem
from veracity.engine.reader import EXPLANATIONS, KEPT
from veracity.engine.store import RunFolder

ENOUGH, PATIENCE = 1.5, 60.0
"""Seconds after which a model's cells were timed for long enough; and the most that calibration and learning may take to be timed."""
HELD = 6
"""How many tensors of the size of a block of inputs a job holds: inputs, explanations before and after, and what is compared."""
LINE = 500
"""The bytes of one cell in the manifest."""


@dataclass(frozen=True)
class Forecast:
    """Model passes in rows, and the seconds, the memory and the disk of a run.

    Seconds and disk are measured: the first cells of every model are run on some samples in a temporary folder. So are calibration and
    learning, unless they would take more than a minute: then the least number of their passes is counted.

    Passes include the least ones of what must be done first: `calibrations`, the strengths to be found, and `lessons`, what explainers
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
    disk: int = 0
    device: str = "cpu"

    def __str__(self) -> str:
        """One sentence.

        >>> print(Forecast(cells=8, finished=2, forward=1200, backward=10, seconds=61.0, memory=2**20))
        8 cells, 2 of them finished; 1,200 forward and 10 backward passes to go; about 1 min 1 s on cpu, 1 MiB of memory, 0 MiB on disk.
        """
        return f"{'; '.join(self.lines())}."

    def lines(self) -> list[str]:
        """What there is to do, what comes first, the passes, and the time, memory and disk that they take."""
        first = [
            *([f"calibration of {count(self.calibrations, 'path')}"] if self.calibrations else []),
            *([f"learning by {count(self.lessons, 'explainer')}"] if self.lessons else []),
            *([f"training of {count(self.folds, 'fold')}, which is not counted"] if self.folds else []),
        ]
        least, size = "at least " if first else "", f"{self.memory / 2**20:,.0f} MiB of memory, {self.disk / 2**20:,.0f} MiB on disk"
        return [
            f"{self.cells} cells, {self.finished} of them finished",
            *([f"before the first cell: {'; '.join(first)}"] if first else []),
            f"{least}{self.forward:,} forward and {self.backward:,} backward passes to go",
            f"about {duration(self.seconds)} on {self.device}, {size}",
        ]


@dataclass(frozen=True)
class Outlook:
    """A problem and its jobs, what is done before them, and the folder of the run, if it has one.

    The problem may be about the first of the `samples`. `spent` are the seconds of its preparation, and `reading` those to read one sample
    of a dataset.
    """

    problem: Problem
    jobs: Sequence[Job]
    budgets: dict[str, Budget]
    ahead: Preliminaries
    store: RunFolder | None
    samples: int
    spent: float
    reading: float = 0.0

    @property
    def block(self) -> int:
        """Samples per block of the whole run."""
        return self.problem.block or 1

    @property
    def share(self) -> float:
        """How many times as many samples there are as the problem is about."""
        return self.samples / self.problem.inputs.size()


def forecast(outlook: Outlook, finished: set[str], workers: int) -> Forecast:
    """Count what is left to do, and time some of it."""
    problem, jobs, ahead, budgets = outlook.problem, outlook.jobs, outlook.ahead, outlook.budgets
    left, total, memory = unfinished(jobs, finished), Cost(), 0
    speeds = {name: budget.attempt(partial(speed, problem, name, budget)) for name, budget in budgets.items()}
    first = {name: ahead.cost(problem, name) for name in problem.models}
    for name, model in problem.models.items():
        total += sum((job.cost for job in left if job.model == name), Cost())
        row = some_inputs(problem, name, 1)
        memory = max(memory, budgets[name].rows * row_bytes(model.module, row) + HELD * outlook.block * row.nbytes)
    cells = [cell for job in jobs for cell in job.cells]
    done = sum(cell.key in finished for cell in cells)
    planned = round(len(cells) * max(1.0, ceil(outlook.samples / outlook.block) / ceil(problem.inputs.size() / outlook.block)))
    learning = sum(first[name].forward * forward for name, (forward, _) in speeds.items())
    seconds, disk = Trial(outlook, left, learning < PATIENCE).seconds(workers) if left else (0.0, 0)
    rest = outlook.samples - problem.inputs.size()
    swept = rest * (2 * outlook.reading + sum(forward for forward, _ in speeds.values()))
    on_cpu = all(device_of(one.module).type == "cpu" for one in problem.models.values())
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10 if on_cpu else 0
    held = getattr(problem.inputs, "held", 0) if is_streamed(problem.inputs) else 0
    return Forecast(
        cells=planned,
        finished=done,
        forward=round(total.forward * outlook.share) + sum(one.forward for one in first.values()),
        backward=round(total.backward * outlook.share) + sum(one.backward for one in first.values()),
        seconds=outlook.spent + swept + seconds + (0.0 if learning < PATIENCE else learning) if left else outlook.spent,
        memory=workers * (memory + resident) + held,
        calibrations=len(ahead.calibrations),
        lessons=len(ahead.lessons),
        folds=ahead.folds,
        disk=disk + LINE * (planned - done),
        device=" and ".join(dict.fromkeys(str(device_of(model.module)) for model in problem.models.values())),
    )


class Trial:
    """Some cells of every model, run in a temporary folder and timed."""

    def __init__(self, outlook: Outlook, left: Sequence[Job], learning: bool) -> None:
        self.outlook, self.left, self.learning = outlook, left, learning

    def seconds(self, workers: int) -> tuple[float, int]:
        """The seconds of calibration, learning and all cells, and the bytes that they write."""
        outlook = self.outlook
        with tempfile.TemporaryDirectory(prefix="veracity-") as place:
            folder, began = RunFolder(f"{place}/run"), time.perf_counter()
            with folder.writing():
                copy_records(outlook.store, folder)
                problem = self.taught(folder) if self.learning else outlook.problem
                ahead = time.perf_counter() - began
                runner = JobRunner(problem, folder.root, outlook.budgets)
                try:
                    found = [self.model_seconds(problem, name, runner, folder) for name in problem.models]
                finally:
                    forget_jobs()
        working, size = sum(one for one, _ in found), sum(other for _, other in found)
        start = starting_time() if workers > 1 else 0.0
        return ahead + start + working / workers, size

    def taught(self, folder: RunFolder) -> Problem:
        """The problem with calibrated strengths, after explainers have learnt."""
        outlook = self.outlook
        strengths = calibrate_all(outlook.problem, outlook.budgets, folder, progress=False)
        problem = replace(outlook.problem, calibrations=strengths.sigmas) if strengths.sigmas else outlook.problem
        learn_all(problem, outlook.budgets, folder, progress=False)
        return problem

    def model_seconds(self, problem: Problem, name: str, runner: JobRunner, folder: RunFolder) -> tuple[float, int]:
        """The seconds and bytes of all cells of one model that are left, from those of its first block on more and more samples."""
        mine = [job for job in self.left if job.model == name]
        if not mine:
            return 0.0, 0
        outlook, begin = self.outlook, min(job.samples[0] for job in mine)
        again = plan(problem, outlook.budgets, most=begin + 1) if problem is not outlook.problem else ()
        first = [job for job in mine if job.samples[0] == begin]
        if again:  # with calibrated strengths, cells have other keys and walks
            cells = {job.explainer: job.cells for job in again if job.model == name}
            asked = {job.explainer: {cell.name for cell in job.cells} for job in first}
            chosen = {label: tuple(cell for cell in cells.get(label, ()) if cell.name in names) for label, names in asked.items()}
            first = [replace(job, cells=chosen[job.explainer]) for job in first]
        length = min(len(job.samples) for job in first)
        block, samples = min(outlook.block, outlook.samples), len({number for job in mine for number in job.samples}) * outlook.share
        size, times, written = min(2, length), list[tuple[int, float]](), list[dict[str, int]]()
        while True:
            before = folder_bytes(folder)
            times.append((size, run_cut(first, size, runner)))
            written.append({kind: after - before[kind] for kind, after in folder_bytes(folder).items()})
            slow = len(times) > 1 and times[0][1] > ENOUGH
            if size == length or slow or (len(times) > 2 and times[-1][1] > ENOUGH):
                break
            size = min(2 * size, length)
        steps = times[1:] if len(times) > 2 else times  # the first one also does what is done once
        once, blocks = max(0.0, times[0][1] - steps[0][1]), samples / block
        disk = {
            kind: blocks * extrapolated([(number, float(one[kind])) for (number, _), one in zip(times, written, strict=True)], block)
            for kind in written[-1]
        }
        maps = min(disk.pop(EXPLANATIONS), float(KEPT * len(first)))
        return once + extrapolated(steps, block) * blocks + samples * outlook.reading, round(sum(disk.values()) + maps)


def extrapolated(times: Sequence[tuple[int, float]], size: int) -> float:
    """The seconds or bytes of a block of some size, from those of smaller ones: the last, and as much more as the last step tells.

    >>> extrapolated([(4, 1.0), (8, 1.5)], 16)
    2.5
    """
    last, seconds = times[-1]
    if size <= last or len(times) == 1:
        return seconds * size / last
    before, less = times[-2]
    return seconds + max(0.0, (seconds - less) / (last - before)) * (size - last)


def run_cut(jobs: Sequence[Job], samples: int, runner: JobRunner) -> float:
    """The seconds of jobs on their first samples, under keys of their own."""
    tag = [samples, time.perf_counter_ns()]
    cut = [
        replace(
            job,
            samples=job.samples[:samples],
            base_key=fingerprint.of_json([job.base_key, tag]),
            data=fingerprint.of_json([job.data, tag]),
            cells=tuple(replace(cell, key=fingerprint.of_json([cell.key, tag])) for cell in job.cells),
        )
        for job in jobs
    ]
    start = time.perf_counter()
    with Later() as later:
        for job in cut:
            runner.run(job, lambda _passes: None, later)
    return time.perf_counter() - start


def copy_records(store: RunFolder | None, folder: RunFolder) -> None:
    """Copy what was calibrated and learnt before."""
    if store is None:
        return
    for key in store.records.keys(CALIBRATIONS):
        if (record := store.read_table(CALIBRATIONS, key)) is not None:
            folder.write_table(CALIBRATIONS, key, record)
    for key in store.records.keys(LEARNT):
        if (lesson := store.recovered(LEARNT, key)) is not None:
            folder.write_tensors(LEARNT, key, lesson)


def folder_bytes(folder: RunFolder) -> dict[str, int]:
    """The bytes of a folder's records by kind."""
    files = folder.files
    return {
        kind: sum(files.stamp(f"{kind}/{name}")[1] for name in files.names(kind)) for kind in ("cells", EXPLANATIONS, "worst", "failed")
    }


def starting_time() -> float:
    """The seconds until a worker process can work."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import veracity.engine.loop"], check=False, capture_output=True)
    return time.perf_counter() - start


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
