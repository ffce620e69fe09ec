"""Does the consensus tell what the truth tells? The correlation of the two plots along the orbit.

How far from equivariant a model is, as a number: the mean distance along the orbit from what it says at the identity.

Numbers about many orbits at once: means along the orbit with their intervals, and rows of the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from veracity.core.errors import InputError
from veracity.core.scores import per_sample_mean
from veracity.statistics.correlation import pearson_correlation
from veracity.statistics.intervals import EQUAL, mean_interval, skewed_reach, t_quantile, third_cumulant, unseen_share
from veracity.statistics.means import rounding_scale

FLAT = 1e-4
"""Plots that vary by no more than this share of their largest value are constant: what is left is rounding."""


@dataclass(frozen=True)
class Agreement:
    """The mean of the samples' correlations with its interval; of how many samples, how many have none; and that of the mean plots.

    Where all samples have the same correlation, `unseen` is the largest share of the population that may differ without having been seen.
    """

    samples: Array
    correlation: float
    low: float
    high: float
    n: int
    undefined: int
    aggregate: float
    unseen: float = np.nan


def agreement(truth: ArrayLike, consensus: ArrayLike, mask: NDArray[np.bool_] | None = None, confidence: float = 0.95) -> Agreement:
    """Pearson's r of a metric against the truth (N, K) and against the consensus (N, K), per sample along the orbit and of the means.

    `mask` (N, K) keeps the elements that count, such as shifts that leave the key object whole. A constant plot correlates with
    nothing: NaN, and counted. The aggregate is r of the two plots' means over samples (section 3.4).

    >>> found = agreement([[0.0, 1.0, 2.0], [1.0, 1.0, 1.0]], [[0.0, 2.0, 4.0], [0.0, 1.0, 2.0]])
    >>> found.samples.tolist(), found.correlation, found.undefined
    ([1.0, nan], 1.0, 1)
    """
    a, b = rows(truth), rows(consensus)
    if a.shape != b.shape or (mask is not None and mask.shape != a.shape):
        given = f"{a.shape}, {b.shape}" + ("" if mask is None else f" and a mask of {mask.shape}")
        raise InputError(f"The two plots must have one shape (samples, elements), not {given}.")
    both = np.isfinite(a) & np.isfinite(b) & (True if mask is None else mask)
    a, b = np.where(both, a, np.nan), np.where(both, b, np.nan)
    samples = correlated(a, b)
    found = mean_interval(samples, confidence)
    low, high = np.clip([found.low, found.high], -1.0, 1.0)
    whole = correlated(*(per_sample_mean(plot.T)[None] for plot in (a, b)))
    share = unseen_share(found.n, confidence) if found.low == found.high else np.nan
    return Agreement(samples, found.value, float(low), float(high), found.n, int(np.isnan(samples).sum()), float(whole[0]), share)


def correlated(a: Array, b: Array) -> Array:
    """Pearson's r of each row (N, K), NaN where one of the two is constant up to rounding."""
    flat = varies_little(a) | varies_little(b)
    return np.where(flat, np.nan, pearson_correlation(a, b))


def varies_little(x: Array) -> NDArray[np.bool_]:
    """Which rows (N, K) are constant up to rounding, or hold nothing."""
    largest = np.abs(np.where(np.isfinite(x), x, 0.0)).max(axis=1, initial=0.0)
    return np.asarray(~(spread(x) > FLAT * largest))


@dataclass(frozen=True)
class Gap:
    """The mean of the samples' gaps with its interval; of how many samples, and how many distances along their orbits are undefined.

    Where all samples have the same gap, `unseen` is the largest share of the population that may differ without having been seen.
    """

    samples: Array
    value: float
    low: float
    high: float
    n: int
    undefined: int
    unseen: float = np.nan


def equivariance_gap(distances: ArrayLike, identity: int = 0, confidence: float = 0.95, *, scale: float = 0.0) -> Gap:
    """The mean over g != e of d(phi~(g^-1, h(phi(g, x))), h(x)) per sample, and its mean over samples with its interval.

    `distances` (N, K) are those of a task between outputs along the orbit and the output at the identity; NaN is undefined, left out
    and counted. An exactly equivariant model has a gap of 0: its orbit is flat (section 2.1). `scale` is as in `mean_interval`.

    >>> found = equivariance_gap([[0.0, 0.25, 0.75], [0.0, 0.5, 0.5]])
    >>> found.samples.tolist(), found.value
    ([0.5, 0.5], 0.5)
    """
    others = np.delete(rows(distances), identity, axis=1)
    samples = per_sample_mean(others)
    found = mean_interval(samples, confidence, scale=scale)
    share = unseen_share(found.n, confidence) if found.low == found.high else np.nan
    return Gap(samples, found.value, found.low, found.high, found.n, int((~np.isfinite(others)).sum()), share)


