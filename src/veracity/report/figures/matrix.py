"""Paired differences between explainers, as a table whose cell is row minus column."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from markupsafe import Markup

from veracity.report.view import as_text
from veracity.core.wording import centre, interval


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
    cells = Markup("").join(draw_cell(data, place, column, digits) for column in range(len(data.names)))
    return Markup('<tr><th scope="row"><span>{}</span> <b>{}</b></th>{}</tr>').format(place + 1, data.names[place], cells)


def draw_cell(data: MatrixData, row: int, column: int, digits: int) -> Markup:
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
