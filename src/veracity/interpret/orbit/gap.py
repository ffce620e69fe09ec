"""How far from equivariant a model is, as a number: the mean distance along the orbit from what it says at the identity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veracity.core.errors import InputError
from veracity.core.scores import per_sample_mean
from veracity.interpret.intervals import mean_interval, unseen

Array = NDArray[np.float64]


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
    share = unseen(found.n, confidence) if found.low == found.high else np.nan
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
