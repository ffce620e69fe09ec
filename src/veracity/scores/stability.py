"""Stability: do explanations stay the same if the model was trained without the sample (MeGe), and differ if models disagree (ReCo)?"""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veracity.core import fingerprint
from veracity.core.measures import Direction, Measure
from veracity.core.registry import SCORES
from veracity.core.scores import Array, Defaults, Measured, Pair, PooledScore, Reads, Request, SampleNotes, Subject
from veracity.measure.distance import as_distance
from veracity.measure.rank import rank_distance
from veracity.perturb.folds import Folds
from veracity.scores.common import Repeatable
from veracity.scores.distance_sets import (
    ALIKE,
    UNLIKE,
    Index,
    Members,
    Statistic,
    check_pairs,
    cumulative_counts,
    gaps,
    labels,
    largest_balance,
    largest_gap,
    mean_balance,
    mean_generalisability,
    membership,
    with_labels,
    with_weights,
)
from veracity.statistics.intervals import all_equal, skewed_reach, standard_deviation, t_quantile, third_cumulant
from veracity.statistics.resampling import expanded_hull, resamplings
from veracity.walk import Exhaustive

PAIRS = {
    "both_right": "S= holds the pairs of models that are both right about a sample, S≠ those of which exactly one is; "
    "pairs that are both wrong are left out",
    "same_prediction": "S= holds the pairs of models that predict the same class, S≠ those that do not, right or wrong, as in a "
    "public implementation, not as in the paper",
}
DISTANCES = {
    "rank_distance": "1 minus |Spearman's rank correlation|, the paper's distance, for which an inverted map is the same map",
    "signed_rank_distance": "1 minus Spearman's rank correlation, for which an inverted map is the most different one",
    "root_rank_distance": "the square root of 1 minus |Spearman's rank correlation|, the distance of a public implementation, for "
    "which an inverted map is the same map",
}
PAPER = "Fel, Vigouroux, Cadène and Serre, How good is your explanation? (WACV 2022)"
READ = frozenset({Reads.EXPLANATION, Reads.CORRECT, Reads.CLASS})


@dataclass(frozen=True, kw_only=True)
class StabilityScore(SampleNotes, Repeatable, PooledScore, ABC):
    """A score of the distances d(e_i(x), e_j(x)): x lies in fold i, which model i never saw, and every other model j did (eq. 1).

    For cross-trained models only. Distances are 1 - |Spearman's rho| unless another `measure` is given; a similarity is subtracted from
    its largest value. `pairs` defines S= and S!=: "both_right" (both models right, exactly one right), or "same_prediction" (both predict
    the same class, or not). The score is one number for the whole data set; the value of a sample is the mean of its distances. Samples
    with a constant explanation have no distance and are counted.
    """

    reference: ClassVar[str] = PAPER
    figures: ClassVar[tuple[str, ...]] = ("histograms",)
    in_summary: ClassVar[str] = "nothing"
    sets_compared: ClassVar[int] = 2
    """Whether the value depends on S= only (1) or on both sets (2)."""
    of_sample: ClassVar[tuple[str, Direction | None] | None] = ("mean distance", None)
    before: ClassVar[frozenset[Reads]] = READ
    after: ClassVar[frozenset[Reads]] = READ
    quantities: ClassVar[tuple[str, ...]] = ("distance", "right", "other_right", "same")
    least: ClassVar[float] = 5
    """The smallest `support` for which there is an interval. Chosen by measurement: benchmarks/coverage.py."""
    measure: Measure | None = field(default_factory=lambda: rank_distance)
    pairs: str = "both_right"

    direction = Direction.HIGHER

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """For every explanation of a cross-trained model: all models that saw the sample."""
        self.check()
        if subject.explainer is None or subject.folds == 0:
            return ()
        return (Request(Folds(k=subject.folds), Exhaustive(), self.shares(subject.explainer)),)

    def check(self) -> None:
        """Raise on unknown settings; models are trained only after this."""
        check_pairs(self.pairs)
        as_distance(self.compare)

    def setting(self) -> str:
        """The distance, and the pairs in both sets."""
        distance = DISTANCES.get(self.compare.name) or f"the measure {self.compare.name}"
        return f"Two explanations are compared by {distance}. {PAIRS[self.pairs]}."

    def observe(self, pair: Pair) -> Tensor:
        """The distance, who is right, and whether both predict the same class, (R, 4)."""
        before, after = pair.before, pair.after
        measure = fingerprint.of_json(self.compare.spec())
        distance = pair.once(f"distance {measure}", lambda: as_distance(self.compare)(before.explanation, after.explanation).double())
        same = torch.eq(before.predicted, after.predicted)
        return torch.stack((distance, *(one.to(distance) for one in (before.correct, after.correct, same))), dim=1)

    def sets(self, measured: Measured) -> tuple[Array, Members]:
        """The distances (samples, pairs) and their sets: 0 for S=, 1 for S!=, -1 for neither."""
        distance, right, other_right, same = (measured[name][:, :, 0] for name in self.quantities)
        return distance, membership(distance, right, other_right, same, self.pairs)

    def sizes(self, measured: Measured) -> tuple[int, int]:
        """How many distances are in S= and in S!=."""
        member = self.sets(measured)[1]
        return int((member == ALIKE).sum()), int((member == UNLIKE).sum())

    def support(self, measured: Measured) -> int:
        """The number of samples that decide the value: here those with a distance in S=."""
        return int((self.sets(measured)[1] == ALIKE).any(axis=1).sum())

    def enough(self, measured: Measured) -> bool:
        """Whether there are enough samples for an interval that covers."""
        return self.support(measured) >= self.least

    def interval(self, measured: Measured, value: float, replicates: Array, confidence: float) -> tuple[float, float]:
        """The interval of a value, from its bootstrap replicates (B,)."""
        return expanded_hull(value, replicates, self.support(measured), confidence)

    def values(self, measured: Measured) -> Array:
        """The distances (samples, pairs) that the score uses, here those of both sets; NaN elsewhere."""
        distance, member = self.sets(measured)
        return np.where(member >= 0, distance, np.nan)

    def remarks(self, measured: Measured) -> Mapping[str, NDArray[np.bool_]]:
        """Samples without any distance, because an explanation is constant: "no_distance"."""
        return {"no_distance": np.asarray(~np.isfinite(measured["distance"]).any(axis=(1, 2)))}


