"""Distances between the explanations of two models, split into S= and S!=, and how well a threshold separates the two sets.

x lies in fold i, which model i never saw; every other model j did. S= holds the distances d(e_i(x), e_j(x)) of pairs of models that are
both right about x, S!= those of pairs of which exactly one is right. All statistics take distances and sets of shape (samples, pairs), and
optionally B weightings of the samples, (B, samples), all from one sort.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veracity.core.errors import InputError, unknown
from veracity.core.scores import Array

Index = NDArray[np.int64]
Members = NDArray[np.int8]
Statistic = Callable[[Array, Array], Array]
"""From the cumulative counts of S= and S!=, each (B, thresholds), to (B,)."""

AT_ONCE = 250_000
"""How many numbers one table holds at most. About ten tables of 8 bytes per number exist at a time: 20 MB, small enough to be fast."""
ROUNDING = 1e-12
"""Distances that differ by less than this share of the largest one are equal."""
ALIKE, UNLIKE, NEITHER = 0, 1, -1
"""In S=, in S!=, in neither."""
WAYS = ("both_right", "same_prediction")


def membership(distance: Array, right: Array, other_right: Array, same: Array, pairs: str = "both_right") -> Members:
    """The set of each pair of models: 0 for S=, 1 for S!=, -1 if it is ignored or undefined; all shapes (samples, pairs).

    With "both_right", S= holds the pairs that are both right, and S!= those of which exactly one is (eqs. 3 and 4); pairs that are both
    wrong are ignored. With "same_prediction", as in a public implementation, S= holds the pairs that predict the same class, right or
    wrong, and S!= all others. A pair without a distance is in neither.

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
    return np.where(np.isfinite(distance), labels(right, other_right, same, pairs), NEITHER).astype(np.int8)


def labels(right: Array, other_right: Array, same: Array, pairs: str) -> Members:
    """The set of each pair (samples, pairs) regardless of its distance; -1 if it is ignored or unknown."""
    if pairs == "same_prediction":
        found = np.select([same == 1.0, same == 0.0], [ALIKE, UNLIKE], NEITHER)
    else:
        known = np.isfinite(right) & np.isfinite(other_right)
        found = np.select([known & (right + other_right == 2.0), known & (right + other_right == 1.0)], [ALIKE, UNLIKE], NEITHER)
    return found.astype(np.int8)


def check_pairs(pairs: str) -> None:
    """Raise unless `pairs` is a known way to form the sets."""
    if pairs not in WAYS:
        raise unknown("choice of pairs", str(pairs), WAYS)


