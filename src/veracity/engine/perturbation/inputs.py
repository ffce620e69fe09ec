"""Perturbations of single rows: their input, the sample in their place, or the output that is explained."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from veracity.core import fingerprint
from veracity.core.explainers import Cost
from veracity.core.inputs import Signals, samples_on
from veracity.core.randomness import Draws
from veracity.core.scores import OUTPUTS, Reading, Reads
from veracity.core.spaces import GuidedSpace, InputSpace, SampleSpace, TargetSpace
from veracity.core.walks import AdaptiveWalk, Ask
from veracity.engine.memory import MEMORY, Readings
from veracity.engine.perturbation.base import Perturbation, S, See
from veracity.engine.plan import Cell, outputs_of_explainer
from veracity.engine.progress import weight
from veracity.engine.reader import Block
from veracity.perturb.compensated import CompensatedShift
from veracity.perturb.lengths import OwnLength

HELD = 64 << 20
"""How many bytes of outputs are held at once; and of elements."""
TRIED = 4
"""On how many samples, the first of the audit, a copy of a model is compared with the model."""


class RowPerturbation(Perturbation[S]):
    """Every row of an ask is perturbed by itself. Subclasses say how, in `transform`."""

    model_stays: ClassVar[bool] = True
    """Whether the model itself is asked, so that a local explainer sees the scores of the perturbed row in its own pass."""

    def __init__(self, block: Block, cells: Sequence[Cell], space: S, before: Readings) -> None:
        super().__init__(block, cells, space, before)
        self.explaining, self.asks = Reads.EXPLANATION in self.after, 0
        if self.request.follow:
            self.after |= {Reads.SCORES}
        seen = outputs_of_explainer(block.problem, block.job.model, block.explainer, self.request) if self.model_stays else frozenset()
        self.single_pass = self.explaining and bool(self.after & OUTPUTS) and self.after & OUTPUTS <= seen

    @abstractmethod
    def transform(self, piece: Ask, element: Tensor) -> tuple[Signals, Tensor]:
        """R rows after their perturbation by concrete elements (R, p), and the outputs (R,) to explain."""

    def targets(self, piece: Ask, element: Tensor) -> Tensor:
        """The outputs (R,) that scores look at when nothing is explained."""
        return self.block.targets[piece.row.to(self.block.device)]

    def concrete(self, piece: Ask) -> Tensor:
        """The elements (R, p) of some rows as they act, on the model's device."""
        return piece.element.to(self.block.device)

    def read_outputs(self, element: Tensor, x: Signals, what: frozenset[Reads]) -> Readings:
        """The outputs for R perturbed rows."""
        return self.block.reader.outputs(what, x, self.request.layer)

    def read_explanation(self, element: Tensor, x: Signals, targets: Tensor, draws: Draws) -> Tensor:
        """The explanations of R perturbed rows."""
        return self.block.reader.explanation(x, targets, draws, self.request.smoothing)

    def shared_key(self, number: str) -> str | None:
        """The key under which every explainer of the model finds the outputs of an ask; None if they are this one's alone."""
        request, block = self.request, self.block
        if isinstance(request.walk, AdaptiveWalk):
            return None
        return fingerprint.of_json([block.key, self.space.spec(), request.walk.spec(), block.seed, request.layer, number])

    def observe(self, ask: Ask, see: See) -> None:
        """All rows of an ask, with a bounded number of outputs held at once."""
        widths = [self.before[what][:1].nbytes for what in self.after & OUTPUTS if what in self.before]
        rows = max(1, HELD // max(widths, default=1))
        for first in range(0, len(ask), rows):
            self.observe_part(ask, slice(first, min(first + rows, len(ask))), see, f"{self.asks} {first}")
        self.asks += 1

    def observe_part(self, whole: Ask, place: slice, see: See, number: str) -> None:
        """Some rows of an ask."""
        ask, block, held = whole[place], self.block, dict[tuple[int, int], Tensor]()
        outputs = {} if self.single_pass else self.outputs(ask, number, held)

        def some(part: slice) -> None:
            piece = ask[part]
            known = held.pop((part.start, part.stop), None)
            element = self.concrete(piece) if known is None else known
            found = {what: value[part] for what, value in outputs.items()}
            targets = self.read_into(piece, element, found)
            pair = self.pair(piece.row.to(block.device), element, Reading(targets, found))
            see(slice(place.start + part.start, place.start + part.stop), pair)
            block.advance(len(piece) * weight(block.reader.cost) if self.explaining else 0)

        block.budget.spend(len(ask), block.rows_each * self.request.repeats if self.explaining else 1, some, block.calls)

    def read_into(self, piece: Ask, element: Tensor, found: Readings) -> Tensor:
        """Read perturbed inputs and explanations of R rows into `found`, if they are wanted. Returns the explained outputs (R,)."""
        if not self.explaining and Reads.INPUT not in self.after:
            return self.targets(piece, element)
        request = self.request
        x, targets = self.transform(piece, element)
        if request.follow and Reads.SCORES in found:
            targets = found[Reads.SCORES].argmax(dim=1)
        found[Reads.INPUT] = x.values
        if not self.explaining:
            return targets
        draws = self.block.draws(request, piece)
        if not self.single_pass:
            found[Reads.EXPLANATION] = self.read_explanation(element, x, targets, draws)
            return targets
        found[Reads.EXPLANATION], found[Reads.SCORES] = self.block.reader.explanation_and_scores(
            x, None if request.follow else targets, draws
        )
        if Reads.OUTPUT in self.after:
            found[Reads.OUTPUT] = self.block.reader.outputs_are.read(found[Reads.SCORES])
        return found[Reads.SCORES].argmax(dim=1) if request.follow else targets

    def outputs(self, ask: Ask, number: str, held: dict[tuple[int, int], Tensor]) -> Readings:
        """The model's outputs for all rows of an ask. Elements are held by their rows for scores to look at, as far as they are small."""
        what, block = self.after & OUTPUTS, self.block

        def compute(missing: frozenset[Reads]) -> Readings:
            parts: list[Readings] = []

            def some(part: slice) -> None:
                piece = ask[part]
                element = self.concrete(piece)
                if not self.explaining and sum(one.nbytes for one in held.values()) + element.nbytes <= HELD:
                    held[part.start, part.stop] = element
                x, _ = self.transform(piece, element)
                parts.append(self.read_outputs(element, x, missing))
                block.advance(len(piece) * weight(Cost(forward=1)))

            block.budget.spend(len(ask), 1, some)
            return {one: torch.cat([part[one] for part in parts]) for one in missing}

        if not what:
            return {}
        key = self.shared_key(number)
        return compute(what) if key is None else MEMORY.recall(key, what, compute)


class InputPerturbation(RowPerturbation[InputSpace]):
    """The inputs are transformed."""

    def transform(self, piece: Ask, element: Tensor) -> tuple[Signals, Tensor]:
        """The rows moved by their elements, and their own targets."""
        row = piece.row.to(self.block.device)
        return self.space.move(element, self.block.x[row]), self.block.targets[row]


class CompensatedPerturbation(InputPerturbation):
    """The inputs are shifted, and a copy of the model that takes the shift away is asked."""

    space: CompensatedShift
    model_stays = False

    def __init__(self, block: Block, cells: Sequence[Cell], space: CompensatedShift, before: Readings) -> None:
        super().__init__(block, cells, space, before)
        first = torch.arange(min(TRIED, block.problem.inputs.size()))  # the same for every block, so that all see the same model
        some = samples_on(block.problem.inputs, first, block.device)
        self.reader = block.reader.on(space.compensate(block.model.module, some))

    def read_outputs(self, element: Tensor, x: Signals, what: frozenset[Reads]) -> Readings:
        """The outputs of the copy."""
        return self.reader.outputs(what, x, self.request.layer)

    def read_explanation(self, element: Tensor, x: Signals, targets: Tensor, draws: Draws) -> Tensor:
        """The explanations of the copy."""
        return self.reader.explanation(x, targets, draws, self.request.smoothing)


class GuidedPerturbation(InputPerturbation):
    """The inputs are transformed, as a guide of each sample says."""

    space: GuidedSpace

    def __init__(self, block: Block, cells: Sequence[Cell], space: GuidedSpace, before: Readings) -> None:
        if space.by_explanation and Reads.EXPLANATION not in before:
            before = {**before, Reads.EXPLANATION: block.explanation(cells[0].request)}
        super().__init__(block, cells, space, before)
        maps = before.get(Reads.EXPLANATION) if space.by_explanation or not isinstance(space, OwnLength) else None
        known = (block.x.present,) if isinstance(space, OwnLength) else ()
        self.guide = space.guide(block.x.values, maps, *known)

    def concrete(self, piece: Ask) -> Tensor:
        """The elements steered by the guides of their samples."""
        return self.space.steer(super().concrete(piece), self.guide[piece.row.to(self.block.device)])

    def shared_key(self, number: str) -> str | None:
        """None if the explainer's own maps steer, since no other explainer has these inputs."""
        return None if self.space.by_explanation else super().shared_key(number)


class SamplePerturbation(RowPerturbation[SampleSpace]):
    """Other samples of the data set, with their own targets, take the place of the rows."""

    def transform(self, piece: Ask, element: Tensor) -> tuple[Signals, Tensor]:
        """The other samples, and their targets."""
        other = self.space.instead_of(self.block.numbers[piece.row.to(self.block.device)], element).cpu()
        return self.block.problem.inputs.take(other).to(self.block.device), self.block.model.targets[other].to(self.block.device)

    def targets(self, piece: Ask, element: Tensor) -> Tensor:
        """Those of the other samples."""
        other = self.space.instead_of(self.block.numbers[piece.row.to(self.block.device)], element).cpu()
        return self.block.model.targets[other].to(self.block.device)


class TargetPerturbation(RowPerturbation[TargetSpace]):
    """Another output of the model is explained."""

    def transform(self, piece: Ask, element: Tensor) -> tuple[Signals, Tensor]:
        """The rows as they are, and the other outputs."""
        x, row = self.block.x, piece.row.to(self.block.device)
        classes = self.block.reader.view(x.values[:1], *(part[:1] for part in x.structure)).shape[1]
        return x[row], self.space.retarget(element, self.block.targets[row], classes)
