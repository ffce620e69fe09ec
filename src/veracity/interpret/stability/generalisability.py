"""Mean generalisability: how near explanations stay when the sample was not among what the model learnt from."""

from __future__ import annotations

import numpy as np

from veracity.interpret.stability.sets import ALIKE, Array, Members
from veracity.interpret.stability.tallies import counted


def mean_generalisability(distance: Array, member: Members, weights: Array | None = None) -> Array:
    """MeGe = 1 / (1 + mean of S=), (B,), of distances and their sets (samples, pairs) under weights (B, samples) (eq. 5).

    NaN where S= is empty. With distances of at most 1 it cannot fall below .5.

    >>> mean_generalisability(np.array([[0.25, 0.75], [0.5, 0.9]]), np.array([[0, 0], [0, 1]])).round(4)
    array([0.6667])
    """
    weights = counted(weights, len(distance))
    alike = member == ALIKE
    total, count = weights @ np.where(alike, distance, 0.0).sum(axis=1), weights @ alike.sum(axis=1)
    return np.where(count > 0, 1.0 / (1.0 + total / np.maximum(count, 1.0)), np.nan)
