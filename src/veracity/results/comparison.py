"""Two runs, compared score by score."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from veracity.core.errors import InputError, warn
from veracity.core.scores import PooledScore
from veracity.results.run import Result
from veracity.results.series import Series, censored, mean
from veracity.statistics import medians, pooled
from veracity.statistics.crossed import crossed_interval
from veracity.statistics.differences import Difference, crossed_differences, equal_status, mean_differences
from veracity.statistics.intervals import Interval, unseen_share, welch_interval
from veracity.statistics.means import Estimate
from veracity.statistics.units import Codes, independent

Array = NDArray[np.float64]
Ends = Interval | Estimate
Rows = NDArray[np.int64] | NDArray[np.bool_]
NOTHING = dict.fromkeys(("before", "after", "difference", "low", "high", "unseen"), math.nan)
UNBOUNDED = {"before_bound": False, "after_bound": False, "bound": ""}


def differences_in_making(first: Result, second: Result) -> list[str]:
    """Sentences on what differs in how two runs were made, and on rows that only one of them has."""
    specs = [
        {**run.manifest["spec"], "scores": run.manifest.get("score_specs"), "seed": run.manifest.get("seed")} for run in (first, second)
    ]
    differing = [key for key in ("symmetry", "walk", "scores", "seed") if specs[0].get(key) != specs[1].get(key)]
    keys = [{(one.model, one.explainer, one.score) for one in run.series if one.score in run.manifest["scores"]} for run in (first, second)]
    alone = sorted({" / ".join(part for part in key if part) for key in keys[0] ^ keys[1]})
    said = [f"The two runs differ in {', '.join(differing)}."] if differing else []
    return said + ([f"In one run only: {', '.join(alone)}."] if alone else [])


def compared(first: Result, second: Result, confidence: float | None = None, *, quiet: bool = False) -> pd.DataFrame:
    """Second minus first for every model, explainer and score that both have; paired by sample if the data are the same.

    Scores whose samples are summed up by a median are compared by medians: paired, by the median of the differences. `confidence` is that
    of each interval; None takes the larger one of both runs. Warns about differences in how the runs were made, unless `quiet`.
    """
    same = first.manifest["data"]["fingerprint"] == second.manifest["data"]["fingerprint"]
    confidence = max(first.confidence, second.confidence) if confidence is None else confidence
    shown = set(first.manifest["scores"])
    series = [{(one.model, one.explainer, one.score): one for one in run.series if one.score in shown} for run in (first, second)]
    shared = [key for key in series[0] if key in series[1]]
    if not shared:
        raise InputError("The two runs share no model, explainer and score.")
    for sentence in () if quiet else differences_in_making(first, second):
        warn(sentence)
    plain = {key: first.manifest["score_specs"][key[2]]["reduce"] == "mean" for key in shared}
    centres = {key: first.manifest["score_specs"][key[2]].get("centre", "mean") for key in shared}
    return pd.DataFrame(
        [
            versus_pooled(first.pooled_score(key[2]), series[0][key], series[1][key], same, confidence)
            if first.pools(key[2])
            else versus(series[0][key], series[1][key], same, confidence, centres[key], plain[key])
            for key in shared
        ]
    )


def versus(one: Series, other: Series, same: bool, confidence: float, centre: str = "mean", plain: bool = True) -> dict[str, Any]:
    """One row of a comparison; by sample number where both runs saw the same data.

    Where samples share their draws, so do the differences: a crossed interval, or the crossed intervals of both runs where
    draws or data differ. Draws that a score reduced in its own way (not `plain`) are not there to be compared.
    """
    found = {"model": one.model, "explainer": one.explainer, "score": one.score, **UNBOUNDED, "paired": same}
    if one.pending or other.pending:
        return {**found, **NOTHING, "status": "pending"}
    here, there = np.arange(len(one.samples)), np.arange(len(other.samples))
    if same:
        _, here, there = np.intersect1d(one.samples, other.samples, return_indices=True)
    before, after = one.per_sample[here], other.per_sample[there]
    units = units_of(other, there, one, here, same)
    if centre == "median":
        return {**found, **versus_medians(before, after, censored(one)[here], censored(other)[there], same, confidence, units)}
    means = {"before": mean(before), "after": mean(after)}
    if any(not part.sampling.nested and not part.sampling.exhaustive for part in (one, other)):
        tables = [part.values[rows] if plain else part.per_sample[rows][:, None] for part, rows in ((other, there), (one, here))]
        if same and tables[0].shape == tables[1].shape:
            (row,) = crossed_differences({"after": tables[0], "before": tables[1]}, confidence, units=units[1])
            return {**found, **means, **difference(row)}
        new, old = (crossed_interval(table, confidence, units=codes) for table, codes in zip(tables, units, strict=True))
        return {**found, **means, **apart(new, old)}
    if same:
        (row,) = mean_differences({"after": after, "before": before}, confidence, units=units[1])
        return {**found, **means, **difference(row)}
    gap = welch_interval(after, before, confidence, units=units)
    numbers: dict[str, Any] = {"difference": gap.value, "low": gap.low, "high": gap.high, "status": "ok", "unseen": math.nan}
    if math.isnan(gap.low):
        numbers["status"] = "too few"
    elif gap.low == gap.high:
        numbers |= {"status": equal_status(gap.value, 0.0), "unseen": unseen_share(fewest(after, before, units), confidence)}
    return {**found, **means, **numbers}


def units_of(new: Series, there: Rows, old: Series, here: Rows, same: bool) -> tuple[Codes | None, Codes | None]:
    """The units of the samples of both runs; of the same samples those that either run knows."""
    after, before = (None if one.units is None else one.units[rows] for one, rows in ((new, there), (old, here)))
    known = before if after is None else after
    return (known, known) if same else (after, before)


def difference(row: Difference) -> dict[str, Any]:
    """A paired difference as columns."""
    return {"difference": row.difference, "low": row.low, "high": row.high, "status": row.status, "unseen": row.unseen}


def fewest(after: Array, before: Array, units: tuple[Codes | None, Codes | None]) -> int:
    """The number of independent samples of the smaller of two groups."""
    return min(independent(np.isfinite(values), codes) for values, codes in zip((after, before), units, strict=True))


def apart(new: Ends, old: Ends) -> dict[str, Any]:
    """The difference d of two independent estimates: each end lies sqrt(a^2 + b^2) from d, where a and b are their own distances."""
    gap = new.value - old.value
    low, high = gap - math.hypot(new.value - new.low, old.high - old.value), gap + math.hypot(new.high - new.value, old.value - old.low)
    return {"difference": gap, "low": low, "high": high, "status": "too few" if math.isnan(low) else "ok", "unseen": math.nan}


def versus_pooled(score: PooledScore, one: Series, other: Series, same: bool, confidence: float) -> dict[str, Any]:
    """One row of a comparison of pooled scores: by the same resamplings where the samples are the same, else of two estimates."""
    names = {"model": one.model, "explainer": one.explainer, "score": one.score, **UNBOUNDED, "paired": same}
    if one.missing or other.missing:
        return {**names, **NOTHING, "status": "pending" if one.pending or other.pending else "too few"}
    parts = {"after": other, "before": one}
    here = np.intersect1d(one.samples, other.samples)
    measured = {
        name: pooled.select_samples(part.measured, np.isin(part.samples, here) if same else np.ones(len(part.samples), dtype=np.bool_))
        for name, part in parts.items()
    }
    rows = [np.isin(part.samples, here) if same else np.ones(len(part.samples), dtype=np.bool_) for part in (other, one)]
    units = dict(zip(("after", "before"), units_of(other, rows[0], one, rows[1], same), strict=True))
    old, new = (
        pooled.pooled_estimate(score, measured[name], one.bounds, confidence, units=units[name]).estimate for name in ("before", "after")
    )
    means = {"before": old.value, "after": new.value}
    if same:
        return {**names, **means, **difference(pooled.pooled_differences(score, measured, confidence, units=units["before"])[0])}
    return {**names, **means, **apart(new, old)}


def versus_medians(
    before: Array,
    after: Array,
    below: NDArray[np.bool_],
    beneath: NDArray[np.bool_],
    same: bool,
    confidence: float,
    units: tuple[Codes | None, Codes | None] = (None, None),
) -> dict[str, Any]:
    """The medians before and after, of values of which some are censored, and their difference."""
    old, new = (
        medians.median_estimate(table, None, (-np.inf, np.inf), censored=hidden) for table, hidden in ((before, below), (after, beneath))
    )
    values, known = {"after": after, "before": before}, {"after": beneath, "before": below}
    gap = (
        medians.median_differences(values, known, confidence, units=units[0])[0]
        if same
        else medians.independent_median_difference(values, known, confidence, units=units)
    )
    return {
        "before": old.value,
        "after": new.value,
        "difference": gap.difference,
        "low": gap.low,
        "high": gap.high,
        "status": gap.status,
        "unseen": gap.unseen,
        "before_bound": old.bound,
        "after_bound": new.bound,
        "bound": gap.bound,
    }
