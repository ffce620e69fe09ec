"""Two tables: all scores at a glance, one row per score, and paired differences between explainers, row minus column."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from markupsafe import Markup

from veracity.core.wording import centre, interval, number
from veracity.report.rows import Verdict, against_chance
from veracity.report.wording import ARROWS, as_text, title_of
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

    @property
    def wins(self) -> dict[str, int]:
        """In how many rows each explainer is the best, most first; those that never are left out."""
        found = {name: sum(row.cells[place].best for row in self.rows) for place, name in enumerate(self.explainers)}
        return {name: count for name, count in sorted(found.items(), key=lambda item: -item[1]) if count}


def overview_data(rows: Sequence[Row], scores: Sequence[str], models: Sequence[str], assumed: Sequence[Assumed]) -> list[OverviewData]:
    """A table for each model that has any of the scores; explainers by how often they lead, then in the run's order, controls last."""
    mine = [row for row in rows if row.explainer and row.score in scores]
    made = []
    for model in models:
        here = [row for row in mine if row.model == model]
        names = list(dict.fromkeys(row.explainer for row in sorted(here, key=lambda row: row.control)))
        controls = len({row.explainer for row in here if row.control})
        if here:
            plain = table(model, names, controls, here, scores, assumed)
            ahead = list(plain.wins)
            order = [*ahead, *(name for name in names if name not in ahead)]
            made.append(table(model, order, controls, here, scores, assumed))
    return made


def table(
    model: str, names: Sequence[str], controls: int, rows: Sequence[Row], scores: Sequence[str], assumed: Sequence[Assumed]
) -> OverviewData:
    """The table of one model with its columns in this order."""
    fails = {one.score: one for one in assumed if one.model == model}
    lines = [line(score, names, [row for row in rows if row.score == score], fails.get(score)) for score in scores]
    return OverviewData(model=model, explainers=tuple(names), controls=controls, rows=tuple(item for item in lines if item is not None))


def line(score: str, names: Sequence[str], rows: Sequence[Row], assumed: Assumed | None) -> OverviewRow | None:
    """One score on one model; None if nothing was asked of it there."""
    if not rows:
        return None
    known = [row for row in rows if row.defined and not row.control]
    unsettled = any(row.pending and not row.control for row in rows)
    digits = digits_of(rows)
    cells = {row.explainer: cell(row, digits, best=row.leads) for row in rows}
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


def cell(row: Row, digits: int, *, best: bool) -> Cell:
    """One number."""
    if not row.defined:
        return Cell(value="no response" if row.still else row.state, ends=row.so_far(digits) if row.pending else "", faint=True)
    faint = not row.control and against_chance(row) in (Verdict.LEVEL, Verdict.BEHIND)
    return Cell(value=row.shown(digits), ends=row.ends(digits), best=best, faint=faint, outcome=row.outcome or "")


def draw_overview(data: OverviewData) -> Markup:
    """The table as HTML."""
    last = len(data.explainers) - data.controls
    named = Markup("").join(
        Markup('<th scope="col"{}>{}{}</th>').format(
            Markup(' class="control"') if place >= last else "", name, Markup(" <small>control</small>") if place >= last else ""
        )
        for place, name in enumerate(data.explainers)
    )
    assumed, chances = any(row.assumption for row in data.rows), any(row.chance for row in data.rows)
    head = Markup('<tr><th scope="col">Score</th>{}{}{}</tr>').format(
        Markup('<th scope="col">Assumption fails</th>') if assumed else "",
        Markup('<th scope="col">Chance</th>') if chances else "",
        named,
    )
    body = Markup("").join(draw_line(row, last, assumed=assumed, chances=chances) for row in data.rows)
    frame = '<div class="scroll" tabindex="0"><table class="overview"><thead>{}</thead><tbody>{}</tbody></table></div>'
    return Markup(frame).format(head, body)


