"""How much better than a random map an explainer scores, as a difference and in per cent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from veracity.core.errors import InputError, unknown
from veracity.core.scores import Array
from veracity.results.series import Series, fitted_control, null_of
from veracity.statistics.crossed import crossed_variance
from veracity.statistics.intervals import Interval, t_interval
from veracity.statistics.ratios import ratio_interval
from veracity.statistics.units import Codes, unit_values

if TYPE_CHECKING:
    from veracity.results.run import Result

PER_CENT = ["per_cent", "per_cent_low", "per_cent_high"]
COLUMNS = ["model", "explainer", "random", "value", "of_random", "difference", "low", "high", *PER_CENT, "no_per_cent", "n"]
ROUNDING = 1e-12
"""A random mean of at most this share of the largest value is 0 up to rounding."""


def over_random(result: Result, score: str, random: str | None = None) -> pd.DataFrame:
    """One row per model and explainer: value minus that of a random map, and 100 (value - random) / random per cent, with intervals.

    `random` names the control, or any explainer of the run, such as a random top-5; by default the control that is fair to the
    explainer's sign and frame. The interval of the difference allows for other samples and other draws. That of the percentage is
    Fieller's: the published one takes the random mean as known. A percentage of a random mean whose own interval holds 0 could be
    anything, and nothing is a percentage of a mean below 0. It is then undefined, with its ends, and `no_per_cent` says why: read the
    difference. GEF expects a random map to score 0, so this is the usual case there.
    """
    mine = [one.sound() for one in result.series if one.score == score]
    if not mine:
        raise unknown("score of this run", score, {one.score for one in result.series})
    if result.pools(score):
        raise InputError(f"The score '{score}' is one number of the whole data set, without a value per sample to compare with random.")
    by = {(one.model, one.explainer): one for one in mine}
    labels = {one.explainer for one in mine}
    if random is not None and random not in labels:
        raise unknown("explainer of this run", random, labels)
    rows: list[dict[str, Any]] = []
    for one in mine:
        name = null_of(one) if random is None else random
        if one.control or one.explainer in ("", name) or fitted_control(one.explainer, one.frame, labels):
            continue
        if (one.model, name) not in by:
            raise InputError(
                f"The run has no control '{name}' to compare '{one.explainer}' with: measure it with controls=True, or name another of its "
                "explainers with random=..."
            )
        rows.append({"model": one.model, "explainer": one.explainer, "random": name, **compare(one, by[one.model, name], result)})
    return pd.DataFrame(rows, columns=COLUMNS)


def compare(one: Series, other: Series, result: Result) -> dict[str, Any]:
    """The numbers of an explainer beside those of a random one, over the samples that both have."""
    plain = result.manifest["score_specs"][one.score]["reduce"] == "mean"
    shared = np.intersect1d(one.samples[np.isfinite(one.per_sample)], other.samples[np.isfinite(other.per_sample)])
    tables = [series.values if plain else series.per_sample[:, None] for series in (one, other)]
    chosen = [table[np.isin(series.samples, shared)] for table, series in zip(tables, (one, other), strict=True)]
    shares = [plain and not series.sampling.nested for series in (one, other)]
    units = None if one.units is None else one.units[np.isin(one.samples, shared)]
    difference, ratio, means = differing(*chosen, crossed=(shares[0], shares[1]), confidence=result.confidence, units=units)
    largest = max((float(np.nanmax(np.abs(table))) for table in chosen if np.isfinite(table).any()), default=0.0)
    problem = no_percentage(means[1], ratio, largest)
    ratios = np.full(3, np.nan) if problem else np.array([ratio.value, ratio.low, ratio.high])
    return {
        "value": means[0],
        "of_random": means[1],
        "difference": difference.value,
        "low": difference.low,
        "high": difference.high,
        **dict(zip(PER_CENT, (100.0 * (ratios - 1.0)).tolist(), strict=True)),
        "no_per_cent": problem,
        "n": len(shared),
    }


def no_percentage(random: float, ratio: Interval, largest: float) -> str:
    """Why there is no percentage of a random mean, in a few words; empty if there is one. `largest` is the size of the values.

    Fieller's interval of the ratio is bounded if and only if the interval of the random mean excludes 0.

    >>> no_percentage(0.2, Interval(value=3.0, low=2.0, high=4.0, n=9), 1.0)
    ''
    >>> no_percentage(0.01, Interval(value=60.0, low=-np.inf, high=np.inf, n=9), 1.0)
    'the random score may be 0'
    """
    if ratio.n < 2:
        return "too few samples"
    if not np.isfinite([ratio.low, ratio.high]).all() or abs(random) <= ROUNDING * largest:
        return "the random score may be 0"
    return "the random score is below 0" if random < 0 else ""


def differing(
    a: Array, b: Array, *, crossed: tuple[bool, bool] = (False, False), confidence: float = 0.95, units: Codes | None = None
) -> tuple[Interval, Interval, tuple[float, float]]:
    """The difference a - b and the ratio a / b of two means over the same samples (samples, draws), and both means.

    Draws that are `crossed` are shared by all samples, and add a variance that more samples do not average out. If those of both are,
    they are the same draws, whose effect on both cancels: the variance of the difference is that of a - b, and
    cov(a, b) = (var(a) + var(b) - var(a - b)) / 2. With `units` (samples,), samples of one unit belong together; the
    variance of the difference is never smaller than without units.

    >>> difference, ratio, _ = differing(np.array([[3.0], [4.0], [5.0]]), np.array([[1.0], [2.0], [3.0]]))
    >>> difference.value, difference.low, ratio.value, ratio.high
    (2.0, 2.0, 2.0, inf)
    """
    n = len(a)
    if n == 0:
        return no_interval(np.nan, 0), no_interval(np.nan, 0), (np.nan, np.nan)
    first, second = (np.nanmean(table, axis=1) for table in (a, b))
    means = float(first.mean()), float(second.mean())
    tables = [first, second, a, b]
    own = tables if units is None else [unit_values(table, units) for table in tables]
    if (size := len(own[0])) < 2:
        return no_interval(means[0] - means[1], n), no_interval(means[0] / means[1] if means[1] else np.nan, n), means
    found = moments(own, crossed, size)
    if units is not None and (plain := moments(tables, crossed, size)).of_difference > found.of_difference:
        found = plain
    difference = t_interval(means[0] - means[1], float(np.sqrt(found.of_difference)), found.freedom, confidence, n)
    return difference, ratio_interval(means, found.parts, found.covariance, found.least, confidence, n), means


class Moments(NamedTuple):
    """The variances of two means, their covariance, and the variance of their difference, with the degrees of freedom of all and of it."""

    parts: tuple[float, float]
    covariance: float
    least: float
    of_difference: float
    freedom: float


def moments(tables: Sequence[Array], crossed: tuple[bool, bool], size: int) -> Moments:
    """Those of two means over n samples, of which `size` are independent, from their means over draws (n,) and their values (n, draws)."""
    first, second, a, b = tables
    spread = np.cov(first, second) / len(first)
    parts, freedom = np.array([spread[0, 0], spread[1, 1]]), np.array([size - 1.0, size - 1.0])
    for place, (table, shared) in enumerate(zip((a, b), crossed, strict=True)):
        if shared and not np.isnan(found := crossed_variance(table, size=size))[0]:
            parts[place], freedom[place] = found
    covariance, least = float(spread[0, 1]), float(freedom.min())
    of_difference, own = max(0.0, float(parts.sum()) - 2.0 * covariance), least
    if all(crossed) and a.shape == b.shape and not np.isnan(found := crossed_variance(a - b, size=size))[0]:
        (of_difference, own), least = found, min(least, found[1])
        covariance = (float(parts.sum()) - of_difference) / 2.0
    return Moments((float(parts[0]), float(parts[1])), covariance, least, of_difference, own)


def no_interval(value: float, n: int) -> Interval:
    """A value from too few samples for an interval."""
    return Interval(value=value, low=np.nan, high=np.nan, n=n)
