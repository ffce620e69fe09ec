"""Intervals of means: Student's t, which reaches further on the side of the longer tail. NaN is a missing value.

The mean of skewed values misses its t interval far too often, nearly always on one side. To first order its t statistic has
the quantile t - S (1 + 2 z^2) / 6 instead of t, where S is the skewness of the mean (Johnson 1978; Hall 1992). So

    low  = mean - error (t + max(0, -S) (1 + 2 z^2) / 6)
    high = mean + error (t + max(0, S) (1 + 2 z^2) / 6),    S = third / error^3

with `third` the third cumulant of the mean. The shorter side stays as t has it. A sample shows less skewness than its
population, the more so the smaller it is; the factor 1 + 12 / sqrt(n) makes up for that. Its constant was chosen by
measurement: `python -m benchmarks.coverage` prints coverage and width beside those of the plain t interval.

Reference: Johnson, Modified t tests and confidence intervals for asymmetrical populations (JASA 1978); Hall, On the removal of
skewness by transformation (JRSS B 1992).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri, stdtr, stdtrit

from veracity.core.errors import InputError
from veracity.core.settings import as_confidence

Array = NDArray[np.float64]

EQUAL = 1e-6
"""Values that differ by no more than this share of their scale are equal: what is left is rounding in float32."""
HIDDEN = 12.0
"""How much skewness a small sample hides: the factor is 1 + HIDDEN / sqrt(n)."""


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A value with the two ends of its interval; the ends are NaN where there is too little to say."""

    value: float
    low: float
    high: float
    n: int


def t_quantile(confidence: float, freedom: ArrayLike) -> Array:
    """How many standard errors a two-sided interval of this level reaches.

    >>> t_quantile(0.95, 10).round(3).item()
    2.228
    """
    as_confidence(confidence)
    return np.asarray(stdtrit(freedom, 0.5 + confidence / 2.0), dtype=np.float64)


def skewed_reach(error: ArrayLike, third: ArrayLike, reach: ArrayLike, freedom: ArrayLike) -> tuple[Array, Array]:
    """How far below and above the mean an interval reaches that takes `reach` standard errors for values without skewness.

    `third` is the third cumulant of the mean. All arguments broadcast; a mean without error has no width.

    >>> below, above = skewed_reach(1.0, -0.5, 2.0, 1e9)
    >>> below.round(3).item(), above.item()
    (2.75, 2.0)
    """
    error, reach = np.asarray(error, dtype=np.float64), np.asarray(reach, dtype=np.float64)
    cube = error**3
    skewness = np.divide(third, cube, out=np.zeros(np.broadcast_shapes(np.shape(third), cube.shape)), where=cube > 0.0)
    quantile = ndtri(stdtr(freedom, reach))
    further = (1.0 + 2.0 * quantile**2) / 6.0
    none = error == 0.0
    below, above = (np.where(none, 0.0, error * (reach + further * np.maximum(0.0, sign * skewness))) for sign in (-1.0, 1.0))
    return below, above


def third_cumulant(values: Array, axis: int = 0) -> Array:
    """The third cumulant of the mean of n independent values along an axis, made larger by what a small sample hides; NaN is left out.

    >>> third_cumulant(np.array([0.0, 0.0, 3.0])).round(3).item()
    1.762
    """
    there = ~np.isnan(values)
    n = np.maximum(there.sum(axis=axis), 1)
    mean = np.where(there, values, 0.0).sum(axis=axis, keepdims=True) / np.expand_dims(n, axis)
    cubes = np.where(there, values - mean, 0.0) ** 3
    found: Array = (1.0 + HIDDEN / np.sqrt(n)) * cubes.sum(axis=axis) / n**3
    return found


def around(value: float, error: float, freedom: float, confidence: float, n: int, *, third: float = 0.0) -> Interval:
    """The interval of a mean with this standard error and third cumulant; without any width where there is no error."""
    below, above = skewed_reach(error, third, t_quantile(confidence, freedom), freedom)
    return Interval(value=value, low=value - float(below), high=value + float(above), n=n)


