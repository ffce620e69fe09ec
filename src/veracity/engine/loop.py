"""The one loop: perturb a block of samples, read what changed, let every score observe it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

import torch
from torch import Tensor

from veracity.core.draws import Draws
from veracity.core.errors import InputError
from veracity.core.explainers import Cost, Frame
from veracity.core.inputs import Signals
from veracity.core.models import device_of, evaluating
from veracity.core.scores import Pair, Reads, Request
from veracity.core.spaces import InputSpace
from veracity.core.walks import Ask
from veracity.engine.batching import Budget
from veracity.engine.learning import recall
from veracity.engine.plan import Cell, Job, fusion
from veracity.engine.problem import Problem
from veracity.engine.progress import weight
from veracity.engine.store import RunFolder
from veracity.engine.worst import Worst
from veracity.perturb import Group

Read = Callable[[Signals, Tensor, Draws], Tensor]


def run_job(job: Job, problem: Problem, folder: RunFolder, budget: Budget, moved: Callable[[int], None]) -> None:
    """Measure the job's cells and store each as it is finished; `moved` hears of the passes made."""
    model = problem.models[job.model]
    with evaluating(model.module):
        block = Block(job, problem, budget, recall(folder, job.learnt, device_of(model.module)), moved)
        for _, cells in groupby(sorted(job.cells, key=fusion), key=fusion):
            block.measure(list(cells), folder)


class Block:
    """One subject on one block of samples, with the base explanations that all of its cells share."""

    def __init__(self, job: Job, problem: Problem, budget: Budget, learnt: Mapping[str, Tensor], moved: Callable[[int], None]) -> None:
        self.job, self.problem, self.budget, self.learnt, self.moved = job, problem, budget, learnt, moved
        self.model = problem.models[job.model]
        self.device = device_of(self.model.module)
        self.view = problem.view(job.model)
        self.samples = torch.arange(job.start, job.stop)
        self.x = problem.inputs.take(self.samples).to(self.device)
        self.targets = self.model.targets[self.samples].to(self.device)
        self.explainer = problem.explainers.get(job.explainer)
        self.frame = self.explainer.frame if self.explainer else Frame.INPUT
        self.training = problem.training_of(job.model, self.explainer) if self.explainer else None
        self.cost = self.explainer.cost(problem.inputs.shape) if self.explainer else Cost(forward=1)
        self.rows_each = max(self.cost.forward, self.cost.backward)

    def measure(self, cells: Sequence[Cell], folder: RunFolder) -> None:
        """Walk once for all cells that share their perturbations."""
        what = cells[0].reads
        read = {Reads.EXPLANATION: self.explanation, Reads.OUTPUT: self.output, Reads.INPUT: self.input}[what]
        before = self.base(what, read, folder)
        request = cells[0].request
        scores = [cell.score for cell in cells]
        walker = request.walk.start(request.space, self.samples, self.problem.seed, scores[0].compare.range)
        worst = [Worst(len(self.samples), score.compare.direction) for score in scores]
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
            folder.write_cell(cell.key, samples, torch.cat(draws).numpy(), cell.name, values.numpy())

    def perturb(self, request: Request, ask: Ask, before: Tensor, read: Read) -> tuple[Tensor, Pair]:
        """Move R inputs in one call and read them."""
        space, element = request.space, ask.element.to(self.device)
        row = ask.row.to(self.device)
        moved = space.move(element, self.x[row])
        fresh = torch.zeros_like(ask.draw) if request.common_draws else ask.draw + 1
        after = read(moved, self.targets[row], Draws(self.problem.seed, self.samples[ask.row], fresh))
        return after, pair_of(space, element, before[row], after, self.frame)

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

    def explanation(self, x: Signals, targets: Tensor, draws: Draws) -> Tensor:
        """e(x), as the explainer gives it."""
        if self.explainer is None:
            raise InputError("A score of explanations needs an explainer.")
        with torch.enable_grad():
            context = self.problem.context(self.job.model, draws, self.budget.rows, x.structure, self.learnt, self.training)
            found = self.explainer.explain(self.view, x.values, targets, context)
        return found.detach()

    def output(self, x: Signals, targets: Tensor, draws: Draws) -> Tensor:
        """The model's probabilities."""
        return self.model.outputs.read(x.through(self.model.module))

    def input(self, x: Signals, targets: Tensor, draws: Draws) -> Tensor:
        """The input itself."""
        return x.values

    def keep_worst(self, cell: Cell, before: Tensor, worst: Worst, folder: RunFolder) -> None:
        """Store the few most telling pairs of the block, for the eye."""
        rows = worst.rows()
        if worst.element is None or worst.after is None or len(rows) == 0:
            return
        here, element, space = rows.to(self.device), worst.element[rows].to(self.device), cell.request.space
        pair = pair_of(space, element, before[here], worst.after[here], self.frame)
        tensors = {
            "sample": self.samples[rows],
            "draw": worst.draw[rows],
            "element": worst.element[rows],
            "value": worst.value[rows] * worst.sign,
            "input": self.x.values[here],
            "moved": space.act(element, self.x.values[here]),
            "explanation": pair.before,
            "expected": cell.score.expected(pair),
            "found": pair.after,
        }
        folder.write_tensors("worst", cell.key, tensors)


def pair_of(space: InputSpace, element: Tensor, before: Tensor, after: Tensor, frame: Frame) -> Pair:
    """Rows before and after their perturbation, with the way there and, where there is one, the way back."""
    if frame is not Frame.INPUT or not space.moves_frame:
        return Pair(before, after, lambda x: x, lambda x: x)

    def undo(x: Tensor) -> Tensor:
        return space.act(space.inverse(element), x) if isinstance(space, Group) else x

    return Pair(before, after, lambda x: space.act(element, x), undo)
