"""Relative consistency: how well a threshold on the distance tells S= from S!=, exactly over all thresholds."""

from __future__ import annotations

import numpy as np

from veracity.interpret.stability.sets import Array, Members
from veracity.interpret.stability.tallies import weighted


def relative_consistency(distance: Array, member: Members, weights: Array | None = None) -> Array:
    """ReCo = max over gamma in S of TPR + TNR - 1, (B,), of distances and their sets (samples, pairs) under weights (B, samples) (eq. 6).

        TPR(gamma) = |S= up to gamma| / |S up to gamma|,   TNR(gamma) = |S!= above gamma| / |S above gamma|

    Both are shares of what lies on one side, like a precision, so that a single distance may decide them near either end.
    Tied distances share a threshold; at the largest distance TNR is 0/0, which is left out. NaN where a set is empty or all
    distances are equal.

    >>> distance, member = np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]]), np.array([[0, 0], [1, 0], [1, 1]])
    >>> relative_consistency(distance, member)
    array([0.75])
    >>> relative_consistency(distance, member, np.array([[1.0, 0, 1]]))
    array([1.])
    """
    return weighted(largest_balance, distance, member, weights)


def consistency_area(distance: Array, member: Members, weights: Array | None = None) -> Array:
    """ReCo_AUC, the mean over gamma in S of TPR + TNR - 1, (B,); arguments, thresholds left out and NaN as in `relative_consistency`.

    Every distance counts, tied ones too (appendix D).

    >>> distance, member = np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]]), np.array([[0, 0], [1, 0], [1, 1]])
    >>> consistency_area(distance, member).round(4)
    array([0.6067])
    """
    return weighted(mean_balance, distance, member, weights)


def consistency_gap(distance: Array, member: Members, weights: Array | None = None) -> Array:
    """The one-sided Kolmogorov-Smirnov form, max over gamma of F=(gamma) - F!=(gamma), (B,); arguments, NaN as in `relative_consistency`.

    F= and F!= are the shares of each set up to gamma: true rates, each of its own set, which no single distance decides.

    >>> distance, member = np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]]), np.array([[0, 0], [1, 0], [1, 1]])
    >>> consistency_gap(distance, member).round(4)
    array([0.6667])
    """
    return weighted(largest_gap, distance, member, weights)


def balance(alike: Array, unlike: Array) -> Array:
    """TPR + TNR - 1 at every threshold (B, T) from the tallies of both sets; NaN where a ratio is 0/0 or a set is empty."""
    below = alike + unlike
    above = below[:, -1:] - below
    empty = (alike[:, -1:] == 0) | (unlike[:, -1:] == 0)
    with np.errstate(invalid="ignore"):
        found: Array = alike / below + (unlike[:, -1:] - unlike) / above - np.where(empty, np.nan, 1.0)
    return found


def largest_balance(alike: Array, unlike: Array) -> Array:
    """ReCo (B,) from the tallies of both sets (B, T)."""
    found: Array = np.fmax.reduce(balance(alike, unlike), axis=1)
    return found


def mean_balance(alike: Array, unlike: Array) -> Array:
    """ReCo_AUC (B,) from the tallies of both sets (B, T): a threshold counts as often as its distance is there."""
    found = balance(alike, unlike)
    times = np.where(np.isfinite(found), np.diff(alike + unlike, axis=1, prepend=0), 0)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.nansum(found * times, axis=1) / times.sum(axis=1))


def largest_gap(alike: Array, unlike: Array) -> Array:
    """The KS form (B,) from the tallies of both sets (B, T); NaN, as the others, where no threshold lies between two distances."""
    below = alike + unlike
    split = ((below > 0) & (below < below[:, -1:])).any(axis=1)
    return np.where(split, gaps(alike, unlike).max(axis=1), np.nan)


def gaps(alike: Array, unlike: Array) -> Array:
    """F= - F!= at every threshold (B, T) from the tallies of both sets; NaN where a set is empty."""
    with np.errstate(invalid="ignore"):
        return np.asarray(alike / alike[:, -1:] - unlike / unlike[:, -1:])
