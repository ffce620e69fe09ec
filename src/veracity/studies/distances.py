"""Maps that become more and more different from a first one, the curve of a distance along them, and whether it grows.

Reference: Fel et al. 2022, appendix F.
"""

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

from veracity.core.errors import InputError, error_text

Array = NDArray[np.float64]
LEVEL = 0.05
"""A trend counts if its p-value is below this."""
FALL = 0.05
"""A growing curve may fall by at most this share of its range."""
FULL = 0.99
"""A curve is at its top from this share of its range on."""
EARLY = 2 / 3
"""A curve that is at its top before this share of the path saturates."""


class Verdict(StrEnum):
    """How the curve of a distance behaves."""

    PASSES = "passes"
    SATURATES = "saturates"
    FAILS = "fails"
    UNDEFINED = "undefined"


@dataclass(frozen=True, kw_only=True)
class DistanceCurve:
    """A distance over one test: values (levels, repeats) at levels `at` (levels,), NaN where undefined, and seconds per pair.

    `error` says why there are no values.
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
    trend: float = math.nan
    p: float = math.nan
    fall: float = math.nan
    reach: float = math.nan
    spread: float = math.nan
    undefined: int


def curve(name: str, distance: Callable[[Tensor, Tensor], Tensor], test: Parting) -> DistanceCurve:
    """The distances of all maps of a test from its first one; an error of the distance is stored as a sentence."""
    shape, others, at = test.others.shape[:2], test.others.flatten(0, 1), test.at.numpy()
    started = time.perf_counter()
    try:
        found = distance(test.first.expand_as(others).clone(), others.clone())
        if not isinstance(found, Tensor) or found.shape != (len(others),):
            what = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise InputError(f"A distance gives one number per pair, a tensor of shape ({len(others)},), not {what}.")
    except Exception as error:
        return DistanceCurve(distance=name, test=test.name, at=at, values=np.full(shape, np.nan), error=error_text(error))
    seconds = (time.perf_counter() - started) / len(others)
    values = found.detach().cpu().to(torch.float64).numpy().reshape(shape)
    return DistanceCurve(distance=name, test=test.name, at=at, values=values, seconds=seconds)


def growth(at: Array, values: Array) -> Growth:
    """Whether values (levels, repeats) grow with levels (levels,).

    A distance passes if it follows the levels (p < 0.05, and its mean never falls by more than a twentieth of its range) and still grows
    in the last third of the path; it saturates if it has reached its top by then. It fails if it does not follow the levels, and is
    undefined if a level has no value. Means are over the defined repeats.

    >>> at = np.linspace(0.0, 1.0, 7)
    >>> [str(growth(at, curve[:, None]).verdict) for curve in (at, np.minimum(at, 0.25), at * (1 - at))]
    ['passes', 'saturates', 'fails']
    """
    defined = np.isfinite(values)
    undefined = int((~defined).sum())
    if not defined.any(axis=1).all():
        return Growth(verdict=Verdict.UNDEFINED, undefined=undefined)
    mean = mean_over_repeats(values)
    low, high = float(mean.min()), float(mean.max())
    span = high - low
    trend, p = rank_trend(np.broadcast_to(at[:, None], values.shape)[defined], values[defined])
    if span == 0.0:
        return Growth(verdict=Verdict.FAILS, trend=trend, p=p, undefined=undefined)
    fall = float((np.maximum.accumulate(mean) - mean).max()) / span
    top = at[int(np.argmax(mean >= low + FULL * span))]
    reach = float((top - at[0]) / (at[-1] - at[0]))
    deviations = deviation_over_repeats(values)
    spread = float(np.nanmax(deviations)) if np.isfinite(deviations).any() else math.nan
    follows = p < LEVEL and fall <= FALL
    verdict = (Verdict.PASSES if reach >= EARLY else Verdict.SATURATES) if follows else Verdict.FAILS
    return Growth(verdict=verdict, trend=trend, p=p, fall=fall, reach=reach, spread=spread / span, undefined=undefined)


def rank_trend(levels: Array, values: Array) -> tuple[float, float]:
    """Spearman's correlation of values (n,) with levels (n,) and its one-sided p-value; NaN if values do not vary."""
    if len(values) < 3 or bool((values == values[0]).all()):
        return math.nan, math.nan
    from scipy import stats

    found = stats.spearmanr(levels, values, alternative="greater")
    return float(found.statistic), float(found.pvalue)


def mean_over_repeats(values: Array) -> Array:
    """The mean of the defined values in each row of (levels, repeats); NaN if there are none."""
    found: Array = np.ma.masked_invalid(values).mean(axis=1).filled(np.nan)
    return found


