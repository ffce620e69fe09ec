"""Where a path ends: the smallest noise at which a model's predictions are no better than chance."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from veracity.core.errors import InputError, SpecError

LEAST = 2.0**-30


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """The noise at a path's strong end, and how it was found; it belongs to one model and one data set.

    At `sigma` the mean `agreement` with the unperturbed predictions is at most `chance` + `tolerance`.
    `curve` holds every (sigma, agreement) that was measured, from weak to strong.
    """

    sigma: float
    agreement: float
    chance: float
    tolerance: float
    curve: tuple[tuple[float, float], ...]


def tolerance(classes: int) -> float:
    """How far above chance, 1/C, an agreement still counts as chance: max(0.1/C, 0.01).

    >>> tolerance(2), tolerance(100)
    (0.05, 0.01)
    """
    return max(0.1 / classes, 0.01)


def calibrated(
    agreement: Callable[[float], float],
    classes: int,
    *,
    start: float = 0.5,
    most: float = 64.0,
    precision: float = 0.02,
) -> Calibration:
    """The smallest sigma at which the mean agreement falls to chance: at most 1/C + max(0.1/C, 0.01) for C classes.

    `agreement(sigma)` is the share of predictions, over samples and draws, that noise of this strength leaves as they
    were. From `start` sigma is doubled until chance is reached, or halved until it no longer is, and the bracket is then
    halved until its width is `precision` of sigma. One-sided: a share below chance, as when one class takes all, has
    reached it. The agreement should be measured on the same draws at every sigma, and on at least 40, since single draws
    differ widely.

    >>> found = calibrated(lambda sigma: 0.1 + 0.9 * math.exp(-sigma), classes=10)
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
    low, high = search.bracket(start, most)
    while high - low > precision * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if search.reached(middle) else (middle, high)
    curve = tuple(sorted(search.seen.items()))
    return Calibration(sigma=high, agreement=search.seen[high], chance=chance, tolerance=around, curve=curve)


class Search:
    """One search under way: what was measured so far, and the agreement that counts as chance."""

    def __init__(self, agreement: Callable[[float], float], target: float) -> None:
        self.agreement, self.target = agreement, target
        self.seen: dict[float, float] = {}

    def reached(self, sigma: float) -> bool:
        """Whether the predictions are down to chance at this strength; it is measured here."""
        share = float(self.agreement(sigma))
        if not 0.0 <= share <= 1.0:
            raise InputError(f"An agreement is a share between 0 and 1, but at sigma = {sigma:g} it is {share}.")
        self.seen[sigma] = share
        return share <= self.target

    def bracket(self, start: float, most: float) -> tuple[float, float]:
        """A strength above chance and the next one that is not, at most twice as large."""
        sigma = start
        if self.reached(sigma):
            while self.reached(sigma / 2.0):
                sigma /= 2.0
                if sigma < LEAST * start:
                    raise self.never(f"are down to chance already at sigma = {sigma:g}, so that no path leads there")
            return sigma / 2.0, sigma
        while sigma < most:
            weaker, sigma = sigma, min(2.0 * sigma, most)
            if self.reached(sigma):
                return weaker, sigma
        if min(self.seen.values()) > 0.99:
            raise self.never(f"hardly change up to sigma = {most:g}, so that there is no path from stable to random ones")
        raise self.never(f"do not fall to chance up to sigma = {most:g}: give the score a sigma of its own, as in FastGEF(sigma=2.0)")

    def never(self, what: str) -> InputError:
        """The error for a model without a path to chance, with the agreement at each strength."""
        curve = ", ".join(f"{share:.3g} at {sigma:.3g}" for sigma, share in sorted(self.seen.items()))
        return InputError(f"The predictions {what}; chance is an agreement of at most {self.target:.3g}, and it was {curve}.")
