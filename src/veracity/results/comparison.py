"""Two runs, compared score by score."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from veracity.core.errors import InputError, Note
from veracity.core.scores import Score
from veracity.interpret import medians, pooled, statistics
from veracity.results.run import Result
from veracity.results.series import Series, censored, mean

Array = NDArray[np.float64]


def compared(first: Result, second: Result) -> pd.DataFrame:
    """Second minus first for every model, explainer and score that both have; paired by sample if the data are the same.

    Scores whose samples are summed up by a median are compared by medians: paired, by the median of the differences.
    """
    differing = [key for key in ("symmetry", "score_specs", "seed") if first.manifest.get(key) != second.manifest.get(key)]
    if differing:
        warnings.warn(f"The two runs differ in {', '.join(differing).replace('score_specs', 'scores')}.", Note, stacklevel=2)
    same = first.manifest["data"]["fingerprint"] == second.manifest["data"]["fingerprint"]
    confidence = float(first.manifest["spec"].get("confidence", 0.95))
    shown = set(first.manifest["scores"])
    series = [{(one.model, one.explainer, one.score): one for one in run.series if one.score in shown} for run in (first, second)]
    shared = [key for key in series[0] if key in series[1]]
    if not shared:
        raise InputError("The two runs share no model, explainer and score.")
    alone = sorted({" / ".join(part for part in key if part) for key in set(series[0]) ^ set(series[1])})
    if alone:
        warnings.warn(f"In one run only: {', '.join(alone)}.", Note, stacklevel=2)
    centres = {key: first.manifest["score_specs"][key[2]].get("centre", "mean") for key in shared}
    return pd.DataFrame(
        [
            versus_pooled(first.score(key[2]), series[0][key], series[1][key], same, confidence)
            if first.pools(key[2])
            else versus(series[0][key], series[1][key], same, confidence, centres[key])
            for key in shared
        ]
    )


def versus(one: Series, other: Series, same: bool, confidence: float, centre: str = "mean") -> dict[str, Any]:
    """One row of a comparison; by sample number where both runs saw the same data."""
    here, there = np.arange(len(one.samples)), np.arange(len(other.samples))
    if same:
        _, here, there = np.intersect1d(one.samples, other.samples, return_indices=True)
    before, after = one.per_sample[here], other.per_sample[there]
    found = {"model": one.model, "explainer": one.explainer, "score": one.score}
    if centre == "median":
        return {**found, **versus_medians(before, after, censored(one)[here], censored(other)[there], same, confidence), "paired": same}
    numbers: dict[str, Any] = {"before": mean(before), "after": mean(after)}
    if same:
        (row,) = statistics.differences({"after": after, "before": before}, confidence)
        numbers |= {"difference": row.difference, "low": row.low, "high": row.high, "status": row.status, "unseen": row.unseen}
    else:
        gap = statistics.welch(after, before, confidence)
        numbers |= {"difference": gap.value, "low": gap.low, "high": gap.high, "status": "ok", "unseen": math.nan}
    return {**found, **numbers, "before_bound": False, "after_bound": False, "bound": "", "paired": same}


def versus_pooled(score: Score, one: Series, other: Series, same: bool, confidence: float) -> dict[str, Any]:
    """One row of a comparison of pooled scores: by the same resamplings where the samples are the same, else of two estimates.

    Of two estimates, the ends are d -+ sqrt of the sum of their own distances to their ends, squared.
    """
    names = {"model": one.model, "explainer": one.explainer, "score": one.score}
    if one.missing or other.missing:
        nothing = dict.fromkeys(("before", "after", "difference", "low", "high", "unseen"), math.nan)
        return {**names, **nothing, "status": "too few", "before_bound": False, "after_bound": False, "bound": "", "paired": same}
    parts = {"after": other, "before": one}
    here = np.intersect1d(one.samples, other.samples)
    measured = {
        name: pooled.only(part.measured, np.isin(part.samples, here) if same else np.ones(len(part.samples), dtype=np.bool_))
        for name, part in parts.items()
    }
    old, new = (pooled.pooled_estimate(score, measured[name], one.bounds, confidence).estimate for name in ("before", "after"))
    if same:
        gap = pooled.pooled_differences(score, measured, confidence)[0]
        low, high, status, unseen = gap.low, gap.high, gap.status, gap.unseen
    else:
        status, unseen = "ok", math.nan
        low = new.value - old.value - math.hypot(new.value - new.low, old.high - old.value)
        high = new.value - old.value + math.hypot(new.high - new.value, old.value - old.low)
    numbers = {"before": old.value, "after": new.value, "difference": new.value - old.value, "low": low, "high": high}
    numbers |= {"unseen": unseen}
    return {**names, **numbers, "status": status, "before_bound": False, "after_bound": False, "bound": "", "paired": same}


def versus_medians(
    before: Array, after: Array, below: NDArray[np.bool_], beneath: NDArray[np.bool_], same: bool, confidence: float
) -> dict[str, Any]:
    """The medians before and after, of values of which some are censored, and their difference."""
    old, new = (medians.middle(table, None, (-np.inf, np.inf), censored=hidden) for table, hidden in ((before, below), (after, beneath)))
    values, known = {"after": after, "before": before}, {"after": beneath, "before": below}
    gap = medians.median_differences(values, known, confidence)[0] if same else medians.separate_medians(values, known, confidence)
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