@dataclass(frozen=True, kw_only=True)
class ConsistencyScore(StabilityScore, ABC):
    """A score of how well thresholds on the distance separate S= from S!=."""

    least: ClassVar[float] = 10
    bounds = (-1.0, 1.0)
    in_map_units = False
    statistic: ClassVar[Statistic]

    def support(self, measured: Measured) -> int:
        """The number of samples that decide the value: those of the smaller set."""
        member = self.sets(measured)[1]
        return min(int((member == kind).any(axis=1).sum()) for kind in (ALIKE, UNLIKE))

    def pool(self, measured: Measured, weights: Array) -> Array:
        """The score (B,) under weights (B, samples)."""
        return with_weights(type(self).statistic, *self.sets(measured), weights)

    def permuted(self, measured: Measured, orders: Index) -> Array:
        """The score (B,) if sample n keeps its distances and takes the labels of all pairs of sample orders[b, n]."""
        distance, right, other_right, same = (measured[name][:, :, 0] for name in self.quantities)
        return with_labels(type(self).statistic, distance, labels(right, other_right, same, self.pairs), orders)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class MeGe(StabilityScore):
    """Mean generalisability: how little an explanation depends on whether the model was trained on the sample; close to 1 is best (eq. 5).

    MeGe = 1 / (1 + mean of S=), where S= holds the distances between explanations of models that are both right. With distances of at most
    1, as by default, it is at least 0.5. An explanation that ignores the model is perfectly stable: read it beside a score of fidelity.
    Its chance level is that of the random control, since permuted labels hardly change it.
    """

    name = "mege"
    title = "MeGe"
    figures = ("histograms", "selection")
    in_summary = "paragraph"
    sets_compared = 1
    of_sample = ("mean distance", Direction.LOWER)
    definition = (
        "How little an explanation depends on whether the model was trained on the sample: 1 / (1 + the mean distance in S=), the closer "
        "to 1 the better (MeGe, mean generalisability). It is one number for the whole data set."
    )
    bounds = (0.0, 1.0)

    def pool(self, measured: Measured, weights: Array) -> Array:
        """MeGe (B,) under weights (B, samples)."""
        return mean_generalisability(*self.sets(measured), weights)

    def values(self, measured: Measured) -> Array:
        """The distances of S=."""
        distance, member = self.sets(measured)
        return np.where(member == ALIKE, distance, np.nan)

    def interval(self, measured: Measured, value: float, replicates: Array, confidence: float) -> tuple[float, float]:
        """The interval of the mean distance in S=, a ratio of sums over samples, transformed into that of MeGe.

        A sample i with c_i distances of sum s_i moves the mean D by (s_i - D c_i) / sum c. Squares and cubes of these give the error and
        the third cumulant for `intervals.skewed_reach`.
        """
        distance, member = self.sets(measured)
        alike = member == ALIKE
        counts, totals = alike.sum(axis=1), np.where(alike, distance, 0.0).sum(axis=1)
        if all_equal(distance[alike], 1.0):
            return value, value
        mean = float(totals.sum() / counts.sum())
        moves = (totals - mean * counts)[counts > 0] / counts.sum()
        n = len(moves)
        error, third = standard_deviation(n * moves) / np.sqrt(n), third_cumulant(n * moves)
        below, above = skewed_reach(error, third, t_quantile(confidence, n - 1), n - 1)
        return 1.0 / (1.0 + mean + float(above)), 1.0 / (1.0 + max(0.0, mean - float(below)))


