"""How good attributions to training examples are, as pure functions, and the interval of their mean.

Attributions (N, n) have one row per explained sample and one column per training example. A larger number means that the example
supports the output more. NaN is undefined: a row with NaN has no value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veracity.statistics.correlation import spearman_correlation
from veracity.statistics.intervals import Array, Interval, all_equal, mean_interval, standard_deviation, t_interval, third_cumulant

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Outcome:
    """One value (N,) per sample, and how much their mean owes to each part of a second set (M,) that all samples share.

    The second set is empty if there is none. The subsets of a datamodelling score are one, and so are the examples with a correct
    label that wrong ones are compared with. The mean of its numbers is the mean of the values, up to missing ones.
    """

    values: Array
    shared: Array

    def comparable(self, other: Outcome) -> bool:
        """Whether another outcome has as many samples, and a second set of the same size."""
        return self.values.shape == other.values.shape and self.shared.shape == other.shared.shape

    def minus(self, other: Outcome) -> Outcome:
        """The difference of two outcomes of the same samples and the same second set."""
        return Outcome(self.values - other.values, self.shared - other.shared)

    def times(self, factor: float) -> Outcome:
        """All numbers times a factor."""
        return Outcome(self.values * factor, self.shared * factor)

    def interval(self, confidence: float = 0.95) -> Interval:
        """The mean of the values with an interval that allows for other samples and, if there is a second set, for another one.

        The variance is var(values) / N + var(shared) / M. For an area under the curve this is DeLong's; for crossed sets it counts
        the interaction of both twice, so it is never too small. The degrees of freedom are those of the smaller set.

        >>> found = Outcome(np.array([0.0, 1.0, 1.0, 1.0]), np.array([0.5, 1.0])).interval()
        >>> round(found.value, 3), found.n, found.low < 0 < 1 < found.high
        (0.75, 4, True)

        Reference: DeLong, DeLong and Clarke-Pearson, Comparing the areas under two or more correlated receiver operating
        characteristic curves (Biometrics 1988).
        """
        own = self.values[np.isfinite(self.values)]
        shared = self.shared[np.isfinite(self.shared)]
        if not len(self.shared) or len(own) < 2 or (all_equal(own, 1.0) and all_equal(shared, 1.0)):
            return mean_interval(self.values, confidence, scale=1.0)
        if len(shared) < 2:
            return Interval(value=float(own.mean()), low=math.nan, high=math.nan, n=len(own))
        parts = [standard_deviation(part) / len(part) ** 0.5 for part in (own, shared)]
        third = float(third_cumulant(own) + third_cumulant(shared))
        freedom = min(len(own), len(shared)) - 1
        return t_interval(float(own.mean()), math.hypot(*parts), freedom, confidence, len(own), third=third)


def per_sample(values: Array) -> Outcome:
    """An outcome without a second set."""
    return Outcome(values, np.empty(0))


def margins(scores: Tensor, labels: Tensor) -> Tensor:
    """log(p / (1 - p)) of each label, (N,) in float64, from scores (N, K) whose softmax is p: s_y - log Σ_{k != y} exp s_k.

    >>> margins(torch.tensor([[2.0, 0.0], [0.0, 0.0]]), torch.tensor([0, 1])).tolist()
    [2.0, 0.0]

    Reference: Park et al. 2023, arXiv:2303.14186: the output function of a classifier.
    """
    label = labels.to(scores.device).unsqueeze(1)
    wide = scores.double()
    others = wide.scatter(1, label, -torch.inf)
    return wide.gather(1, label).squeeze(1) - others.logsumexp(1)


def linear_datamodelling(attributions: Array, subsets: Mask, outputs: Array) -> Outcome:
    """Spearman's rho over subsets (S, n) of what attributions (N, n) predict and what retrained models put out, (N, S).

    The prediction for a subset is the sum of the attributions of its examples, g(x, S) = Σ_{n in S} e_n(x). The second set is the
    subsets: pseudo-values of the jackknife, S rho - (S - 1) rho_(-s), averaged over samples.

    >>> half = np.array([[True, True, False], [True, False, True], [False, True, True]])
    >>> linear_datamodelling(np.array([[1.0, 2.0, 4.0]]), half, np.array([[0.1, 0.3, 0.2]])).values
    array([0.5])

    Reference: Park et al. 2023, arXiv:2303.14186, section 2.
    """
    predicted = attributions @ subsets.T.astype(np.float64)
    return correlation_outcome(predicted, outputs)


def correlation_outcome(predicted: Array, outputs: Array) -> Outcome:
    """Spearman's rho (N,) of two arrays (N, S), with the S pseudo-values of its mean."""
    values = spearman_correlation(predicted, outputs)
    known, count = np.isfinite(values), outputs.shape[1]
    if not known.any():
        return Outcome(values, np.full(count, np.nan))
    rest = np.stack([np.delete(np.arange(count), one) for one in range(count)])
    left = spearman_correlation(predicted[known][:, rest], outputs[known][:, rest])
    without = np.array([np.mean(one[np.isfinite(one)]) if np.isfinite(one).any() else np.nan for one in left.T])
    return Outcome(values, count * values[known].mean() - (count - 1) * without)


