"""Which samples a file holds, where it cannot hold all of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def chosen(labels: NDArray[np.int64] | None, samples: int, count: int, seed: int = 0) -> NDArray[np.int64]:
    """Some of the samples at random, in the proportions of their classes, in their own order.

    The members of every class are shuffled and spread evenly over [0, 1); those that come first are taken.

    >>> labels = np.array([0] * 60 + [1] * 30 + [2] * 10)
    >>> np.bincount(labels[chosen(labels, 100, 10)]).tolist()
    [6, 3, 1]
    """
    if count >= samples:
        return np.arange(samples)
    generator = np.random.default_rng(seed)
    kinds = np.zeros(samples, dtype=np.int64) if labels is None else labels
    order = generator.permutation(samples)
    order = order[np.argsort(kinds[order], kind="stable")]
    _, starts, sizes = np.unique(kinds[order], return_index=True, return_counts=True)
    place = (np.arange(samples) - np.repeat(starts, sizes) + 0.5) / np.repeat(sizes, sizes)
    return np.sort(order[np.argsort(place, kind="stable")[:count]])
