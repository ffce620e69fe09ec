"""Live draws: one perturbation of one sample of an audit, computed again by the engine on the models that are at hand.

The engine perturbs, explains and measures as in a run; it is asked for one sample and one draw, with all of its levels, or for one sample
and its whole search. Nothing is written into the run's folder.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from veracity.app.examples import training_samples
from veracity.app.own_input import OTHER, OwnInputs
from veracity.app.steps import finite, shows_steps, side_by_side, steps_of, tables_of, watch
from veracity.audit import Audit, load_folds, with_strengths
from veracity.core.errors import InputError, Note, unknown
from veracity.core.explainers import Inquirer, with_all_inside
from veracity.core.models import device_of, evaluating, in_precision
from veracity.core.randomness import gpus_in_use, seeded
from veracity.core.scores import Measured, Reads
from veracity.core.spaces import InputSpace, Space
from veracity.core.walks import AdaptiveWalk, Ask, Sampling, Search, Walk, Walker
from veracity.engine.later import Later
from veracity.engine.loop import measure
from veracity.engine.perturbation.base import Measurements
from veracity.engine.plan import Cell, Job
from veracity.engine.preliminaries import known_strengths, recall
from veracity.engine.prepare import AuditPlan
from veracity.engine.reader import Block
from veracity.engine.store import RunFolder
from veracity.engine.store.folder import NUMBERS
from veracity.engine.stored_rows import known_block, known_rows
from veracity.engine.trial import Guard
from veracity.report.interactive.cases import Shown
from veracity.report.interactive.graphs import graph_of
from veracity.results import Result
from veracity.results.cases import cells_of
from veracity.results.series import Array, dense, derive, unpack_pairs

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class OneDraw(AdaptiveWalk):
    """One draw of another walk.

    `known` are the values of its draws at each level, None where undefined: they decide how an adaptive walk goes on.
    """

    name = "one_draw"
    walk: Walk
    draw: int
    known: tuple[tuple[float | None, ...], ...]

    def start(self, space: Space, samples: Tensor, seed: int, bounds: tuple[float, float]) -> Walker:
        """Start the other walk."""
        known = np.array(self.known, dtype=np.float64)
        return OneDrawWalker(self.walk.start(space, samples, seed, bounds), self.draw, torch.from_numpy(known))

    def sampling(self, space: Space) -> Sampling:
        """As in the other walk."""
        return self.walk.sampling(space)

    def length(self, space: Space) -> int:
        """One draw."""
        return 1


class OneDrawWalker:
    """Follows a walk to a draw, and asks for all of its levels and for nothing else."""

    def __init__(self, walker: Walker, draw: int, known: Tensor) -> None:
        self.walker, self.draw, self.known = walker, draw, known
        self.asked: Ask | None = None
        self.begun = False

    def ask(self) -> Ask | None:
        """The draw; of very many levels, the next ones."""
        while True:
            if self.asked is not None:
                self.walker.tell(self.known[self.asked.draw.cpu(), self.asked.level.cpu()])
            self.asked = self.walker.ask()
            if self.asked is None:
                return None
            here = torch.nonzero(self.asked.draw.cpu() == self.draw).flatten()
            if len(here):
                self.begun = True
                return self.asked[here]
            if self.begun:
                return None

    def tell(self, values: Tensor) -> None:
        """Ignore the values: the walk goes on as it did in the run."""


def plan_again(audit: Audit, store: RunFolder) -> AuditPlan:
    """The plan of a run, with the strengths and the models of folds that its folder holds; nothing is trained or calibrated."""
    audit = audit.complete
    trainings = audit.fold_trainings()
    if any(training.missing(store) for training in trainings.values()):
        raise InputError("The models of the folds are not in this folder: run the audit again, which trains them.")
    settings: dict[str, Any] = {"rows": known_rows(store), "block": known_block(store), "trained": load_folds(trainings, store)}
    prepared = audit.prepare(**settings, rehearsal=True)
    return with_strengths(prepared, known_strengths(prepared.problem, store)[0])


def shows_pairs(cell: Cell) -> bool:
    """Whether a score compares the explanation of a perturbed input with an expected one, one value per draw, as stored pairs do."""
    one_value = cell.score.quantities == ("value",) and cell.request.space.levels == 1
    return one_value and Reads.EXPLANATION in cell.after and isinstance(cell.request.space, InputSpace)


class LiveDraws:
    """The models of an audit with the folder of its run; for one thread."""

    def __init__(self, audit: Audit, folder: str | Path) -> None:
        self.store = RunFolder(str(folder))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Note)  # the run has said them
            self.plan = plan_again(audit, self.store)
            self.own = OwnInputs(audit.complete, self.plan, self.store)
        self.cells = {cell.key: (job, cell) for job in self.plan.jobs for cell in job.cells}

    def answer(self, run: Result, sample: int, draw: int, model: str, explainer: str, score: str) -> dict[str, Any]:
        """One draw as the page shows it: its `value` now, the `stored` one, how many `draws` the sample has, and what was seen.

        That is a `pair` of explanations, `steps` along the levels of the draw or over the models of the folds, or for a search the pair
        of the worst point; each is null if there is none. Of an explanation by example, `examples` are the training samples behind it.
        """
        entry = self._entry(run, sample, model, explainer, score)
        job, cell = self.cells[entry["key"]]
        stored = stored_quantities(run, entry, sample)
        known, (values, per_sample) = len(next(iter(stored.values()))), derived(run, score, stored)
        whole = isinstance(cell.request.walk, Search) or side_by_side(cell)
        if not whole and not 0 <= draw < known:
            raise InputError(f"There is no draw {draw}: sample {sample} has the draws 0 to {known - 1} by '{score}'.")
        about = {"model": model, "explainer": explainer, "score": score, "sample": sample, "draw": draw, "draws": known}
        pooled = not whole and values.shape[1] != known
        if pooled:
            raise InputError(f"The score '{score}' has one value for all draws of a sample, so that a single draw has none.")
        about["stored"] = finite(per_sample[0] if whole else values[0, draw])
        shown = Shown(run, model, score, sample, graph_of(self.plan.problem.inputs, sample))
        about["examples"] = training_samples(run, self.plan.problem, sample, model, explainer, shown)
        if not whole:
            one = one_of(cell.request.walk, draw, stored[cell.score.quantities[0]])
            cell = replace(cell, request=replace(cell.request, walk=one))
        if shows_pairs(cell) or isinstance(cell.request.walk, Search):
            found = self._on(job, sample, lambda block: measured(block, cell))
            kept = None if found.worst is None else next(unpack_pairs(dict(entry), dict(found.worst)), None)
            now = derived(run, score, tables_of(found))[1][0]
            return {**about, "value": finite(now), "pair": None if kept is None else shown.pair(kept), "steps": None}
        watched = self._on(job, sample, lambda block: watch(block, cell))
        now = derived(run, score, tables_of(watched.found))[1][0]
        return {**about, "value": finite(now), "pair": None, "steps": steps_of(run, cell, watched, stored, shown, explainer)}

    def inputs(self, run: Result, model: str, samples: Sequence[int]) -> dict[int, Array]:
        """The inputs of some samples of the run."""
        for sample in samples:
            if not any(cell["key"] in self.cells for cell in cells_of(run, model, sample)):  # keys hash the inputs
                raise InputError(OTHER)
        values = self.plan.problem.inputs.take(torch.tensor(list(samples), dtype=torch.long)).values
        return dict(zip(samples, values.detach().cpu().double().numpy(), strict=True))

    def _entry(self, run: Result, sample: int, model: str, explainer: str, score: str) -> dict[str, Any]:
        """The cell of the manifest that holds a sample; raises if nothing can be shown of it, or if it cannot be measured here."""
        cells = cells_of(run, model, sample)
        for what, name in (("score", score), ("explainer", explainer)):
            if name not in (known := {cell[what] for cell in cells}):
                raise unknown(f"{what} of this run", name, known)
        mine = [dict(cell) for cell in cells if (cell["explainer"], cell["score"]) == (explainer, score)]
        if any(cell["key"] not in self.cells for cell in mine):
            raise InputError(OTHER)
        seen = [cell for cell in mine if shows_steps(self.cells[cell["key"]][1])]
        if not seen:
            raise InputError(f"The score '{score}' has no pairs to show: no single draw compares the explanation of a perturbed input.")
        if any(isinstance(one, Inquirer) for one in with_all_inside(self.plan.problem.explainers[explainer])):
            raise InputError(f"'{explainer}' asks a language model, so that its draws are not computed live.")
        finished = [cell for cell in seen if cell["key"] in run.progress.done]
        if not finished:
            raise InputError(f"This run has not measured '{explainer}' by '{score}' on sample {sample}: run the same command again first.")
        return finished[0]

    def _on(self, job: Job, sample: int, work: Callable[[Block], T]) -> T:
        """What the engine finds on one sample of a job, as a worker does."""
        problem, model = self.plan.problem, self.plan.problem.models[job.model]
        device, rows = device_of(model.module), torch.tensor([job.samples.index(sample)])
        with in_precision(problem.precision), evaluating(model.module), seeded(problem.seed, gpus_in_use()), Later() as later:
            learnt = recall(self.store, job.learnt, device)
            first = problem.inputs.take(torch.tensor([job.samples[0]])).to(device)
            guard = Guard(job.explainer, problem.explainers.get(job.explainer), model.module, first)
            return work(Block(job, problem, self.plan.budgets[job.model], learnt, self.store, lambda passes: None, guard, later, rows))


def measured(block: Block, cell: Cell) -> Measurements:
    """What a score measures of a block; raises what it could not observe."""
    found = measure(block, [cell])[0]()
    if isinstance(found, str):
        raise InputError(found)
    return found


def one_of(walk: Walk, draw: int, known: Array) -> OneDraw:
    """One draw of a walk, whose draws have the known values (draws, levels)."""
    return OneDraw(walk=walk, draw=draw, known=tuple(tuple(map(finite, row)) for row in known.tolist()))


def stored_quantities(run: Result, entry: Mapping[str, Any], sample: int) -> dict[str, Array]:
    """The quantities (draws, levels) of one sample in a cell, as they were measured."""
    part = dense(run.folder.read_cell(entry["key"], NUMBERS))
    at = int(np.searchsorted(part.samples, sample))
    if at >= len(part.samples) or part.samples[at] != sample:
        raise InputError(f"This run holds no draws of sample {sample}.")
    return {name: table[at, : part.counts[at]] for name, table in part.quantities.items()}


def derived(run: Result, score: str, tables: Mapping[str, Array]) -> tuple[Array, Array]:
    """The values (1, draws) of one sample, and its score (1,), from quantities (draws, levels)."""
    return derive(run.manifest["score_specs"][score], Measured({name: table[None] for name, table in tables.items()}))[:2]
