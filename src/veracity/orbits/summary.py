"""Numbers about many orbits at once: means along the orbit with their intervals, and rows of the table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from veracity.core.scores import per_sample_mean
from veracity.interpret.intervals import EQUAL, mean_interval, skewed_reach, t_quantile, third_cumulant, unseen
from veracity.interpret.orbit import spread
from veracity.interpret.statistics import scale

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
        error = np.where(apart > EQUAL * np.maximum(scale(bounds), np.abs(kept).max(axis=0)), error, 0.0)
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
    own = mean_interval(per_sample_mean(x), confidence, scale=scale(bounds_of(metric)))
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
        "unseen": unseen(own.n, confidence) if own.low == own.high else np.nan,
        "undefined": int((~np.isfinite(x)).sum()),
        "identity": float(along[identity]),
        "worst": float(along[worst]),
        "worst_at": elements[worst] if differs(along[known]) else "",
        "spread": float(varies[np.isfinite(varies)].mean()) if np.isfinite(varies).any() else np.nan,
    }
