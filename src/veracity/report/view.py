"""What the report reads: a run, seen as tables, and its rows as typed records."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from torch import Tensor

from veracity.core.scores import Measured, Score
from veracity.engine.store.state import Progress, State
from veracity.report.hunted import outcome
from veracity.report.kinds import has_ceiling, has_null, in_map_units, score_of
from veracity.report.wording import centre, count, decimals, in_order, interval
from veracity.scores.robustness import SearchScore
from veracity.statistics.trend import holm


class WorstPair(Protocol):
    """One of the lowest values: the tensors before and after the transform, without a batch axis."""

    @property
    def model(self) -> str:
        """The model's name."""
        ...

    @property
    def explainer(self) -> str:
        """The explainer's name."""
        ...

    @property
    def sample(self) -> int:
        """The sample's number in the data set."""
        ...

    @property
    def draw(self) -> int:
        """Which of the sample's draws this is."""
        ...

    @property
    def element(self) -> Sequence[float]:
        """The transform g, as the numbers that name it."""
        ...

    @property
    def value(self) -> float:
        """How alike `expected` and `found` are."""
        ...

    @property
    def input(self) -> Tensor:
        """The input x."""
        ...

    @property
    def moved(self) -> Tensor:
        """The transformed input g x."""
        ...

    @property
    def explanation(self) -> Tensor:
        """The explanation e(x)."""
        ...

    @property
    def expected(self) -> Tensor:
        """What e(g x) should be."""
        ...

    @property
    def found(self) -> Tensor:
        """What e(g x) is."""
        ...

    @property
    def label(self) -> int | None:
        """The class predicted before, where a search kept it."""
        ...

    @property
    def predicted(self) -> int | None:
        """The class predicted after, where a search kept it."""
        ...


class SeriesView(Protocol):
    """Everything that one score observed of one model and explainer."""

    @property
    def model(self) -> str:
        """The model's name."""
        ...

    @property
    def explainer(self) -> str:
        """The explainer's name; "" for the model itself."""
        ...

    @property
    def score(self) -> str:
        """The score's label."""
        ...

    @property
    def measured(self) -> Measured:
        """Every quantity, (samples, draws, levels)."""
        ...

    @property
    def pending(self) -> int:
        """How many cells are neither measured nor failed."""
        ...


