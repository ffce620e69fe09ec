"""What the samples that are left to a race could still tell, given what it has seen.

After n of N samples, a mean of the N will differ from that of the n by a normal error with the variance s^2 (1/n - 1/N), where s is the
spread over samples. So each possible future has a mean of its own, and an interval that is narrower by sqrt(n / N). What the futures
hardly ever change is not worth more passes: it stops for futility (Lan, Simon and Halperin, Stochastically curtailed tests in
long-term clinical trials, 1982). That decides nothing, and what was stopped goes on to count among the comparisons, so it
spends no alpha.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from veracity.cards.decide import Standing, Word
from veracity.cards.dominate import MARGIN, SURE, Gains
from veracity.statistics.intervals import Array, t_quantile
from veracity.statistics.resampling import resamplings
from veracity.statistics.units import Codes

FUTURES, RESAMPLES = 200, 200
"""Futures, and resamples in each."""
Flags = NDArray[np.bool_]
Counts = NDArray[np.int8]


def chance_of_word(one: Standing, line: float, *, level: float, later: float, seen: float) -> float:
    """How likely an open word is told at the end, at the confidence `later`, if the share `seen` of all samples was seen at `level`.

    With the distance d of the value from the line and its standard error s now, the distance at the end is normal around d with the
    variance s^2 (1 - seen), and the half-width of its interval is t s sqrt(seen). That is too hopeful if all samples share copies of the
    model, which more samples do not average out: then more is measured than need be. It is 1 where there is no interval yet.

    >>> near, far = (Standing(word=Word.UNTOLD, value=value, low=value - 0.1, high=value + 0.1, n=64) for value in (0.0, 0.09))
    >>> [round(chance_of_word(one, 0.0, level=0.999, later=0.999, seen=0.25), 3) for one in (near, far)]
    [0.055, 0.952]
    """
    if one.word is not Word.UNTOLD:
        return 0.0
    reach = (one.high - one.low) / 2
    if not (math.isfinite(reach) and reach > 0.0 and seen < 1.0):
        return 1.0
    size = one.size or one.n
    error = reach / t_quantile(level, size - 1)
    width = t_quantile(later, size / seen - 1) * error * math.sqrt(seen)
    distance, spread = abs(one.value - line), error * math.sqrt(1.0 - seen)
    return float(ndtr((distance - width) / spread) + ndtr((-distance - width) / spread))


@dataclass(frozen=True)
class Trial:
    """What the futures are if some checks of one explainer end now, and in which share of them other ones are then undominated."""

    one: int
    checks: Sequence[int]
    better: tuple[Counts, Counts]
    worse: tuple[Counts, Counts]
    above: Flags
    change: float


class Futures:
    """Who is undominated in each possible future, and whether that stays so if some checks of some explainers end now.

    A check of an explainer that goes on moves: its value in a future differs from today's by an error of the size s sqrt(1/n - 1/N), and
    its resamples there scatter by s / sqrt(N). Resamples of what was seen, which scatter by s / sqrt(n), serve for both, scaled by
    sqrt(1 - seen) and sqrt(seen). One that ends keeps the samples that it has, and so do checks that are asked `once`, of all explainers.
    Two explainers are compared on the samples that both have, so their difference stays as it is if either of them ends. In each future,
    i dominates j if it does in 95 % of the resamples.

    >>> near = Gains(np.array([[0.5, 0.7] * 9, [0.53, 0.57] * 9]), np.ones((2, 18)))
    >>> far = Gains(np.array([[0.8, 0.9] * 9, [0.2, 0.3] * 9]), np.ones((2, 18)))
    >>> Futures([near], 0.25).free.mean(axis=0).tolist(), Futures([far], 0.25).free.mean(axis=0).tolist()
    ([1.0, 0.745], [1.0, 0.0])
    """

    def __init__(
        self, checks: Sequence[Gains], seen: float, units: Codes | None = None, once: Sequence[bool] | None = None, margin: float = MARGIN
    ) -> None:
        self.checks, self.seen, self.margin = checks, seen, margin
        explainers, self.samples = checks[0].gap.shape
        self.drawn = next(resamplings(self.samples, units))[: FUTURES + RESAMPLES]
        self.reach = np.stack([one.reaches for one in checks])
        self.going: Flags = (self.reach == self.samples) & ~np.array(once or [False] * len(checks))[:, None]
        self.moving, self.fixed = cache(self.find_moving), cache(self.find_fixed)
        shape = (min(FUTURES, len(self.drawn)), len(self.drawn[FUTURES:]), explainers, explainers)
        self.better, self.worse = (np.zeros(shape, dtype=np.int8) for _ in range(2))
        for one in range(explainers):
            self.better[:, :, one], self.worse[:, :, one] = self.counts(one, range(len(checks)))
        self.above = self.dominates(self.better, self.worse)
        self.free: Flags = np.asarray(~self.above.any(axis=1))

    def find_moving(self, check: int) -> Array:
        """The values of a check that goes on (futures, resamples, explainers)."""
        now = self.checks[check].values(np.ones((1, self.samples)))
        around = self.checks[check].values(self.drawn) - now
        futures, resamples = math.sqrt(1.0 - self.seen) * around[:FUTURES], math.sqrt(self.seen) * around[FUTURES:]
        return np.asarray(now + futures[:, None] + resamples[None])

    def find_fixed(self, check: int, reach: int) -> Array:
        """The values of a check on the first samples alone (resamples, explainers)."""
        one = self.checks[check]
        return Gains(one.gap[:, :reach], one.room[:, :reach]).values(self.drawn[FUTURES:, :reach])

    def differences(self, check: int, one: int) -> Array:
        """How far an explainer lies above every other one on a check (futures, resamples, explainers)."""
        moving = self.moving(check)
        found = np.asarray(moving[..., one, None] - moving)
        moves = self.going[check, one] & self.going[check]
        both = np.minimum(self.reach[check, one], self.reach[check])
        for reach in np.unique(both[~moves]).tolist():
            fixed = self.fixed(check, reach)
            found = np.where(~moves & (both == reach), (fixed[:, one, None] - fixed)[None], found)
        return found

    def counts(self, one: int, checks: Sequence[int]) -> tuple[Counts, Counts]:
        """On how many of these checks an explainer is better and worse than every other one, each (futures, resamples, explainers)."""
        found = [self.differences(check, one) for check in checks]
        return (
            np.sum([difference > self.margin for difference in found], axis=0, dtype=np.int8),
            np.sum([difference < -self.margin for difference in found], axis=0, dtype=np.int8),
        )

    @staticmethod
    def dominates(better: Counts, worse: Counts) -> Flags:
        """In which futures i dominates j, from the number of checks on which it is better and worse (futures, resamples, ...)."""
        return np.asarray(((better > 0) & (worse == 0)).mean(axis=1) >= SURE)

    def trial(self, checks: Sequence[int], one: int) -> Trial:
        """What the futures are if these checks of an explainer end now."""
        before = self.counts(one, checks)
        was = self.going[checks, one]
        self.going[checks, one] = False
        after = self.counts(one, checks)
        self.going[checks, one] = was
        more, less = (now - then for now, then in zip(after, before, strict=True))
        better = self.better[:, :, one] + more, self.better[:, :, :, one] + less
        worse = self.worse[:, :, one] + less, self.worse[:, :, :, one] + more
        above = self.above.copy()
        above[:, one] = self.dominates(better[0], worse[0])
        above[:, :, one] = self.dominates(better[1], worse[1])
        change = float((~above.any(axis=1) != self.free).any(axis=1).mean())
        return Trial(one, checks, better, worse, above, change)

    def end(self, trial: Trial) -> None:
        """End the checks of a trial."""
        one = trial.one
        self.going[trial.checks, one] = False
        self.better[:, :, one], self.better[:, :, :, one] = trial.better
        self.worse[:, :, one], self.worse[:, :, :, one] = trial.worse
        self.above = trial.above
