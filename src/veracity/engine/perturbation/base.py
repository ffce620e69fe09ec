"""What every kind of perturbation answers: perturb and read the rows that a walk asks for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import torch
from torch import Tensor

from veracity.core.explainers import Frame
from veracity.core.scores import Pair, Reading, Reads, Request
from veracity.core.spaces import InputSpace, Space
from veracity.core.walks import Ask
from veracity.engine.memory import Readings
from veracity.engine.plan import Cell
from veracity.engine.reading import Block
from veracity.engine.tally import Measurements, Tally, Worst
from veracity.perturb import Group

S = TypeVar("S", bound=Space)
See = Callable[[slice, Pair], None]
"""Called with some rows of an ask, before and after their perturbation."""


class Perturbation(ABC, Generic[S]):
    """One block of samples under the request that some cells share; `before` is what was read of the unperturbed block."""

    def __init__(self, block: Block, cells: Sequence[Cell], space: S, before: Readings) -> None:
        self.block, self.cells, self.space, self.before = block, cells, space, before
        self.request: Request = cells[0].request
        self.after = frozenset[Reads]().union(*(cell.after for cell in cells))

    @abstractmethod
    def observe(self, ask: Ask, see: See) -> None:
        """Perturb and read every row of an ask, and hand the rows to `see`, part by part."""

    def measure(self) -> list[Measurements | str]:
        """Follow the walk to its end. Returns the measurements of each cell, or why its score failed."""
        block = self.block
        tally = Tally(self.cells, block.samples, self.broken, ~block.correct)
        walker = self.request.walk.start(self.space, block.samples, block.seed, self.cells[0].score.bounds)
        with torch.no_grad():
            while (ask := walker.ask()) is not None:
                tally.open(ask)
                self.observe(ask, tally.see)
                walker.tell(tally.objective())
        return [tally.lines(cell, self.worst_pairs(cell, tally.worst.get(cell.key))) for cell in self.cells]

    @property
    def broken(self) -> Tensor:
        """Samples (samples,) whose unperturbed explanation holds NaN or infinity."""
        maps = self.before.get(Reads.EXPLANATION)
        return torch.zeros(len(self.block), dtype=torch.bool) if maps is None else ~maps.flatten(1).isfinite().all(1).cpu()

    def pair(self, row: Tensor, element: Tensor, after: Reading) -> Pair:
        """Rows (R,) of the block before and after their perturbation."""
        before = Reading(self.block.targets[row], {what: value[row] for what, value in self.before.items()})
        return pair_of(self.space, element, before, after, self.block.frame)

    def worst_pairs(self, cell: Cell, worst: Worst | None) -> dict[str, Tensor] | None:
        """The inputs and explanations of the block's worst pairs, for pictures."""
        space = self.space
        if worst is None or worst.element is None or worst.after is None or not isinstance(space, InputSpace):
            return None
        rows = worst.rows()
        if len(rows) == 0:
            return None
        here, element = rows.to(self.block.device), worst.element[rows].to(self.block.device)
        pair = self.pair(here, element, Reading(self.block.targets[here], {Reads.EXPLANATION: worst.after[here]}))
        inputs = self.block.x.values[here]
        return {
            "sample": self.block.samples[rows],
            "draw": worst.draw[rows],
            "element": worst.element[rows],
            "value": worst.value[rows] * worst.sign,
            "input": inputs,
            "moved": space.act(element, inputs),
            "explanation": pair.before.explanation,
            "expected": cell.score.expected(pair),
            "found": pair.after.explanation,
        }


def pair_of(space: Space, element: Tensor, before: Reading, after: Reading, frame: Frame) -> Pair:
    """Rows before and after their perturbation, with the transform of the explanations and, for a group, its inverse."""
    if frame is not Frame.INPUT or not isinstance(space, InputSpace) or not space.moves_frame:
        return Pair(before, after, element, lambda x: x, lambda x: x)

    def undo(x: Tensor) -> Tensor:
        return space.act(space.inverse(element), x) if isinstance(space, Group) else x

    return Pair(before, after, element, lambda x: space.act(element, x), undo)
