"""Many resamplings and many permutations of the samples, the same ones every time, a bounded number at once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.int64]

REPLICATES = 1000
SEED = 20_110
AT_ONCE = 2_000_000
"""How many weights or places there are at a time: 16 MB."""


def resamplings(samples: int) -> Iterator[Array]:
    """How often each sample counts if as many as there are were drawn with replacement: tables (B, samples), REPLICATES rows in all.

    >>> tables = list(resamplings(5))
    >>> len(tables), tables[0].shape, bool((tables[0].sum(axis=1) == 5).all())
    (1, (1000, 5), True)
    """
    generator = np.random.Generator(np.random.PCG64(SEED))
    for count in parts(samples):
        drawn = generator.integers(0, max(1, samples), (count, samples)) + samples * np.arange(count)[:, None]
        yield np.bincount(drawn.ravel(), minlength=count * samples).reshape(count, samples).astype(np.float64)


def permutations(movable: NDArray[np.bool_]) -> Iterator[Index]:
    """Orders (B, samples) that permute the samples (samples,) that may move and leave the others in their place, REPLICATES rows in all.

    >>> next(permutations(np.array([True, False, True])))[:, 1].max()
    np.int64(1)
    """
    generator = np.random.Generator(np.random.PCG64(SEED + 1))
    place = np.flatnonzero(movable)
    for count in parts(len(movable)):
        orders = np.tile(np.arange(len(movable)), (count, 1))
        orders[:, place] = generator.permuted(orders[:, place], axis=1)
        yield orders


def parts(samples: int) -> Iterator[int]:
    """REPLICATES, cut into the numbers of rows of so many samples that are handled at once."""
    step = max(1, AT_ONCE // max(1, samples))
    yield from (min(step, REPLICATES - start) for start in range(0, REPLICATES, step))
