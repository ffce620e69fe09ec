"""How many distances of each set lie at or below every threshold, for many resamplings at once: by one sort."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veracity.core.errors import InputError
from veracity.interpret.stability.sets import ALIKE, UNLIKE, Array, Members

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
