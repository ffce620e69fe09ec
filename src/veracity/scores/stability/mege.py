"""Mean generalisability: how near explanations stay when the sample was not among what the model learnt from.

Do explanations stay when the sample was not among what the model learnt from?
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from veracity.core.registry import SCORES
from veracity.core.scores import Array, Measured
from veracity.scores.stability.base import ALIKE, Members, StabilityScore, counted
from veracity.statistics.intervals import all_equal, skewed_reach, standard_deviation, t_quantile, third_cumulant


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


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class MeGe(StabilityScore):
    """Mean generalisability: MeGe = 1 / (1 + mean of S=), near 1 where an explanation hardly depends on having seen the sample (eq. 5).

    S= holds the distances between explanations of models that are both right. With distances of at most 1, as the default's,
    it cannot fall below .5. An explanation that ignores the model is perfectly stable: read it beside a score of fidelity.
    Its chance level is the random control's, since permuted labels leave it nearly as it is.
    """

    name = "mege"
    title = "MeGe"
    figures = ("histograms", "selection")
    in_summary = "paragraph"
    sets_compared = 1
    definition = (
        "How little an explanation depends on whether the model learnt from the sample: 1 / (1 + the mean distance in S=), the nearer "
        "to 1 the better (MeGe, mean generalisability). It is one number of the whole data set."
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
        """The interval of the mean distance in S=, a ratio of sums over samples, turned into that of MeGe.

        Sample i with c_i distances that add up to s_i moves the mean D by (s_i - D c_i) / sum c: squares and cubes of these give the
        error and the third cumulant of `intervals.skewed_reach`.
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
