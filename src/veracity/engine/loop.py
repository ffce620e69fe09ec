"""The one loop: perturb a block of samples, or the model under it, read what changed, let every score observe it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

import torch
from torch import Tensor

from veracity.core import fingerprint
from veracity.core.errors import StoreError, error_text
from veracity.core.explainers import Frame
from veracity.core.models import device_of, evaluating
from veracity.core.randomness import Draws, gpus_in_use, seeded
from veracity.core.scores import OUTPUTS, Reading, Reads, Request
from veracity.core.spaces import InputSpace, TrainingSpace, WeightSpace
from veracity.core.walks import Ask, Search
from veracity.engine.learning import recall
from veracity.engine.memory import MEMORY, Budget, Found
from veracity.engine.perturbation.folds import Refitted, verdicts
from veracity.engine.perturbation.inputs import Perturbed, pair_of
from veracity.engine.perturbation.rows import Rows, repeats
from veracity.engine.perturbation.search import Hunt
from veracity.engine.perturbation.weights import Copied, Copies, came_from
from veracity.engine.plan import Cell, Job, fusion
from veracity.engine.problem import Problem
from veracity.engine.reader import Reader
from veracity.engine.salvage import FAILED, Salvage
from veracity.engine.store import Place, RunFolder
from veracity.engine.tally import Lines, Tally
from veracity.engine.trial import Guard

EXPLANATIONS = "explanations"


def run_job(job: Job, problem: Problem, folder: RunFolder, budget: Budget, moved: Callable[[int], None]) -> None:
    """Measure the job's cells and store each as it is finished; `moved` hears of the passes made.

    What a model, an explainer or a score throws on one sample becomes the record of that sample; on all of them, or about none, of
    the cells that share their perturbations. Code that draws from the global random states finds the same ones in every job.
    """
    model = problem.models[job.model]
    with evaluating(model.module), seeded(problem.seed, gpus_in_use()):
        learnt = recall(folder, job.learnt, device_of(model.module))
        first = problem.inputs.take(torch.tensor(job.samples[:1])).to(device_of(model.module))
        guard = Guard(job.explainer, problem.explainers.get(job.explainer), model.module, first)
        salvage = Salvage(lambda rows: Block(job, problem, budget, learnt, folder, moved, guard, rows), len(job.samples))
        for _, group in groupby(sorted(job.cells, key=fusion), key=fusion):
            cells = list(group)
            try:
                found = salvage.measure(cells)
            except StoreError:
                raise
            except Exception as error:
                for cell in cells:
                    folder.write_failure(cell.key, error_text(error))
                continue
            failed = {job.samples[row]: reason for row, reason in found.failed.items()}
            for cell, lines in zip(cells, found.cells, strict=True):
                if isinstance(lines, str):
                    folder.write_failure(cell.key, lines)
                else:
                    lines.without(failed).write(cell.key, folder, failed, needed(job, cell))
            found.keep_base(job, folder)


def explanation_key(job: Job, request: Request) -> str:
    """Under which key the base explanations of a block are kept."""
    return job.base_key if request.smoothing is None else fingerprint.of_json([job.base_key, request.spec()[-1]])


def needed(job: Job, cell: Cell) -> list[Place]:
    """The records that belong to a cell: where one is lost, it is measured again."""
    return [Place(EXPLANATIONS, explanation_key(job, cell.request))] if Reads.EXPLANATION in cell.before else []


class Block:
    """One subject on one block of samples, or on some `rows` of it, with the base readings that all of its cells share."""

    def __init__(
        self,
        job: Job,
        problem: Problem,
        budget: Budget,
        learnt: Mapping[str, Tensor],
        folder: RunFolder,
        moved: Callable[[int], None],
        guard: Guard,
        rows: Tensor | None = None,
    ) -> None:
        self.place = rows
        self.job = job if rows is None else replace(job, samples=tuple(job.samples[row] for row in rows.tolist()))
        self.problem, self.folder, self.guard = problem, folder, guard
        self.model = problem.models[job.model]
        self.explainer = problem.explainers.get(job.explainer)
        self.frame = self.explainer.frame if self.explainer else Frame.INPUT
        self.reader = Reader(problem, job.model, self.explainer, budget, learnt)
        self.rows = Rows(self.job, problem, self.reader, moved)
        self.budget, self.device = budget, self.rows.device
        self.samples, self.x, self.targets = self.rows.samples, self.rows.x, self.rows.targets
        self.correct = torch.ones(len(self.samples), dtype=torch.bool) if self.model.correct is None else self.model.correct[self.samples]
        self.copies: Copies | None = None
        self.maps: dict[str, Tensor] = {}

    def measure(self, cells: Sequence[Cell]) -> list[Lines | str]:
        """Walk once for all cells that share their perturbations: what was measured of each, or why its score could not."""
        with self.guard.watching():
            return [self.search(cells[0])] if isinstance(cells[0].request.walk, Search) else self.walk(cells)

    def walk(self, cells: Sequence[Cell]) -> list[Lines | str]:
        """Perturb and observe until the walk is done."""
        request = cells[0].request
        asked = frozenset[Reads]().union(*(cell.before for cell in cells))
        after = frozenset[Reads]().union(*(cell.after for cell in cells))
        guided = isinstance(request.space, InputSpace) and request.space.guided
        before = self.base(asked | ({Reads.EXPLANATION} if guided else set()), request)
        maps = before.get(Reads.EXPLANATION)
        broken = torch.zeros(len(self.samples), dtype=torch.bool) if maps is None else ~maps.flatten(1).isfinite().all(1).cpu()
        tally = Tally(cells, self.samples, broken, ~self.correct)
        walker = request.walk.start(request.space, self.samples, self.problem.seed, cells[0].score.bounds)
        copied, refitted = self.copied(request, before, after), self.refitted(request, after)
        perturbed = None if copied or refitted else Perturbed(self.rows, self.reader, request, before, after)
        last, number = before.get(Reads.EXPLANATION), 0
        with torch.no_grad():
            while (ask := walker.ask()) is not None:
                tally.open(ask)
                if copied is not None:
                    last = self.on_copies(copied, ask, before, last, tally)
                elif refitted is not None:
                    refitted.observe(ask, before, tally.see)
                elif perturbed is not None:
                    perturbed.observe(ask, number, tally.see)
                walker.tell(tally.told())
                number += 1
        return [tally.lines(cell, self.worst(cell, before, tally)) for cell in cells]

    def search(self, cell: Cell) -> Lines | str:
        """Follow the merit of one score around every sample that it is defined for."""
        before = self.base(cell.before, cell.request)
        perturbed = Perturbed(self.rows, self.reader, cell.request, before, cell.after)
        maps = before.get(Reads.EXPLANATION)
        searched = torch.ones(len(self.samples), dtype=torch.bool) if maps is None else maps.flatten(1).isfinite().all(1).cpu()
        if cell.score.seeds:
            searched = searched & self.correct
        with torch.no_grad():
            return Hunt(perturbed, cell).run(searched.nonzero()[:, 0])

    def copied(self, request: Request, before: Found, after: frozenset[Reads]) -> Copied | None:
        """The block under copies of its model, if it is the weights that are perturbed."""
        if not isinstance(request.space, WeightSpace):
            return None
        self.copies = self.copies or Copies(self.model.module, self.problem.seed)
        return Copied(self.rows, self.reader, self.copies, request, request.space, before, after)

    def refitted(self, request: Request, after: frozenset[Reads]) -> Refitted | None:
        """The block under the models of the other folds, if it is the training set that is perturbed."""
        return Refitted(self.rows, self.reader, request, after, self.folder) if isinstance(request.space, TrainingSpace) else None

    def on_copies(self, copied: Copied, ask: Ask, before: Found, last: Tensor | None, tally: Tally) -> Tensor | None:
        """Perturbations of the weights; comes back with the explanations from which a path may go on."""
        for part, pairs, found in copied.read(ask):
            piece, row = ask[part], ask.row[part].to(self.device)
            rows = {what: value[row] for what, value in before.items()}
            maps, start = found.get(Reads.EXPLANATION), rows.get(Reads.EXPLANATION)
            if maps is not None and last is not None and Reads.EXPLANATION in before:
                rows[Reads.EXPLANATION], last = came_from(copied.space, pairs, before[Reads.EXPLANATION], last, maps)
            targets = self.targets[row]
            pair = pair_of(copied.space, piece.element, Reading(targets, rows), Reading(targets, found), self.frame)
            tally.see(part, replace(pair, start=start))
        return last

    def base(self, what: frozenset[Reads], request: Request) -> Found:
        """What is read of the unperturbed block."""
        found: Found = {Reads.INPUT: self.x.values, **verdicts(self.model, self.samples, what, self.device)}
        if what & OUTPUTS:
            key = fingerprint.of_json([self.rows.key, request.layer])
            known = MEMORY.recall(key, what & OUTPUTS, lambda missing: self.base_outputs(missing, request.layer))
            found |= {one: value.to(self.device) for one, value in known.items()}
        if Reads.EXPLANATION in what:
            found[Reads.EXPLANATION] = self.base_explanation(request)
        return found

    @torch.no_grad()
    def base_outputs(self, what: frozenset[Reads], layer: str | None) -> Found:
        """The model's outputs for the unperturbed block."""
        parts: list[Found] = []
        self.budget.spend(len(self.x), 1, lambda part: parts.append(self.reader.outputs(what, self.x[part], layer)))
        return {one: torch.cat([part[one] for part in parts]).cpu() for one in what}

    @torch.no_grad()
    def base_explanation(self, request: Request) -> Tensor:
        """e(x) of the block, kept in the folder and computed once; or what was given. That of some rows is kept here alone."""
        key = explanation_key(self.job, request)
        if key in self.maps:
            return self.maps[key]
        kept = self.folder.read_tensors(EXPLANATIONS, key)
        if kept is not None and FAILED not in kept:
            whole = kept["explanation"]
            return (whole if self.place is None else whole[self.place]).to(self.device)
        given = None if self.explainer is None or request.smoothing is not None else self.explainer.given
        parts: list[Tensor] = [] if given is None else [given[self.samples].to(self.x.values)]

        def look(part: slice) -> None:
            own = Draws.of(self.problem.seed, self.samples[part])
            parts.append(self.reader.explanation(self.x[part], self.targets[part], own, request.smoothing))

        if given is None:
            self.budget.spend(len(self.x), self.rows.rows_each * repeats(request), look)
        before = torch.cat(parts)
        self.guard.check()
        if self.place is None:
            self.folder.write_tensors(EXPLANATIONS, key, {"explanation": before})
        else:
            self.maps[key] = before
        return before

    def worst(self, cell: Cell, before: Found, tally: Tally) -> dict[str, Tensor] | None:
        """The few most telling pairs of the block, for the eye."""
        space, worst = cell.request.space, tally.worst_of(cell)
        if worst is None or worst.element is None or worst.after is None or not isinstance(space, InputSpace) or space.exchanges:
            return None
        rows = worst.rows()
        if len(rows) == 0:
            return None
        here, element = rows.to(self.device), worst.element[rows].to(self.device)
        first = Reading(self.targets[here], {what: value[here] for what, value in before.items()})
        pair = pair_of(space, element, first, Reading(self.targets[here], {Reads.EXPLANATION: worst.after[here]}), self.frame)
        return {
            "sample": self.samples[rows],
            "draw": worst.draw[rows],
            "element": worst.element[rows],
            "value": worst.value[rows] * worst.sign,
            "input": self.x.values[here],
            "moved": space.act(element, self.x.values[here]),
            "explanation": pair.before.explanation,
            "expected": cell.score.expected(pair),
            "found": pair.after.explanation,
        }
