"""The one loop: perturb a block of samples, read what changed, let every score observe it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

import torch
from torch import Tensor

from veracity.core.draws import Draws
from veracity.core.errors import InputError
from veracity.core.explainers import Context, Cost
from veracity.core.models import device_of, evaluating
from veracity.core.scores import Pair, Reads, Request
from veracity.core.spaces import InputSpace
from veracity.core.walks import Ask
from veracity.engine.batching import Budget
from veracity.engine.plan import Cell, Job, fusion
from veracity.engine.problem import Problem
from veracity.engine.progress import weight
from veracity.engine.store import RunFolder
from veracity.engine.worst import Worst
from veracity.perturb import Group

Read = Callable[[Tensor, Tensor, Draws], Tensor]


def run_job(job: Job, problem: Problem, folder: RunFolder, budget: Budget, moved: Callable[[int], None]) -> None:
    """Measure the job's cells and store each as it is finished; `moved` hears of the passes made."""
    model = problem.models[job.model]
    with evaluating(model.module):
        block = Block(job, problem, budget, moved)
        for _, cells in groupby(sorted(job.cells, key=fusion), key=fusion):
            block.measure(list(cells), folder)


class Block:
    """One subject on one block of samples, with the base explanations that all of its cells share."""

    def __init__(self, job: Job, problem: Problem, budget: Budget, moved: Callable[[int], None]) -> None:
        self.job, self.problem, self.budget, self.moved = job, problem, budget, moved
        self.model = problem.models[job.model]
        self.device = device_of(self.model.module)
        self.view = problem.target.view(self.model.module)
        self.samples = torch.arange(job.start, job.stop)
        self.x = problem.inputs.take(self.samples).to(self.device)
        self.targets = self.model.targets[self.samples].to(self.device)
        self.explainer = problem.explainers.get(job.explainer)
        self.cost = self.explainer.cost(problem.inputs.shape) if self.explainer else Cost(forward=1)
        self.rows_each = max(self.cost.forward, self.cost.backward)

    def measure(self, cells: Sequence[Cell], folder: RunFolder) -> None:
        """Walk once for all cells that share their perturbations."""
        what = cells[0].reads
        read = {Reads.EXPLANATION: self.explanation, Reads.OUTPUT: self.output, Reads.INPUT: self.input}[what]
        before = self.base(what, read, folder)
        request = cells[0].request
        scores = [self.problem.scores[cell.score] for cell in cells]
        walker = request.walk.start(request.space, self.samples, self.problem.seed, scores[0].measure.range)
        worst = [Worst(len(self.samples), score.measure.direction) for score in scores]
        rows: list[Tensor] = []
        draws: list[Tensor] = []
        told: list[Tensor] = []
        while (ask := walker.ask()) is not None:
            values = torch.empty(len(scores), len(ask), dtype=torch.float64)

            def look(part: slice, ask: Ask = ask, values: Tensor = values) -> None:
                piece = ask[part]
                after, pair = self.perturb(request, piece, before, read)
                for number, score in enumerate(scores):
                    values[number, part] = score.observe(pair).double().cpu()
                    worst[number].see(piece, values[number, part], after)
                self.moved(len(piece) * weight(self.cost))

            with torch.no_grad():
                self.budget.spend(len(ask), self.rows_each, look)
            walker.tell(values[0])
            rows.append(ask.row.int())
            draws.append(ask.draw.int())
            told.append(values)
        samples = self.samples[torch.cat(rows)].numpy()
        for number, cell in enumerate(cells):
            if what is Reads.EXPLANATION:
                self.keep_worst(cell, before, worst[number], folder)
            values = torch.cat([part[number] for part in told])
            folder.write_cell(cell.key, samples, torch.cat(draws).numpy(), cell.score, values.numpy())

    def perturb(self, request: Request, ask: Ask, before: Tensor, read: Read) -> tuple[Tensor, Pair]:
        """Move R inputs in one call and read them."""
        space, element = request.space, ask.element.to(self.device)
        row = ask.row.to(self.device)
        moved = space.act(element, self.x[row])
        fresh = torch.zeros_like(ask.draw) if request.common_draws else ask.draw + 1
        after = read(moved, self.targets[row], Draws(self.problem.seed, self.samples[ask.row], fresh))
        return after, pair_of(space, element, before[row], after)

    def base(self, what: Reads, read: Read, folder: RunFolder) -> Tensor:
        """What is read from the unperturbed block; explanations are kept in the folder and computed once."""
        if what is Reads.EXPLANATION:
            kept = folder.read_tensors("explanations", self.job.base_key)
            if kept is not None:
                return kept["explanation"].to(self.device)
        parts: list[Tensor] = []

        def look(part: slice) -> None:
            parts.append(read(self.x[part], self.targets[part], Draws.of(self.problem.seed, self.samples[part])))

        with torch.no_grad():
            self.budget.spend(len(self.x), self.rows_each, look)
        before = torch.cat(parts)
        if what is Reads.EXPLANATION:
            folder.write_tensors("explanations", self.job.base_key, {"explanation": before})
        return before

    def explanation(self, x: Tensor, targets: Tensor, draws: Draws) -> Tensor:
        """e(x), as the explainer gives it."""
        if self.explainer is None:
            raise InputError("A score of explanations needs an explainer.")
        with torch.enable_grad():
            found = self.explainer.explain(self.view, x, targets, Context(draws, self.budget.rows))
        return found.detach()

    def output(self, x: Tensor, targets: Tensor, draws: Draws) -> Tensor:
        """The model's probabilities."""
        return self.model.outputs.read(self.model.module(x))

    def input(self, x: Tensor, targets: Tensor, draws: Draws) -> Tensor:
        """The input itself."""
        return x

    def keep_worst(self, cell: Cell, before: Tensor, worst: Worst, folder: RunFolder) -> None:
        """Store the few most telling pairs of the block, for the eye."""
        rows = worst.rows()
        if worst.element is None or worst.after is None or len(rows) == 0:
            return
        here, element, space = rows.to(self.device), worst.element[rows].to(self.device), cell.request.space
        pair = pair_of(space, element, before[here], worst.after[here])
        tensors = {
            "sample": self.samples[rows],
            "draw": worst.draw[rows],
            "element": worst.element[rows],
            "value": worst.value[rows] * worst.sign,
            "input": self.x[here],
            "moved": space.act(element, self.x[here]),
            "explanation": pair.before,
            "expected": self.problem.scores[cell.score].expected(pair),
            "found": pair.after,
        }
        folder.write_tensors("worst", cell.key, tensors)


def pair_of(space: InputSpace, element: Tensor, before: Tensor, after: Tensor) -> Pair:
    """Rows before and after their perturbation, with the way there and, where there is one, the way back."""

    def undo(x: Tensor) -> Tensor:
        return space.act(space.inverse(element), x) if isinstance(space, Group) else x

    return Pair(before, after, lambda x: space.act(element, x), undo)
