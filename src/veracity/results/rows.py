"""One row of a run's table: what `table()`, json, the report and the interface are made of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from veracity.core.wording import centre, count, decimals, interval
from veracity.engine.store.state import State
from veracity.statistics.trend import holm

COARSE = 2
"""How many decimals of ln P are certain."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One score of one model, or of one explainer on a model; undefined numbers are NaN, and a model's own score has explainer "".

    `state` is pending, failed, undefined or done. Of its `cells`, some are measured and some failed; `samples_failed` counts samples
    that failed in cells that are measured, and `failed` is the first error. The value of a pending row is that of the cells measured
    so far: it is shown as such, and nothing else rests on it.

    `frame` is where explanations live: "input", "training set", "concepts"; "" for models. `assumption` is the score of the
    model that says on which samples the score means what it says, and `holds` their share; `null` is what an unrelated
    explanation scores, where that is known; the explanations of `no_response` samples did not move at all, and along
    `no_response_draws` draws, which may be those of other samples too; `published` is somebody's figure for the same. Where all samples
    are equal, `unseen` is the largest share of the population that may differ without having been seen. Where `bound`, the value is only
    known to lie at or below what it says; a low end of minus infinity is not known. The n samples belong to `units`; None if each stands
    alone.

    `pairs_same` and `pairs_differ` are the sizes of the two sets S= and S!= that a pooled score compares; `null_mean` and `null_high`
    are the mean and the 95 % quantile under permuted labels, and `p_value` is the share of permutations that score as high.

    What follows `p_value` is no column of the table. `outcome` says how the samples of a search ended, None without a search; `middle`
    is how samples are summed up; `mark` is the value from which on the score counts as kept, NaN without one; `p_adjusted` is the
    p-value by Holm's correction for the explainers of the model. A row `leads` only if simultaneous paired differences
    put it ahead of every other explainer of its kind on its model.
    """

    model: str
    explainer: str
    score: str
    value: float
    low: float = math.nan
    high: float = math.nan
    n: int = 0
    units: int | None = None
    undefined: int = 0
    samples_failed: int = 0
    self_agreement: float = math.nan
    random_control: float = math.nan
    frame: str = ""
    control: bool = False
    draws_low: float = math.nan
    draws_high: float = math.nan
    undefined_draws: int = 0
    draws: float = math.nan
    direction: str = "higher"
    unseen: float = math.nan
    bound: bool = False
    assumption: str = ""
    holds: float = math.nan
    null: float = math.nan
    no_response: int = 0
    no_response_draws: int = 0
    censored: int = 0
    infeasible: int = 0
    stuck: int = 0
    stiff: int = 0
    evaluations: int = 0
    published: float = math.nan
    failed: str = ""
    state: str = State.DONE.value
    cells: int = 0
    cells_measured: int = 0
    cells_failed: int = 0
    pairs_same: int | None = None
    pairs_differ: int | None = None
    null_mean: float = math.nan
    null_high: float = math.nan
    p_value: float = math.nan
    p_adjusted: float = math.nan
    outcome: str | None = None
    middle: str = "mean"
    mark: float = math.nan
    pooled: bool = False
    in_map_units: bool = False
    leads: bool = False

    def record(self) -> dict[str, Any]:
        """The columns of the table that are not None."""
        return {name: value for name in COLUMNS if (value := getattr(self, name)) is not None}

    def shown(self, digits: int = 3) -> str:
        """The value in words."""
        return centre(self.value, "at most" if self.bound else "", digits)

    def ends(self, digits: int = 3) -> str:
        """The interval in words."""
        return interval(self.low, self.high, digits, unseen=self.unseen)

    @property
    def pending(self) -> bool:
        """Whether some cells are neither measured nor failed."""
        return self.state == State.PENDING

    @property
    def settled(self) -> bool:
        """Whether the row is measured, with a value or without."""
        return self.state in (State.DONE, State.UNDEFINED)

    @property
    def defined(self) -> bool:
        """Whether there is a final number to show."""
        return self.state == State.DONE and math.isfinite(self.value)

    @property
    def searched(self) -> bool:
        """Whether a search found the value."""
        return self.outcome is not None

    @property
    def marked(self) -> bool:
        """Whether there is a value from which on the score counts as kept."""
        return math.isfinite(self.mark)

    def so_far(self, digits: int = 3) -> str:
        """How far a pending row is, in words."""
        far = f"{self.cells_measured} of {count(self.cells, 'cell')}"
        return f"so far {self.shown(digits)}, {far}" if math.isfinite(self.value) else far

    def lost(self) -> str:
        """How many cells or samples failed, in words; empty if none did."""
        cells = f"{self.cells_failed} of {count(self.cells, 'cell')}" if self.cells_failed else ""
        size = self.n + self.undefined + self.samples_failed
        samples = f"{self.samples_failed} of {count(size, 'sample')}" if self.samples_failed else ""
        return f"{', '.join(filter(None, (cells, samples)))} failed" if cells or samples else ""

    @property
    def chance(self) -> float:
        """What an explanation that has nothing to do with the model scores: in theory, with permuted labels, or as the random control."""
        return next((value for value in (self.null, self.null_mean) if math.isfinite(value)), self.random_control)

    @property
    def still(self) -> bool:
        """Whether there is no number because the explanations do not respond."""
        return self.settled and not math.isfinite(self.value) and self.no_response > 0


NAMES = [item.name for item in fields(Row)]
COLUMNS = NAMES[: NAMES.index("p_value") + 1]
"""The columns of a run's table, in their order."""


def digits_of(rows: Sequence[Row], *more: float) -> int:
    """How many decimals tell the values of these rows apart; for ln P no more than are certain."""
    return COARSE if rows and all(row.middle == "median" for row in rows) else decimals([*(row.value for row in rows), *more])


def with_adjusted(rows: Sequence[Row]) -> list[Row]:
    """The rows with p-values corrected for the number of explainers of a score on a model; those of controls are not corrected."""
    groups: dict[tuple[str, str], list[int]] = {}
    for place, row in enumerate(rows):
        if math.isfinite(row.p_value) and not row.control:
            groups.setdefault((row.score, row.model), []).append(place)
    found = {place: row.p_value for place, row in enumerate(rows) if row.control}
    for places in groups.values():
        adjusted = holm(np.array([rows[place].p_value for place in places]))
        found |= dict(zip(places, map(float, adjusted), strict=True))
    return [replace(row, p_adjusted=found[place]) if place in found else row for place, row in enumerate(rows)]
