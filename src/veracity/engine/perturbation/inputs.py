"""A block of samples on the model's device, and how its rows are explained.

What a block of samples shows under perturbations of its inputs, of what is explained, or of each row's own weights.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from veracity.core import fingerprint
from veracity.core.errors import SpecError
from veracity.core.explainers import Cost, Frame
from veracity.core.inputs import Signals
from veracity.core.scores import OUTPUTS, Pair, Reading, Reads, Request
from veracity.core.spaces import InputSpace, Space, TargetSpace
from veracity.core.walks import Ask
from veracity.engine.memory import MEMORY, Found
from veracity.engine.perturbation.row_weights import explanations_each, outputs_each
from veracity.engine.perturbation.rows import Rows, repeats
from veracity.engine.progress import weight
from veracity.engine.reader import Reader
from veracity.perturb import Group
from veracity.perturb.weights import RowWeightSpace

HELD = 64 << 20
"""How many bytes of outputs are held at once."""

See = Callable[[slice, Pair], None]
"""Hears of some rows of an ask."""


class Perturbed:
    """One block and one request: rows after their perturbation, beside what was read `before`."""

    def __init__(self, rows: Rows, reader: Reader, request: Request, before: Found, after: frozenset[Reads]) -> None:
        self.rows, self.reader, self.request, self.before = rows, reader, request, before
        self.space, self.model = request.space, reader.problem.models[reader.name]
        self.explaining, self.after = Reads.EXPLANATION in after, after | ({Reads.SCORES} if request.follow else set())
        self.frame = reader.explainer.frame if reader.explainer else Frame.INPUT
        guiding = before.get(Reads.EXPLANATION)
        self.guide = self.space.guide(rows.x.values, guiding) if isinstance(self.space, InputSpace) else None
        local = reader.explainer is not None and reader.explainer.local and request.smoothing is None
        moves = isinstance(self.space, (InputSpace, TargetSpace))
        self.at_once = self.explaining and local and moves and self.after & OUTPUTS == {Reads.SCORES}

    def observe(self, ask: Ask, number: int, see: See) -> None:
        """Every row of an ask by itself, with a bounded number of outputs held at once."""
        widths = [self.before[what][:1].nbytes for what in self.after & OUTPUTS if what in self.before]
        rows = max(1, HELD // max(widths, default=1))
        for first in range(0, len(ask), rows):
            self.some(ask, slice(first, min(first + rows, len(ask))), see, f"{number} {first}")

    def some(self, whole: Ask, place: slice, see: See, number: str) -> None:
        """Some rows of an ask."""
        ask = whole[place]
        known = {} if self.at_once else self.outputs_of(ask, number)

        def look(part: slice) -> None:
            piece = ask[part]
            element = self.steered(piece)
            found = {what: value[part].to(self.rows.device) for what, value in known.items()}
            targets = self.explain(piece, element, found)
            here = slice(place.start + part.start, place.start + part.stop)
            see(here, self.pair(element, piece, Reading(targets, found)))
            self.rows.moved(len(piece) * weight(self.reader.cost) if self.explaining else 0)

        self.rows.budget.spend(len(ask), self.rows.rows_each * repeats(self.request) if self.explaining else 1, look)

    def explain(self, piece: Ask, element: Tensor, found: Found) -> Tensor:
        """Read the moved inputs and their explanations of R rows into `found`, where they are wanted; what was explained comes back."""
        rows, request = self.rows, self.request
        if not self.explaining and Reads.INPUT not in self.after:
            exchanged = isinstance(self.space, InputSpace) and self.space.exchanges
            return self.moved_to(element, piece)[1] if exchanged else rows.targets[piece.row.to(rows.device)]
        x, targets = self.moved_to(element, piece)
        if request.follow and Reads.SCORES in found:
            targets = found[Reads.SCORES].argmax(dim=1)
        found[Reads.INPUT] = x.values
        if self.explaining:
            draws = rows.draws(request, piece)
            if self.at_once:
                found[Reads.EXPLANATION], found[Reads.SCORES] = self.reader.heard(x, None if request.follow else targets, draws)
                targets = found[Reads.SCORES].argmax(dim=1) if request.follow else targets
            elif isinstance(self.space, RowWeightSpace):
                found[Reads.EXPLANATION] = explanations_each(self.reader, self.space, element, x, targets, draws)
            else:
                found[Reads.EXPLANATION] = self.reader.explanation(x, targets, draws, request.smoothing)
        return targets

    def outputs_of(self, ask: Ask, number: str) -> Found:
        """The model's outputs for all rows of an ask; every explainer of the model shares them, unless the explanation steers."""
        what, request, space = self.after & OUTPUTS, self.request, self.space
        if not what:
            return {}

        def compute(missing: frozenset[Reads]) -> Found:
            parts: list[Found] = []

            def some(part: slice) -> None:
                piece = ask[part]
                element = self.steered(piece)
                x, _ = self.moved_to(element, piece)
                if isinstance(space, RowWeightSpace):
                    found = outputs_each(self.reader, space, element, x, missing, request.layer)
                else:
                    found = self.reader.outputs(missing, x, request.layer)
                parts.append({one: value.cpu() for one, value in found.items()})
                self.rows.moved(len(piece) * weight(Cost(forward=1)))

            self.rows.budget.spend(len(ask), 1, some)
            return {one: torch.cat([part[one] for part in parts]) for one in missing}

        if (isinstance(space, InputSpace) and space.guided) or request.walk.adaptive:
            return compute(what)
        key = fingerprint.of_json([self.rows.key, space.spec(), request.walk.spec(), self.rows.seed, request.layer, number])
        return MEMORY.recall(key, what, compute)

    def steered(self, piece: Ask) -> Tensor:
        """The elements of R rows, made concrete, on the model's device."""
        element = piece.element.to(self.rows.device)
        if self.guide is None or not isinstance(self.space, InputSpace) or self.guide.shape[1:].numel() == 0:
            return element
        return self.space.steer(element, self.guide[piece.row.to(self.rows.device)])

    def moved_to(self, element: Tensor, piece: Ask) -> tuple[Signals, Tensor]:
        """R rows after their perturbation, with the outputs to explain."""
        rows, space, row = self.rows, self.space, piece.row.to(self.rows.device)
        if isinstance(space, RowWeightSpace):
            return rows.x[row], rows.targets[row]
        if isinstance(space, TargetSpace):
            classes = self.reader.view(rows.x.values[:1], *(part[:1] for part in rows.x.structure)).shape[1]
            return rows.x[row], space.retarget(element, rows.targets[row], classes)
        if not isinstance(space, InputSpace):
            raise SpecError(f"The space '{space.name}' acts on neither inputs, targets nor weights.")
        if space.exchanges:
            other = space.instead_of(rows.samples[piece.row], element)
            return self.reader.problem.inputs.take(other).to(rows.device), self.model.targets[other].to(rows.device)
        return space.move(element, rows.x[row]), rows.targets[row]

    def pair(self, element: Tensor, piece: Ask, after: Reading) -> Pair:
        """Rows before and after their perturbation."""
        row = piece.row.to(self.rows.device)
        rows = Reading(self.rows.targets[row], {what: value[row] for what, value in self.before.items()})
        return pair_of(self.space, element, rows, after, self.frame)


def pair_of(space: Space, element: Tensor, before: Reading, after: Reading, frame: Frame) -> Pair:
    """Rows before and after their perturbation, with the way there and, where there is one, the way back."""
    if frame is not Frame.INPUT or not isinstance(space, InputSpace) or not space.moves_frame:
        return Pair(before, after, element, lambda x: x, lambda x: x)

    def undo(x: Tensor) -> Tensor:
        return space.act(space.inverse(element), x) if isinstance(space, Group) else x

    return Pair(before, after, element, lambda x: space.act(element, x), undo)
