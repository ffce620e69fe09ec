"""Which explainers nobody dominates, without a weighted total.

A dominates B if A is not worse than B on any check, within a margin, and better by more than the margin on at least one. Every check is in
the same unit: the share of the way from its reference to the ideal that an explainer covers. The samples are resampled, so that every
statement has the share of resamples in which it is true. Two explainers are compared on the samples that both were measured on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veracity.core.errors import InputError
from veracity.statistics.intervals import Array
from veracity.statistics.resampling import resamplings
from veracity.statistics.units import Codes

MARGIN = 0.05
"""Differences up to this size count as none."""
SURE = 0.95
"""A dominates B if it does in at least this share of the resamples."""
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Gains:
    """One check of all explainers: `gap` and `room` (explainers, samples), NaN where undefined; or fixed `values` (explainers,).

    The value of an explainer is mean gap / mean room over the samples that it has. In a race, an explainer may have been measured on the
    first `reach` samples alone (explainers,); None if all were measured on all samples.
    """

    gap: Array
    room: Array
    reach: NDArray[np.int64] | None = None

    @classmethod
    def fixed(cls, values: Array, samples: int) -> Gains:
        """Values that do not depend on which samples are drawn, such as those of trained folds."""
        gap = np.repeat(np.asarray(values, dtype=np.float64)[:, None], samples, axis=1)
        return cls(gap, np.ones_like(gap))

    def values(self, weights: Array) -> Array:
        """The value of each explainer (B, explainers) where sample i counts weights[b, i] times; NaN without any.

        >>> gains = Gains(np.array([[1.0, 3.0]]), np.array([[2.0, 4.0]]))
        >>> gains.values(np.array([[1.0, 1.0], [2.0, 0.0]])).round(3).tolist()
        [[0.667], [0.5]]
        """
        known = np.isfinite(self.gap) & np.isfinite(self.room)
        gap, room = (weights @ np.where(known, part, 0.0).T for part in (self.gap, self.room))
        return np.where(room > 0.0, gap / np.where(room > 0.0, room, 1.0), np.nan)

    @property
    def reaches(self) -> NDArray[np.int64]:
        """How many samples each explainer was measured on."""
        return np.full(len(self.gap), self.gap.shape[1]) if self.reach is None else self.reach

    def differences(self, weights: Array) -> Array:
        """value i - value j (B, explainers, explainers) over the samples on which both were measured, weighted as for `values`.

        >>> gains = Gains(np.array([[1.0, 3.0], [1.0, np.nan]]), np.ones((2, 2)), reach=np.array([2, 1]))
        >>> gains.differences(np.ones((1, 2)))[0].tolist()
        [[0.0, 0.0], [0.0, 0.0]]
        """
        reaches = self.reaches
        both = np.minimum(reaches[:, None], reaches[None, :])
        found = np.full((len(weights), *both.shape), np.nan)
        for reach in np.unique(reaches).tolist():
            value = Gains(self.gap[:, :reach], self.room[:, :reach]).values(weights[:, :reach])
            found = np.where(both == reach, value[:, :, None] - value[:, None, :], found)
        return found


def dominance(differences: Iterable[Array], margin: float = MARGIN) -> Flags:
    """Whether i dominates j, (B, explainers, explainers), from the differences value i - value j on every check, of the same shape.

    A check on which either has no value says nothing about the two.

    >>> one, two = (np.array([[[0.0, first], [-first, 0.0]]]) for first in (0.4, 0.0))
    >>> dominance([one, two])[0].astype(int).tolist()
    [[0, 1], [0, 0]]
    """
    better: Flags | None = None
    worse: Flags | None = None
    for difference in differences:
        above, below = difference > margin, difference < -margin
        better, worse = (above if better is None else better | above), (below if worse is None else worse | below)
    if better is None or worse is None:
        raise InputError("Dominance needs at least one check.")
    return np.asarray(better & ~worse)


@dataclass(frozen=True)
class Dominance:
    """Who dominates whom: `share[i, j]` of the resamples have i above j; `alone[i]` of them have nobody above i."""

    explainers: tuple[str, ...]
    share: Array
    alone: Array

    @classmethod
    def of(cls, explainers: Sequence[str], checks: Sequence[Gains], margin: float = MARGIN, units: Codes | None = None) -> Dominance:
        """From all checks of all explainers, by resampling the samples, or the `units` (samples,) that they belong to."""
        count = len(explainers)
        if not checks or count == 0:
            return cls(tuple(explainers), np.zeros((count, count)), np.ones(count))
        above, free, total = np.zeros((count, count)), np.zeros(count), 0
        for weights in resamplings(checks[0].gap.shape[1], units):
            found = dominance((one.differences(weights) for one in checks), margin)
            above += found.sum(axis=0)
            free += (~found.any(axis=1)).sum(axis=0)
            total += len(weights)
        return cls(tuple(explainers), above / total, free / total)

    def above(self, explainer: str, sure: float = SURE) -> dict[str, float]:
        """Those that dominate an explainer, with the share of resamples in which they do, surest first."""
        column = self.share[:, self.explainers.index(explainer)]
        return {self.explainers[place]: float(column[place]) for place in np.argsort(-column, kind="stable") if column[place] >= sure}

    def undominated(self, sure: float = SURE) -> dict[str, float]:
        """Those that nobody dominates for sure, with the share of resamples in which nobody dominates them."""
        return {name: float(alone) for name, alone in zip(self.explainers, self.alone, strict=True) if not self.above(name, sure)}


@dataclass(frozen=True, kw_only=True)
class Use:
    """A use of explanations, and the questions that count for it."""

    key: str
    title: str
    questions: tuple[str, ...]
    why: str


USES = (
    Use(
        key="debugging",
        title="Debugging the model",
        questions=("model", "faithful"),
        why="You look at many maps to find out what the model does, so they must be about the model. A little noise averages out.",
    ),
    Use(
        key="case",
        title="Showing one case to a person",
        questions=("model", "faithful", "calm", "robust"),
        why="One map stands alone, so it must also be the same if it is made again, and a change too small to see must not redraw it. "
        "The words are about cases on average; card.case(i) tells of one of them.",
    ),
    Use(
        key="evidence",
        title="Evidence for a reviewer",
        questions=("model", "faithful", "calm", "symmetric", "training"),
        why="The claim is about the method and not about one picture, so it must survive what the model ignores and another training.",
    ),
)
"""The three uses of the page."""


NEEDED = ("model", "faithful")
"""Questions that must hold for every use."""


def fit_for(use: Use, words: Mapping[str, Mapping[str, str]]) -> tuple[list[str], list[str], list[str]]:
    """The explainers that are fit for a use, those that may be, and those that are not, from {explainer: {question: word}}.

    Fit: questions 0 and 1 hold, and every other question that counts holds or does not apply. Not fit: one of them falls short.

    >>> fit_for(USES[0], {"a": {"model": "holds", "faithful": "holds"}, "b": {"model": "holds", "faithful": "cannot tell yet"}})
    (['a'], ['b'], [])
    """
    fit, open_, unfit = list[str](), list[str](), list[str]()
    for name, said in words.items():
        counted = [said[key] for key in use.questions]
        if "falls short" in counted:
            unfit.append(name)
        elif all(said[key] == "holds" for key in NEEDED) and "cannot tell yet" not in counted:
            fit.append(name)
        else:
            open_.append(name)
    return fit, open_, unfit
