"""Which distances between the explanations of two models belong to which set: S= and S!=.

What scores of stability share: explanations of a model that never saw the sample beside those of models that did.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veracity.core import fingerprint
from veracity.core.errors import InputError, unknown
from veracity.core.measures import Direction, Measure
from veracity.core.scores import Array, Defaults, Measured, Pair, PooledScore, Reads, Request, SampleNotes, Subject
from veracity.measure.distance import as_distance
from veracity.measure.rank import rank_distance
from veracity.perturb.folds import Folds
from veracity.scores.common import Repeatable
from veracity.statistics.resampling import expanded_hull
from veracity.walk import Exhaustive

Index = NDArray[np.int64]


Statistic = Callable[[Array, Array], Array]
"""From the tallies of S= and S!=, each (B, thresholds), to (B,)."""


AT_ONCE = 250_000
"""How many numbers one table holds: some ten tables of 8 bytes each exist at a time, 20 MB, small enough to be fast."""


ROUNDING = 1e-12
"""Distances that differ by less than this share of the largest are equal."""


@dataclass(frozen=True)
class Ordered:
    """Pairs with a distance, from the smallest up: their samples and places (M,), and where each distinct distance ends (T,)."""

    sample: Index
    place: Index
    last: Index

    def below(self, counts: Array) -> Array:
        """Counts of the pairs (B, M) summed up to each distinct distance, (B, T); tied distances share a threshold."""
        total = np.cumsum(counts, axis=1)
        return total if len(self.last) == len(self.sample) else total.take(self.last, axis=1)

    def of(self, statistic: Statistic, counts: Callable[[slice], tuple[Array, Array]], rows: int) -> Array:
        """A statistic (rows,) of what `counts` says of the pairs of both sets (B, M), a bounded number of rows at a time."""
        if len(self.sample) == 0:
            return np.full(rows, np.nan)
        step = max(1, AT_ONCE // len(self.sample))
        parts = (counts(slice(start, start + step)) for start in range(0, rows, step))
        return np.concatenate([np.empty(0), *(statistic(self.below(alike), self.below(unlike)) for alike, unlike in parts)])


def ordered(distance: Array, kept: NDArray[np.bool_]) -> Ordered:
    """The pairs (samples, pairs) that are kept, sorted by their distance; distances that differ by rounding alone are tied."""
    sample, place = np.nonzero(kept)
    values = distance[sample, place]
    order = np.argsort(values, kind="stable")
    values = values[order]
    steps = np.flatnonzero(np.diff(values) > ROUNDING * np.abs(values).max(initial=0.0))
    last = np.append(steps, len(values) - 1) if len(values) else steps
    return Ordered(sample[order], place[order], last)


def weighted(statistic: Statistic, distance: Array, member: Members, weights: Array | None) -> Array:
    """A statistic (B,) of S= and S!= under B weightings of the samples, (B, samples); one of them, all ones, if there are none."""
    times = counted(weights, len(distance))
    pairs = ordered(distance, member >= 0)
    unlike = member[pairs.sample, pairs.place] == UNLIKE

    def counts(rows: slice) -> tuple[Array, Array]:
        each = times[rows].take(pairs.sample, axis=1)
        other = each * unlike
        return each - other, other

    return pairs.of(statistic, counts, len(times))


def tallied(distance: Array, member: Members) -> tuple[Array, Array]:
    """How many distances of S= and of S!= lie at or below every threshold, (1, T) each."""
    pairs = ordered(distance, member >= 0)
    unlike = (member[pairs.sample, pairs.place] == UNLIKE)[None]
    return pairs.below((~unlike).astype(np.float64)), pairs.below(unlike.astype(np.float64))


def relabelled(statistic: Statistic, distance: Array, label: Members, orders: Index) -> Array:
    """A statistic (B,) when sample n keeps its distances and takes the labels (pairs,) of sample orders[b, n]; orders are (B, samples)."""
    pairs = ordered(distance, np.isfinite(distance))
    flat, width = label.ravel(), label.shape[1]

    def counts(rows: slice) -> tuple[Array, Array]:
        which = flat.take(orders[rows].take(pairs.sample, axis=1) * width + pairs.place)
        return (which == ALIKE).astype(np.float64), (which == UNLIKE).astype(np.float64)

    return pairs.of(statistic, counts, len(orders))


def counted(weights: Array | None, samples: int) -> Array:
    """The weights (B, samples), all ones where there are none; raises unless they say how often each sample counts."""
    if weights is None:
        return np.ones((1, samples))
    if weights.ndim != 2 or weights.shape[1] != samples:
        raise InputError(f"Weights must have the shape (B, {samples}), one for each sample, not {weights.shape}.")
    if not (np.isfinite(weights) & (weights >= 0) & (weights == np.floor(weights))).all():
        raise InputError("Weights must say how often each sample counts: whole numbers of at least 0.")
    return weights


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


PAIRS = {
    "both_right": "S= holds the pairs of models that are both right about a sample, S≠ those of which exactly one is; "
    "pairs that are both wrong are left out",
    "same_prediction": "S= holds the pairs of models that predict the same class, S≠ those that do not, whoever is right: "
    "the way of a public implementation, not the paper's",
}
DISTANCES = {
    "rank_distance": "1 minus |Spearman's rank correlation|, the paper's distance, by which an inverted map is the same map",
    "signed_rank_distance": "1 minus Spearman's rank correlation, by which an inverted map is the most different one",
    "root_rank_distance": "the root of 1 minus |Spearman's rank correlation|, the distance of a public implementation, by which an "
    "inverted map is the same map",
}
PAPER = "Fel, Vigouroux, Cadène and Serre, How good is your explanation? (WACV 2022)"
READ = frozenset({Reads.EXPLANATION, Reads.CORRECT, Reads.CLASS})


@dataclass(frozen=True, kw_only=True)
class StabilityScore(SampleNotes, Repeatable, PooledScore, ABC):
    """A score of the distances d(e_i(x), e_j(x)): x lies in fold i, which model i never saw, and every other model j did (eq. 1).

    It applies to cross-trained models alone. Distances are 1 - |Spearman's rho| unless another `measure` is given; of a
    similarity, what it lacks to its largest value. `pairs` says which distances belong to S= and S!=: "both_right" (both models
    right, exactly one right), or "same_prediction" (both predict the same class, or not). One number of the whole data set;
    a sample's own value is the mean of its distances. A constant explanation has no distance, which is counted.
    """

    reference: ClassVar[str] = PAPER
    figures: ClassVar[tuple[str, ...]] = ("histograms",)
    in_summary: ClassVar[str] = "nothing"
    sets_compared: ClassVar[int] = 2
    """How many of S= and S!= decide the value."""
    before: ClassVar[frozenset[Reads]] = READ
    after: ClassVar[frozenset[Reads]] = READ
    quantities: ClassVar[tuple[str, ...]] = ("distance", "right", "other_right", "same")
    least: ClassVar[float] = 5
    """From how many samples on an interval is given; see `support`. Chosen by measurement: benchmarks/coverage.py."""
    measure: Measure | None = field(default_factory=lambda: rank_distance)
    pairs: str = "both_right"

    direction = Direction.HIGHER

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """For every explanation of a cross-trained model: all models that saw the sample."""
        self.checked()
        if subject.explainer is None or subject.folds == 0:
            return ()
        return (Request(Folds(k=subject.folds), Exhaustive(), self.shares(subject.explainer)),)

    def setting(self) -> str:
        """Which distance and which pairs are compared."""
        distance = DISTANCES.get(self.compare.name) or f"the measure {self.compare.name}"
        return f"Two explanations are compared by {distance}. {PAIRS[self.pairs]}."

    def checked(self) -> bool:
        """True; raises on settings that are not known."""
        check_pairs(self.pairs)
        as_distance(self.compare)
        return True

    def observe(self, pair: Pair) -> Tensor:
        """The distance, who is right, and whether both predict the same class, (R, 4)."""
        before, after = pair.before, pair.after
        measure = fingerprint.of_json(self.compare.spec())
        distance = pair.once(f"distance {measure}", lambda: as_distance(self.compare)(before.explanation, after.explanation).double())
        same = torch.eq(before.predicted, after.predicted)
        return torch.stack((distance, *(one.to(distance) for one in (before.correct, after.correct, same))), dim=1)

    def sets(self, measured: Measured) -> tuple[Array, Members]:
        """The distances (samples, pairs), and where each belongs: 0 in S=, 1 in S!=, -1 in neither."""
        distance, right, other_right, same = (measured[name][:, :, 0] for name in self.quantities)
        return distance, membership(distance, right, other_right, same, self.pairs)

    def sizes(self, measured: Measured) -> tuple[int, int]:
        """How many distances are in S= and in S!=."""
        member = self.sets(measured)[1]
        return int((member == ALIKE).sum()), int((member == UNLIKE).sum())

    def support(self, measured: Measured) -> int:
        """How many samples decide the value: here those with a distance in S=."""
        return int((self.sets(measured)[1] == ALIKE).any(axis=1).sum())

    def enough(self, measured: Measured) -> bool:
        """Whether enough samples decide the value for an interval that holds as often as it says."""
        return self.support(measured) >= self.least

    def interval(self, measured: Measured, value: float, replicates: Array, confidence: float) -> tuple[float, float]:
        """The interval of a value, from its bootstrap replicates (B,)."""
        return expanded_hull(value, replicates, self.support(measured), confidence)

    def values(self, measured: Measured) -> Array:
        """The distances (samples, pairs) that the score looks at, NaN elsewhere: here those of both sets."""
        distance, member = self.sets(measured)
        return np.where(member >= 0, distance, np.nan)

    def remarks(self, measured: Measured) -> Mapping[str, NDArray[np.bool_]]:
        """Samples without any distance, since an explanation is constant: "no_distance"."""
        return {"no_distance": np.asarray(~np.isfinite(measured["distance"]).any(axis=(1, 2)))}


@dataclass(frozen=True, kw_only=True)
class ConsistencyScore(StabilityScore, ABC):
    """A score of how well thresholds on the distance tell S= from S!=."""

    least: ClassVar[float] = 10

    @property
    def in_map_units(self) -> bool:
        """No: thresholds move along with all distances."""
        return False

    @property
    @abstractmethod
    def statistic(self) -> Statistic:
        """From the tallies of both sets to the score."""

    def support(self, measured: Measured) -> int:
        """How many samples decide the value: those of the smaller set."""
        member = self.sets(measured)[1]
        return min(int((member == kind).any(axis=1).sum()) for kind in (ALIKE, UNLIKE))

    def pool(self, measured: Measured, weights: Array) -> Array:
        """The score (B,) under weights (B, samples)."""
        return weighted(self.statistic, *self.sets(measured), weights)

    def permuted(self, measured: Measured, orders: Index) -> Array:
        """The score (B,) if sample n keeps its distances and has the labels of sample orders[b, n], all its pairs' together."""
        distance, right, other_right, same = (measured[name][:, :, 0] for name in self.quantities)
        return relabelled(self.statistic, distance, labels(right, other_right, same, self.pairs), orders)
