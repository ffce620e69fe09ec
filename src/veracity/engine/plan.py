"""From a problem to cells: what must be measured, under keys that say everything a result depends on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any

import torch
from torch import Tensor

from veracity.core import fingerprint
from veracity.core.explainers import Cost, Explainer, Need, learner
from veracity.core.inputs import Inputs, content_key
from veracity.core.models import device_of
from veracity.core.scores import OUTPUTS, Reads, Request, Score, reads_after, reads_before
from veracity.core.spaces import InputSpace, SampleSpace, TargetSpace, TrainingSpace, WeightSpace
from veracity.core.walks import AdaptiveWalk, Search
from veracity.engine.memory import Budget
from veracity.engine.problem import AuditedModel, Problem
from veracity.engine.store import SCHEMA
from veracity.inputs.truth import BoxMasks

BLOCK, GPU_BLOCK, BLOCKS, MOST = 64, 512, 1024, 4096
"""Samples per block; on a GPU, which copies of a model should fill; the number of blocks above which blocks are doubled; and the most
samples per block that this leads to."""
LARGEST, SMALL = 1 << 29, 1 << 18
"""The most bytes that the inputs of a block take; and how many they may take on a GPU before its number of samples matters."""
CELLS, GROWN, MOST_GROWN, LINES = 1024, 1 << 27, 1 << 16, 1 << 22
"""The number of cells above which blocks are doubled; and the most bytes and samples of a block, and lines of a cell, if they are."""
WORK, FEWEST = 4096, 8
"""The model rows that a block should need, so that files and checks do not matter; and the number of blocks that is left for workers."""
ALGORITHMS = 6
"""Raise it whenever a change of this package changes numbers, so that old cells are not mixed with new ones."""

SAME_MODEL = (InputSpace, SampleSpace, TargetSpace)
"""Spaces that leave the model as it is."""


@dataclass(frozen=True)
class Cell:
    """One score of one subject on one block of samples: what one Parquet file holds."""

    key: str
    name: str
    score: Score
    request: Request
    explaining: Cost
    reading: Cost

    @property
    def before(self) -> frozenset[Reads]:
        """What is read of the unperturbed subject."""
        return reads_before(self.score)

    @property
    def after(self) -> frozenset[Reads]:
        """What is read of the perturbed subject."""
        return reads_after(self.score)


@dataclass(frozen=True)
class Job:
    """The cells of one subject on one block: they share the base explanation and the perturbed passes."""

    model: str
    explainer: str
    samples: Sequence[int]
    """A range if they are consecutive: a million numbers would fill the memory."""
    data: str
    """A hash of the samples' content."""
    base_key: str
    learnt: str
    base_cost: Cost
    cells: tuple[Cell, ...]

    @cached_property
    def cost(self) -> Cost:
        """Model passes of all cells; perturbations that cells share are counted once."""
        explaining: dict[str, Cost] = {}
        reading: dict[str, Cost] = {}
        for cell in self.cells:
            shared = fusion(cell)
            explaining[shared] = explaining.get(shared, Cost()) | cell.explaining
            reading[shared] = reading.get(shared, Cost()) | cell.reading
        return sum((*explaining.values(), *reading.values()), self.base_cost)

    def without(self, finished: set[str]) -> Job:
        """The job with only the cells that are still to do."""
        return replace(self, cells=tuple(cell for cell in self.cells if cell.key not in finished))


def unfinished(jobs: Sequence[Job], finished: set[str]) -> list[Job]:
    """The jobs without their finished cells, as far as cells are left."""
    return [job for job in (job.without(finished) for job in jobs) if job.cells]


def fusion(cell: Cell) -> str:
    """Cells with the same value share their perturbed passes. An adaptive walk follows the values of a single score."""
    return fingerprint.of_json([cell.request.spec(), cell.key if isinstance(cell.request.walk, AdaptiveWalk) else ""])


