"""Does a distance grow with what it should measure? Curves over maps that part, and what can be said of them (appendix F)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veracity.core.errors import InputError, said
from veracity.interpret.spots import Parting

Array = NDArray[np.float64]
LEVEL = 0.05
"""The p-value below which a trend counts."""
FALL = 0.05
"""The share of its range by which a curve may fall back and still count as growing."""
FULL = 0.99
"""From this share of its range on a curve is at its top."""
EARLY = 2 / 3
"""A curve that is at its top before this share of the way has stopped telling far from further."""


class Verdict(StrEnum):
    """What a curve says of its distance."""

    PASSES = "passes"
    SATURATES = "saturates"
    FAILS = "fails"
    UNDEFINED = "undefined"


@dataclass(frozen=True, kw_only=True)
class DistanceCurve:
    """A distance over one test: values (levels, repeats) at levels `at` (levels,), NaN where undefined, and seconds a pair.

    `error` says why there are no values, where there are none.
    """

    distance: str
    test: str
    at: Array
    values: Array
    seconds: float = math.nan
    error: str = ""

    @property
    def mean(self) -> Array:
        """The mean over the repeats of each level that have a value, (levels,)."""
        return mean_over_repeats(self.values)

    @property
    def sd(self) -> Array:
        """The standard deviation over the repeats of each level that have a value, (levels,); NaN of fewer than two."""
        return deviation_over_repeats(self.values)


@dataclass(frozen=True, kw_only=True)
class Growth:
    """How a curve grows.

    trend      Spearman's correlation of distance and level over all repeats, with its one-sided p-value
    fall       how far the mean falls back below what it was before, as a share of its range
    reach      the share of the way after which the mean is within a hundredth of its range of its top
    spread     the largest standard deviation over repeats, as a share of the range
    undefined  pairs without a distance
    """

    verdict: Verdict
    trend: float
    p: float
    fall: float
    reach: float
    spread: float
    undefined: int


def curve(name: str, distance: Callable[[Tensor, Tensor], Tensor], test: Parting) -> DistanceCurve:
    """The distances of all maps of a test from its first; what the distance raises is kept as a sentence."""
    levels, repeats = test.others.shape[:2]
    others = test.others.flatten(0, 1)
    at = test.at.numpy()
    started = time.perf_counter()
    try:
        found = distance(test.first.expand_as(others).clone(), others.clone())
        if not isinstance(found, Tensor) or found.shape != (len(others),):
            shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise InputError(
                f"A distance gives one number a pair, a tensor of shape ({len(others)},) for {len(others)} pairs, not {shape}."
            )
    except Exception as error:
        return DistanceCurve(distance=name, test=test.name, at=at, values=np.full((levels, repeats), np.nan), error=said(error))
    seconds = (time.perf_counter() - started) / len(others)
    values = found.detach().cpu().to(torch.float64).numpy().reshape(levels, repeats)
    return DistanceCurve(distance=name, test=test.name, at=at, values=values, seconds=seconds)


def growth(at: Array, values: Array) -> Growth:
    """Whether values (levels, repeats) grow with levels (levels,).

    A distance passes if it follows the levels (p < .05, and its mean never falls back by more than a twentieth of its range)
    and still grows on the last third of the way; it saturates if it is at its top by then. It fails if it does not follow,
    and is undefined where a level has no value at all. Means are over the repeats that have one.

    >>> at = np.linspace(0.0, 1.0, 7)
    >>> [str(growth(at, curve[:, None]).verdict) for curve in (at, np.minimum(at, 0.25), at * (1 - at))]
    ['passes', 'saturates', 'fails']
    """
    defined = np.isfinite(values)
    undefined = int((~defined).sum())
    if not defined.any(axis=1).all():
        return Growth(
            verdict=Verdict.UNDEFINED, trend=math.nan, p=math.nan, fall=math.nan, reach=math.nan, spread=math.nan, undefined=undefined
        )
    mean = mean_over_repeats(values)
    low, high = float(mean.min()), float(mean.max())
    span = high - low
    trend, p = followed(np.broadcast_to(at[:, None], values.shape)[defined], values[defined])
    if span == 0.0:
        return Growth(verdict=Verdict.FAILS, trend=trend, p=p, fall=math.nan, reach=math.nan, spread=math.nan, undefined=undefined)
    fall = float((np.maximum.accumulate(mean) - mean).max()) / span
    top = at[int(np.argmax(mean >= low + FULL * span))]
    reach = float((top - at[0]) / (at[-1] - at[0]))
    deviations = deviation_over_repeats(values)
    spread = float(np.nanmax(deviations)) if np.isfinite(deviations).any() else math.nan
    follows = p < LEVEL and fall <= FALL
    verdict = (Verdict.PASSES if reach >= EARLY else Verdict.SATURATES) if follows else Verdict.FAILS
    return Growth(verdict=verdict, trend=trend, p=p, fall=fall, reach=reach, spread=spread / span, undefined=undefined)


def followed(levels: Array, values: Array) -> tuple[float, float]:
    """Spearman's correlation of values (n,) with levels (n,) and its one-sided p-value; NaN where values do not vary."""
    if len(values) < 3 or bool((values == values[0]).all()):
        return math.nan, math.nan
    from scipy import stats

    found = stats.spearmanr(levels, values, alternative="greater")
    return float(found.statistic), float(found.pvalue)


def mean_over_repeats(values: Array) -> Array:
    """The mean of what is defined in each row of (levels, repeats); NaN of nothing."""
    found: Array = np.ma.masked_invalid(values).mean(axis=1).filled(np.nan)
    return found


def deviation_over_repeats(values: Array) -> Array:
    """The standard deviation of what is defined in each row of (levels, repeats); NaN of fewer than two."""
    kept = np.ma.masked_invalid(values)
    if values.shape[1] < 2:
        return np.full(len(values), np.nan)
    return np.where(kept.count(axis=1) > 1, kept.std(axis=1, ddof=1).filled(np.nan), np.nan)
