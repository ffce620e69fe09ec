"""The one loop: perturb a block of samples, or the model under it, read what changed, let every score observe it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

import torch
from torch import Tensor

from veracity.core import fingerprint
from veracity.core.draws import Draws
from veracity.core.errors import SpecError, StoreError, said
from veracity.core.explainers import Cost, Frame
from veracity.core.inputs import Signals
from veracity.core.models import device_of, evaluating
from veracity.core.scores import OUTPUTS, Pair, Reading, Reads, Request
from veracity.core.spaces import InputSpace, Space, TargetSpace, WeightSpace
from veracity.core.walks import Ask
from veracity.engine.batching import Budget
from veracity.engine.copied import Copied, came_from
from veracity.engine.copies import Copies
from veracity.engine.learning import recall
from veracity.engine.memory import MEMORY, Found
from veracity.engine.plan import Cell, Job, fusion
from veracity.engine.problem import Problem
from veracity.engine.progress import weight
from veracity.engine.reader import Reader
from veracity.engine.rows import Rows, repeats
from veracity.engine.store import RunFolder
from veracity.engine.tally import Tally
from veracity.perturb import Group

HELD = 64 << 20
"""How many bytes of outputs are held at once."""


def run_job(job: Job, problem: Problem, folder: RunFolder, budget: Budget, moved: Callable[[int], None]) -> None:
    """Measure the job's cells and store each as it is finished; `moved` hears of the passes made.

    What a model, an explainer or a score throws becomes the record of the cells that share their perturbations.
    """
    model = problem.models[job.model]
    with evaluating(model.module):
        block = Block(job, problem, budget, recall(folder, job.learnt, device_of(model.module)), folder, moved)
        for _, group in groupby(sorted(job.cells, key=fusion), key=fusion):
            cells = list(group)
            try:
                block.measure(cells)
            except (StoreError, ConnectionError):
                raise
            except Exception as error:
                for cell in cells:
                    folder.write_failure(cell.key, said(error))


class Block:
    """One subject on one block of samples, with the base readings that all of its cells share."""

    def __init__(
        self, job: Job, problem: Problem, budget: Budget, learnt: Mapping[str, Tensor], folder: RunFolder, moved: Callable[[int], None]
    ) -> None:
        self.job, self.problem, self.folder = job, problem, folder
        self.model = problem.models[job.model]
        self.explainer = problem.explainers.get(job.explainer)
        self.frame = self.explainer.frame if self.explainer else Frame.INPUT
        self.reader = Reader(problem, job.model, self.explainer, budget, learnt)
        self.rows = Rows(job, problem, self.reader, moved)
        self.budget, self.device = budget, self.rows.device
        self.samples, self.x, self.targets = self.rows.samples, self.rows.x, self.rows.targets
        self.copies: Copies | None = None

    def measure(self, cells: Sequence[Cell]) -> None:
        """Walk once for all cells that share their perturbations."""
        request = cells[0].request
        asked = frozenset[Reads]().union(*(cell.before for cell in cells))
        after = frozenset[Reads]().union(*(cell.after for cell in cells))
        guided = isinstance(request.space, InputSpace) and request.space.guided
        before = self.base(asked | ({Reads.EXPLANATION} if guided else set()), request)
        guide = request.space.guide(self.x.values, before.get(Reads.EXPLANATION)) if isinstance(request.space, InputSpace) else None
        maps = before.get(Reads.EXPLANATION)
        broken = torch.zeros(len(self.samples), dtype=torch.bool) if maps is None else ~maps.flatten(1).isfinite().all(1).cpu()
        tally = Tally(cells, self.samples, broken)
        walker = request.walk.start(request.space, self.samples, self.problem.seed, cells[0].score.bounds)
        copied = self.copied(request, after)
        last, number = before.get(Reads.EXPLANATION), 0
        with torch.no_grad():
            while (ask := walker.ask()) is not None:
                tally.open(ask)
                if copied is not None:
                    last = self.on_copies(copied, ask, before, last, tally)
                else:
                    self.on_inputs(request, ask, before, after, guide, tally, number)
                walker.tell(tally.told())
                number += 1
        for cell in cells:
            self.keep_worst(cell, before, tally)
            tally.write(cell, self.folder)

    def copied(self, request: Request, after: frozenset[Reads]) -> Copied | None:
        """The block under copies of its model, if it is the weights that are perturbed."""
        if not isinstance(request.space, WeightSpace):
            return None
        self.copies = self.copies or Copies(self.model.module, self.problem.seed)
        return Copied(self.rows, self.reader, self.copies, request, request.space, after)

    def on_copies(self, copied: Copied, ask: Ask, before: Found, last: Tensor | None, tally: Tally) -> Tensor | None:
        """Perturbations of the weights; comes back with the last copy's explanations, from which a path may go on."""
        for part, pairs, found in copied.read(ask):
            piece, row = ask[part], ask.row[part].to(self.device)
            rows = {what: value[row] for what, value in before.items()}
            maps = found.get(Reads.EXPLANATION)
            if maps is not None and last is not None and Reads.EXPLANATION in before:
                rows[Reads.EXPLANATION] = came_from(copied.space, pairs, before[Reads.EXPLANATION], last, maps)
                last = maps[-len(self.samples) :]
            targets = self.targets[row]
            tally.see(part, pair_of(copied.space, piece.element, Reading(targets, rows), Reading(targets, found), self.frame))
        return last

    def on_inputs(
        self, request: Request, ask: Ask, before: Found, after: frozenset[Reads], guide: Tensor | None, tally: Tally, number: int
    ) -> None:
        """Perturbations of inputs, or of what is explained: every row by itself, with a bounded number of outputs held at once."""
        widths = [before[what][:1].nbytes for what in after & OUTPUTS if what in before]
        rows = max(1, HELD // max(widths, default=1))
        for first in range(0, len(ask), rows):
            self.on_rows(request, ask, slice(first, min(first + rows, len(ask))), before, after, guide, tally, f"{number} {first}")

    def on_rows(
        self,
        request: Request,
        whole: Ask,
        place: slice,
        before: Found,
        after: frozenset[Reads],
        guide: Tensor | None,
        tally: Tally,
        number: str,
    ) -> None:
        """Some rows of an ask."""
        explaining, ask = Reads.EXPLANATION in after, whole[place]
        known = self.outputs_of(request, ask, guide, after & OUTPUTS, number)

        def look(part: slice) -> None:
            piece = ask[part]
            element = self.steered(request.space, piece, guide)
            found = {what: value[part].to(self.device) for what, value in known.items()}
            targets = self.targets[piece.row.to(self.device)]
            if explaining or Reads.INPUT in after:
                x, targets = self.moved_to(request.space, element, piece)
                found[Reads.INPUT] = x.values
                if explaining:
                    found[Reads.EXPLANATION] = self.reader.explanation(x, targets, self.rows.draws(request, piece), request.smoothing)
            elif isinstance(request.space, InputSpace) and request.space.exchanges:
                targets = self.model.targets[request.space.instead_of(self.samples[piece.row], element)].to(self.device)
            here = slice(place.start + part.start, place.start + part.stop)
            tally.see(here, self.pair(request.space, element, piece, before, Reading(targets, found)))
            self.rows.moved(len(piece) * weight(self.reader.cost) if explaining else 0)

        self.budget.spend(len(ask), self.rows.rows_each * repeats(request) if explaining else 1, look)

    def outputs_of(self, request: Request, ask: Ask, guide: Tensor | None, what: frozenset[Reads], number: str) -> Found:
        """The model's outputs for all rows of an ask; every explainer of the model shares them, unless the explanation steers."""
        space = request.space
        if not what:
            return {}

        def compute(missing: frozenset[Reads]) -> Found:
            parts: list[Found] = []

            def some(part: slice) -> None:
                piece = ask[part]
                x, _ = self.moved_to(space, self.steered(space, piece, guide), piece)
                parts.append({one: value.cpu() for one, value in self.reader.outputs(missing, x, request.layer).items()})
                self.rows.moved(len(piece) * weight(Cost(forward=1)))

            self.budget.spend(len(ask), 1, some)
            return {one: torch.cat([part[one] for part in parts]) for one in missing}

        if (isinstance(space, InputSpace) and space.guided) or request.walk.adaptive:
            return compute(what)
        key = fingerprint.of_json([self.rows.key, space.spec(), request.walk.spec(), self.problem.seed, request.layer, number])
        return MEMORY.recall(key, what, compute)

    def steered(self, space: Space, piece: Ask, guide: Tensor | None) -> Tensor:
        """The elements of R rows, made concrete, on the model's device."""
        element = piece.element.to(self.device)
        if guide is None or not isinstance(space, InputSpace) or guide.shape[1:].numel() == 0:
            return element
        return space.steer(element, guide[piece.row.to(self.device)])

    def moved_to(self, space: Space, element: Tensor, piece: Ask) -> tuple[Signals, Tensor]:
        """R rows after their perturbation, with the outputs to explain."""
        row = piece.row.to(self.device)
        if isinstance(space, TargetSpace):
            classes = self.reader.view(self.x.values[:1], *(part[:1] for part in self.x.structure)).shape[1]
            return self.x[row], space.retarget(element, self.targets[row], classes)
        if not isinstance(space, InputSpace):
            raise SpecError(f"The space '{space.name}' acts on neither inputs, targets nor weights.")
        if space.exchanges:
            other = space.instead_of(self.samples[piece.row], element)
            return self.problem.inputs.take(other).to(self.device), self.model.targets[other].to(self.device)
        return space.move(element, self.x[row]), self.targets[row]

    def pair(self, space: Space, element: Tensor, piece: Ask, before: Found, after: Reading) -> Pair:
        """Rows before and after their perturbation."""
        row = piece.row.to(self.device)
        rows = Reading(self.targets[row], {what: value[row] for what, value in before.items()})
        return pair_of(space, element, rows, after, self.frame)

    def base(self, what: frozenset[Reads], request: Request) -> Found:
        """What is read of the unperturbed block."""
        found: Found = {Reads.INPUT: self.x.values}
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
        """e(x) of the block, kept in the folder and computed once; or what was given."""
        key = self.job.base_key if request.smoothing is None else fingerprint.of_json([self.job.base_key, request.spec()[-1]])
        kept = self.folder.read_tensors("explanations", key)
        if kept is not None:
            return kept["explanation"].to(self.device)
        given = None if self.explainer is None or request.smoothing is not None else self.explainer.given
        parts: list[Tensor] = [] if given is None else [given[self.samples].to(self.x.values)]

        def look(part: slice) -> None:
            own = Draws.of(self.problem.seed, self.samples[part])
            parts.append(self.reader.explanation(self.x[part], self.targets[part], own, request.smoothing))

        if given is None:
            self.budget.spend(len(self.x), self.rows.rows_each * repeats(request), look)
        before = torch.cat(parts)
        self.folder.write_tensors("explanations", key, {"explanation": before})
        return before

    def keep_worst(self, cell: Cell, before: Found, tally: Tally) -> None:
        """Store the few most telling pairs of the block, for the eye."""
        space, worst = cell.request.space, tally.worst_of(cell)
        if worst is None or worst.element is None or worst.after is None or not isinstance(space, InputSpace) or space.exchanges:
            return
        rows = worst.rows()
        if len(rows) == 0:
            return
        here, element = rows.to(self.device), worst.element[rows].to(self.device)
        first = Reading(self.targets[here], {what: value[here] for what, value in before.items()})
        pair = pair_of(space, element, first, Reading(self.targets[here], {Reads.EXPLANATION: worst.after[here]}), self.frame)
        tensors = {
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
        self.folder.write_tensors("worst", cell.key, tensors)


def pair_of(space: Space, element: Tensor, before: Reading, after: Reading, frame: Frame) -> Pair:
    """Rows before and after their perturbation, with the way there and, where there is one, the way back."""
    if frame is not Frame.INPUT or not isinstance(space, InputSpace) or not space.moves_frame:
        return Pair(before, after, element, lambda x: x, lambda x: x)

    def undo(x: Tensor) -> Tensor:
        return space.act(space.inverse(element), x) if isinstance(space, Group) else x

    return Pair(before, after, element, lambda x: space.act(element, x), undo)
