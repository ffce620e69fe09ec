"""Two runs as the interface compares them: what moved beyond chance from one to the other."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from threading import Lock
from typing import Any

from veracity.app.runs import Run, stamp
from veracity.cards.changes import Change
from veracity.cards.decide import Word
from veracity.cards.result import Card
from veracity.core.errors import SpecError
from veracity.core.measures import Direction
from veracity.core.wording import count, joined
from veracity.engine.store.manifest import Kind
from veracity.report.wording import ARROWS, title_of
from veracity.results import Result, compared, differences_in_making
from veracity.results.series import Series, null_of
from veracity.statistics.differences import CONSTANT, NONE_SEEN
from veracity.statistics.resampling import REPLICATES
from veracity.studies.result import load

HELD = 8
"""How many comparisons are held at once."""
CHANGING = ("cells", "failed", "card.json", "findings.json")
"""What changes while an audit or a card goes on."""
SAME = "the same on every sample"
SHARES = "Numbers are shares of the way from the reference to the ideal: higher is better, also for deletion."
STATES = {
    "pending": "not measured yet",
    "too few": "too few samples",
    NONE_SEEN: SAME,
    CONSTANT: "the same difference on every sample, so not ranked",
    "overlapping": "not clear: both intervals overlap",
    "undefined": "undefined",
}
"""Why a row is not ranked, by the status of its difference."""
ONE_AT_A_TIME = Lock()
"""A comparison of large runs takes as much memory as reading both."""


def comparison(before: Run, after: Run) -> dict[str, Any]:
    """What moved from one audit to another, or from one card to another: an answer in words, rows, lists of sentences, and notes."""
    if before.id == after.id:
        raise SpecError(f"'{after.path}' is compared with itself: choose another run.")
    kinds = {Kind(run.about["kind"]) if run.about else None for run in (before, after)}
    if kinds not in ({Kind.AUDIT}, {Kind.CARD}):
        raise SpecError(f"'{before.path}' and '{after.path}' are not two audits or two cards: only those are compared.")
    named = {name: {"id": run.id, "title": run.title, "path": run.path} for name, run in (("before", before), ("after", after))}
    open_runs = [run.path for run in (before, after) if (state := run.progress()) is not None and not state.settled]
    notes = [f"Not finished yet: {joined(open_runs)}."] if open_runs else []
    stamps = [stamp(run.folder, *CHANGING) for run in (before, after)]
    with ONE_AT_A_TIME:
        found = compared_folders(kinds == {Kind.CARD}, str(before.folder), stamps[0], str(after.folder), stamps[1])
    return {**named, **found, "notes": [*notes, *found["notes"]]}


@lru_cache(maxsize=HELD)
def compared_folders(as_cards: bool, before: str, _before: tuple[int, ...], after: str, _after: tuple[int, ...]) -> dict[str, Any]:
    """Two run folders compared, while they stay as they are."""
    return cards(load(before), load(after)) if as_cards else audits(Result(before), Result(after))


def audits(first: Result, second: Result) -> dict[str, Any]:
    """The rows that two audits share, but for controls of both; the confidence of each interval is corrected for their number."""
    own, other = ({(one.model, one.explainer, one.score): one for one in run.series} for run in (first, second))
    shown = {key: one for key, one in own.items() if key in other and not (one.control and other[key].control)}
    whole = max(first.confidence, second.confidence)
    level = 1.0 - (1.0 - whole) / max(1, sum(score in first.manifest["scores"] for _, _, score in shown))
    changed = changed_explainers(first, second)
    found = {(row["model"], row["explainer"], row["score"]): row for row in compared(first, second, level, quiet=True).to_dict("records")}
    rows = []
    for key, one in shown.items():
        if (row := found.get(key)) is not None:
            random = random_control(first, one, other[key])
            control = found.get((one.model, random, one.score), {})
            values = {f"random_{when}": control.get(when, math.nan) for when in ("before", "after")}
            rows.append({**audit_row(row, one.direction, level, why_unranked(first, second, row, level, changed)), **values})
    notes = differences_in_making(first, second)
    notes += (
        [f"These explainers have other settings now, so that more than the model may have changed: {joined(changed)}."] if changed else []
    )
    return {"answer": audit_answer(rows, whole), "numbers": "", "rows": rows, "lists": [], "notes": notes}


def random_control(first: Result, before: Series, after: Series) -> str:
    """The random control of a row in both runs; "" if there is none, if they differ, or if its values are on another scale."""
    alike = before.explainer and null_of(before) == null_of(after) and not first.in_map_units(before.score)
    return null_of(before) if alike and "random_control" in first.known_score(before.score).beside else ""


def changed_explainers(first: Result, second: Result) -> list[str]:
    """The explainers of both runs whose settings differ, or that only one of them counts as a control."""
    specs = [run.manifest["spec"].get("explainers") or {} for run in (first, second)]
    names = [{one.explainer for one in run.series} for run in (first, second)]
    return [name for name in {**specs[0], **specs[1]} if name in names[0] & names[1] and specs[0].get(name) != specs[1].get(name)]


def why_unranked(first: Result, second: Result, row: Mapping[Any, Any], level: float, changed: list[str]) -> str:
    """Why a row gets no verdict; "" if it may get one."""
    score, specs = row["score"], [run.manifest["spec"] for run in (first, second)]
    settings = [run.manifest["score_specs"][score]["spec"] for run in (first, second)]
    if settings[0] != settings[1] or any(specs[0].get(key) != specs[1].get(key) for key in ("symmetry", "walk")):
        return "measured with other settings"
    if row["explainer"] in changed and first.in_map_units(score):
        return "in the map's own units, and the explainer has other settings"
    if first.pools(score) and (1.0 - level) * REPLICATES < 1.0:
        return "too many rows for its resamples"
    return STATES.get(row["status"], "")


def audit_row(row: Mapping[Any, Any], direction: Direction, level: float, why: str) -> dict[str, Any]:
    """A row of a comparison, with its verdict or the reason why it has none."""
    kept = {name: row[name] for name in ("model", "explainer", "before", "after", "difference", "low", "high", "paired")}
    said = "" if why else verdict(row["low"], row["high"], direction)
    return {
        **kept,
        "score": " ".join(filter(None, (title_of(row["score"]), ARROWS.get(direction.value)))),
        "verdict": said,
        "why": why,
        "level": level,
    }


def verdict(low: float, high: float, direction: Direction) -> str:
    """What an interval of a difference supports.

    >>> verdict(0.1, 0.3, Direction.HIGHER), verdict(0.1, 0.3, Direction.LOWER), verdict(-0.1, 0.3, Direction.LOWER)
    ('better', 'worse', '')
    """
    if not (low > 0.0 or high < 0.0):
        return ""
    return "better" if (low > 0.0) is (direction is Direction.HIGHER) else "worse"


def audit_answer(rows: list[dict[str, Any]], confidence: float) -> str:
    """The comparison of two audits in a few sentences."""
    worse, better = (sum(row["verdict"] == name for row in rows) for name in ("worse", "better"))
    unranked = sum(row["why"] not in ("", SAME) for row in rows)
    rest = len(rows) - worse - better - unranked
    told = f"Of {count(len(rows), 'row')} that both runs have, {worse} got worse and {better} got better beyond chance"
    told += f"; no change is shown for {rest}." if rest else "."
    told += f" {count(unranked, 'row')} cannot be ranked: the table says why." if unranked else ""
    return told + (sure(confidence) if worse or better else "")


def sure(confidence: float) -> str:
    """What the confidence of a comparison means."""
    return f" With {100 * confidence:g} % confidence, all that are called worse or better are so."


def cards(first: Card, second: Card) -> dict[str, Any]:
    """What changed from one card to another."""
    found = second.changes_since(first)
    rows = [card_row(second.record.model, one) for one in found.rows if math.isfinite(one.before) or math.isfinite(one.after)]
    titles = {
        "worse": "Got worse beyond chance",
        "better": "Got better beyond chance",
        "word": "Another word now, but no clear change in the numbers",
    }
    lines = {name: found.lines(name) for name in titles}
    worse, better = len(lines["worse"]), len(lines["better"])
    asked = sum(Word.NOT_ASKED not in both for both in found.words().values())
    told = " ".join([*found.models(), ""])
    told += f"Of {count(asked, 'answer')} that both cards have, {worse} got worse and {better} got better beyond chance."
    told += (
        " An answer is the word that an explainer gets for a question. The table has one row for each score behind an answer."
        if rows
        else ""
    )
    told += sure(min(first.record.confidence, second.record.confidence)) if worse or better else ""
    sections = [*((titles[name], said) for name, said in lines.items()), ("What it is fit for", list(found.uses()))]
    lists = [{"title": title, "lines": said} for title, said in sections if said]
    return {"answer": told, "numbers": SHARES if rows else "", "rows": rows, "lists": lists, "notes": [*found.notes()]}


def card_row(model: str, one: Change) -> dict[str, Any]:
    """A check of a card, with its verdict or the reason why it has none."""
    why = one.why or (f"differs by at most {one.margin:g}, which counts as none" if one.small else "")
    why = why or (SAME if one.low == one.high == 0.0 else "" if math.isfinite(one.low) else "not compared")
    kept = {name: getattr(one, name) for name in ("explainer", "before", "after", "difference", "low", "high", "paired", "level")}
    return {**kept, "model": model, "score": one.title, "verdict": "worse" if one.worse else "better" if one.better else "", "why": why}
