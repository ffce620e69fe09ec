"""Does the consensus tell what the truth tells? The correlation of the two plots along the orbit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veracity.core.errors import InputError
from veracity.core.scores import per_sample_mean
from veracity.interpret.intervals import mean_interval, unseen
from veracity.interpret.orbit.gap import Array, rows, spread
from veracity.measure.correlation import pearson

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
    share = unseen(found.n, confidence) if found.low == found.high else np.nan
    return Agreement(samples, found.value, float(low), float(high), found.n, int(np.isnan(samples).sum()), float(whole[0]), share)


def correlated(a: Array, b: Array) -> Array:
    """Pearson's r of each row (N, K), NaN where one of the two is constant up to rounding."""
    flat = varies_little(a) | varies_little(b)
    return np.where(flat, np.nan, pearson(a, b))


def varies_little(x: Array) -> NDArray[np.bool_]:
    """Which rows (N, K) are constant up to rounding, or hold nothing."""
    largest = np.abs(np.where(np.isfinite(x), x, 0.0)).max(axis=1, initial=0.0)
    return np.asarray(~(spread(x) > FLAT * largest))