def spread(values: ArrayLike) -> Array:
    """How much a metric varies along the orbit, max - min of the defined values (N, K) per sample, (N,); NaN without any.

    >>> spread([[0.25, 1.0, np.nan]]).tolist()
    [0.75]
    """
    found = rows(values)
    there = np.isfinite(found)
    wide = np.where(there, found, -np.inf).max(axis=1, initial=-np.inf) - np.where(there, found, np.inf).min(axis=1, initial=np.inf)
    return np.where(there.any(axis=1), wide, np.nan)


def rows(values: ArrayLike) -> Array:
    """Values along an orbit, float64 (N, K)."""
    found = np.asarray(values, dtype=np.float64)
    if found.ndim != 2:
        raise InputError(f"Values along an orbit have shape (samples, elements), not {found.shape}.")
    return found


Array = NDArray[Any]


ANYWHERE = (-np.inf, np.inf)


def mean_along(values: Array, confidence: float = 0.95, bounds: tuple[float, float] = ANYWHERE) -> pd.DataFrame:
    """At each of K elements, the mean over samples of values (N, K) with its interval, and how many of the samples have a value.

    That of `mean_interval`, column by column, cut to the metric's bounds. A single value has no interval, and none at all no mean:
    NaN.

    >>> mean_along(np.array([[1.0, 2.0], [3.0, np.nan]])).round(3).to_dict("list")
    {'value': [2.0, 2.0], 'low': [-10.706, nan], 'high': [14.706, nan], 'n': [2, 1]}
    """
    x = np.asarray(values, dtype=np.float64)
    there = np.isfinite(x)
    n = there.sum(axis=0)
    kept = np.where(there, x, 0.0)
    mean = np.where(n > 0, kept.sum(axis=0) / np.maximum(n, 1), np.nan)
    squares = np.where(there, (x - mean) ** 2, 0.0).sum(axis=0)
    error = np.sqrt(squares / np.maximum(n - 1, 1) / np.maximum(n, 1))
    if x.size:
        apart = np.where(there, x, -np.inf).max(axis=0) - np.where(there, x, np.inf).min(axis=0)
        error = np.where(apart > EQUAL * np.maximum(rounding_scale(bounds), np.abs(kept).max(axis=0)), error, 0.0)
    freedom = np.maximum(n - 1, 1)
    below, above = skewed_reach(error, third_cumulant(np.where(there, x, np.nan)), t_quantile(confidence, freedom), freedom)
    below, above = (np.where(n > 1, side, np.nan) for side in (below, above))
    return pd.DataFrame({"value": mean, "low": np.maximum(mean - below, bounds[0]), "high": np.minimum(mean + above, bounds[1]), "n": n})


def bounds_of(metric: dict[str, Any]) -> tuple[float, float]:
    """Between which numbers a metric lies, by its line in the manifest.

    >>> bounds_of({"low": 0.0, "high": None})
    (0.0, inf)
    """
    low, high = metric["low"], metric["high"]
    return ANYWHERE[0] if low is None else float(low), ANYWHERE[1] if high is None else float(high)


def differs(along: Array) -> bool:
    """Whether values (K,) along an orbit differ by more than float32 rounds; where they do not, none of them is the worst.

    >>> differs(np.array([0.5, 0.5 + 1e-8])), differs(np.array([0.5, 0.6]))
    (False, True)
    """
    return len(along) > 0 and bool(np.ptp(along) > EQUAL * max(1.0, float(np.abs(along).max())))


def summarised(values: Array, metric: dict[str, Any], identity: int, elements: tuple[str, ...], confidence: float) -> dict[str, Any]:
    """One metric of one model: its mean over all orbits with an interval over samples, what it is unmoved, and where it is worst.

    `spread` is the mean over samples of max - min along the orbit; `undefined` counts the values (N, K) that are NaN.
    """
    x = np.asarray(values, dtype=np.float64)
    own = mean_interval(per_sample_mean(x), confidence, scale=rounding_scale(bounds_of(metric)))
    along = mean_along(x, confidence)["value"].to_numpy()
    known, (least, most), better = np.isfinite(along), bounds_of(metric), bool(metric["higher_is_better"])
    filled = np.where(known, along, np.inf if better else -np.inf)
    worst = int(filled.argmin() if better else filled.argmax())
    varies = spread(x)
    return {
        "value": own.value,
        "low": float(np.maximum(own.low, least)),
        "high": float(np.minimum(own.high, most)),
        "n": own.n,
        "unseen": unseen_share(own.n, confidence) if own.low == own.high else np.nan,
        "undefined": int((~np.isfinite(x)).sum()),
        "identity": float(along[identity]),
        "worst": float(along[worst]),
        "worst_at": elements[worst] if differs(along[known]) else "",
        "spread": float(varies[np.isfinite(varies)].mean()) if np.isfinite(varies).any() else np.nan,
    }
