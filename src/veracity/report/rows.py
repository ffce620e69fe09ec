"""Rows as the report reads them: scores and kinds of explanations, verdicts against a mark or chance, and who is ahead of whom."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pandas as pd

from veracity.engine.store.state import State
from veracity.report.wording import in_order
from veracity.results import Row

BESIDE = "self_agreement"
ALPHA = 0.05
"""The p-value up to which a score differs from what permuted labels give."""
RANDOM = "random_"
"""The names of controls whose explanations are random begin with this."""
COLUMNS = ["model", "first", "second", "difference", "low", "high", "n", "differs"]
"""The columns of paired differences."""

Pairs = Mapping[frozenset[str], str]
"""For each pair of explainers with a paired difference, which one has the larger value on the samples of both; "" if that is not known."""


class Verdict(Enum):
    """How an explainer's interval lies to the mark of its score; or, for a score without a mark, to chance.

    Each has a CSS class, and a phrase for one explainer and for many.
    """

    KEEPS = "keeps", "respects the symmetry", "respect the symmetry"
    OPEN = "open", "undecided", "undecided"
    BREAKS = "breaks", "does not respect it", "do not respect it"
    AHEAD = "ahead", "does better than chance", "do better than chance"
    LEVEL = "level", "cannot be told from chance", "cannot be told from chance"
    BEHIND = "behind", "does worse than chance", "do worse than chance"
    STILL = "still", "does not respond", "do not respond"
    UNKNOWN = "unknown", "cannot be judged", "cannot be judged"
    FAILED = "failed", "failed", "failed"
    PENDING = "pending", "is pending", "are pending"

    def __init__(self, css: str, one: str, many: str) -> None:
        self.css, self.one, self.many = css, one, many


ON_SYMMETRY = frozenset({Verdict.KEEPS, Verdict.OPEN, Verdict.BREAKS})
AGAINST_CHANCE = frozenset({Verdict.AHEAD, Verdict.LEVEL, Verdict.BEHIND})
UNMEASURED = {State.FAILED.value: Verdict.FAILED, State.PENDING.value: Verdict.PENDING}
"""The verdict on a row that is not measured, by its state."""


def finite(*values: float) -> bool:
    """Whether all values are finite numbers."""
    return all(map(math.isfinite, values))


def verdict(row: Row) -> Verdict:
    """Whether the interval lies at or above the mark, below it, or across it; or why there is no verdict."""
    if row.state in UNMEASURED:
        return UNMEASURED[row.state]
    if not row.defined or not finite(row.low, row.high, row.mark):
        return Verdict.UNKNOWN
    return Verdict.KEEPS if row.low >= row.mark else Verdict.BREAKS if row.high < row.mark else Verdict.OPEN


def against_chance(row: Row) -> Verdict:
    """How the interval lies to what an explanation unrelated to the model scores; by its p-value if there is one."""
    if row.state in UNMEASURED:
        return UNMEASURED[row.state]
    if row.still:
        return Verdict.STILL
    if row.defined and math.isfinite(row.p_adjusted):
        return Verdict.AHEAD if row.p_adjusted <= ALPHA else Verdict.LEVEL
    if not row.defined or not finite(row.low, row.high, row.chance):
        return Verdict.UNKNOWN
    above, below = row.low > row.chance, row.high < row.chance
    better, worse = (below, above) if row.direction == "lower" else (above, below)
    return Verdict.AHEAD if better else Verdict.BEHIND if worse else Verdict.LEVEL


def chance_words(row: Row) -> str:
    """Whether an explainer is not shown to do better than an explanation that has nothing to do with the model, in words; "" if it is."""
    verdict = Verdict.UNKNOWN if row.control or not row.explainer or not row.defined else against_chance(row)
    return {Verdict.LEVEL: "no better than chance", Verdict.BEHIND: "worse than chance"}.get(verdict, "")


def judged(rows: Sequence[Row]) -> bool:
    """Whether the mark applies: every row is of a similarity with a mark, whose best value is 1."""
    return all(row.marked and row.direction == "higher" and not row.value > 1 + 1e-6 for row in rows)


def own_invariance(rows: Sequence[Row]) -> dict[str, Row]:
    """Each model's own score of the symmetry, by model."""
    return {row.model: row for row in rows if row.marked and not row.explainer}