def deviation_over_repeats(values: Array) -> Array:
    """The standard deviation of the defined values in each row of (levels, repeats); NaN for fewer than two."""
    kept = np.ma.masked_invalid(values)
    if values.shape[1] < 2:
        return np.full(len(values), np.nan)
    return np.where(kept.count(axis=1) > 1, kept.std(axis=1, ddof=1).filled(np.nan), np.nan)


SOFT, BROAD, DISC = 1 / 16, 1 / 8, 1 / 10
"""Widths as shares of a map's side: of a soft spot that moves, of the one under noise, and the radius of a disc."""
INSIDE = 3.0
"""How many widths a soft spot stays away from the map's edges, so its mass does not change."""


@dataclass(frozen=True, kw_only=True)
class Parting:
    """A first map (1, 1, S, S) and others (levels, repeats, 1, S, S) that differ from it more and more, at levels `at` (levels,)."""

    name: str
    at: Tensor
    first: Tensor
    others: Tensor


def spots(rows: Tensor, columns: Tensor, size: int, width: float) -> Tensor:
    """Gaussian spots exp(-r^2 / 2 width^2) around centres (L,) and (L,), as float64 maps (L, 1, size, size).

    >>> found = spots(torch.tensor([1.0]), torch.tensor([1.0]), 3, 1.0)[0, 0]
    >>> found[0]
    tensor([0.3679, 0.6065, 0.3679], dtype=torch.float64)
    """
    return torch.exp(-0.5 * (radius(rows, columns, size) / width) ** 2)


def discs(rows: Tensor, columns: Tensor, size: int, width: float) -> Tensor:
    """Discs of radius `width` around centres (L,) and (L,), as float64 maps (L, 1, size, size): 1 inside, 0 outside, a rim between."""
    return (width + 0.5 - radius(rows, columns, size)).clamp(0.0, 1.0)


def radius(rows: Tensor, columns: Tensor, size: int) -> Tensor:
    """The distance of every pixel from each centre, (L, 1, size, size)."""
    line = torch.arange(size, dtype=torch.float64)
    down, right = line[:, None] - rows.double()[:, None, None], line - columns.double()[:, None, None]
    return torch.hypot(down, right)[:, None]


def moving(size: int = 32, steps: int = 100, *, diagonal: bool = False, disc: bool = False) -> Parting:
    """A spot in the upper left corner and its way to the upper right one, or along the diagonal to the lower right one.

    `steps` maps of `size` pixels per side, centres evenly spaced; a soft spot of width S / 16 that is nowhere exactly zero, or a
    disc of radius S / 10 with nothing around it. Spots stay inside the map, so only their place changes. The level is the share
    of the path. Fel et al. 2022, appendix F.1.
    """
    width = size * (DISC if disc else SOFT)
    margin = width + 1.0 if disc else INSIDE * width
    at = torch.linspace(0.0, 1.0, steps, dtype=torch.float64)
    columns = margin + at * (size - 1 - 2 * margin)
    rows = columns if diagonal else torch.full_like(columns, margin)
    maps = (discs if disc else spots)(rows, columns, size, width)
    name = ("disc" if disc else "spot") + (", diagonal" if diagonal else "")
    return Parting(name=name, at=at, first=maps[:1], others=maps[:, None])


def noisy(size: int = 32, levels: int = 21, repeats: int = 50, *, generator: torch.Generator) -> Parting:
    """A soft spot of width S / 8 and height 1 in the middle, and copies x + e with e ~ N(0, sigma^2), sigma from 0 to 1.

    Every level is drawn `repeats` times anew from the generator. The level is sigma. Fel et al. 2022, appendix F.2.
    """
    middle = torch.tensor([(size - 1) / 2.0])
    first = spots(middle, middle, size, BROAD * size)
    at = torch.linspace(0.0, 1.0, levels, dtype=torch.float64)
    noise = torch.randn(levels, repeats, 1, size, size, generator=generator, dtype=torch.float64)
    return Parting(name="noise", at=at, first=first, others=first + at[:, None, None, None, None] * noise)


def partings(size: int = 32, steps: int = 100, repeats: int = 50, seed: int = 0) -> tuple[Parting, ...]:
    """The moving spot, along the edge and along the diagonal, the moving disc, and the noise."""
    noise = noisy(size, repeats=repeats, generator=torch.Generator().manual_seed(seed))
    return moving(size, steps), moving(size, steps, diagonal=True), moving(size, steps, disc=True), noise
