"""Which distances between the explanations of two models belong to which set: S= and S!=."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from veracity.core.errors import InputError, unknown

Array = NDArray[np.float64]
Members = NDArray[np.int8]

ALIKE, UNLIKE, NEITHER = 0, 1, -1
"""In S=, in S!=, in none of them."""
WAYS = ("both_right", "same_prediction")


def membership(distance: Array, right: Array, other_right: Array, same: Array, pairs: str = "both_right") -> Members:
    """Where each pair of models belongs: 0 in S=, 1 in S!=, -1 where it is ignored or undefined; all shapes (samples, pairs).

    By "both_right", S= holds the distances of pairs that are both right, S!= of those of which exactly one is (eqs. 3 and 4);
    pairs that are both wrong are ignored. By "same_prediction", as in a public implementation, S= holds those of pairs that
    predict the same class, right or wrong, and S!= all others. A pair without a distance belongs nowhere.

    >>> distance, right, other = np.array([[0.1, 0.2, 0.3, np.nan]]), np.array([[1.0, 1, 0, 1]]), np.array([[1.0, 0, 0, 1]])
    >>> membership(distance, right, other, same=np.array([[1.0, 0, 1, 1]]))
    array([[ 0,  1, -1, -1]], dtype=int8)
    >>> membership(distance, right, other, same=np.array([[1.0, 0, 1, 1]]), pairs="same_prediction")
    array([[ 0,  1,  0, -1]], dtype=int8)
    """
    check_pairs(pairs)
    shapes = {distance.shape, right.shape, other_right.shape, same.shape}
    if len(shapes) > 1 or distance.ndim != 2:
        raise InputError(f"Distances and who is right must all have one shape (samples, pairs), not {sorted(shapes)}.")
    told = np.where(np.isfinite(distance), labels(right, other_right, same, pairs), NEITHER)
    return told.astype(np.int8)


def labels(right: Array, other_right: Array, same: Array, pairs: str) -> Members:
    """Where each pair (samples, pairs) would belong if it had a distance; -1 where it is ignored, or not known."""
    if pairs == "same_prediction":
        found = np.select([same == 1.0, same == 0.0], [ALIKE, UNLIKE], NEITHER)
    else:
        known = np.isfinite(right) & np.isfinite(other_right)
        found = np.select([known & (right + other_right == 2.0), known & (right + other_right == 1.0)], [ALIKE, UNLIKE], NEITHER)
    return found.astype(np.int8)


def check_pairs(pairs: str) -> None:
    """Raise if nobody knows which pairs are meant."""
    if pairs not in WAYS:
        raise unknown("choice of pairs", str(pairs), WAYS)
