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


def resamplings(samples: int) -> Iterator[Array]:
    """How often each sample is drawn in a bootstrap resample: tables (B, samples) with REPLICATES rows in total.

    >>> tables = list(resamplings(5))
    >>> len(tables), tables[0].shape, bool((tables[0].sum(axis=1) == 5).all())
    (1, (1000, 5), True)
    """
    generator = np.random.Generator(np.random.PCG64(SEED))
    for count in chunk_sizes(samples):
        drawn = generator.integers(0, max(1, samples), (count, samples)) + samples * np.arange(count)[:, None]
        yield np.bincount(drawn.ravel(), minlength=count * samples).reshape(count, samples).astype(np.float64)


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


def expanded_hull(value: float, replicates: Array, samples: int, confidence: float) -> tuple[float, float]:
    """The smallest symmetric interval that contains the percentile and the basic bootstrap interval, widened for few samples.

    The spread of replicates (B,) of k samples is too small by sqrt((k - 1) / k) and as uncertain as Student's t says, so the ends
    are moved away from the value by the factor t_{k-1} / z sqrt(k / (k - 1)).

    >>> low, high = expanded_hull(0.5, np.linspace(0.4, 0.8, 1001), 10**9, 0.9)
    >>> round(low, 3), round(high, 3)
    (0.22, 0.78)
    """
    low, high = np.quantile(replicates, [(1.0 - confidence) / 2, (1.0 + confidence) / 2])
    factor = float(t_quantile(confidence, samples - 1) / ndtri(0.5 + confidence / 2) * np.sqrt(samples / (samples - 1)))
    reach = factor * float(max(value - low, high - value))
    return value - reach, value + reach
