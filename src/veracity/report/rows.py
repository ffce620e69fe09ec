"""Rows as the report reads them: which scores and kinds of explanations there are, and how an interval lies to a mark or to chance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from veracity.engine.store.state import State
from veracity.report.wording import in_order
from veracity.results import Row

BESIDE = "self_agreement"
ALPHA = 0.05
"""The p-value up to which a score is told from what permuted labels give."""


class Verdict(Enum):
    """How an explainer's interval lies to the mark that stands for "kept"; or, where there is no such mark, to chance."""

    KEEPS = "keeps"
    OPEN = "open"
    BREAKS = "breaks"
    AHEAD = "ahead"
    LEVEL = "level"
    BEHIND = "behind"
    STILL = "still"
    UNKNOWN = "unknown"
    FAILED = "failed"
    PENDING = "pending"


KEPT_OR_NOT = frozenset({Verdict.KEEPS, Verdict.OPEN, Verdict.BREAKS})
UNMEASURED = {State.FAILED.value: Verdict.FAILED, State.PENDING.value: Verdict.PENDING}
"""What is said of a row that is not measured, by its state."""
AGAINST_CHANCE = frozenset({Verdict.AHEAD, Verdict.LEVEL, Verdict.BEHIND})

PHRASES = {
    Verdict.KEEPS: ("respects it", "respect it"),
    Verdict.OPEN: ("undecided", "undecided"),
    Verdict.BREAKS: ("falls short", "fall short"),
    Verdict.AHEAD: ("does better than chance", "do better than chance"),
    Verdict.LEVEL: ("cannot be told from chance", "cannot be told from chance"),
    Verdict.BEHIND: ("does worse than chance", "do worse than chance"),
    Verdict.STILL: ("does not respond", "do not respond"),
    Verdict.UNKNOWN: ("cannot be judged", "cannot be judged"),
    Verdict.FAILED: ("failed", "failed"),
    Verdict.PENDING: ("is pending", "are pending"),
}


def verdict(row: Row) -> Verdict:
    """Where the interval over the population lies: at or above the mark, below it, or across; or why that cannot be told."""
    if row.state in UNMEASURED:
        return UNMEASURED[row.state]
    if not row.defined or not all(map(math.isfinite, (row.low, row.high, row.mark))):
        return Verdict.UNKNOWN
    return Verdict.KEEPS if row.low >= row.mark else Verdict.BREAKS if row.high < row.mark else Verdict.OPEN


def against_chance(row: Row) -> Verdict:
    """Where the interval lies to what an explanation that has nothing to do with the model scores; by its p-value if there is one."""
    if row.state in UNMEASURED:
        return UNMEASURED[row.state]
    if row.still:
        return Verdict.STILL
    if row.defined and math.isfinite(row.p_adjusted):
        return Verdict.AHEAD if row.p_adjusted <= ALPHA else Verdict.LEVEL
    if not row.defined or not all(math.isfinite(value) for value in (row.low, row.high, row.chance)):
        return Verdict.UNKNOWN
    above, below = row.low > row.chance, row.high < row.chance
    better, worse = (below, above) if row.direction == "lower" else (above, below)
    return Verdict.AHEAD if better else Verdict.BEHIND if worse else Verdict.LEVEL


def judged(rows: Sequence[Row]) -> bool:
    """Whether the mark means anything here: a similarity with a mark, whose best value is 1."""
    return all(row.marked and row.direction == "higher" and not row.value > 1 + 1e-6 for row in rows)


def own_invariance(rows: Sequence[Row]) -> dict[str, Row]:
    """Each model's own score of the symmetry, by model."""
    return {row.model: row for row in rows if row.marked and not row.explainer}


def explanation_scores(rows: Sequence[Row]) -> list[str]:
    """Scores of explanations, in the table's order; self-agreement stands beside the others and is none of them.

    >>> explanation_scores([])
    []
    """
    return list(dict.fromkeys(row.score for row in rows if row.explainer and row.score != BESIDE))


def frames_of(rows: Sequence[Row]) -> list[str]:
    """The frames of the rows' explanations, in the order of the page."""
    return in_order(row.frame for row in rows if row.explainer)


def model_scores(rows: Sequence[Row]) -> list[str]:
    """Scores of models alone, in the table's order."""
    return list(dict.fromkeys(row.score for row in rows if not row.explainer))


def model_names(rows: Sequence[Row], manifest: Mapping[str, Any]) -> list[str]:
    """Every model once: those of the manifest, then any other that the table names."""
    return list(dict.fromkeys([*(manifest.get("models") or {}), *(row.model for row in rows if row.model)]))
