"""Correlations of numbers along an axis of an array, where some of them may be missing."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veracity.core.errors import InputError

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


def pearson(a: ArrayLike, b: ArrayLike, axis: int = -1) -> Array:
    """The linear correlation of two arrays along an axis, over the pairs that have both values.

    r = sum (a - mean a)(b - mean b) / sqrt(sum (a - mean a)^2 sum (b - mean b)^2), from two arrays of one shape to that
    shape without the axis. NaN is a missing value; the result is NaN where fewer than two pairs are left or one side does
    not vary.

    >>> pearson([[1.0, 2.0, 3.0, np.nan], [1.0, 1.0, 1.0, 1.0]], [[1.0, 3.0, 2.0, 7.0], [1.0, 2.0, 3.0, 4.0]])
    array([0.5, nan])
    """
    a, b, both = pairs(a, b, axis)
    return cosine_along(centred(a, both), centred(b, both))


def spearman(a: ArrayLike, b: ArrayLike, axis: int = -1) -> Array:
    """The correlation of ranks of two arrays along an axis, over the pairs that have both values.

    rho = r(rank a, rank b), in which tied values share the mean of the ranks that they take up together; shapes, missing
    and undefined values as for `pearson`.

    >>> spearman([1.0, 10.0, 100.0, 1000.0], [1.0, 3.0, 2.0, 4.0]).item()
    0.8
    """
    a, b, both = pairs(a, b, axis)
    return cosine_along(centred(ranks(a, both), both), centred(ranks(b, both), both))


def pairs(a: ArrayLike, b: ArrayLike, axis: int) -> tuple[Array, Array, Mask]:
    """Two arrays as float64 with the axis last, zero where one of them is missing; and where both have a value."""
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if first.shape != second.shape or first.ndim == 0:
        raise InputError(f"A correlation needs two arrays of one shape with at least one axis, not {first.shape} and {second.shape}.")
    first, second = np.moveaxis(first, axis, -1), np.moveaxis(second, axis, -1)
    both = ~(np.isnan(first) | np.isnan(second))
    return np.where(both, first, 0.0), np.where(both, second, 0.0), both


def ranks(x: Array, both: Mask) -> Array:
    """Ranks along the last axis among the values that count, from 1, ties averaged; zero elsewhere."""
    from scipy.stats import rankdata

    found: Array = rankdata(np.where(both, x, np.nan), axis=-1, nan_policy="omit")
    return np.where(both, found, 0.0)


def centred(x: Array, both: Mask) -> Array:
    """Values less their mean along the last axis, in units of the largest; exactly zero where they do not vary or do not count."""
    if x.shape[-1] == 0:
        return x
    with np.errstate(invalid="ignore", divide="ignore"):
        largest = np.abs(x).max(axis=-1, keepdims=True)
        x = x / np.where(largest > 0.0, largest, 1.0)
        x = np.where(both, x - np.take_along_axis(x, both.argmax(axis=-1)[..., None], axis=-1), 0.0)
        mean = x.sum(axis=-1, keepdims=True) / np.maximum(both.sum(axis=-1, keepdims=True), 1)
    return np.where(both, x - mean, 0.0)


def cosine_along(a: Array, b: Array) -> Array:
    """The cosine of the angle between vectors along the last axis; NaN where one of them is zero."""
    lengths = np.sqrt((a * a).sum(axis=-1) * (b * b).sum(axis=-1))
    with np.errstate(invalid="ignore"):
        return np.asarray(np.clip((a * b).sum(axis=-1) / lengths, -1.0, 1.0))
