"""Runs one job: perturb its block of samples, read what changed, let every score observe it, store what was measured.

When a block raises an error, the samples that raise it by themselves are found, and the others are measured without them. Halves
are tried, then their halves, so that one bad sample of 64 costs about as much as the block itself. Random numbers belong to
samples, so the others have the numbers that they would have had.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from veracity.core.errors import ChangedModelError, SpecError, StoreError, VeracityError, error_text
from veracity.core.inputs import is_streamed
from veracity.core.models import device_of, evaluating, in_precision, out_of_memory
from veracity.core.randomness import gpus_in_use, seeded
from veracity.core.scores import Reads
from veracity.core.spaces import GuidedSpace, InputSpace, SampleSpace, Space, TargetSpace, TrainingSpace, WeightSpace
from veracity.core.walks import Search
from veracity.engine.later import Later
from veracity.engine.memory import ACTIVATIONS, EXPLAINED, Budget, Readings
from veracity.engine.perturbation.base import Lines, Measurements, Perturbation, join
from veracity.engine.perturbation.folds import FoldPerturbation
from veracity.engine.perturbation.inputs import (
    CompensatedPerturbation,
    GuidedPerturbation,
    InputPerturbation,
    SamplePerturbation,
    TargetPerturbation,
)
from veracity.engine.perturbation.refits import COPIES, RefitPerturbation
from veracity.engine.perturbation.row_weights import RowWeightPerturbation
from veracity.engine.perturbation.search import SearchRun
from veracity.engine.perturbation.weights import WeightPerturbation
from veracity.engine.plan import Cell, Job, fusion
from veracity.engine.preliminaries import recall
from veracity.engine.problem import Problem
from veracity.engine.reader import EXPLANATIONS, FAILED, Block, explanation_key
from veracity.engine.store import Place, RunFolder
from veracity.engine.trial import Guard
from veracity.perturb.compensated import CompensatedShift
from veracity.perturb.refits import Refits
from veracity.perturb.weights import RowWeightSpace
from veracity.perturb.weights.copies import forget_copies

KINDS: tuple[tuple[type[Space], type[Perturbation[Any]]], ...] = (
    (GuidedSpace, GuidedPerturbation),
    (CompensatedShift, CompensatedPerturbation),
    (InputSpace, InputPerturbation),
    (SampleSpace, SamplePerturbation),
    (TargetSpace, TargetPerturbation),
    (RowWeightSpace, RowWeightPerturbation),
    (WeightSpace, WeightPerturbation),
    (TrainingSpace, FoldPerturbation),
    (Refits, RefitPerturbation),
)
"""How the elements of each kind of space reach a block of samples; the first kind that fits counts."""


@dataclass(frozen=True)
class JobRunner:
    """What a worker needs to run jobs: the problem, the folder for the results, the row budget of each model, and the bytes of a GPU that
    a worker may take (None for any number)."""

    problem: Problem
    folder: str
    budgets: dict[str, Budget]
    memory: int | None = None

    def run(self, job: Job, advance: Callable[[int], None], later: Later | None = None) -> None:
        """Measure the job's cells and store each as it is finished; `advance` is told how many model passes were made.

        Files are written when `later` comes to it, or before the end of the job if there is none.

        An error that a model, an explainer or a score raises on one sample becomes the record of that sample; one on all samples,
        the record of the cells that share their perturbations. Code that draws from the global random states finds the same states
        in every job.
        """
        if later is None:
            with Later() as own:
                self.run(job, advance, own)
            return
        folder, problem, model = RunFolder(self.folder), self.problem, self.problem.models[job.model]
        try:
            with in_precision(problem.precision), evaluating(model.module), seeded(problem.seed, gpus_in_use()):
                learnt = recall(folder, job.learnt, device_of(model.module))
                first = problem.inputs.take(torch.tensor([job.samples[0]])).to(device_of(model.module))
                guard = Guard(job.explainer, problem.explainers.get(job.explainer), model.module, first)
                budget = self.budgets[job.model]
                bisection = Bisection(
                    lambda rows: Block(job, problem, budget, learnt, folder, advance, guard, later, rows), len(job.samples)
                )
                for _, group in groupby(sorted(job.cells, key=fusion), key=fusion):
                    cells = list(group)
                    try:
                        found = bisection.measure(cells)
                    except StoreError:
                        raise
                    except Exception as error:
                        for cell in cells:
                            folder.write_failure(cell.key, error_text(error))
                    else:
                        later(partial(found.write_or_fail, job, cells, folder))
        except StoreError:
            raise
        except Exception as error:
            self.fail(job, error_text(error))

    def fail(self, job: Job, reason: str) -> None:
        """Record why the job's unfinished cells are missing."""
        folder = RunFolder(self.folder)
        for cell in job.cells:
            if not folder.has(cell.key):
                folder.write_failure(cell.key, reason)


