"""What explainers learnt about the models before they explained anything, as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from veracity.core.sentences import tell
from veracity.core.wording import compact, count, interval, number
from veracity.report.wording import as_number, as_text, missing, title_of

FIRST = ("model", "explainer", "concept")
ENDS = ("low", "high")
LAST = ("trusted", "warning")
OPEN = 12
"""Longer tables are folded away."""


@dataclass(frozen=True, kw_only=True)
class Fact:
    """One row: its cells in words, whether it is trusted (None: nobody asked), and what speaks against it."""

    cells: tuple[str, ...]
    trusted: bool | None
    warning: str


@dataclass(frozen=True, kw_only=True)
class LearntTable:
    """Facts with the same columns."""

    columns: tuple[str, ...]
    facts: tuple[Fact, ...]

    @property
    def doubtful(self) -> tuple[Fact, ...]:
        """Those that are not trusted."""
        return tuple(fact for fact in self.facts if fact.trusted is False)


def facts_data(frame: pd.DataFrame, level: str = "95 %") -> tuple[LearntTable, ...]:
    """Facts as tables: explainers whose facts have the same columns share one, in the order of their appearance."""
    records = [{str(name): value for name, value in record.items()} for record in frame.to_dict("records")]
    shapes: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for label in dict.fromkeys(record.get("explainer") for record in records):
        mine = [record for record in records if record.get("explainer") == label]
        shapes.setdefault(columns_of(mine), []).extend(mine)
    return tuple(table_of(columns, mine, level) for columns, mine in shapes.items())


def columns_of(records: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The columns that some record fills: who and what first, whether to trust it last, an interval with its value."""
    filled = list(dict.fromkeys(name for record in records for name, value in record.items() if not missing(value)))
    folded = {*LAST, *(ENDS if "accuracy" in filled and all(end in filled for end in ENDS) else ())}
    first = [name for name in FIRST if name in filled]
    return (*first, *(name for name in filled if name not in first and name not in folded), *(["trusted"] if "trusted" in filled else []))


def table_of(columns: Sequence[str], records: Sequence[Mapping[str, Any]], level: str) -> LearntTable:
    """The records in words."""
    facts = []
    for record in records:
        trusted = record.get("trusted")
        facts.append(
            Fact(
                cells=tuple(worded(name, record) for name in columns),
                trusted=None if missing(trusted) else bool(trusted),
                warning=as_text(record.get("warning")),
            )
        )
    bounded = any(not missing(record.get("accuracy")) and not missing(record.get("low")) for record in records)
    titles = {"accuracy": f"Accuracy ({level} interval)" if bounded else "Accuracy"}
    return LearntTable(columns=tuple(titles.get(name, title_of(name)) for name in columns), facts=tuple(facts))


def worded(name: str, record: Mapping[str, Any]) -> str:
    """A cell in words: an accuracy with its interval, yes or no, numbers, texts."""
    value = record.get(name)
    if name == "accuracy":
        low, high = (as_number(record.get(end)) for end in ENDS)
        return number(as_number(value)) + (f" ({interval(low, high)})" if not missing(value) and low <= high else "")
    if missing(value):
        return ""
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    return compact(float(value)) if isinstance(value, (int, float, np.number)) else str(value)


def facts_sentence(tables: Sequence[LearntTable]) -> str:
    """How many facts are not trusted, of those for which that was asked."""
    asked = [fact for table in tables for fact in table.facts if fact.trusted is not None]
    doubtful = [fact for fact in asked if not fact.trusted]
    if not doubtful:
        return tell("learnt.all", len(asked), facts=len(asked)) or tell("learnt.one", facts=len(asked))
    verb = "is" if len(doubtful) == 1 else "are"
    return tell("learnt.some", count(len(asked), "row"), len(doubtful), verb, facts=len(asked))


def draw_facts(tables: Sequence[LearntTable]) -> Markup:
    """Every table as HTML: what is doubtful in the open, long tables folded away."""
    return Markup("").join(draw_table(table) for table in tables)


def draw_table(table: LearntTable) -> Markup:
    """One table."""
    if len(table.facts) <= OPEN:
        return rows_of(table.columns, table.facts)
    doubtful = rows_of(table.columns, table.doubtful) if table.doubtful else Markup("")
    folded = Markup("<details><summary>All {}</summary>{}</details>").format(
        count(len(table.facts), "row"), rows_of(table.columns, table.facts)
    )
    return doubtful + folded


def rows_of(columns: Sequence[str], facts: Sequence[Fact]) -> Markup:
    """Facts as table rows, each warning in a line of its own under its row."""
    head = Markup("").join(Markup('<th scope="col">{}</th>').format(name) for name in columns)
    body = Markup("").join(draw_fact(fact, len(columns)) for fact in facts)
    frame = '<div class="scroll" tabindex="0"><table class="learnt"><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>'
    return Markup(frame).format(head, body)


def draw_fact(fact: Fact, width: int) -> Markup:
    """One row; what is not trusted is set apart."""
    css = Markup(' class="doubtful"') if fact.trusted is False else Markup("")
    row = Markup("<tr{}>{}</tr>").format(css, Markup("").join(Markup("<td>{}</td>").format(cell) for cell in fact.cells))
    warning = Markup('<tr class="warning"><td colspan="{}">{}</td></tr>').format(width, fact.warning)
    return row + (warning if fact.warning else Markup(""))
