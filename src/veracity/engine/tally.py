"""What the scores of fused cells observed, row by row, until it is stored."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from veracity.core.errors import SpecError, VeracityError, said
from veracity.core.scores import Pair, Reads
from veracity.core.spaces import InputSpace
from veracity.core.walks import Ask
from veracity.engine.lines import Lines
from veracity.engine.plan import Cell
from veracity.engine.worst import Worst


class Tally:
    """Quantities (Q, R) of every cell, one ask after the other, and the pairs that hurt most.

    Samples that are `broken` (samples,), whose explanation holds NaN or infinity, have no score of explanations; samples that
    are `wrong`, misclassified, have none that starts from correctly classified ones.
    """

    def __init__(self, cells: Sequence[Cell], samples: Tensor, broken: Tensor, wrong: Tensor) -> None:
        self.cells, self.samples, self.broken, self.wrong = cells, samples, broken, wrong
        self.asks: list[Ask] = []
        self.seen: list[list[Tensor]] = [[] for _ in cells]
        self.failed: dict[str, str] = {}
        self.worst = {cell.key: Worst(len(samples), cell.score.direction) for cell in cells if telling(cell)}

    def open(self, ask: Ask) -> None:
        """Make room for the rows of an ask."""
        self.asks.append(ask)
        for cell, seen in zip(self.cells, self.seen, strict=True):
            seen.append(torch.full((len(cell.score.quantities), len(ask)), torch.nan, dtype=torch.float64))

    def see(self, part: slice, pair: Pair) -> None:
        """Let every score observe some rows of the ask that is open."""
        ask = self.asks[-1][part]
        for cell, seen in zip(self.cells, self.seen, strict=True):
            if cell.key in self.failed:
                continue
            try:
                values = cell.score.observe(pair).detach().double().cpu()
            except VeracityError as error:
                self.failed[cell.key] = said(error)
                if len(self.failed) == len(self.cells):
                    raise
                continue
            columns = values[:, None] if values.ndim == 1 else values
            if columns.shape != (len(ask), len(cell.score.quantities)):
                expected = f"({len(ask)}, {len(cell.score.quantities)})"
                raise SpecError(f"The score '{cell.name}' observed numbers of shape {tuple(values.shape)}, expected {expected}.")
            if cell.score.reads is Reads.EXPLANATION:
                columns[self.broken[ask.row]] = torch.nan
            if cell.score.seeds:
                columns[self.wrong[ask.row]] = torch.nan
            seen[-1][:, part] = columns.T
            if cell.key in self.worst:
                self.worst[cell.key].see(replaced(ask, pair.element), columns[:, 0], pair.after.explanation)

    def told(self) -> Tensor:
        """The first score's values of the ask that is open."""
        return self.seen[0][-1][0]

    def worst_of(self, cell: Cell) -> Worst | None:
        """The most telling pairs, where they are kept."""
        return self.worst.get(cell.key)

    def lines(self, cell: Cell, worst: dict[str, Tensor] | None) -> Lines | str:
        """What was measured of one cell, with the pairs for the eye; or why its score could not observe it."""
        if cell.key in self.failed:
            return self.failed[cell.key]
        row = torch.cat([ask.row for ask in self.asks])
        draw, level = (torch.cat([getattr(ask, what) for ask in self.asks]) for what in ("draw", "level"))
        values = torch.cat(self.seen[self.cells.index(cell)], dim=1)
        return Lines(self.samples[row], draw, level, dict(zip(cell.score.quantities, values, strict=True)), worst)


def telling(cell: Cell) -> bool:
    """Whether single pairs of a cell are worth a picture: one number for each perturbed input's explanation."""
    space = cell.request.space
    return Reads.EXPLANATION in cell.after and cell.score.quantities == ("value",) and isinstance(space, InputSpace) and not space.exchanges


def replaced(ask: Ask, element: Tensor) -> Ask:
    """The ask with its concrete elements."""
    return Ask(ask.row, ask.draw, ask.level, element.cpu())