def explanation_scores(rows: Sequence[Row]) -> list[str]:
    """Scores of explanations, in the table's order; self-agreement stands beside the others and is not among them."""
    return list(dict.fromkeys(row.score for row in rows if row.explainer and row.score != BESIDE))


def frames_of(rows: Sequence[Row]) -> list[str]:
    """The frames of the rows' explanations, in the order of the page."""
    return in_order(row.frame for row in rows if row.explainer)


def badness(row: Row) -> float:
    """The key that sorts rows best first; the same for all rows of a score in the map's own units."""
    return 0.0 if row.in_map_units else row.value if row.direction == "lower" else -row.value


def no_differences() -> pd.DataFrame:
    """An empty table of paired differences."""
    return pd.DataFrame(columns=COLUMNS)


def pairs_of(differences: pd.DataFrame, model: str) -> dict[frozenset[str], str]:
    """The pairs of explainers on a model whose simultaneous paired difference has an interval, and on which side of zero that lies."""
    return {
        frozenset((str(row["first"]), str(row["second"]))): larger(row) if row["differs"] else ""
        for row in differences[differences["model"] == model].to_dict("records")
        if any(math.isfinite(row[end]) for end in ("low", "high"))
    }


def larger(difference: Mapping[Any, Any]) -> str:
    """Which of two explainers has the larger value by a paired difference, first - second; "" if its interval holds zero."""
    return str(difference["first"]) if difference["low"] > 0 else str(difference["second"]) if difference["high"] < 0 else ""


def beats(row: Row, other: Row, pairs: Pairs) -> bool:
    """Whether the paired difference of two explainers excludes zero, and lies on the side where a row is better than the other one.

    Their own means do not count: they may rest on different samples.
    """
    above = pairs.get(frozenset((row.explainer, other.explainer)), "")
    return bool(above) and not row.in_map_units and above == (other if row.direction == "lower" else row).explainer


def ahead(row: Row, rows: Sequence[Row], pairs: Pairs) -> bool:
    """Whether paired differences put a row ahead of every other one of its kind, of which there must be some."""
    others = [one for one in rows if one is not row]
    return bool(others) and all(beats(row, one, pairs) for one in others)


def behind(row: Row, rows: Sequence[Row], pairs: Pairs) -> bool:
    """Whether paired differences put a row behind every other one of its kind, of which there must be some."""
    others = [one for one in rows if one is not row]
    return bool(others) and all(beats(one, row, pairs) for one in others)


@dataclass(frozen=True)
class Rank:
    """The ranks that an explainer may have, `first` to `last`: all those that the explainers ahead of it and behind it leave. It cannot
    be told apart from those in `tied`.
    """

    first: int
    last: int
    tied: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.first}" if self.first == self.last else f"{self.first}\N{EN DASH}{self.last}"


def ranks(rows: Sequence[Row], pairs: Pairs) -> dict[str, Rank]:
    """The ranks of explainers of one kind by their paired differences; none of a single one, or in the map's own units.

    >>> rows = [Row(model="net", explainer=name, score="s", value=value) for name, value in (("a", 0.9), ("b", 0.8), ("c", 0.1))]
    >>> found = ranks(rows, {frozenset("ab"): "", frozenset("ac"): "a", frozenset("bc"): "b"})
    >>> {name: str(rank) for name, rank in found.items()}
    {'a': '1–2', 'b': '1–2', 'c': '3'}
    """
    if len(rows) < 2 or any(row.in_map_units for row in rows):
        return {}
    found = {}
    for row in rows:
        others = [one for one in rows if one is not row]
        better = {one.explainer for one in others if beats(one, row, pairs)}
        worse = {one.explainer for one in others if beats(row, one, pairs)}
        tied = tuple(one.explainer for one in others if one.explainer not in better | worse)
        found[row.explainer] = Rank(1 + len(better), len(rows) - len(worse), tied)
    return found
