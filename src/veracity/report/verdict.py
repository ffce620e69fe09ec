"""How an explainer's interval lies to a mark: the one that stands for "kept", or chance."""

from __future__ import annotations

import math
from enum import Enum

from veracity.engine.store.state import State
from veracity.report.view import Result

KEPT = 0.99
ALPHA = 0.05
"""The p-value up to which a score is told from what permuted labels give."""
SYMMETRY_SCORES = frozenset({"equivariance", "invariance", "symmetry", "model_invariance"})


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


def verdict(row: Result) -> Verdict:
    """Where the interval over the population lies: at or above 0.99, below it, or across; or why there is none."""
    if row.state in UNMEASURED:
        return UNMEASURED[row.state]
    if not row.defined or not (math.isfinite(row.low) and math.isfinite(row.high)):
        return Verdict.UNKNOWN
    return Verdict.KEEPS if row.low >= KEPT else Verdict.BREAKS if row.high < KEPT else Verdict.OPEN


def against_chance(row: Result) -> Verdict:
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