def plan(
    problem: Problem, budgets: Mapping[str, Budget], advance: Callable[[int], None] = lambda samples: None, most: int | None = None
) -> list[Job]:
    """Every job, or those of the first `most` samples, in a fixed order; `advance` gets the number of samples of every planned block.

    Keys depend on the row budget only if numbers depend on the batch.
    """
    jobs: list[Job] = []
    taught: set[str] = set()
    training = {(name, label): problem.training_key(name, one) for name in problem.models for label, one in problem.explainers.items()}
    for samples, model_name in blocks(problem, most):
        model = problem.models[model_name]
        block, others = content_key(problem.inputs, samples), siblings(problem, model_name, samples)
        targets = numbers_or_hash(model.targets[samples])
        truth = None if problem.truth is None else cache(partial(truth_key, problem.truth, samples))
        for label in ("", *problem.explainers):
            explainer = problem.explainers.get(label)
            subject = problem.subject(model_name, explainer)
            learnt = problem.learnt_key(model_name, label) if label else ""
            base = {
                "algorithms": [SCHEMA, ALGORITHMS],
                "model": model.fingerprint,
                "outputs": model.outputs.value,
                "target": [problem.target.spec(), targets],
                "explainer": explainer.spec() if explainer else None,
                "batch": budgets[model_name].rows if problem.depends_on_batch(model_name, label) else None,
                "learnt": learnt,
                "training": training.get((model_name, label), ""),
                "block": [block, numbers(samples)],
                "seed": problem.seed,
            }
            per_map = explainer.cost(problem.inputs.shape) if explainer else Cost(forward=1)
            scores = {name: score.for_subject(subject) for name, score in problem.scores.items()}
            wanted = [
                (
                    name,
                    score,
                    replace(request, space=problem.space_for(model_name, request.space, searched=isinstance(request.walk, Search))),
                )
                for name, score in scores.items()
                for request in score.requests(subject, problem.defaults)
                # perturbed weights do not reach stored checkpoints
                if not (isinstance(request.space, WeightSpace) and explainer is not None and Need.CHECKPOINTS in explainer.needs)
            ]
            cells = tuple(
                Cell(
                    fingerprint.of_json([base, score.spec(), request.spec(), *beyond(score, request, model, samples, others, truth)]),
                    name,
                    score,
                    request,
                    *with_lessons(
                        problem,
                        model_name,
                        label,
                        request,
                        taught,
                        costs(score, request, per_map, len(samples), outputs_of_explainer(problem, model_name, explainer, request)),
                    ),
                )
                for name, score, request in wanted
            )
            if cells:
                passes = per_map * len(samples)
                jobs.append(Job(model_name, label, in_order(samples), block, fingerprint.of_json(base), learnt, passes, cells))
        advance(len(samples))
    return jobs


def blocks(problem: Problem, most: int | None = None) -> list[tuple[Tensor, str]]:
    """The samples of every block and the model that is asked about them, in the order of their first samples; see `plan`."""
    every, size = torch.arange(problem.inputs.size()), problem.block or usual_block(problem)
    asked = {name: every if model.place is None else model.place.samples for name, model in problem.models.items()}
    few = {name: samples if most is None else samples[samples < most] for name, samples in asked.items()}
    parts = [(part, name) for name, samples in few.items() for part in samples.split(size) if len(part)]
    return sorted(parts, key=lambda part: int(part[0][0]))


def usual_block(problem: Problem, samples: int | None = None) -> int:
    """Samples per block, whatever is measured of them."""
    on_gpu = any(device_of(model.module).type == "cuda" for model in problem.models.values())
    return block_size(problem.inputs, GPU_BLOCK if on_gpu else BLOCK, samples)


