"""How many distances of each set lie at or below every threshold, for many resamplings at once: by one sort.

Relative consistency: how well a threshold on the distance tells S= from S!=, exactly over all thresholds.

Are explanations nearer to each other where two models agree than where they contradict each other?
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from veracity.core.registry import SCORES
from veracity.core.scores import Array, Measured
from veracity.scores.stability.base import ConsistencyScore, Members, Statistic, tallied, weighted
from veracity.statistics.resampling import resamplings


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


NARROWED = 2
"""How often the thresholds at which the largest gap may lie are narrowed down."""


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class ReCo(ConsistencyScore):
    """Relative consistency: ReCo = max over gamma of TPR(gamma) + TNR(gamma) - 1, 1 where a threshold separates S= from S!= (eq. 6).

    Exactly over all thresholds; see `relative_consistency`. Its rates are shares of what lies on one side of the threshold, so
    that few distances at an end may decide it: with 2,000 distances in S= and 200 in S!= that have nothing to do with either,
    its mean is .22 and one in twenty is above .9. It then takes few values, which many permutations share: its p-value holds, but
    hardly becomes small. Its value depends on how many samples there are, and no resampling tells what others would give: it has
    no interval. Read it beside its permutation null, and beside `reco_ks`.
    """

    name = "reco"
    title = "ReCo"
    figures = ("histograms", "selection")
    in_summary = "paragraph"
    definition = (
        "How far explanations lie apart where models contradict each other, beyond where they agree: the largest TPR + TNR - 1 over "
        "all thresholds on the distance, 1 where one of them separates both sets (ReCo, relative consistency). Few distances at "
        "either end may decide it, so that it is worth no more than what it is above its null."
    )
    bounds = (-1.0, 1.0)
    least: ClassVar[float] = math.inf

    @property
    def statistic(self) -> Statistic:
        """The largest balance."""
        return largest_balance


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class ReCoAUC(ConsistencyScore):
    """The area form of relative consistency: the mean over gamma in S of TPR(gamma) + TNR(gamma) - 1 (appendix D).

    See `consistency_area`. It is near 0 where the distances have nothing to do with who is right, and its largest value
    depends on the sizes of the sets: compare it among explainers of one model.
    """

    name = "reco_auc"
    title = "ReCo (area)"
    definition = (
        "Relative consistency as an area: the mean of TPR + TNR - 1 over all thresholds on the distance. It is about 0 where "
        "distances have nothing to do with who is right."
    )
    bounds = (-1.0, 1.0)

    @property
    def statistic(self) -> Statistic:
        """The mean balance."""
        return mean_balance


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class ReCoKS(ConsistencyScore):
    """The one-sided Kolmogorov-Smirnov form of relative consistency: max over gamma of F=(gamma) - F!=(gamma), 1 where the sets separate.

    See `consistency_gap`. With the rates of either set in place of shares of both, it is not at the mercy of single distances:
    where nothing is to be found, its mean is .05, .13 or .25 for 200, 20 or 5 distances in S!= beside 2,000 in S=.
    """

    name = "reco_ks"
    title = "ReCo (KS)"
    definition = (
        "Relative consistency as a one-sided Kolmogorov-Smirnov distance: the largest gap, over all thresholds, between the share of "
        "S= and the share of S≠ that lies below. No single distance decides it."
    )
    bounds = (0.0, 1.0)
    by_ends: ClassVar[bool] = True

    @property
    def statistic(self) -> Statistic:
        """The largest gap."""
        return largest_gap

    def interval(self, measured: Measured, value: float, replicates: Array, confidence: float) -> tuple[float, float]:
        """The interval from how far the whole curve F= - F!= moves in the replicates, wherever its maximum might lie.

        A maximum over thresholds is too high by chance, and its replicates once more, so that their quantiles lie too high. The
        curve itself has no such bias. With q the quantile of how far it moves anywhere, its maximum lies where it comes within q
        of the value; among these thresholds it moves less far, which leaves fewer of them. The ends are the quantiles of how far it
        moves up, or down, at those that are left.
        """
        sets = self.sets(measured)
        curve = gaps(*tallied(*sets))[0]

        def moved(how: Callable[[Array], Array], kept: NDArray[np.bool_], level: float) -> float:
            def furthest(alike: Array, unlike: Array) -> Array:
                return np.asarray(how((gaps(alike, unlike) - curve)[:, kept]).max(axis=1))

            found = np.concatenate([weighted(furthest, *sets, weights) for weights in resamplings(len(sets[0]))])
            return float(np.quantile(found[np.isfinite(found)], level))

        near = np.ones(len(curve), dtype=np.bool_)
        for _ in range(NARROWED):
            near &= curve >= value - moved(np.abs, near, confidence)
        level = 0.5 + confidence / 2
        return value - moved(np.positive, near, level), value + moved(np.negative, near, level)
