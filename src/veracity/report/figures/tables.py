"""Two tables: all scores at a glance, one row per score, and paired differences between explainers, row minus column."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from veracity.core.wording import centre, interval, number
from veracity.report.rows import Verdict, against_chance
from veracity.report.wording import as_text
from veracity.results import Row
from veracity.results.rows import digits_of
from veracity.results.words import Assumed


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One number of the table in words: its interval, whether it is ahead of all others in its row, whether it tells nothing from chance,
    and how a search ended.
    """

    value: str
    ends: str = ""
    best: bool = False
    faint: bool = False
    outcome: str = ""


@dataclass(frozen=True, kw_only=True)
class OverviewRow:
    """One score on one model: which way is better, its numbers, what chance is, where its assumption fails, and how many explainers it
    compares: none if it is in the map's own units, or while one of them is pending.
    """

    score: str
    direction: str
    cells: tuple[Cell, ...]
    chance: str
    assumption: str
    compared: int = 0
    units: bool = False


@dataclass(frozen=True, kw_only=True)
class OverviewData:
    """One model's scores; of the explainers, the last so many are controls."""

    model: str
    explainers: tuple[str, ...]
    controls: int
    rows: tuple[OverviewRow, ...]


def overview_data(rows: Sequence[Row], scores: Sequence[str], models: Sequence[str], assumed: Sequence[Assumed]) -> list[OverviewData]:
    """A table for each model that has any of the scores; explainers by how often they lead, then in the run's order, controls last."""
    made = []
    for model in models:
        here = [row for row in rows if row.explainer and row.score in scores and row.model == model]
        wins = Counter(row.explainer for row in here if row.leads and row.defined)
        names = list(dict.fromkeys(row.explainer for row in sorted(here, key=lambda row: (-wins[row.explainer], row.control))))
        fails = {one.score: one for one in assumed if one.model == model}
        lines = [line(score, names, [row for row in here if row.score == score], fails.get(score)) for score in scores]
        if here:
            controls, found = len({row.explainer for row in here if row.control}), tuple(item for item in lines if item is not None)
            made.append(OverviewData(model=model, explainers=tuple(names), controls=controls, rows=found))
    return made


def line(score: str, names: Sequence[str], rows: Sequence[Row], assumed: Assumed | None) -> OverviewRow | None:
    """One score on one model; None if nothing was asked of it there."""
    if not rows:
        return None
    known = [row for row in rows if row.defined and not row.control]
    unsettled = any(row.pending and not row.control for row in rows)
    digits = digits_of(rows)
    cells = {row.explainer: cell(row, digits) for row in rows}
    chances = sorted({round(row.chance, 12) for row in known if row.chance == row.chance})
    return OverviewRow(
        score=score,
        direction=rows[0].direction,
        cells=tuple(cells.get(name, Cell(value="")) for name in names),
        chance=" to ".join(dict.fromkeys(number(value, digits) for value in chances[:: max(1, len(chances) - 1)])),
        assumption="" if assumed is None else f"{assumed.fails} of {assumed.n}",
        compared=0 if rows[0].in_map_units or unsettled else len(known),
        units=rows[0].in_map_units,
    )


def cell(row: Row, digits: int) -> Cell:
    """One number."""
    if not row.defined:
        return Cell(value="no response" if row.still else row.state, ends=row.so_far(digits) if row.pending else "", faint=True)
    faint = not row.control and against_chance(row) in (Verdict.LEVEL, Verdict.BEHIND)
    return Cell(value=row.shown(digits), ends=row.ends(digits), best=row.leads, faint=faint, outcome=row.outcome or "")


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Row minus column over the samples that both have, with its corrected interval; `bound` as in `wording.centre`."""

    value: float
    low: float
    high: float
    n: int
    differs: bool
    bound: str = ""

    @property
    def short(self) -> str:
        """The difference with two decimals and without the zero before the point."""
        return re.sub(r"(?<!\d)0\.", ".", centre(self.value, self.bound, 2))

    def __str__(self) -> str:
        return f"{centre(self.value, self.bound)}, {interval(self.low, self.high)}, {self.n} samples"

    @property
    def flipped(self) -> Difference:
        """Column minus row."""
        bound = {"at least": "at most", "at most": "at least"}.get(self.bound, "")
        return Difference(value=-self.value, low=-self.high, high=-self.low, n=self.n, differs=self.differs, bound=bound)


@dataclass(frozen=True, kw_only=True)
class MatrixData:
    """Every pair of explainers of one model; None on the diagonal and where a pair was not compared."""

    model: str
    names: tuple[str, ...]
    cells: tuple[tuple[Difference | None, ...], ...]
    largest: float

    @property
    def pairs(self) -> int:
        """How many pairs were compared."""
        return sum(cell is not None for row in self.cells for cell in row) // 2

    @property
    def apart(self) -> int:
        """How many pairs differ."""
        return sum(cell is not None and cell.differs for row in self.cells for cell in row) // 2


def matrix_data(differences: pd.DataFrame, model: str, order: Sequence[str]) -> MatrixData:
    """The differences of one model, explainers in the given order, others after them."""
    cells: dict[tuple[str, str], Difference] = {}
    for record in differences[differences["model"] == model].to_dict("records"):
        value, low, high = (float(record[name]) for name in ("difference", "low", "high"))
        bound = as_text(record.get("bound"))
        found = Difference(value=value, low=low, high=high, n=int(record["n"]), differs=bool(record["differs"]), bound=bound)
        first, second = str(record["first"]), str(record["second"])
        cells[first, second], cells[second, first] = found, found.flipped
    held = dict.fromkeys(first for first, _ in cells)
    names = [*(name for name in order if name in held), *(name for name in held if name not in order)]
    largest = max((abs(cell.value) for cell in cells.values() if math.isfinite(cell.value)), default=0.0)
    return MatrixData(
        model=model, names=tuple(names), cells=tuple(tuple(cells.get((a, b)) for b in names) for a in names), largest=largest or 1.0
    )
