"""From values (samples, draws) to a number with two intervals: one over the draws, one over the population of samples.

Samples are the unit and draws are nested in them: two draws of one sample are not two samples. Draws that all samples share
are crossed with them: more samples do not average a draw away. NaN is undefined, and is counted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veracity.core.errors import InputError
from veracity.core.walks import Sampling
from veracity.statistics.anytime import betting_interval
from veracity.statistics.crossed import crossed_interval
from veracity.statistics.differences import Difference, crossed_differences, differences
from veracity.statistics.intervals import Array, Interval, around, mean_interval, paired, satterthwaite, third_cumulant, unseen, welch

__all__ = [
    "Difference",
    "Estimate",
    "Interval",
    "crossed_differences",
    "crossed_interval",
    "differences",
    "estimate",
    "mean_interval",
    "paired",
    "unseen",
    "welch",
]

Counts = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A score's mean over samples, and how far to trust it.

    `low` to `high` is the interval for the population that the samples come from, NaN for a single sample; where samples
    share their draws it allows for other draws too. `draws_low` to `draws_high` is the interval for these very samples had
    every perturbation been drawn: no width where all were, NaN where it cannot be known (one draw per sample, or values that
    were reduced before). `n` samples have a value, `undefined` have none; `undefined_draws` counts the measurements that
    were made and came out undefined, `draws` is the mean number of measurements per sample. Where `bound`, the value is only
    known to lie at or below what it says; a low end of minus infinity is not known.

    Where all samples have the same value up to rounding, the interval has no width, which is not certainty: `unseen` is then
    the largest share of the population that may differ without having been seen, for these draws where draws are shared; else
    NaN.
    """

    value: float
    low: float
    high: float
    draws_low: float
    draws_high: float
    n: int
    undefined: int
    undefined_draws: int
    draws: float
    bound: bool = False
    unseen: float = np.nan


def estimate(
    values: Array, sampling: Sampling, bounds: tuple[float, float], *, confidence: float = 0.95, counts: Counts | None = None
) -> Estimate:
    """The mean over samples of their means over draws, with both intervals, cut to the `bounds` of a value.

    `values` (samples, draws) holds each sample's draws in their order, NaN where undefined, of which the first `counts[i]` of
    row i were made; without `counts` all were, or, where draws stopped by their values, all up to the last defined one.
    Values that are already one per sample, (samples,), have a population interval alone.

    >>> found = estimate(np.array([[1.0, 0.5], [0.5, 0.5]]), Sampling(population=8), (-1.0, 1.0))
    >>> found.value, round(found.draws_low, 3), found.draws_high, found.n
    (0.625, -0.75, 1.0, 2)
    """
    if values.ndim not in (1, 2):
        raise InputError(f"Values must have the shape (samples, draws) or (samples,), not {values.shape}.")
    table = values[:, None] if values.ndim == 1 else values
    made = drawn(table, sampling) if counts is None else counts
    defined = np.isfinite(table) & (np.arange(table.shape[1]) < made[:, None])
    kept = defined.any(axis=1)
    draws = Nested(np.where(defined, table, np.nan)[kept], made[kept], defined[kept].sum(axis=1))
    across = draws.population(sampling, confidence, scale(bounds))
    known = values.ndim == 2 or sampling.exhaustive
    over = draws.interval(sampling, bounds, confidence) if known else (np.nan, np.nan)
    return Estimate(
        value=across.value,
        low=cut(across.low, bounds),
        high=cut(across.high, bounds),
        draws_low=cut(over[0], bounds),
        draws_high=cut(over[1], bounds),
        n=across.n,
        undefined=int((~kept).sum()),
        undefined_draws=int(made.sum() - defined.sum()),
        draws=float(made.mean()) if len(made) else np.nan,
        unseen=unseen(across.n, confidence) if across.low == across.high else np.nan,
    )


