"""What searches kept of a block's samples, until they are all done."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from veracity.core.searches import Trace
from veracity.engine.lines import Lines
from veracity.engine.plan import Cell


class Kept:
    """The lines of one cell's searches, group after group; the columns a score sees go by the score's names for them."""

    def __init__(self, cell: Cell, samples: Tensor) -> None:
        self.cell, self.samples = cell, samples
        self.lines: list[tuple[Tensor, Trace]] = []

    def add(self, rows: Tensor, trace: Trace) -> None:
        """The trace of a group, whose samples are these rows of the block."""
        self.lines.append((rows[trace.row], trace))

    def whole(self, worst: dict[str, Tensor] | None) -> Lines:
        """The cell, with the points for the eye; a sample that was not searched has one undefined line."""
        quantities = self.cell.score.quantities
        seen = {f"seen{number}": name for number, name in enumerate(quantities)}
        names = list(dict.fromkeys([*quantities, *(seen.get(name, name) for _, trace in self.lines for name in trace.quantities)]))
        searched = torch.cat([row for row, _ in self.lines]) if self.lines else torch.zeros(0, dtype=torch.int64)
        left = torch.tensor(np.setdiff1d(np.arange(len(self.samples)), searched.numpy()), dtype=torch.int64)
        row = torch.cat((searched, left))
        nothing = torch.zeros_like(left)
        draw, level = (torch.cat([*(getattr(trace, what) for _, trace in self.lines), nothing]) for what in ("draw", "level"))
        columns = {}
        for name in names:
            parts = [column(trace, name, seen) for _, trace in self.lines]
            columns[name] = torch.cat([*parts, torch.full((len(left),), torch.nan, dtype=torch.float64)])
        return Lines(self.samples[row], draw, level, columns, worst)


def column(trace: Trace, name: str, seen: dict[str, str]) -> Tensor:
    """One quantity of a trace by the score's name for it; NaN where it has none."""
    own = next((key for key, value in seen.items() if value == name), name)
    found = trace.quantities.get(own)
    return torch.full((len(trace.row),), torch.nan, dtype=torch.float64) if found is None else found