def draw_line(row: OverviewRow, controls_from: int, *, assumed: bool, chances: bool) -> Markup:
    """One score."""
    way = (f"{row.direction} is better", ARROWS.get(row.direction, ""))
    better, arrow = ("in each map's own units, not to be compared", "*") if row.units else way
    title = Markup('<th scope="row">{} <abbr title="{}">{}</abbr></th>').format(title_of(row.score), better, arrow)
    cells = Markup("").join(draw_cell(item, control=place >= controls_from) for place, item in enumerate(row.cells))
    fails = Markup("<td>{}</td>").format(row.assumption) if assumed else Markup("")
    chance = Markup("<td>{}</td>").format(row.chance) if chances else Markup("")
    return Markup("<tr>{}{}{}{}</tr>").format(title, fails, chance, cells)


def draw_cell(item: Cell, *, control: bool) -> Markup:
    """One number over its interval."""
    css = " ".join(word for word, wanted in (("best", item.best), ("faint", item.faint), ("control", control)) if wanted)
    ends = Markup("<small>{}</small>").format(item.ends) if item.ends else ""
    told = Markup("<small>{}</small>").format(item.outcome) if item.outcome else ""
    return Markup("<td{}>{}{}{}</td>").format(Markup(' class="{}"').format(css) if css else "", item.value, ends, told)


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
        found = Difference(
            value=float(record["difference"]),
            low=float(record["low"]),
            high=float(record["high"]),
            n=int(record["n"]),
            differs=bool(record["differs"]),
            bound=as_text(record.get("bound")),
        )
        first, second = str(record["first"]), str(record["second"])
        cells[first, second], cells[second, first] = found, found.flipped
    held = dict.fromkeys(first for first, _ in cells)
    names = [*(name for name in order if name in held), *(name for name in held if name not in order)]
    largest = max((abs(cell.value) for cell in cells.values() if math.isfinite(cell.value)), default=0.0)
    return MatrixData(
        model=model, names=tuple(names), cells=tuple(tuple(cells.get((a, b)) for b in names) for a in names), largest=largest or 1.0
    )


def draw_matrix(data: MatrixData, digits: int = 2) -> Markup:
    """The table as HTML: columns by number, since the rows name them."""
    head = Markup("").join(Markup('<th scope="col" title="{}">{}</th>').format(name, place + 1) for place, name in enumerate(data.names))
    body = Markup("").join(draw_row(data, place, digits) for place in range(len(data.names)))
    return Markup('<table class="matrix"><thead><tr><td></td>{}</tr></thead><tbody>{}</tbody></table>').format(head, body)


def draw_row(data: MatrixData, place: int, digits: int) -> Markup:
    """One explainer against all others."""
    cells = Markup("").join(draw_difference(data, place, column, digits) for column in range(len(data.names)))
    return Markup('<tr><th scope="row"><span>{}</span> <b>{}</b></th>{}</tr>').format(place + 1, data.names[place], cells)


def draw_difference(data: MatrixData, row: int, column: int, digits: int) -> Markup:
    """A difference: shaded by its size, set bold where its interval excludes 0, pale where it does not."""
    cell = data.cells[row][column]
    if cell is None:
        return Markup('<td class="none"></td>')
    if not math.isfinite(cell.value):
        return Markup('<td class="same" title="{} minus {}: not known">?</td>').format(data.names[row], data.names[column])
    text = re.sub(r"(?<!\d)0\.", ".", centre(cell.value, cell.bound, digits))
    shown = f"{centre(cell.value, cell.bound)}, {interval(cell.low, cell.high)}"
    title = f"{data.names[row]} minus {data.names[column]}: {shown}, {cell.n} samples"
    css = ("up" if cell.value > 0 else "down") if cell.differs else "same"
    shade = round(0.08 + 0.5 * abs(cell.value) / data.largest, 3)
    return Markup('<td class="{}" style="--a:{}" title="{}">{}</td>').format(css, shade, title, text)