@dataclass(frozen=True)
class SortedPairs:
    """Pairs sorted by distance: their samples and columns (M,), and the last position of each distinct distance (T,)."""

    sample: Index
    place: Index
    last: Index

    def below(self, counts: Array) -> Array:
        """Counts of the pairs (B, M) summed up to each distinct distance, (B, T)."""
        total = np.cumsum(counts, axis=1)
        return total if len(self.last) == len(self.sample) else total.take(self.last, axis=1)

    def of(self, statistic: Statistic, counts: Callable[[slice], tuple[Array, Array]], rows: int) -> Array:
        """A statistic (rows,) from the `counts` of the pairs of both sets, (B, M) each, for a slice of rows at a time."""
        if len(self.sample) == 0:
            return np.full(rows, np.nan)
        step = max(1, AT_ONCE // len(self.sample))
        parts = (counts(slice(start, start + step)) for start in range(0, rows, step))
        return np.concatenate([np.empty(0), *(statistic(self.below(alike), self.below(unlike)) for alike, unlike in parts)])


def sort_pairs(distance: Array, chosen: NDArray[np.bool_]) -> SortedPairs:
    """The chosen pairs (samples, pairs) sorted by distance; distances that differ only by rounding are tied."""
    sample, place = np.nonzero(chosen)
    values = distance[sample, place]
    order = np.argsort(values, kind="stable")
    values = values[order]
    steps = np.flatnonzero(np.diff(values) > ROUNDING * np.abs(values).max(initial=0.0))
    last = np.append(steps, len(values) - 1) if len(values) else steps
    return SortedPairs(sample[order], place[order], last)


def with_weights(statistic: Statistic, distance: Array, member: Members, weights: Array | None) -> Array:
    """A statistic (B,) of S= and S!= under weights (B, samples), by default one row of ones."""
    times = as_weights(weights, len(distance))
    pairs = sort_pairs(distance, member >= 0)
    unlike = member[pairs.sample, pairs.place] == UNLIKE

    def counts(rows: slice) -> tuple[Array, Array]:
        each = times[rows].take(pairs.sample, axis=1)
        other = each * unlike
        return each - other, other

    return pairs.of(statistic, counts, len(times))


def cumulative_counts(distance: Array, member: Members) -> tuple[Array, Array]:
    """How many distances of S= and of S!= lie at or below each threshold, (1, T) each."""
    pairs = sort_pairs(distance, member >= 0)
    unlike = (member[pairs.sample, pairs.place] == UNLIKE)[None]
    return pairs.below((~unlike).astype(np.float64)), pairs.below(unlike.astype(np.float64))


def with_labels(statistic: Statistic, distance: Array, label: Members, orders: Index) -> Array:
    """A statistic (B,) if sample n keeps its distances and takes the labels (pairs,) of sample orders[b, n]; orders are (B, samples)."""
    pairs = sort_pairs(distance, np.isfinite(distance))
    flat, width = label.ravel(), label.shape[1]

    def counts(rows: slice) -> tuple[Array, Array]:
        which = flat.take(orders[rows].take(pairs.sample, axis=1) * width + pairs.place)
        return (which == ALIKE).astype(np.float64), (which == UNLIKE).astype(np.float64)

    return pairs.of(statistic, counts, len(orders))


def as_weights(weights: Array | None, samples: int) -> Array:
    """The weights (B, samples), by default one row of ones; raises unless they are whole numbers of at least 0."""
    if weights is None:
        return np.ones((1, samples))
    if weights.ndim != 2 or weights.shape[1] != samples:
        raise InputError(f"Weights must have the shape (B, {samples}), one per sample, not {weights.shape}.")
    if not (np.isfinite(weights) & (weights >= 0) & (weights == np.floor(weights))).all():
        raise InputError("Weights must say how often each sample counts: whole numbers of at least 0.")
    return weights


def mean_generalisability(distance: Array, member: Members, weights: Array | None = None) -> Array:
    """MeGe = 1 / (1 + mean of S=), (B,), of distances and their sets (samples, pairs) under weights (B, samples) (eq. 5).

    NaN if S= is empty. If distances are at most 1, it is at least 0.5.

    >>> mean_generalisability(np.array([[0.25, 0.75], [0.5, 0.9]]), np.array([[0, 0], [0, 1]])).round(4)
    array([0.6667])
    """
    weights = as_weights(weights, len(distance))
    alike = member == ALIKE
    total, count = weights @ np.where(alike, distance, 0.0).sum(axis=1), weights @ alike.sum(axis=1)
    return np.where(count > 0, 1.0 / (1.0 + total / np.maximum(count, 1.0)), np.nan)


def relative_consistency(distance: Array, member: Members, weights: Array | None = None) -> Array:
    """ReCo = max over gamma in S of TPR + TNR - 1, (B,), of distances and their sets (samples, pairs) under weights (B, samples) (eq. 6).

        TPR(gamma) = |S= up to gamma| / |S up to gamma|,   TNR(gamma) = |S!= above gamma| / |S above gamma|

    Both are shares of one side of the threshold, like a precision, so near either end a single distance may decide them. Tied distances
    share a threshold; the largest distance is left out, since its TNR is 0/0. NaN if a set is empty or all distances are equal.

    >>> distance, member = np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]]), np.array([[0, 0], [1, 0], [1, 1]])
    >>> relative_consistency(distance, member)
    array([0.75])
    >>> relative_consistency(distance, member, np.array([[1.0, 0, 1]]))
    array([1.])
    """
    return with_weights(largest_balance, distance, member, weights)


def consistency_area(distance: Array, member: Members, weights: Array | None = None) -> Array:
    """ReCo_AUC, the mean over gamma in S of TPR + TNR - 1, (B,), with the arguments and NaN of `relative_consistency`.

    Every distance counts, tied ones too (appendix D).

    >>> distance, member = np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]]), np.array([[0, 0], [1, 0], [1, 1]])
    >>> consistency_area(distance, member).round(4)
    array([0.6067])
    """
    return with_weights(mean_balance, distance, member, weights)


def consistency_gap(distance: Array, member: Members, weights: Array | None = None) -> Array:
    """The one-sided Kolmogorov-Smirnov form, max over gamma of F=(gamma) - F!=(gamma), (B,), with the arguments of `relative_consistency`.

    F= and F!= are the shares of each set up to gamma. Each is a rate within its own set, so no single distance decides it.

    >>> distance, member = np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]]), np.array([[0, 0], [1, 0], [1, 1]])
    >>> consistency_gap(distance, member).round(4)
    array([0.6667])
    """
    return with_weights(largest_gap, distance, member, weights)


def balance(alike: Array, unlike: Array) -> Array:
    """TPR + TNR - 1 at every threshold (B, T) from the cumulative counts of both sets; NaN if a ratio is 0/0 or a set is empty."""
    below = alike + unlike
    above = below[:, -1:] - below
    empty = (alike[:, -1:] == 0) | (unlike[:, -1:] == 0)
    with np.errstate(invalid="ignore"):
        found: Array = alike / below + (unlike[:, -1:] - unlike) / above - np.where(empty, np.nan, 1.0)
    return found


def largest_balance(alike: Array, unlike: Array) -> Array:
    """ReCo (B,) from the cumulative counts of both sets (B, T)."""
    found: Array = np.fmax.reduce(balance(alike, unlike), axis=1)
    return found


def mean_balance(alike: Array, unlike: Array) -> Array:
    """ReCo_AUC (B,) from the cumulative counts of both sets (B, T); a threshold counts as often as its distance occurs."""
    found = balance(alike, unlike)
    times = np.where(np.isfinite(found), np.diff(alike + unlike, axis=1, prepend=0), 0)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.nansum(found * times, axis=1) / times.sum(axis=1))


def largest_gap(alike: Array, unlike: Array) -> Array:
    """The KS form (B,) from the cumulative counts of both sets (B, T); NaN if no threshold lies between two distances."""
    below = alike + unlike
    split = ((below > 0) & (below < below[:, -1:])).any(axis=1)
    return np.where(split, gaps(alike, unlike).max(axis=1), np.nan)


def gaps(alike: Array, unlike: Array) -> Array:
    """F= - F!= at every threshold (B, T) from the cumulative counts of both sets; NaN if a set is empty."""
    with np.errstate(invalid="ignore"):
        return np.asarray(alike / alike[:, -1:] - unlike / unlike[:, -1:])
