"""Student's t for one mean, for paired values and for two groups; NaN is a missing value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from veracity.core.errors import InputError, SpecError

Array = NDArray[np.float64]


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
    if not 0.0 < confidence < 1.0:
        raise SpecError(f"The confidence must lie between 0 and 1, such as 0.95, not {confidence!r}.")
    return np.asarray(stdtrit(freedom, 0.5 + confidence / 2.0), dtype=np.float64)


def around(value: float, error: float, freedom: float, confidence: float, n: int) -> Interval:
    """value +- t error; without any width where there is no error."""
    reach = 0.0 if error == 0.0 else float(t_quantile(confidence, freedom)) * error
    return Interval(value=value, low=value - reach, high=value + reach, n=n)


def mean_interval(values: Array, confidence: float = 0.95) -> Interval:
    """The mean of independent values (n,) with its t interval; a single value has none.

    mean +- t_{n-1} sd / sqrt(n). It has no width when all values are equal, however few they are.

    >>> found = mean_interval(np.array([1.0, 2.0, 3.0, np.nan]))
    >>> round(found.low, 3), found.value, round(found.high, 3), found.n
    (-0.484, 2.0, 4.484, 3)
    """
    x = values[~np.isnan(values)]
    n = len(x)
    if n < 2:
        return Interval(value=float(x[0]) if n else np.nan, low=np.nan, high=np.nan, n=n)
    return around(float(x.mean()), spread(x) / n**0.5, n - 1, confidence, n)


def paired(a: Array, b: Array, confidence: float = 0.95) -> Interval:
    """The mean of a - b over the samples (n,) that have both values, with its t interval.

    >>> found = paired(np.array([1.0, 2.0, 4.0]), np.array([0.0, 2.0, 1.0]))
    >>> round(found.value, 3), round(found.high, 3)
    (1.333, 5.128)
    """
    if a.shape != b.shape:
        raise InputError(f"Paired values must come in equal numbers, not {len(a)} and {len(b)}.")
    return mean_interval(a - b, confidence)


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
    return around(value, float(np.sqrt(parts.sum())), satterthwaite(parts, np.array([len(a) - 1, len(b) - 1])), confidence, n)


def spread(x: Array) -> float:
    """The standard deviation (n - 1), exactly zero where all values are equal."""
    return float((x - x[0]).std(ddof=1))


def satterthwaite(parts: Array, freedom: NDArray[np.int64]) -> float:
    """Degrees of freedom of a sum of independent estimated variances: (sum v)^2 / sum(v^2 / f)."""
    total = float(parts.sum())
    return total**2 / float((parts**2 / freedom).sum()) if total > 0.0 else np.inf