@dataclass
class Outcome:
    """The measurements of each cell, or why it failed as a whole; why single rows failed; and the explanations of the other rows."""

    cells: list[Lines]
    failed: dict[int, str] = field(default_factory=dict)
    maps: dict[str, dict[tuple[int, ...], Tensor]] = field(default_factory=dict)

    def write_or_fail(self, job: Job, cells: Sequence[Cell], folder: RunFolder) -> None:
        """Store every cell, or why it could not be stored."""
        try:
            self.write(job, cells, folder)
        except StoreError:
            raise
        except Exception as error:
            for cell in cells:
                folder.write_failure(cell.key, error_text(error))

    def write(self, job: Job, cells: Sequence[Cell], folder: RunFolder) -> None:
        """Store every cell, and the base explanations of a block that was measured in parts.

        Those are NaN where a row failed; they are for people, and a resumed run computes them again.
        """
        failed = {job.samples[row]: reason for row, reason in self.failed.items()}
        for cell, found in zip(cells, self.cells, strict=True):
            lines = found()
            if isinstance(lines, str):
                folder.write_failure(cell.key, lines)
            else:
                explained = Reads.EXPLANATION in cell.before
                needed = {Place(EXPLANATIONS, explanation_key(job, cell.request))} - folder.unkept if explained else ()
                lines.without(failed).write(cell.key, folder, failed, list(needed))
        for key, parts in self.maps.items():
            first = next(iter(parts.values()))
            whole = torch.full((len(job.samples), *first.shape[1:]), torch.nan, dtype=first.dtype)
            for rows, maps in parts.items():
                whole[list(rows)] = maps.cpu()
            missing = {FAILED: torch.tensor(sorted(self.failed))} if self.failed else {}
            folder.write_tensors(EXPLANATIONS, key, {"explanation": whole, **missing})


class Bisection:
    """Measures the block of a job without the rows that raise an error; `block` makes it, whole or of some rows."""

    def __init__(self, block: Callable[[Tensor | None], Block], rows: int) -> None:
        self.make, self.count = block, rows
        self.suspects: set[int] = set()
        self.large: tuple[tuple[int, ...], Block] | None = None

    def measure(self, cells: Sequence[Cell]) -> Outcome:
        """Measure cells that share their perturbations; raises what is no single row's fault, and what every row raises."""
        sound = tuple(row for row in range(self.count) if row not in self.suspects)
        left = [sound, *((row,) for row in sorted(self.suspects))] if sound else [tuple(range(self.count))]
        parts: list[tuple[tuple[int, ...], list[Lines], Block]] = []
        failed: dict[int, str] = {}
        first: Exception | None = None
        while left:
            rows = left.pop(0)
            block = self.block(rows)
            try:
                parts.append((rows, measure(block, cells), block))
            except (StoreError, ChangedModelError):
                raise
            except Exception as error:
                if out_of_memory(error):
                    raise
                if len(rows) == 1:
                    failed[rows[0]] = error_text(error)
                    first = first or error.with_traceback(None)  # whose frames hold tensors
                elif isinstance(error, VeracityError) and self.about_all(rows, cells, error):
                    raise
                else:
                    middle = len(rows) // 2
                    left[:0] = [rows[:middle], rows[middle:]]
        if first is not None and not parts:
            raise first
        self.suspects |= set(failed)
        return merged(parts, dict(sorted(failed.items())))

    def block(self, rows: tuple[int, ...]) -> Block:
        """The block of some rows; the last large one is reused, since the next cells ask for it again."""
        if self.large is not None and self.large[0] == rows:
            return self.large[1]
        block = self.make(None if len(rows) == self.count else torch.tensor(rows))
        if self.large is not None and len(self.large[0]) == self.count:
            block.whole_maps = self.large[1].maps
        if 2 * len(rows) > self.count:
            self.large = (rows, block)
        return block

    def about_all(self, rows: tuple[int, ...], cells: Sequence[Cell], error: VeracityError) -> bool:
        """Whether an error of this package, which seldom is about one sample, is what the first and the last row raise too."""
        for row in (rows[0], rows[-1]):
            try:
                measure(self.block((row,)), cells)
            except VeracityError as own:
                if error_text(own) != error_text(error):
                    return False
            except Exception:
                return False
            else:
                return False
        return True


def measure(block: Block, cells: Sequence[Cell]) -> list[Lines]:
    """Perturb a block once for all cells that share their perturbations; returns functions that fetch what was measured of each."""
    with block.guard.watching():
        if isinstance(cells[0].request.space, InputSpace) and is_streamed(block.problem.inputs):
            cells[0].request.space.check(block.x.values)
        before = block.read(frozenset[Reads]().union(*(cell.before for cell in cells)), cells[0].request)
        return perturbation_of(block, cells, before).measure()


def perturbation_of(block: Block, cells: Sequence[Cell], before: Readings) -> Perturbation[Any]:
    """How a block is perturbed for cells that share their request, beside what was read `before`."""
    space = cells[0].request.space
    kind = next((kind for spaces, kind in KINDS if isinstance(space, spaces)), None)
    if kind is None:
        raise SpecError(f"The space '{space.name}' acts on neither inputs, targets nor weights.")
    found = kind(block, cells, space, before)
    return SearchRun(found) if isinstance(cells[0].request.walk, Search) else found


def merged(parts: Sequence[tuple[tuple[int, ...], list[Lines], Block]], failed: dict[int, str]) -> Outcome:
    """The parts of a block as one."""
    if len(parts) == 1 and not failed:
        return Outcome(parts[0][1])

    def whole(lines: Sequence[Lines]) -> Measurements | str:
        found = [part() for part in lines]
        reason = next((part for part in found if isinstance(part, str)), None)
        return join([part for part in found if isinstance(part, Measurements)]) if reason is None else reason

    cells: list[Lines] = [partial(whole, lines) for lines in zip(*(found for _, found, _ in parts), strict=True)]
    maps: dict[str, dict[tuple[int, ...], Tensor]] = {}
    for rows, _, block in parts:
        for key, value in block.maps.items():
            maps.setdefault(key, {})[rows] = value
    return Outcome(cells, failed, maps)


def forget_jobs() -> None:
    """Drop what jobs keep for each other: copies of models, activations and explanations."""
    COPIES.forget()
    forget_copies()
    ACTIVATIONS.forget()
    EXPLAINED.forget()
