"""When a block of samples throws: the samples that throw by themselves are found, and the others are measured without them.

Halves are tried, then their halves, so that one bad sample of 64 costs about as much as the block itself. Random numbers belong to
samples, so the others have the numbers that they would have had.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from veracity.core.errors import ChangedModelError, StoreError, VeracityError, error_text
from veracity.core.models import out_of_memory
from veracity.engine.plan import Cell, Job
from veracity.engine.store import RunFolder
from veracity.engine.tally import Lines, joined

FAILED = "failed"
"""The name under which the explanations of a block say which of its rows failed."""


class Measuring(Protocol):
    """A block, or some rows of one."""

    maps: dict[str, Tensor]

    def measure(self, cells: Sequence[Cell]) -> list[Lines | str]:
        """What was measured of each cell, or why its score could not observe it."""
        ...


@dataclass
class Salvaged:
    """What was measured of each cell, or why it failed as a whole; why single rows of the block failed; and maps of the others."""

    cells: list[Lines | str]
    failed: dict[int, str] = field(default_factory=dict)
    maps: dict[str, dict[tuple[int, ...], Tensor]] = field(default_factory=dict)

    def keep_base(self, job: Job, folder: RunFolder) -> None:
        """Store the base explanations, NaN where a row failed, for those who look at them; a resumed run computes them again."""
        for key, parts in self.maps.items():
            first = next(iter(parts.values()))
            whole = torch.full((len(job.samples), *first.shape[1:]), torch.nan, dtype=first.dtype)
            for rows, maps in parts.items():
                whole[list(rows)] = maps.cpu()
            missing = {FAILED: torch.tensor(sorted(self.failed))} if self.failed else {}
            folder.write_tensors("explanations", key, {"explanation": whole, **missing})


class Salvage:
    """The block of a job, and what is known of the rows that fail; `block` makes it, whole or of some rows."""

    def __init__(self, block: Callable[[Tensor | None], Measuring], rows: int) -> None:
        self.block, self.count = block, rows
        self.suspects: set[int] = set()
        self.kept: tuple[tuple[int, ...], Measuring] | None = None

    def measure(self, cells: Sequence[Cell]) -> Salvaged:
        """Measure cells that share their perturbations; raises what is no single row's fault, and what every row throws."""
        sound = tuple(row for row in range(self.count) if row not in self.suspects)
        left = [sound, *((row,) for row in sorted(self.suspects))] if sound else [tuple(range(self.count))]
        found: list[tuple[tuple[int, ...], list[Lines | str], Measuring]] = []
        failed: dict[int, str] = {}
        first: Exception | None = None
        while left:
            rows = left.pop(0)
            block = self.of(rows)
            try:
                found.append((rows, block.measure(cells), block))
            except (StoreError, ChangedModelError):
                raise
            except Exception as error:
                if out_of_memory(error):
                    raise
                if len(rows) == 1:
                    failed[rows[0]] = error_text(error)
                    first = first or error.with_traceback(None)  # whose frames hold tensors
                elif isinstance(error, VeracityError) and self.about_all(rows, cells, error):
                    raise
                else:
                    middle = len(rows) // 2
                    left[:0] = [rows[:middle], rows[middle:]]
        if first is not None and not found:
            raise first
        self.suspects |= set(failed)
        return merged(found, dict(sorted(failed.items())))

    def of(self, rows: tuple[int, ...]) -> Measuring:
        """The block of some rows; the last large one is kept, since the next cells ask for it again."""
        if self.kept is not None and self.kept[0] == rows:
            return self.kept[1]
        block = self.block(None if len(rows) == self.count else torch.tensor(rows))
        if 2 * len(rows) > self.count:
            self.kept = (rows, block)
        return block

    def about_all(self, rows: tuple[int, ...], cells: Sequence[Cell], error: VeracityError) -> bool:
        """Whether one of our own sentences, which seldom is about a sample, is what the first and the last row say too."""
        for row in (rows[0], rows[-1]):
            try:
                self.of((row,)).measure(cells)
            except VeracityError as own:
                if error_text(own) != error_text(error):
                    return False
            except Exception:
                return False
            else:
                return False
        return True


def merged(found: Sequence[tuple[tuple[int, ...], list[Lines | str], Measuring]], failed: dict[int, str]) -> Salvaged:
    """The parts of a block as one."""
    if len(found) == 1 and not failed:
        return Salvaged(found[0][1])
    cells: list[Lines | str] = []
    for parts in zip(*(outcome for _, outcome, _ in found), strict=True):
        reason = next((part for part in parts if isinstance(part, str)), None)
        cells.append(joined([part for part in parts if isinstance(part, Lines)]) if reason is None else reason)
    maps: dict[str, dict[tuple[int, ...], Tensor]] = {}
    for rows, _, block in found:
        for key, value in block.maps.items():
            maps.setdefault(key, {})[rows] = value
    return Salvaged(cells, failed, maps)