class RunView(Protocol):
    """A run as the report sees it, finished or not."""

    @property
    def path(self) -> str:
        """The run's folder."""
        ...

    @property
    def manifest(self) -> Mapping[str, Any]:
        """What was run: schema, created, title, spec, score_specs, versions, data, models, notes, seed, symmetry, cells."""
        ...

    @property
    def progress(self) -> Progress:
        """How far the run has come."""
        ...

    @property
    def series(self) -> Sequence[SeriesView]:
        """What every score observed, draw by draw and level by level."""
        ...

    def table(self) -> pd.DataFrame:
        """One row a (model, explainer, score); the columns are the fields of `Result`."""
        ...

    def samples(self, score: str) -> pd.DataFrame:
        """One row a (model, explainer, sample): model, explainer, control, sample, value, draws, undefined."""
        ...

    def differences(self, score: str) -> pd.DataFrame:
        """Paired differences: model, first, second, difference, low, high, n, differs, bound."""
        ...

    def failures(self) -> pd.DataFrame:
        """Rows with cells that failed: model, explainer, score, error."""
        ...

    def worst(self, score: str, count: int) -> Sequence[WorstPair]:
        """The `count` worst pairs of each model and explainer with their tensors, worst first."""
        ...

    def facts(self) -> pd.DataFrame:
        """What explainers learnt about models, one row a fact: model, explainer, and whatever columns the facts have."""
        ...

    def draws(self, score: str) -> Mapping[tuple[str, str], NDArray[np.float64]]:
        """Every draw's value by (model, explainer): (samples, draws), in the order in which they were drawn."""
        ...

    def sets(self, score: str) -> Mapping[tuple[str, str], tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """The distances in S= and in S!= by (model, explainer), of a score of stability."""
        ...

    def folds(self) -> pd.DataFrame:
        """One row a fold of each cross-trained model: model, fold, samples, accuracy, seconds; empty where there is none."""
        ...

    def advice(self) -> Sequence[Mapping[str, Any]]:
        """What to do about each explainer: model, explainer, branch, guideline, robust, and the fields of `Advice`."""
        ...


@dataclass(frozen=True, kw_only=True)
class Result:
    """One row of the run's table; undefined numbers are NaN, and a model's own score has explainer "".

    `state` is pending, failed, undefined or done. Of its `cells`, some are measured and some failed; `samples_failed` counts samples
    that failed in cells that are measured, and `failed` is the first error. The value of a pending row is that of the cells measured
    so far: it is shown as such, and nothing else rests on it.

    `frame` is where explanations live: "input", "training set", "concepts"; "" for models. `assumption` is the score of the
    model that says on which samples the score means what it says, and `holds` their share; `null` is what an unrelated
    explanation scores, where that is known; the explanations of `no_response` samples did not move at all; `published` is somebody's figure
    for the same. Where all samples are equal, `unseen` is the largest share of the population that may differ without having been
    seen. Where `bound`, the value is only known to lie at or below what it says; a low end of minus infinity is not known.

    Of worst cases and probabilities, `hunted`, `outcome` says how the samples ended, and `evaluations` what they cost; `middle` is
    how samples are summed up.

    Of `pooled` scores, which are one number of the whole data set, `pairs_same` and `pairs_differ` are the sizes of S= and S!=;
    `null_mean` and `null_high` are the mean and the 95 % quantile under permuted labels, and `p_value` is the share of permutations
    that score as high, `p_adjusted` by Holm's correction for the explainers of the model.

    Only where it `leads` (or `trails`), simultaneous paired differences put it ahead of (or behind) every other explainer of its kind on
    its model. Where it is `in_map_units`, explainers are not compared at all.
    """

    model: str
    explainer: str
    frame: str
    control: bool
    score: str
    value: float
    low: float
    high: float
    draws_low: float
    draws_high: float
    n: int
    undefined: int
    undefined_draws: int
    draws: float
    self_agreement: float
    random_control: float
    direction: str
    failed: str
    assumption: str = ""
    holds: float = math.nan
    null: float = math.nan
    no_response: int = 0
    published: float = math.nan
    evaluations: int = 0
    hunted: bool = False
    outcome: str = ""
    middle: str = "mean"
    bound: bool = False
    unseen: float = math.nan
    pairs_same: int = 0
    pairs_differ: int = 0
    null_mean: float = math.nan
    null_high: float = math.nan
    p_value: float = math.nan
    p_adjusted: float = math.nan
    pooled: bool = False
    leads: bool = False
    trails: bool = False
    in_map_units: bool = False
    state: str = State.DONE.value
    cells: int = 0
    cells_measured: int = 0
    cells_failed: int = 0
    samples_failed: int = 0

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

    def so_far(self, digits: int = 3) -> str:
        """How far a pending row is, in words."""
        far = f"{self.cells_measured} of {count(self.cells, 'cell')}"
        return f"so far {self.shown(digits)}, {far}" if math.isfinite(self.value) else far

    def lost(self) -> str:
        """How many cells or samples failed, in words; nothing if none did."""
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


COARSE = 2
"""How many decimals of ln P can be told apart."""


def digits_of(rows: Sequence[Result], *more: float) -> int:
    """How many decimals tell the values of these rows apart; of ln P no more than there is to tell."""
    return COARSE if rows and all(row.middle == "median" for row in rows) else decimals([*(row.value for row in rows), *more])


TEXT = {"model", "explainer", "frame", "score", "direction", "failed", "assumption", "state"}
CELLS = ("cells", "cells_measured", "cells_failed", "samples_failed")
WHOLE = {*CELLS, "n", "undefined", "undefined_draws", "no_response", "evaluations", "pairs_same", "pairs_differ"}
POOLED = ("pairs_same", "pairs_differ", "null_mean", "null_high", "p_value")
LATER = ("assumption", "holds", "null", "no_response", "published", "evaluations", "bound", "unseen", "state", *CELLS, *POOLED)
"""Columns that a table may lack."""
DERIVED = ("hunted", "outcome", "middle", "p_adjusted", "pooled", "leads", "trails", "in_map_units")
"""What is no column of the table."""


def results(run: RunView) -> list[Result]:
    """The run's table as records, in its order; with nothing beside a score that is on another scale."""
    table = run.table()
    names = [item.name for item in fields(Result) if item.name not in DERIVED]
    whole = table.assign(**{name: None for name in LATER if name not in table})
    records = whole.to_dict("records")
    rows = [stated(Result(**{name: plain(name, record[name]) for name in names})) for record in records]
    scores = {label: score_of(run.manifest, label) for label in dict.fromkeys(row.score for row in rows)}
    units = {label: in_map_units(run.manifest, label) for label in scores}
    told = [
        replace(in_words(row, scores[row.score], record), in_map_units=units[row.score]) for row, record in zip(rows, records, strict=True)
    ]
    return corrected([comparable(row, scores[row.score]) for row in told])


def stated(row: Result) -> Result:
    """A row with its state, where the table does not say it: failed with an error, undefined without a value."""
    known = row.state or (State.FAILED if row.failed else State.DONE if math.isfinite(row.value) else State.UNDEFINED)
    return replace(row, state=str(known))


def corrected(rows: Sequence[Result]) -> list[Result]:
    """The rows with their p-values corrected for how many explainers a score asks about on a model; those of controls stand alone."""
    groups: dict[tuple[str, str], list[int]] = {}
    for place, row in enumerate(rows):
        if math.isfinite(row.p_value) and not row.control:
            groups.setdefault((row.score, row.model), []).append(place)
    found = {place: row.p_value for place, row in enumerate(rows) if row.control}
    for places in groups.values():
        adjusted = holm(np.array([rows[place].p_value for place in places]))
        found |= dict(zip(places, map(float, adjusted), strict=True))
    return [replace(row, p_adjusted=found[place]) if place in found else row for place, row in enumerate(rows)]


def in_words(row: Result, score: Score | None, record: Mapping[Any, Any]) -> Result:
    """A row of a worst case or a probability with how its samples ended, and one of a pooled score as such; any other as it is."""
    if score is not None and score.pooled:
        return replace(row, pooled=True, middle="value")
    if not isinstance(score, SearchScore):
        return row
    said = outcome(score, {name: value for name, value in record.items() if not missing(value)})
    return replace(row, hunted=True, outcome=said, middle=score.centre)


def comparable(row: Result, score: Score | None) -> Result:
    """A row with what stands beside it on the same scale: the random control, self-agreement, both or none."""
    null, ceiling = (bool(row.explainer) and not row.in_map_units and test(score) for test in (has_null, has_ceiling))
    return replace(row, self_agreement=row.self_agreement if ceiling else math.nan, random_control=row.random_control if null else math.nan)


def missing(value: Any) -> bool:
    """Whether a cell of a table is empty.

    >>> missing(None), missing(float("nan")), missing("")
    (True, True, False)
    """
    return value is None or value is pd.NA or (isinstance(value, (float, np.floating)) and math.isnan(value))


def as_number(value: Any) -> float:
    """A cell as a number, NaN if it is empty."""
    return math.nan if missing(value) else float(value)


def as_text(value: Any) -> str:
    """A cell as a text, "" if it is empty."""
    return "" if missing(value) else str(value)


def plain(name: str, value: Any) -> Any:
    """A cell of the table as the type that its column has; a missing text is "", a missing count 0."""
    if name in TEXT:
        return as_text(value)
    if name in WHOLE:
        return 0 if missing(value) else int(value)
    if name in ("control", "bound"):
        return not missing(value) and bool(value)
    return as_number(value)


BESIDE = "self_agreement"


def explanation_scores(rows: Sequence[Result]) -> list[str]:
    """Scores of explanations, in the table's order; self-agreement stands beside the others and is none of them.

    >>> explanation_scores([])
    []
    """
    return list(dict.fromkeys(row.score for row in rows if row.explainer and row.score != BESIDE))


def frames_of(rows: Sequence[Result]) -> list[str]:
    """The frames of the rows' explanations, in the order of the page."""
    return in_order(row.frame for row in rows if row.explainer)


def model_scores(rows: Sequence[Result]) -> list[str]:
    """Scores of models alone, in the table's order."""
    return list(dict.fromkeys(row.score for row in rows if not row.explainer))


def model_names(rows: Sequence[Result], manifest: Mapping[str, Any]) -> list[str]:
    """Every model once: those of the manifest, then any other that the table names."""
    return list(dict.fromkeys([*(manifest.get("models") or {}), *(row.model for row in rows if row.model)]))