def fitting_block(problem: Problem, budgets: Mapping[str, Budget], samples: int | None = None) -> int:
    """Samples per block for this many samples (None: those of the problem), so that a run has at most some 1,000 cells.

    Blocks grow up to 512 samples if a sample needs few model passes, as for scores of localisation. A cell is a file, and so are its worst
    pairs and, for several cells, their explanations. A million samples with 20 scores and explainers are 31 blocks of 32,768. Blocks of
    large images stop growing at 128 MiB.
    """
    samples = problem.inputs.size() if samples is None else samples
    size = usual_block(problem, samples)
    if samples <= BLOCK * size // 4:
        return size
    first = plan(replace(problem, block=BLOCK), budgets, most=1)
    cells, row = sum(len(job.cells) for job in first), problem.inputs.take(torch.zeros(1, dtype=torch.long)).nbytes
    lines = max((lines_of(cell) for job in first for cell in job.cells), default=1)
    rows = max((job.cost.forward for job in first), default=1)
    foreign = any(job.cost.seconds > 0.0 for job in first)  # of unknown cost, so that an interruption should lose little
    while not foreign and (
        size < GPU_BLOCK and size * rows < WORK and samples >= 2 * size * FEWEST and 2 * size * row <= GROWN and 2 * size * lines <= LINES
    ):
        size *= 2
    while cells * -(-samples // size) > CELLS and size < MOST_GROWN and 2 * size * row <= GROWN and 2 * size * lines <= LINES:
        size *= 2
    return size


def lines_of(cell: Cell) -> int:
    """The most lines that a cell has per sample."""
    space = cell.request.space
    return cell.request.walk.length(space) * max(1, space.levels) * len(cell.score.quantities)


def block_size(inputs: Inputs, least: int = BLOCK, samples: int | None = None) -> int:
    """Samples per block: at least 64, and more for large data, which then has thousands of files and not millions.

    On a GPU, rows of a table come by thousands: a small network answers them faster than a file is written.
    """
    size, row = least, inputs.take(torch.zeros(1, dtype=torch.long)).nbytes
    while size > BLOCK and size * row > LARGEST:
        size //= 2
    while BLOCK < size < MOST and 2 * size * row <= SMALL:
        size *= 2
    while (samples or inputs.size()) > size * BLOCKS and size < MOST and 2 * size * row <= LARGEST:
        size *= 2
    return size


def numbers(samples: Tensor) -> int | list[int]:
    """The samples of a block: the first one if they are consecutive, else all."""
    first = int(samples[0])
    return first if int(samples[-1]) - first == len(samples) - 1 else samples.tolist()


def in_order(samples: Tensor) -> Sequence[int]:
    """The samples of a block as a range if they are consecutive, else as a tuple."""
    first = numbers(samples)
    return range(first, first + len(samples)) if isinstance(first, int) else tuple(samples.tolist())


def numbers_or_hash(values: Tensor) -> list[Any] | str:
    """Numbers of a block as a key holds them: in large blocks, their hash."""
    return values.tolist() if len(values) <= MOST else fingerprint.of_tensor(values)


def beyond(
    score: Score, request: Request, model: AuditedModel, samples: Tensor, others: list[Any], truth: Callable[[], str] | None = None
) -> list[Any]:
    """What else a cell depends on: which samples are classified correctly, the ground truth, and the models of the other folds.

    `truth` gives a hash of the truth of the samples, which is made only if a score reads it.
    """
    right = score.correct_only or Reads.CORRECT in reads_before(score) | reads_after(score)
    found: list[Any] = [numbers_or_hash(model.correct[samples])] if right and model.correct is not None else []
    if truth is not None and Reads.TRUTH in reads_before(score):
        found.append({"truth": truth()})
    return [*found, *others] if isinstance(request.space, TrainingSpace) else found


def truth_key(truth: Tensor | BoxMasks, samples: Tensor) -> str:
    """A hash of the truth of some samples."""
    return fingerprint.of_tensor(truth[samples])


def siblings(problem: Problem, name: str, samples: Tensor) -> list[Any]:
    """The models of the other folds, in the order of a space of folds, with their outputs for a block of samples."""
    place = problem.models[name].place
    if place is None:
        return []
    others = [problem.models[problem.sibling(name, element)] for element in range(len(place.siblings) - 1)]
    return [
        [one.fingerprint, one.targets[samples].tolist(), [] if one.correct is None else one.correct[samples].tolist()] for one in others
    ]


def outputs_of_explainer(problem: Problem, name: str, explainer: Explainer | None, request: Request) -> frozenset[Reads]:
    """What an explainer of a model sees in its own pass of a perturbed row, so that no other pass is needed to read it."""
    if explainer is None or not explainer.local or request.smoothing is not None or not isinstance(request.space, SAME_MODEL):
        return frozenset()
    module = problem.models[name].module
    whole = problem.view(name) is module and problem.target_of(name).decisions(module) is module
    return frozenset({Reads.SCORES, Reads.OUTPUT}) if whole else frozenset({Reads.SCORES})


def with_lessons(
    problem: Problem, name: str, label: str, request: Request, taught: set[str], passes: tuple[Cost, Cost]
) -> tuple[Cost, Cost]:
    """The passes of a cell, and those of lessons by class about copies of the model, if no cell before this one is `taught` them."""
    explainer, space = learner(problem.explainers.get(label)), request.space
    if explainer is None or not explainer.by_class or not isinstance(space, WeightSpace):
        return passes
    key = fingerprint.of_json([problem.learnt_key(name, label), space.spec(), request.walk.spec()])
    if key in taught:
        return passes
    taught.add(key)
    copies = request.walk.length(space) * sum(map(space.explains, range(space.levels)))
    return passes[0] + problem.lesson_cost(name, explainer) * copies, passes[1]


def costs(score: Score, request: Request, per_map: Cost, samples: int, seen: frozenset[Reads] = frozenset()) -> tuple[Cost, Cost]:
    """Model passes of a cell: to explain, and to read outputs that the explainer has not `seen`, each at the levels where that is done."""
    after, space, rows = reads_after(score), request.space, samples * request.walk.length(request.space)
    every = range(space.levels)
    explained, answered = (
        (sum(map(space.explains, every)), sum(map(space.answers, every))) if isinstance(space, WeightSpace) else (len(every), len(every))
    )
    explaining = per_map * (rows * explained * request.repeats) if Reads.EXPLANATION in after else Cost()
    separate = after & OUTPUTS - (seen if Reads.EXPLANATION in after else frozenset())
    return explaining, Cost(forward=rows * answered) if separate else Cost()