@dataclass(frozen=True)
class Nested:
    """Draws of samples that have a value: values (n, draws), NaN where undefined or not made; how many made; how many defined."""

    values: Array
    made: Counts
    seen: Counts

    def means(self) -> Array:
        """Each sample's mean (n,)."""
        means: Array = np.nansum(self.values, axis=1) / self.seen
        return means

    def population(self, sampling: Sampling, confidence: float, scale: float) -> Interval:
        """The interval for the population: of the samples' means, or crossed where samples share their random draws.

        A single draw that all samples share says nothing about other draws: then there is no interval (NaN).
        """
        if not sampling.nested and not sampling.exhaustive:
            return crossed_interval(self.values, confidence, population=sampling.population, scale=scale)
        return mean_interval(self.means(), confidence, scale=scale)

    def interval(self, sampling: Sampling, bounds: tuple[float, float], confidence: float) -> tuple[float, float]:
        """The interval for the mean of these samples, over what might have been drawn."""
        if len(self.values) == 0:
            return np.nan, np.nan
        if sampling.exhaustive:
            value = float(self.means().mean())
            return value, value
        if not sampling.nested:
            return self.shared(sampling.population, confidence)
        if sampling.anytime is not None:
            return self.at_any_time(sampling.population, bounds, confidence)
        return self.at_fixed_size(sampling.population, confidence)

    def shared(self, population: int | None, confidence: float) -> tuple[float, float]:
        """For draws that all samples share: the interval of the m draws' means, with 1 - m / N of their variance."""
        means = np.nanmean(self.values[:, np.isfinite(self.values).any(axis=0)], axis=0)
        if len(means) < 2:
            return np.nan, np.nan
        left = 1.0 if population is None else 1.0 - len(means) / population
        error = float(means.std(ddof=1) * np.sqrt(left / len(means)))
        third = float(third_cumulant(means)) * left**1.5
        found = around(float(self.means().mean()), error, len(means) - 1, confidence, len(self.values), third=third)
        return found.low, found.high

    def at_any_time(self, population: int | None, bounds: tuple[float, float], confidence: float) -> tuple[float, float]:
        """The mean of the samples' own intervals, each at level 1 - alpha / n, so that all hold together however each stopped."""
        alpha = (1.0 - confidence) / len(self.values)
        low, high = betting_interval(self.values, self.made, bounds=bounds, alpha=alpha, population=population)
        return float(low.mean()), float(high.mean())

    def at_fixed_size(self, population: int | None, confidence: float) -> tuple[float, float]:
        """The interval of a mean with error sqrt(sum_i v_i) / n, v_i = s_i^2 / m_i (1 - m_i / N), and Satterthwaite's degrees of freedom.

        A sample with one defined draw has no variance of its own and takes the pooled one.
        """
        n = len(self.values)
        squares = np.nansum((self.values - self.means()[:, None]) ** 2, axis=1)
        freedom = self.seen - 1
        if freedom.sum() == 0:
            return np.nan, np.nan
        variance = np.where(freedom > 0, squares / np.maximum(freedom, 1), squares.sum() / freedom.sum())
        left = 1.0 if population is None else 1.0 - self.made / population
        parts: Array = variance / self.seen * left
        error, freedom = float(np.sqrt(parts.sum())) / n, np.maximum(freedom, 1)
        found = around(float(self.means().mean()), error, satterthwaite(parts, freedom), confidence, n)
        return found.low, found.high


def drawn(values: Array, sampling: Sampling) -> Counts:
    """How many draws of each row were made, if nobody says: all, or up to the last defined one where draws could stop."""
    width = values.shape[1]
    if sampling.anytime is None:
        return np.full(len(values), width, dtype=np.int64)
    place = np.where(np.isfinite(values), np.arange(1, width + 1), 0)
    return np.asarray(place.max(axis=1, initial=0), dtype=np.int64)


def scale(bounds: tuple[float, float]) -> float:
    """Beside which number a score's rounding is measured: 1 for a score with finite bounds of 1 or more, such as a cosine."""
    return float(min(1.0, max(abs(bounds[0]), abs(bounds[1])))) if np.isfinite(bounds).all() else 0.0


def cut(value: float, bounds: tuple[float, float]) -> float:
    """The value within the bounds; NaN stays NaN."""
    return float(np.clip(value, *bounds))
