"""What the samples that are left to a race could still tell, given what it has seen.

After n of N samples, a mean of the N will differ from that of the n by a normal error with the variance s^2 (1/n - 1/N), where s is the
spread over samples. So each possible future has a mean of its own, and an interval that is narrower by sqrt(n / N). What the futures
hardly ever change is not worth more passes: the race stops for futility (Lan, Simon and Halperin, Stochastically curtailed tests in
long-term clinical trials, 1982). That decides nothing, and what was stopped goes on to count among the comparisons, so it
spends no alpha.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from veracity.cards.decide import Standing, Word
from veracity.cards.dominate import MARGIN, SURE, Gains, dominance
from veracity.statistics.intervals import t_quantile
from veracity.statistics.resampling import resamplings
from veracity.statistics.units import Codes

HOPE = 0.05
"""More samples are worth their passes if they tell an open check with more than this chance."""
RISK = 0.01
"""They are also worth it if who is undominated changes in more than this share of the futures."""
PART = 0.1
"""Who takes part in more than this share of the futures that change a membership is needed to tell it."""
FUTURES, RESAMPLES = 200, 200
"""Futures, and resamples in each."""
Flags = NDArray[np.bool_]


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
class Memberships:
    """Who is undominated now, how often that changes in the futures, and who takes part in it.

    `free` and `change` (explainers,); `above[i, j]`: i dominates j now; `part[i, j]`: the share of the futures in which j enters or
    leaves the undominated ones and whether i dominates it changes as well.
    """

    free: Flags
    change: NDArray[np.float64]
    above: Flags
    part: NDArray[np.float64]

    def waiting(self, inside: Flags) -> Flags:
        """Who must go on, given who goes on for other reasons: those whose membership may change, and those who are needed to tell it.

        If one that is dominated now goes on, so do those that dominate it.
        """
        unsure: Flags = np.asarray(self.change > RISK)
        needed = (self.part > PART * self.change) & unsure
        found: Flags = np.asarray(inside | unsure | needed.any(axis=1))
        while (more := np.asarray(found | (self.above & found).any(axis=1))).sum() > found.sum():
            found = more  # who dominates somebody that goes on goes on too, however many steps away
        return found


def memberships(checks: Sequence[Gains], seen: float, units: Codes | None = None, margin: float = MARGIN) -> Memberships:
    """What futures say about who is undominated, by the rule of the end: i dominates j if it does in 95 % of the resamples.

    Resamples of what was seen, which scatter by s / sqrt(n), serve for both errors: that of the future means, scaled by
    sqrt(1 - seen), and that of resamples in the future, scaled by sqrt(seen).

    >>> near = Gains(np.array([[0.5, 0.7] * 9, [0.53, 0.57] * 9]), np.ones((2, 18)))
    >>> far = Gains(np.array([[0.8, 0.9] * 9, [0.2, 0.3] * 9]), np.ones((2, 18)))
    >>> memberships([near], 0.25).free.tolist(), memberships([far], 0.25).change.tolist()
    ([True, True], [0.0, 0.0])
    """
    count = checks[0].gap.shape[0]
    now = [one.values(np.ones((1, one.gap.shape[1]))) for one in checks]
    drawn = next(resamplings(checks[0].gap.shape[1], units))
    around = [one.values(drawn[: FUTURES + RESAMPLES]) - here for one, here in zip(checks, now, strict=True)]

    def above(shift: Sequence[NDArray[np.float64]], scale: float) -> Flags:
        tables = [here + moved + scale * one[FUTURES:] for here, moved, one in zip(now, shift, around, strict=True)]
        return np.asarray(dominance(tables, margin).mean(axis=0) >= SURE)

    none = [np.zeros(count)] * len(checks)
    here = above(none, 1.0)
    futures = np.stack(
        [above([math.sqrt(1.0 - seen) * one[future] for one in around], math.sqrt(seen)) for future in range(min(FUTURES, len(drawn)))]
    )
    free: Flags = np.asarray(~here.any(axis=0))
    changed = ~futures.any(axis=1) != free
    part = ((futures != here) & changed[:, None, :]).mean(axis=0)
    return Memberships(free, changed.mean(axis=0), here, part)