NARROWINGS = 2
"""How often the set of thresholds that may hold the largest gap is narrowed."""


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class ReCo(ConsistencyScore):
    """Relative consistency: how well one threshold on the distance tells models that agree from models that contradict each other (eq. 6).

    ReCo = max over gamma of TPR(gamma) + TNR(gamma) - 1, exactly over all thresholds, 1 if one separates S= from S!=; see
    `relative_consistency`. Its rates are shares of one side of the threshold, so a few distances at an end may decide it: for 2,000 random
    distances in S= and 200 in S!=, its mean is 0.22, and one value in twenty is above 0.9. It then takes few values, which many
    permutations share: its p-value is valid, but rarely small. The value depends on the number of samples, which no resampling can
    correct, so it has no interval. Read it beside its permutation null and beside `reco_ks`.
    """

    name = "reco"
    title = "ReCo"
    figures = ("histograms", "selection")
    in_summary = "paragraph"
    definition = (
        "How much further apart explanations are if the models contradict each other than if they agree: the largest TPR + TNR - 1 over "
        "all thresholds on the distance, 1 if one of them separates both sets (ReCo, relative consistency). A few distances at either end "
        "may decide it, so compare it with its null."
    )
    least: ClassVar[float] = math.inf
    statistic: ClassVar[Statistic] = largest_balance


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class ReCoAUC(ConsistencyScore):
    """Relative consistency averaged over all thresholds: the mean of TPR + TNR - 1 (appendix D).

    See `consistency_area`. It is near 0 if the distances do not depend on which model is right. Its largest value depends on the sizes of
    the sets: compare explainers of one model by it.
    """

    name = "reco_auc"
    title = "ReCo (area)"
    definition = (
        "Relative consistency as an area: the mean of TPR + TNR - 1 over all thresholds on the distance. It is about 0 if distances do not "
        "depend on which model is right."
    )
    statistic: ClassVar[Statistic] = mean_balance


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class ReCoKS(ConsistencyScore):
    """Relative consistency as a Kolmogorov-Smirnov distance: how far the distributions of the distances in S= and S!= lie apart.

    max over gamma of F=(gamma) - F!=(gamma), 1 if the sets are separate; see `consistency_gap`. It uses rates within each set, so single
    distances cannot decide it: for random distances its mean is 0.05, 0.13 or 0.25 with 200, 20 or 5 distances in S!= and 2,000 in S=.
    """

    name = "reco_ks"
    title = "ReCo (KS)"
    definition = (
        "Relative consistency as a one-sided Kolmogorov-Smirnov distance: the largest gap, over all thresholds, between the share of "
        "S= and the share of S≠ below the threshold. No single distance decides it."
    )
    bounds = (0.0, 1.0)
    by_ends: ClassVar[bool] = True
    statistic: ClassVar[Statistic] = largest_gap

    def interval(self, measured: Measured, value: float, replicates: Array, confidence: float) -> tuple[float, float]:
        """The interval from how far the whole curve F= - F!= moves in the replicates, near its maximum.

        A maximum over thresholds is biased upwards by chance, and its replicates are biased once more, so their quantiles are too high. The
        curve itself is not biased. With q the quantile of its largest move anywhere, its maximum lies at a threshold where the curve comes
        within q of the value. Among these thresholds the curve moves less, which narrows the set again. The ends are the quantiles of how
        far it moves up, or down, at the remaining thresholds.
        """
        sets = self.sets(measured)
        curve = gaps(*cumulative_counts(*sets))[0]

        def moved(how: Callable[[Array], Array], where: NDArray[np.bool_], level: float) -> float:
            def furthest(alike: Array, unlike: Array) -> Array:
                return np.asarray(how((gaps(alike, unlike) - curve)[:, where]).max(axis=1))

            found = np.concatenate([with_weights(furthest, *sets, weights) for weights in resamplings(len(sets[0]))])
            return float(np.quantile(found[np.isfinite(found)], level))

        near = np.ones(len(curve), dtype=np.bool_)
        for _ in range(NARROWINGS):
            near &= curve >= value - moved(np.abs, near, confidence)
        level = 0.5 + confidence / 2
        return value - moved(np.positive, near, level), value + moved(np.negative, near, level)
