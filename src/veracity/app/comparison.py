"""Two runs as the interface compares them: what moved beyond chance from one to the other."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from veracity.app.runs import Run
from veracity.cards.result import Card
from veracity.core.errors import SpecError
from veracity.core.measures import Direction
from veracity.core.wording import count
from veracity.report.wording import title_of
from veracity.results import Result, compared, differences_in_making
from veracity.studies.result import load

STATES = {"pending": "not measured yet", "too few": "too few samples"}
"""Why a row has no interval."""


def comparison(before: Run, after: Run) -> dict[str, Any]:
    """What moved from one audit to another, or from one card to another: an answer in words, rows, lists of sentences, and notes."""
    if before.id == after.id:
        raise SpecError(f"'{after.path}' is compared with itself: choose another run.")
    named = {"before": named_run(before), "after": named_run(after)}
    if before.kind == after.kind == "audit":
        return {**named, **audits(Result(before.folder), Result(after.folder))}
    found = [None if run.kind == "audit" else load(run.folder) for run in (before, after)]
    if isinstance(found[0], Card) and isinstance(found[1], Card):
        return {**named, **cards(found[0], found[1])}
    raise SpecError(f"'{before.path}' and '{after.path}' are not two audits or two cards: only those are compared.")


def named_run(run: Run) -> dict[str, str]:
    """How a run is called."""
    return {"id": run.id, "title": run.title, "path": run.path}


def audits(first: Result, second: Result) -> dict[str, Any]:
    """The rows that two audits share, but for controls of both; the confidence of each interval is corrected for their number."""
    own, other = ({(one.model, one.explainer, one.score): one for one in run.series} for run in (first, second))
    shown = {key: one for key, one in own.items() if key in other and not (one.control and other[key].control)}
    whole = max(first.confidence, second.confidence)
    level = 1.0 - (1.0 - whole) / max(1, sum(score in first.manifest["scores"] for _, _, score in shown))
    rows = [
        audit_row(row, shown[key].direction, in_map_units=first.in_map_units(key[2]))
        for row in compared(first, second, level, quiet=True).to_dict("records")
        if (key := (row["model"], row["explainer"], row["score"])) in shown
    ]
    return {"answer": answer(rows, whole), "confidence": level, "rows": rows, "lists": [], "notes": differences_in_making(first, second)}


def audit_row(row: Mapping[Any, Any], direction: Direction, *, in_map_units: bool) -> dict[str, Any]:
    """A row of a comparison, with its verdict; a score in the map's own units is compared, too, since the explainer is the same."""
    kept = {name: row[name] for name in ("model", "explainer", "before", "after", "difference", "low", "high", "paired")}
    units = ", in the map's own units" if in_map_units else ""
    said = verdict(row["low"], row["high"], direction)
    return {**kept, "score": title_of(row["score"]) + units, "verdict": said, "why": STATES.get(row["status"], "")}


def verdict(low: float, high: float, direction: Direction) -> str:
    """What an interval of a difference supports.

    >>> verdict(0.1, 0.3, Direction.HIGHER), verdict(0.1, 0.3, Direction.LOWER), verdict(-0.1, 0.3, Direction.LOWER)
    ('better', 'worse', '')
    """
    if not (low > 0.0 or high < 0.0):
        return ""
    return "better" if (low > 0.0) is (direction is Direction.HIGHER) else "worse"


def answer(rows: list[dict[str, Any]], confidence: float) -> str:
    """The comparison in two sentences."""
    worse, better = (sum(row["verdict"] == name for row in rows) for name in ("worse", "better"))
    told = f"Of {count(len(rows), 'row')} that both runs have, {worse} got worse and {better} got better beyond chance"
    rest = f"; no change is shown for {len(rows) - worse - better}" if worse + better < len(rows) else ""
    return f"{told}{rest}. With {100 * confidence:g} % confidence, all that are called worse or better are so."


def cards(first: Card, second: Card) -> dict[str, Any]:
    """What changed from one card to another."""
    found = second.changes_since(first)
    kept = ("explainer", "before", "after", "difference", "low", "high", "paired", "why")
    rows = [
        {
            **{name: row[name] for name in kept},
            "model": second.record.model,
            "score": row["title"],
            "verdict": "worse" if row["worse"] else "better" if row["better"] else "",
        }
        for row in found.table().to_dict("records")
        if not (math.isnan(row["before"]) and math.isnan(row["after"]))
    ]
    titles = {"worse": "Got worse beyond chance", "better": "Got better beyond chance", "word": "Another word, but no such difference"}
    lists = [{"title": title, "lines": lines} for name, title in titles.items() if (lines := found.lines(name))]
    return {
        "answer": answer(rows, second.record.confidence),
        "confidence": found.level,
        "rows": rows,
        "lists": lists,
        "notes": [*found.notes()],
    }
