"""Bootstrap resamples and permutations of the samples, the same ones every time, and an interval from bootstrap values."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from veracity.core.scores import Array
from veracity.statistics.intervals import t_quantile

Index = NDArray[np.int64]

REPLICATES = 1000
SEED = 20_110
AT_ONCE = 2_000_000
"""How many entries a table holds at most: 16 MB."""


def resamplings(samples: int, units: Index | None = None) -> Iterator[Array]:
    """How often each sample is drawn in a bootstrap resample: tables (B, samples) with REPLICATES rows in total.

    With `units` (samples,), whole units are drawn, each with all of its samples (Davison and Hinkley, Bootstrap methods and their
    application, 1997, section 3.8).

    >>> tables = list(resamplings(5))
    >>> len(tables), tables[0].shape, bool((tables[0].sum(axis=1) == 5).all())
    (1, (1000, 5), True)
    """
    generator = np.random.Generator(np.random.PCG64(SEED))
    names, place = (None, slice(None)) if units is None else np.unique(units, return_inverse=True)
    size = samples if names is None else len(names)
    for count in chunk_sizes(samples):
        drawn = generator.integers(0, max(1, size), (count, size)) + size * np.arange(count)[:, None]
        yield np.bincount(drawn.ravel(), minlength=count * size).reshape(count, size).astype(np.float64)[:, place]


def permutations(movable: NDArray[np.bool_]) -> Iterator[Index]:
    """Permutations (B, samples) of the `movable` samples (samples,) that leave the others in place; REPLICATES rows in total.

    >>> next(permutations(np.array([True, False, True])))[:, 1].max()
    np.int64(1)
    """
    generator = np.random.Generator(np.random.PCG64(SEED + 1))
    place = np.flatnonzero(movable)
    for count in chunk_sizes(len(movable)):
        orders = np.tile(np.arange(len(movable)), (count, 1))
        orders[:, place] = generator.permuted(orders[:, place], axis=1)
        yield orders


def chunk_sizes(samples: int) -> Iterator[int]:
    """Numbers of rows per table that add up to REPLICATES and respect AT_ONCE."""
    step = max(1, AT_ONCE // max(1, samples))
    yield from (min(step, REPLICATES - start) for start in range(0, REPLICATES, step))


def few_factor(samples: int, confidence: float) -> float:
    """How much wider a bootstrap interval must be for few samples, or units: t_{k-1} / z sqrt(k / (k - 1)).

    The spread of replicates of k samples is too small by sqrt((k - 1) / k), and as uncertain as Student's t says. It is NaN for one.

    >>> round(few_factor(10, 0.95), 3), round(few_factor(1000, 0.95), 3)
    (1.217, 1.002)
    """
    if samples < 2:
        return float("nan")
    return float(t_quantile(confidence, samples - 1) / ndtri(0.5 + confidence / 2) * np.sqrt(samples / (samples - 1)))


def expanded_hull(value: float, replicates: Array, samples: int, confidence: float) -> tuple[float, float]:
    """The smallest symmetric interval that contains the percentile and the basic bootstrap interval, widened for few samples.

    The ends are moved away from the value by `few_factor`.

    >>> low, high = expanded_hull(0.5, np.linspace(0.4, 0.8, 1001), 10**9, 0.9)
    >>> round(low, 3), round(high, 3)
    (0.22, 0.78)
    """
    low, high = np.quantile(replicates, [(1.0 - confidence) / 2, (1.0 + confidence) / 2])
    reach = few_factor(samples, confidence) * float(max(value - low, high - value))
    return value - reach, value + reach
