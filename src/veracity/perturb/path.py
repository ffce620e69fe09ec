"""The strength of a path: the smallest noise at which a model's predictions are no better than chance."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from veracity.core.errors import InputError, SpecError

LEAST = 2.0**-30
RESAMPLES = 1000


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """The strength of a path for one model and one data set, and how it was found.

    At `sigma` the mean `agreement` with the unperturbed predictions is at most `chance` + `tolerance`. Chance is 1/C; if the agreement
    `levels_off` above 1/C, it is the level that it approaches. `curve` holds all measured (sigma, agreement) in ascending order.
    """

    sigma: float
    agreement: float
    chance: float
    tolerance: float
    curve: tuple[tuple[float, float], ...]
    levels_off: bool = False


def tolerance(classes: int) -> float:
    """The distance from 1/C within which an agreement counts as chance: max(0.1/C, 0.01).

    >>> tolerance(2), tolerance(100)
    (0.05, 0.01)
    """
    return max(0.1 / classes, 0.01)


def calibrate(
    agreement: Callable[[float], float],
    classes: int,
    *,
    start: float = 0.5,
    most: float = 64.0,
    precision: float = 0.02,
) -> Calibration:
    """The smallest sigma at which the mean agreement falls to chance: at most 1/C + max(0.1/C, 0.01) for C classes.

    `agreement(sigma)` is the share of predictions, over samples and draws, that noise of this strength does not change. From `start`,
    sigma is doubled until chance is reached, or halved until it is not. The bracket is then bisected until its width is `precision`
    times sigma. An agreement below chance counts as chance. Measure the agreement on the same draws at every sigma, and on at least
    40, because single draws differ widely.

    If the agreement levels off above chance (two doublings change it by at most the tolerance, and it is closer to 1/C than to 1), this
    level replaces 1/C.

    >>> found = calibrate(lambda sigma: 0.1 + 0.9 * math.exp(-sigma), classes=10)
    >>> round(found.sigma, 2), round(found.agreement, 3), found.chance, found.tolerance
    (4.5, 0.11, 0.1, 0.01)
    """
    if classes < 2:
        raise InputError(f"A path from robust to random predictions needs a model with at least two classes, not {classes}.")
    if not 0.0 < start <= most < math.inf or not 0.0 < precision < 1.0:
        raise SpecError(
            "A calibration needs 0 < start <= most and a precision between 0 and 1, "
            f"not start={start}, most={most} and precision={precision}."
        )
    chance, around = 1.0 / classes, tolerance(classes)
    search = Search(agreement, chance + around)
    low, high = search.bracket(start, most, chance, around)
    while high - low > precision * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if search.reached(middle) else (middle, high)
    return Calibration(
        sigma=high,
        agreement=search.seen[high],
        chance=search.target - around if search.levels_off else chance,
        tolerance=around,
        curve=tuple(sorted(search.seen.items())),
        levels_off=search.levels_off,
    )


def crossing(strengths: Sequence[float], agreements: Sequence[float], target: float) -> float:
    """The weakest strength at which a measured curve falls to a target, interpolated over the logarithm of the strength.

    It is infinite if the curve stays above the target, and the weakest measured strength if the curve starts below it.

    >>> crossing([1.0, 4.0, 16.0], [0.9, 0.5, 0.1], 0.3), crossing([1.0, 4.0], [0.9, 0.5], 0.3)
    (8.0, inf)
    """
    last = math.nan
    for place, (sigma, share) in enumerate(zip(strengths, agreements, strict=True)):
        if share <= target:
            if place == 0 or last == share:
                return sigma
            part, below = (last - target) / (last - share), strengths[place - 1]
            return float(below * (sigma / below) ** part)
        last = share
    return math.inf


def strength_range(kept: Mapping[float, Tensor], classes: int, generator: torch.Generator, confidence: float = 0.95) -> tuple[float, float]:
    """A percentile interval for the strength at which the curve falls to chance, by a bootstrap over samples and copies.

    `kept` says by strength which predictions did not change, (copies, samples). The copies are the same at every strength, but some
    strengths may have fewer. Each copy and each sample counts a Poisson number of times. Chance is 1/C, or, if the curve stays above
    it, its value at the largest strength, each with its tolerance.
    """
    around = tolerance(classes)
    chance = 1.0 / classes + around
    strengths = sorted(kept)
    copies, samples = max(len(found) for found in kept.values()), next(iter(kept.values())).shape[1]
    copy_counts, sample_counts = (
        torch.poisson(torch.ones(RESAMPLES, size, dtype=torch.float32), generator=generator) for size in (copies, samples)
    )
    curves = []
    for sigma in strengths:
        found, counts = kept[sigma].float(), copy_counts[:, : len(kept[sigma])]
        total = counts.sum(1) * sample_counts.sum(1)
        curves.append(torch.where(total > 0, ((counts @ found) * sample_counts).sum(1) / total, found.mean()))
    redrawn = torch.stack(curves, dim=1).double().tolist()
    ends = [crossing(strengths, curve, chance if min(curve) <= chance else curve[-1] + around) for curve in redrawn]
    tail = (1.0 - confidence) / 2.0
    low, high = (sorted(ends)[round(share * (RESAMPLES - 1))] for share in (tail, 1.0 - tail))
    return low, high


class Search:
    """A search in progress: the agreements measured so far, and the agreement that counts as chance."""

    def __init__(self, agreement: Callable[[float], float], target: float) -> None:
        self.agreement, self.target, self.levels_off = agreement, target, False
        self.seen: dict[float, float] = {}

    def reached(self, sigma: float) -> bool:
        """Measure whether predictions are at chance at this strength."""
        share = float(self.agreement(sigma))
        if not 0.0 <= share <= 1.0:
            raise InputError(f"An agreement is a share between 0 and 1, but at sigma = {sigma:g} it is {share}.")
        self.seen[sigma] = share
        return share <= self.target

    def bracket(self, start: float, most: float, chance: float, around: float) -> tuple[float, float]:
        """Two strengths, one above chance and one at chance, which is at most twice as large."""
        sigma = start
        if self.reached(sigma):
            while self.reached(sigma / 2.0):
                sigma /= 2.0
                if sigma < LEAST * start:
                    raise self.never(f"are already at chance at sigma = {sigma:g}, so there is no path to chance")
            return sigma / 2.0, sigma
        while sigma < most:
            weaker, sigma = sigma, min(2.0 * sigma, most)
            if self.reached(sigma):
                return weaker, sigma
            if self.level(sigma, chance, around):
                self.target, self.levels_off = self.seen[sigma] + around, True
                strengths = sorted(self.seen)
                first = next(place for place, one in enumerate(strengths) if self.seen[one] <= self.target)
                if first > 0:
                    return strengths[first - 1], strengths[first]
        if min(self.seen.values()) > 0.99:
            raise self.never(f"hardly change up to sigma = {most:g}, so there is no path from stable to random predictions")
        raise self.never(f"do not fall to chance up to sigma = {most:g}: give the score a sigma of its own, as in FastGEF(sigma=2.0)")

    def level(self, sigma: float, chance: float, around: float) -> bool:
        """Whether the last two doublings changed the agreement by at most the tolerance, and it is closer to chance than to 1."""
        last = [share for one, share in self.seen.items() if one >= sigma / 4.0]
        return len(last) > 2 and max(last) - min(last) <= around and self.seen[sigma] <= (1.0 + chance) / 2.0

    def never(self, what: str) -> InputError:
        """The error for a model without a path to chance, with the measured agreements."""
        curve = ", ".join(f"{share:.3g} at {sigma:.3g}" for sigma, share in sorted(self.seen.items()))
        return InputError(f"The predictions {what}; chance is an agreement of at most {self.target:.3g}, and it was {curve}.")