def detection(suspicion: Array, marked: Mask) -> Outcome:
    """How well a number per example (n,) finds the marked ones: the area under the ROC curve.

    The value of a marked example is the share of unmarked ones with less suspicion, ties counted half; the mean is the area. The
    second set is the unmarked examples: the share of marked ones with more suspicion.

    >>> detection(np.array([3.0, 2.0, 1.0, 2.0]), np.array([True, True, False, False]))
    Outcome(values=array([1.  , 0.75]), shared=array([1.  , 0.75]))
    """
    bad, good = suspicion[marked], suspicion[~marked]
    if not np.isfinite(suspicion).all():
        return Outcome(np.full(len(bad), np.nan), np.full(len(good), np.nan))
    return Outcome(share_below(bad, good), 1.0 - share_below(good, bad))


def share_below(values: Array, others: Array) -> Array:
    """For each value, the share of the others that lie below it, ties counted half."""
    ordered = np.sort(others)
    below, up_to = (np.searchsorted(ordered, values, side=side) for side in ("left", "right"))
    return np.asarray((below + up_to) / (2.0 * max(len(others), 1)), dtype=np.float64)


def label_at_top(attributions: Array, labels: NDArray[np.int64], wanted: NDArray[np.int64]) -> Array:
    """Whether the example with the largest attribution has the wanted label, (N,); of tied examples, the share that has it.

    >>> label_at_top(np.array([[1.0, 3.0, 3.0], [2.0, 1.0, 0.0]]), np.array([0, 0, 1]), np.array([1, 1]))
    array([0.5, 0. ])

    Reference: Hanawa et al. 2021, arXiv:2006.04528, the identical class test and the identical subclass test.
    """
    top = attributions == attributions.max(axis=1, keepdims=True)
    hit = top & (labels[None, :] == wanted[:, None])
    found = hit.sum(axis=1) / np.maximum(top.sum(axis=1), 1)
    return np.where(np.isfinite(attributions).all(axis=1), found, np.nan)


def average_precision(attributions: Array, marked: Mask) -> Array:
    """The average precision (N,) of finding the marked examples (n,): Σ_k (recall_k - recall_{k-1}) precision_k over thresholds.

    Tied examples share a threshold, so equal attributions have the share of marked ones.

    >>> average_precision(np.array([[3.0, 2.0, 1.0], [1.0, 1.0, 1.0]]), np.array([True, False, True])).round(3)
    array([0.833, 0.667])
    """
    order = np.argsort(-attributions, axis=1, kind="stable")
    ranked, hits = np.take_along_axis(attributions, order, axis=1), marked[order].cumsum(axis=1)
    count = np.arange(1, attributions.shape[1] + 1)
    last = np.ones_like(hits, dtype=np.bool_)  # the last example of each threshold
    last[:, :-1] = ranked[:, :-1] != ranked[:, 1:]
    found = np.empty(len(attributions))
    for row in range(len(attributions)):
        ends = last[row].nonzero()[0]
        gained = np.diff(hits[row, ends], prepend=0)
        found[row] = (gained * hits[row, ends] / count[ends]).sum() / max(int(marked.sum()), 1)
    return np.where(np.isfinite(attributions).all(axis=1), found, np.nan)
