"""The measurements of one cell, until they are stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from veracity.engine.store import Place, RunFolder


@dataclass(frozen=True)
class Lines:
    """The sample, draw and level of each measurement, (R,), its quantities by name, and tensors of the pairs that are shown."""

    sample: Tensor
    draw: Tensor
    level: Tensor
    quantities: Mapping[str, Tensor]
    worst: Mapping[str, Tensor] | None = None

    def without(self, samples: Mapping[int, str]) -> Lines:
        """With one undefined line for each of the samples that failed."""
        if not samples:
            return self
        nothing = torch.full((len(samples),), torch.nan, dtype=torch.float64)
        zero = torch.zeros(len(samples), dtype=torch.int64)
        return joined([self, Lines(torch.tensor(list(samples)), zero, zero, dict.fromkeys(self.quantities, nothing))])

    def write(self, key: str, folder: RunFolder, failed: Mapping[int, str], needed: Sequence[Place] = ()) -> None:
        """Store the cell with the records it needs, and first the pairs that are shown."""
        shown = [] if self.worst is None else [folder.write_tensors("worst", key, dict(self.worst))]
        columns = {name: value.numpy() for name, value in self.quantities.items()}
        folder.write_cell(key, self.sample.numpy(), self.draw.numpy(), self.level.numpy(), columns, [*needed, *shown], failed)


def joined(parts: Sequence[Lines]) -> Lines:
    """The lines of several parts of a block as one; a quantity that a part does not know is NaN there."""
    if len(parts) == 1:
        return parts[0]
    sample, draw, level = (torch.cat([getattr(part, what) for part in parts]) for what in ("sample", "draw", "level"))
    names = dict.fromkeys(name for part in parts for name in part.quantities)
    columns = {name: torch.cat([part.quantities.get(name, blank(part)) for part in parts]) for name in names}
    shown = [part.worst for part in parts if part.worst is not None]
    worst = {name: torch.cat([one[name].cpu() for one in shown]) for name in shown[0]} if shown else None
    return replace(parts[0], sample=sample, draw=draw, level=level, quantities=columns, worst=worst)


def blank(lines: Lines) -> Tensor:
    """Nothing for every line."""
    return torch.full((len(lines.sample),), torch.nan, dtype=torch.float64)
