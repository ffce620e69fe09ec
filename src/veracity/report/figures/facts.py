"""What explainers learnt about the models before they explained anything, as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from veracity.core.sentences import tell
from veracity.core.wording import compact, count, interval, number
from veracity.report.wording import as_number, as_text, missing, title_of

FIRST = ("model", "explainer", "concept")
ENDS = ("low", "high")
LAST = ("trusted", "warning")


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


def facts_data(frame: pd.DataFrame, level: str = "95 %") -> tuple[LearntTable, ...]:
    """Facts as tables: explainers whose facts have the same columns share one, in the order of their appearance."""
    records = [{str(name): value for name, value in record.items()} for record in frame.to_dict("records")]
    shapes: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for label in dict.fromkeys(record.get("explainer") for record in records):
        mine = [record for record in records if record.get("explainer") == label]
        shapes.setdefault(columns_of(mine), []).extend(mine)
    return tuple(table_of(columns, mine, level) for columns, mine in shapes.items())


def columns_of(records: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The columns that some record fills: model, explainer and concept first, `trusted` last; an interval stands with its value."""
    filled = list(dict.fromkeys(name for record in records for name, value in record.items() if not missing(value)))
    first = [name for name in FIRST if name in filled]
    apart = {*first, *LAST, *(ENDS if {"accuracy", *ENDS} <= set(filled) else ())}
    return (*first, *(name for name in filled if name not in apart), *(["trusted"] if "trusted" in filled else []))


def table_of(columns: Sequence[str], records: Sequence[Mapping[str, Any]], level: str) -> LearntTable:
    """The records in words."""
    facts = [
        Fact(
            cells=tuple(cell_text(name, record) for name in columns),
            trusted=None if missing(record.get("trusted")) else bool(record["trusted"]),
            warning=as_text(record.get("warning")),
        )
        for record in records
    ]
    bounded = any(not missing(record.get("accuracy")) and not missing(record.get("low")) for record in records)
    titles = {"accuracy": f"Accuracy ({level} interval)" if bounded else "Accuracy"}
    return LearntTable(columns=tuple(titles.get(name, title_of(name)) for name in columns), facts=tuple(facts))


def cell_text(name: str, record: Mapping[str, Any]) -> str:
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
