"""The mean of values (samples, draws) with two intervals: one over draws, one over the population of samples.

Samples are the unit, and draws are nested in them: two draws of one sample are not two samples. Draws that all samples share are
crossed with the samples: more samples do not average a draw out. NaN values are undefined; they are counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from veracity.core.errors import InputError
from veracity.core.walks import Sampling
from veracity.statistics.anytime import betting_interval
from veracity.statistics.crossed import crossed_interval
from veracity.statistics.intervals import Array, Interval, mean_interval, satterthwaite, t_interval, third_cumulant, unseen_share
from veracity.statistics.units import Codes, independent

Counts = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A score's mean (or median) over samples with its uncertainty.

    low, high              interval for the population of the samples; NaN for a single sample. If samples share their draws, the
                           interval allows for other draws too.
    draws_low, draws_high  interval for the mean of these samples over all perturbations. It has no width if all were drawn, and is
                           NaN if it is unknown (one draw per sample, or values that were reduced before).
    n, undefined           number of samples with and without a value
    undefined_draws        number of measurements that were made and are undefined
    draws                  mean number of measurements per sample
    bound                  whether the value is only an upper bound; `low` is then minus infinity if it is unknown
    units                  number of units with a value, if samples belong to units such as patients; else None
    unseen                 if all samples have the same value up to rounding, the interval has no width, which is not certainty:
                           an upper bound on the share of the population that differs, for these draws if they are shared; else NaN
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
    units: int | None = None


def estimate(
    values: Array,
    sampling: Sampling,
    bounds: tuple[float, float],
    *,
    confidence: float = 0.95,
    counts: Counts | None = None,
    units: Codes | None = None,
) -> Estimate:
    """The mean over samples of their means over draws, with both intervals, clipped to the `bounds` of a value.

    Row i of `values` (samples, draws) holds the draws of sample i in order, NaN where undefined, of which the first `counts[i]` were
    made. Without `counts` all were made; if the walk stops because of the values, all up to the last defined one. Values of shape
    (samples,), one per sample, have a population interval only. With `units` (samples,), samples of one unit belong together: the
    population interval is for other units.

    >>> found = estimate(np.array([[1.0, 0.5], [0.5, 0.5]]), Sampling(population=8), (-1.0, 1.0))
    >>> found.value, round(found.draws_low, 3), found.draws_high, found.n
    (0.625, -0.75, 1.0, 2)
    """
    if values.ndim not in (1, 2):
        raise InputError(f"Values must have shape (samples, draws) or (samples,), not {values.shape}.")
    table = values[:, None] if values.ndim == 1 else values
    made = draw_counts(table, sampling) if counts is None else counts
    if table.shape[1] and bool((made >= table.shape[1]).all()) and bool(np.isfinite(table).all()):  # no copies of millions of values
        seen, lost = table.size, 0
        draws = NestedDraws(table, made, np.full(len(table), table.shape[1]), units)
    else:
        defined = np.isfinite(table) & (np.arange(table.shape[1]) < made[:, None])
        kept = defined.any(axis=1)
        seen, lost = int(defined.sum()), int((~kept).sum())
        own = None if units is None else units[kept]
        draws = NestedDraws(np.where(defined, table, np.nan)[kept], made[kept], defined[kept].sum(axis=1), own)
    across = draws.population(sampling, confidence, rounding_scale(bounds))
    known = values.ndim == 2 or sampling.exhaustive
    over = draws.interval(sampling, bounds, confidence) if known else (np.nan, np.nan)
    return Estimate(
        value=across.value,
        low=clip_to(across.low, bounds),
        high=clip_to(across.high, bounds),
        draws_low=clip_to(over[0], bounds),
        draws_high=clip_to(over[1], bounds),
        n=across.n,
        undefined=lost,
        undefined_draws=int(made.sum()) - seen,
        draws=float(made.mean()) if len(made) else np.nan,
        unseen=unseen_share(draws.independent, confidence) if across.low == across.high else np.nan,
        units=None if units is None else draws.independent,
    )


@dataclass(frozen=True)
class NestedDraws:
    """Draws of samples that have a value: values (n, draws), NaN if undefined or not made; how many were made and are defined (n,).

    `units` (n,) say which samples belong together; None if none do.
    """

    values: Array
    made: Counts
    seen: Counts
    units: Codes | None = None

    @property
    def independent(self) -> int:
        """How many units there are, or samples if there are no units."""
        return independent(np.ones(len(self.values), dtype=np.bool_), self.units)

    @cached_property
    def means(self) -> Array:
        """Each sample's mean (n,)."""
        return np.asarray(self.sums(self.values) / self.seen)

    def sums(self, table: Array) -> Array:
        """The sum of the defined entries of each row (n,) of a table (n, draws)."""
        whole = bool((self.seen == table.shape[1]).all())
        return np.asarray(table.sum(axis=1) if whole else np.nansum(table, axis=1))

    def population(self, sampling: Sampling, confidence: float, scale: float) -> Interval:
        """The population interval: that of the samples' means, or the crossed one if samples share their random draws.

        A single shared draw says nothing about other draws, so it has no interval (NaN).
        """
        if not sampling.nested and not sampling.exhaustive:
            return crossed_interval(self.values, confidence, population=sampling.population, scale=scale, units=self.units)
        return mean_interval(self.means, confidence, scale=scale, units=self.units)

    def interval(self, sampling: Sampling, bounds: tuple[float, float], confidence: float) -> tuple[float, float]:
        """The interval over draws: for the mean of these samples over all perturbations."""
        if len(self.values) == 0:
            return np.nan, np.nan
        if sampling.exhaustive:
            value = float(self.means.mean())
            return value, value
        if not sampling.nested:
            return self.shared(sampling.population, confidence)
        if sampling.anytime is not None:
            return self.at_any_time(sampling.population, bounds, confidence)
        return self.at_fixed_size(sampling.population, confidence)

    def shared(self, population: int | None, confidence: float) -> tuple[float, float]:
        """For shared draws: the interval of the means of the m draws, whose variance is multiplied by 1 - m / N."""
        means = np.nanmean(self.values[:, np.isfinite(self.values).any(axis=0)], axis=0)
        if len(means) < 2:
            return np.nan, np.nan
        left = 1.0 if population is None else 1.0 - len(means) / population
        error = float(means.std(ddof=1) * np.sqrt(left / len(means)))
        third = float(third_cumulant(means)) * left**1.5
        found = t_interval(float(self.means.mean()), error, len(means) - 1, confidence, len(self.values), third=third)
        return found.low, found.high

    def at_any_time(self, population: int | None, bounds: tuple[float, float], confidence: float) -> tuple[float, float]:
        """For walks that stop because of their values: the mean of the samples' anytime-valid intervals, each at level 1 - alpha / n."""
        alpha = (1.0 - confidence) / len(self.values)
        low, high = betting_interval(self.values, self.made, bounds=bounds, alpha=alpha, population=population)
        return float(low.mean()), float(high.mean())

    def at_fixed_size(self, population: int | None, confidence: float) -> tuple[float, float]:
        """The t interval with error sqrt(sum_i v_i) / n, v_i = s_i^2 / m_i (1 - m_i / N), and Satterthwaite's degrees of freedom.

        A sample with one defined draw takes the pooled variance.
        """
        n = len(self.values)
        squares = self.sums((self.values - self.means[:, None]) ** 2)
        freedom = self.seen - 1
        if freedom.sum() == 0:
            return np.nan, np.nan
        variance = np.where(freedom > 0, squares / np.maximum(freedom, 1), squares.sum() / freedom.sum())
        left = 1.0 if population is None else 1.0 - self.made / population
        parts: Array = variance / self.seen * left
        error, freedom = float(np.sqrt(parts.sum())) / n, np.maximum(freedom, 1)
        found = t_interval(float(self.means.mean()), error, satterthwaite(parts, freedom), confidence, n)
        return found.low, found.high


def draw_counts(values: Array, sampling: Sampling) -> Counts:
    """The number of draws made per row (n,): all, or up to the last defined one if the walk stops because of its values."""
    made = np.ones_like(values, dtype=np.bool_) if sampling.anytime is None else np.isfinite(values)
    return np.asarray(np.where(made, np.arange(1, values.shape[1] + 1), 0).max(axis=1, initial=0), dtype=np.int64)


def rounding_scale(bounds: tuple[float, float]) -> float:
    """The number relative to which rounding is measured: at most 1 for a score with finite bounds, 0 otherwise."""
    return float(min(1.0, max(abs(bounds[0]), abs(bounds[1])))) if np.isfinite(bounds).all() else 0.0


def clip_to(value: float, bounds: tuple[float, float]) -> float:
    """The value clipped to the bounds; NaN stays NaN."""
    return float(np.clip(value, *bounds))
