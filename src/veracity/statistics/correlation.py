"""Pearson's, Spearman's and Kendall's correlation of two arrays with missing values, along an axis; and intervals."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri, stdtrit

from veracity.core.errors import InputError
from veracity.statistics.intervals import Array, Interval, check_confidence

Mask = NDArray[np.bool_]


def pearson_correlation(a: ArrayLike, b: ArrayLike, axis: int = -1) -> Array:
    """Pearson's r of two arrays along an axis, over the pairs that have both values.

    r = sum (a - mean a)(b - mean b) / sqrt(sum (a - mean a)^2 sum (b - mean b)^2). The arrays have the same shape; the result has
    that shape without the axis. NaN is a missing value. The result is NaN if fewer than two pairs are left or one side does not
    vary.

    >>> pearson_correlation([[1.0, 2.0, 3.0, np.nan], [1.0, 1.0, 1.0, 1.0]], [[1.0, 3.0, 2.0, 7.0], [1.0, 2.0, 3.0, 4.0]])
    array([0.5, nan])
    """
    a, b, both = complete_pairs(a, b, axis)
    return row_cosines(centre_rows(a, both), centre_rows(b, both))


def spearman_correlation(a: ArrayLike, b: ArrayLike, axis: int = -1) -> Array:
    """Spearman's rho of two arrays along an axis: Pearson's r of their ranks, in which ties share their mean rank.

    Shapes, missing and undefined values are as for `pearson_correlation`.

    >>> spearman_correlation([1.0, 10.0, 100.0, 1000.0], [1.0, 3.0, 2.0, 4.0]).item()
    0.8
    """
    a, b, both = complete_pairs(a, b, axis)
    return row_cosines(centre_rows(masked_ranks(a, both), both), centre_rows(masked_ranks(b, both), both))


PAIRS = 1 << 22
"""How many pairs of values are compared at once."""
MANY = 1024
"""From so many values on, sorting them is faster than comparing all pairs."""


def kendall_correlation(a: ArrayLike, b: ArrayLike, axis: int = -1) -> Array:
    """Kendall's tau-b of two arrays along an axis.

        sum over i < j of s_ij t_ij / sqrt(sum s_ij^2 sum t_ij^2),   s_ij = sign(a_i - a_j), t_ij = sign(b_i - b_j)

    Shapes, missing and undefined values are as for `pearson_correlation`.

    >>> round(kendall_correlation([1.0, 2.0, 3.0, 4.0], [1.0, 3.0, 2.0, 4.0]).item(), 4)
    0.6667

    Reference: Kendall, The treatment of ties in ranking problems (Biometrika 1945).
    """
    a, b, both = complete_pairs(a, b, axis)
    shape, count = a.shape[:-1], a.shape[-1]
    first, second = (one.reshape(math.prod(shape), count) for one in (a, b))
    known = both.reshape(first.shape)
    found = np.full(len(first), np.nan)
    if count > MANY:
        from scipy.stats import kendalltau

        for row, (one, other, here) in enumerate(zip(first, second, known, strict=True)):
            found[row] = kendalltau(one[here], other[here]).statistic if here.sum() > 1 else np.nan
        return found.reshape(shape)
    block = max(1, PAIRS // max(count * count, 1))
    for start in range(0, len(first), block):
        part = slice(start, start + block)
        pairs = known[part, :, None] & known[part, None, :]
        s, t = (order_of_pairs(one[part], pairs) for one in (first, second))
        length = np.sqrt(np.abs(s).sum(axis=(1, 2), dtype=np.float64) * np.abs(t).sum(axis=(1, 2), dtype=np.float64))
        agreement = (s * t).sum(axis=(1, 2), dtype=np.float64)
        found[part] = np.where(length > 0, agreement / np.where(length > 0, length, 1.0), np.nan)
    return found.reshape(shape)


def order_of_pairs(x: Array, pairs: Mask) -> NDArray[np.int8]:
    """1 if value i of a row (N, n) is larger than value j, -1 if it is smaller, and 0 if neither, or outside the mask: (N, n, n)."""
    one, other = x[:, :, None], x[:, None, :]
    return np.where(pairs, (one > other).astype(np.int8) - (one < other).astype(np.int8), np.int8(0))


def pearson_interval(a: Array, b: Array, confidence: float = 0.95) -> Interval:
    """Pearson's r of two scores over the n samples (n,) that have both, with Fisher's interval tanh(atanh r +- z / sqrt(n - 3)).

    NaN if a score does not vary or fewer than two samples have both values; the ends need four samples. If the scores lie exactly
    on a line, the interval has no width.

    >>> found = pearson_interval(np.array([1.0, 2.0, 3.0, 4.0, np.nan]), np.array([2.0, 1.0, 4.0, 3.0, 9.0]))
    >>> round(found.value, 3), round(found.low, 3), round(found.high, 3), found.n
    (0.6, -0.853, 0.99, 4)

    Reference: Fisher, On the probable error of a coefficient of correlation deduced from a small sample (Metron 1921).
    """
    check_confidence(confidence)
    if a.shape != b.shape or a.ndim != 1:
        raise InputError(f"A correlation needs two scores of the same samples, each of shape (samples,), not {a.shape} and {b.shape}.")
    both = np.isfinite(a) & np.isfinite(b)
    n = int(both.sum())
    u, v = unit_vector(a[both]), unit_vector(b[both])
    if u is None or v is None:
        return Interval(value=np.nan, low=np.nan, high=np.nan, n=n)
    r = float(np.clip(u @ v, -1.0, 1.0))
    if n < 4:
        return Interval(value=r, low=np.nan, high=np.nan, n=n)
    centre = math.atanh(r) if abs(r) < 1.0 else math.copysign(math.inf, r)
    reach = float(ndtri(0.5 + confidence / 2.0)) / math.sqrt(n - 3)
    return Interval(value=r, low=math.tanh(centre - reach), high=math.tanh(centre + reach), n=n)


def spearman_interval(a: ArrayLike, b: ArrayLike, confidence: float = 0.95) -> Interval:
    """Spearman's rho over n samples (n,), or over n samples with several values each (n, k) taken together.

    The interval is tanh(atanh rho +- reach). With one value per sample the reach is z sqrt((1 + rho^2 / 2) / (n - 3)) (Bonett and Wright).
    With several it is t s: s is the jackknife's standard error of atanh rho, which leaves out one sample with all of its values at a
    time, and t the quantile of Student's distribution with n - 1 degrees of freedom. A sample without any pair of values does not
    count. NaN if a side does not vary; the ends need four samples.

    >>> found = spearman_interval([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [2.0, 1.0, 4.0, 3.0, 6.0, 5.0])
    >>> round(found.value, 3), round(found.low, 3), round(found.high, 3), found.n
    (0.829, -0.127, 0.986, 6)

    Reference: Bonett and Wright, Sample size requirements for estimating Pearson, Kendall and Spearman correlations (Psychometrika
    2000); Efron and Tibshirani, An introduction to the bootstrap (1993), chapter 11.
    """
    check_confidence(confidence)
    first, second = (np.asarray(one, dtype=np.float64) for one in (a, b))
    if first.shape != second.shape or first.ndim not in (1, 2):
        raise InputError(f"A correlation needs two arrays of one shape, (samples,) or (samples, k), not {first.shape} and {second.shape}.")
    first, second = (one.reshape(len(one), -1) for one in (first, second))
    kept = (np.isfinite(first) & np.isfinite(second)).any(axis=1)
    first, second = first[kept], second[kept]
    n = len(first)
    rho = float(spearman_correlation(first.ravel(), second.ravel())) if n else math.nan
    if not math.isfinite(rho) or n < 4:
        return Interval(value=rho, low=np.nan, high=np.nan, n=n)
    if abs(rho) > 1.0 - 1e-12:
        return Interval(value=rho, low=rho, high=rho, n=n)
    centre = math.atanh(rho)
    if first.shape[1] == 1:
        reach = float(ndtri(0.5 + confidence / 2.0)) * math.sqrt((1.0 + rho**2 / 2.0) / (n - 3))
    else:
        rest = ~np.eye(n, dtype=np.bool_)
        left = np.array([float(spearman_correlation(first[row].ravel(), second[row].ravel())) for row in rest])
        z = np.arctanh(np.clip(left, -1 + 1e-12, 1 - 1e-12))
        error = math.sqrt((n - 1) / n * float(((z - z.mean()) ** 2).sum()))
        reach = float(stdtrit(n - 1, 0.5 + confidence / 2.0)) * error
    return Interval(value=rho, low=math.tanh(centre - reach), high=math.tanh(centre + reach), n=n)


def unit_vector(x: Array) -> Array | None:
    """The values (n,) minus their mean, scaled to length 1; None if they do not vary."""
    if len(x) < 2 or bool((x == x[0]).all()):
        return None
    x = x - x[0]
    x = x / np.abs(x).max()
    x = x - x.mean()
    return np.asarray(x / np.linalg.norm(x), dtype=np.float64)


def complete_pairs(a: ArrayLike, b: ArrayLike, axis: int) -> tuple[Array, Array, Mask]:
    """Two arrays as float64 with the axis last, 0 where either is missing; and a mask of the places where both have a value."""
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if first.shape != second.shape or first.ndim == 0:
        raise InputError(f"A correlation needs two arrays of the same shape with at least one axis, not {first.shape} and {second.shape}.")
    first, second = np.moveaxis(first, axis, -1), np.moveaxis(second, axis, -1)
    both = ~(np.isnan(first) | np.isnan(second))
    return np.where(both, first, 0.0), np.where(both, second, 0.0), both


def masked_ranks(x: Array, both: Mask) -> Array:
    """Ranks from 1 along the last axis among the values in the mask, ties averaged; 0 elsewhere."""
    from scipy.stats import rankdata

    found: Array = rankdata(np.where(both, x, np.nan), axis=-1, nan_policy="omit")
    return np.where(both, found, 0.0)


def centre_rows(x: Array, both: Mask) -> Array:
    """Values minus their mean along the last axis, relative to the largest; exactly 0 outside the mask or if they do not vary."""
    if x.shape[-1] == 0:
        return x
    with np.errstate(invalid="ignore", divide="ignore"):
        largest = np.abs(x).max(axis=-1, keepdims=True)
        x = x / np.where(largest > 0.0, largest, 1.0)
        x = np.where(both, x - np.take_along_axis(x, both.argmax(axis=-1)[..., None], axis=-1), 0.0)
        mean = x.sum(axis=-1, keepdims=True) / np.maximum(both.sum(axis=-1, keepdims=True), 1)
    return np.where(both, x - mean, 0.0)


def row_cosines(a: Array, b: Array) -> Array:
    """The cosine between vectors along the last axis; NaN if one of them is zero."""
    lengths = np.sqrt((a * a).sum(axis=-1) * (b * b).sum(axis=-1))
    with np.errstate(invalid="ignore"):
        return np.asarray(np.clip((a * b).sum(axis=-1) / lengths, -1.0, 1.0))