def mean_interval(values: Array, confidence: float = 0.95, *, scale: float = 0.0) -> Interval:
    """The mean of independent values (n,) with its interval; a single value has none.

    It has no width where all values are equal up to rounding; `unseen` says what that leaves open. `scale` is a number beside
    which rounding is measured if it is larger than the values, such as 1 for a cosine.

    >>> found = mean_interval(np.array([1.0, 2.0, 3.0, np.nan]))
    >>> round(found.low, 3), found.value, round(found.high, 3), found.n
    (-0.484, 2.0, 4.484, 3)
    """
    x = values[np.isfinite(values)]
    n = len(x)
    if n < 2:
        return Interval(value=float(x[0]) if n else np.nan, low=np.nan, high=np.nan, n=n)
    value = float(x.mean())
    if equal(x, scale):
        return Interval(value=value, low=value, high=value, n=n)
    return around(value, spread(x) / n**0.5, n - 1, confidence, n, third=float(third_cumulant(x)))


def paired(a: Array, b: Array, confidence: float = 0.95) -> Interval:
    """The mean of a - b over the samples (n,) that have both values, with its interval.

    >>> found = paired(np.array([1.0, 2.0, 4.0]), np.array([0.0, 2.0, 1.0]))
    >>> round(found.value, 3), round(found.low, 3), round(found.high, 3)
    (1.333, -2.461, 6.342)
    """
    if a.shape != b.shape:
        raise InputError(f"Paired values must come in equal numbers, not {len(a)} and {len(b)}.")
    return mean_interval(a - b, confidence, scale=largest(a, b))


def welch(a: Array, b: Array, confidence: float = 0.95) -> Interval:
    """The difference of two independent groups' means, mean a - mean b, with Welch's interval; n is the smaller group's size.

    >>> found = welch(np.array([1.0, 2.0, 3.0]), np.array([0.0, 4.0, 8.0, 4.0]))
    >>> round(found.value, 3), round(found.low, 3)
    (-2.0, -6.961)
    """
    a, b = a[~np.isnan(a)], b[~np.isnan(b)]
    n = min(len(a), len(b))
    value = float(a.mean() - b.mean()) if n else np.nan
    if n < 2:
        return Interval(value=value, low=np.nan, high=np.nan, n=n)
    parts = np.array([spread(a) ** 2 / len(a), spread(b) ** 2 / len(b)])
    freedom = satterthwaite(parts, np.array([len(a) - 1, len(b) - 1]))
    third = float(third_cumulant(a) - third_cumulant(b))
    return around(value, float(np.sqrt(parts.sum())), freedom, confidence, n, third=third)


def unseen(n: int, confidence: float = 0.95, comparisons: int = 1) -> float:
    """The largest share of the population that may differ without having been seen in n independent samples that are all alike.

    1 - alpha^(1/n): were the share larger, n samples without any of it would come about with a probability below
    alpha = (1 - confidence) / comparisons. One-sided. NaN without a sample.

    >>> round(unseen(25), 3), round(unseen(25, comparisons=3), 3)
    (0.113, 0.151)
    """
    as_confidence(confidence)
    return float(1.0 - ((1.0 - confidence) / comparisons) ** (1.0 / n)) if n > 0 else np.nan


def equal(x: Array, scale: float = 0.0) -> bool:
    """Whether values (n,) are equal up to rounding, beside the largest of them or a `scale` that is larger."""
    return len(x) > 0 and bool(np.isfinite(x).all()) and float(np.ptp(x)) <= EQUAL * max(scale, largest(x))


def largest(*values: Array) -> float:
    """The largest magnitude of the finite values, 0 without any."""
    return max((float(np.abs(x[np.isfinite(x)]).max(initial=0.0)) for x in values), default=0.0)


def spread(x: Array) -> float:
    """The standard deviation (n - 1), exactly zero where all values are equal."""
    return float((x - x[0]).std(ddof=1))


def satterthwaite(parts: Array, freedom: NDArray[np.int64]) -> float:
    """Degrees of freedom of a sum of independent estimated variances: (sum v)^2 / sum(v^2 / f)."""
    total = float(parts.sum())
    return total**2 / float((parts**2 / freedom).sum()) if total > 0.0 else np.inf
