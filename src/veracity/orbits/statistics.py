"""Numbers about many orbits at once: means with intervals, the equivariance gap, and how the consensus agrees with the truth."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from veracity.core.errors import InputError
from veracity.core.scores import per_sample_mean
from veracity.statistics.correlation import pearson_correlation
from veracity.statistics.intervals import EQUAL, mean_interval, skewed_reach, t_quantile, third_cumulant, unseen_share
from veracity.statistics.means import rounding_scale

Array = NDArray[Any]
ANYWHERE = (-np.inf, np.inf)
FLAT = 1e-4
"""Plots that vary by no more than this share of their largest value are constant: what is left is rounding."""


@dataclass(frozen=True)
class OrbitMean:
    """The mean of one number per sample (N,) with its interval over samples; `n` samples have a value, `undefined` counts what is missing.

    Where all samples are equal, `unseen` is the largest share of the population that may differ without having been seen. `aggregate`
    is the same number of the mean plots, where there is one.
    """

    samples: Array
    value: float
    low: float
    high: float
    n: int
    undefined: int
    unseen: float
    aggregate: float = np.nan


def mean_over(samples: Array, confidence: float, undefined: int, bounds: tuple[float, float] = ANYWHERE, scale: float = 0.0) -> OrbitMean:
    """The mean over samples (N,); the interval is cut to the bounds, and `scale` is as in `mean_interval`."""
    found = mean_interval(samples, confidence, scale=scale)
    unseen = unseen_share(found.n, confidence) if found.low == found.high else np.nan
    low, high = (float(end) for end in np.clip([found.low, found.high], *bounds))
    return OrbitMean(samples, found.value, low, high, found.n, undefined, unseen)


def agreement(truth: ArrayLike, consensus: ArrayLike, mask: NDArray[np.bool_] | None = None, confidence: float = 0.95) -> OrbitMean:
    """Pearson's r of a metric against the truth (N, K) and against the consensus (N, K), per sample along the orbit and of the means.

    `mask` (N, K) keeps the elements that count, such as shifts that leave the key object whole. A constant plot correlates with
    nothing: NaN, and counted. The aggregate is r of the two plots' means over samples (section 3.4).

    >>> found = agreement([[0.0, 1.0, 2.0], [1.0, 1.0, 1.0]], [[0.0, 2.0, 4.0], [0.0, 1.0, 2.0]])
    >>> found.samples.tolist(), found.value, found.undefined
    ([1.0, nan], 1.0, 1)
    """
    a, b = rows(truth), rows(consensus)
    if a.shape != b.shape or (mask is not None and mask.shape != a.shape):
        given = f"{a.shape}, {b.shape}" + ("" if mask is None else f" and a mask of {mask.shape}")
        raise InputError(f"The two plots must have one shape (samples, elements), not {given}.")
    both = np.isfinite(a) & np.isfinite(b) & (True if mask is None else mask)
    a, b = np.where(both, a, np.nan), np.where(both, b, np.nan)
    samples = correlation(a, b)
    means = (per_sample_mean(plot.T)[None] for plot in (a, b))
    found = mean_over(samples, confidence, int(np.isnan(samples).sum()), (-1.0, 1.0))
    return replace(found, aggregate=float(correlation(*means)[0]))


def correlation(a: Array, b: Array) -> Array:
    """Pearson's r of each row (N, K), NaN where one of the two is constant up to rounding."""
    varies = [spread(x) > FLAT * np.abs(np.where(np.isfinite(x), x, 0.0)).max(axis=1, initial=0.0) for x in (a, b)]
    return np.where(varies[0] & varies[1], pearson_correlation(a, b), np.nan)


def equivariance_gap(distances: ArrayLike, identity: int = 0, confidence: float = 0.95, *, scale: float = 0.0) -> OrbitMean:
    """The mean over g != e of d(phi~(g^-1, h(phi(g, x))), h(x)) per sample, and its mean over samples with its interval.

    `distances` (N, K) are those of a task between outputs along the orbit and the output at the identity; NaN is undefined, left out
    and counted. An exactly equivariant model has a gap of 0: its orbit is flat (section 2.1). `scale` is as in `mean_interval`.

    >>> found = equivariance_gap([[0.0, 0.25, 0.75], [0.0, 0.5, 0.5]])
    >>> found.samples.tolist(), found.value
    ([0.5, 0.5], 0.5)
    """
    others = np.delete(rows(distances), identity, axis=1)
    return mean_over(per_sample_mean(others), confidence, int((~np.isfinite(others)).sum()), scale=scale)


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
    """The least and largest value of a metric, from its record in the manifest.

    >>> bounds_of({"low": 0.0, "high": None})
    (0.0, inf)
    """
    low, high = metric["low"], metric["high"]
    return ANYWHERE[0] if low is None else float(low), ANYWHERE[1] if high is None else float(high)


def summary(values: Array, metric: dict[str, Any], identity: int, elements: tuple[str, ...], confidence: float) -> dict[str, Any]:
    """One metric of one model: its mean over all orbits with an interval, its value at the identity, and where it is worst.

    `spread` is the mean over samples of max - min along the orbit; `undefined` counts the values (N, K) that are NaN. If the means along
    the orbit differ by no more than float32 rounds, none of them is the worst: `worst_at` is empty.
    """
    x, bounds = np.asarray(values, dtype=np.float64), bounds_of(metric)
    own = asdict(mean_over(per_sample_mean(x), confidence, int((~np.isfinite(x)).sum()), bounds, rounding_scale(bounds)))
    along = mean_along(x, confidence)["value"].to_numpy()
    worst = int(np.where(np.isfinite(along), along if metric["higher_is_better"] else -along, np.inf).argmin())
    known = along[np.isfinite(along)]
    differs = len(known) > 0 and bool(np.ptp(known) > EQUAL * max(1.0, float(np.abs(known).max())))
    varies = spread(x)
    return {
        **{name: own[name] for name in ("value", "low", "high", "n", "unseen", "undefined")},
        "identity": float(along[identity]),
        "worst": float(along[worst]),
        "worst_at": elements[worst] if differs else "",
        "spread": float(varies[np.isfinite(varies)].mean()) if np.isfinite(varies).any() else np.nan,
    }
