"""Anytime-valid confidence intervals for the mean of bounded values, by betting.

For every candidate mean m, one player bets draw by draw that the values lie above m, and another that they lie below. If m is
the mean, neither player's capital is expected to grow. By Ville's inequality, the probability that either capital ever reaches
2 / alpha is then at most alpha. The interval holds the candidates at which neither has reached it. You may look at the interval
after every draw, and stop sampling because of what it shows.

    K+_t(m) = prod_i (1 + min(bet_i, c / m_i) (x_i - m_i)),   K-_t(m) = prod_i (1 - min(bet_i, c / (1 - m_i)) (x_i - m_i))

with values x in [0, 1], bets that depend only on earlier draws (the predictable plug-in), c = 0.9, and m_i = m for independent
draws. For distinct draws from a population of N, m_i = (N m - sum of earlier values) / (N - i + 1) is the mean of the remaining
elements if m is the mean of all. K+ falls and K- rises with m, so bisection finds the ends.

Reference: Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting (JRSS B 2023), the hedged capital
process and its form for sampling without replacement.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veracity.core.errors import InputError

Array = NDArray[np.float64]
Counts = NDArray[np.int64]

LARGEST_BET = 0.9
BISECTIONS = 14
OUTSIDE = 1e-6
"""How far a value may lie outside its bounds because of rounding, as a share of the range."""


@dataclass(kw_only=True)
class Betting:
    """The running intervals of n samples, updated draw by draw. They only ever narrow (the running intersection).

    `means` (n,) are the means of the defined draws so far, NaN if there are none.

    >>> bets = Betting.start(2, bounds=(0.0, 1.0), alpha=0.05, population=4)
    >>> bets.update(np.array([0]), np.array([[0.25, 0.5, 0.75, 0.5]]))
    >>> bets.interval()
    (array([0.5, 0. ]), array([0.5, 1. ]))
    """

    bounds: tuple[float, float]
    alpha: float
    population: int | None
    values: Array
    counts: Counts
    means: Array
    lower: Array
    upper: Array

    @classmethod
    def start(cls, samples: int, *, bounds: tuple[float, float], alpha: float, population: int | None = None) -> Betting:
        """The state before the first draw: every interval is the whole range."""
        to_unit(np.empty((0, 0)), bounds)
        return cls(
            bounds=bounds,
            alpha=alpha,
            population=population,
            values=np.full((samples, 0), np.nan),
            counts=np.zeros(samples, dtype=np.int64),
            means=np.full(samples, np.nan),
            lower=np.full(samples, bounds[0]),
            upper=np.full(samples, bounds[1]),
        )

    def update(self, rows: Counts, values: Array) -> None:
        """Add the next draws (k, b) of the samples `rows` (k,) in order; NaN is an undefined draw."""
        column = self.counts[rows, None] + np.arange(values.shape[1])
        short = int(column.max(initial=-1)) + 1 - self.values.shape[1]
        if short > 0:
            room = max(short, self.values.shape[1])
            self.values = np.concatenate((self.values, np.full((len(self.values), room), np.nan)), axis=1)
        self.values[rows[:, None], column] = values
        self.counts[rows] += values.shape[1]
        counts = self.counts[rows]
        seen = self.values[rows, : int(counts.max(initial=0))]
        self.means[rows] = defined_mean(seen, ~np.isnan(seen))
        lower, upper = betting_interval(seen, counts, bounds=self.bounds, alpha=self.alpha, population=self.population)
        self.lower[rows], self.upper[rows] = np.maximum(self.lower[rows], lower), np.minimum(self.upper[rows], upper)

    def interval(self) -> tuple[Array, Array]:
        """Lower and upper ends (n,), extended to the observed mean if they leave it out."""
        return np.fmin(self.lower, self.means), np.fmax(self.upper, self.means)


def betting_interval(
    values: Array, counts: Counts, *, bounds: tuple[float, float], alpha: float, population: int | None = None
) -> tuple[Array, Array]:
    """Anytime-valid intervals of level 1 - alpha for the means of n samples: lower and upper ends (n,).

    Row i of `values` (n, T) holds the draws of sample i in order, of which the first `counts[i]` were made; NaN is an undefined
    draw. The ends are accurate to 2^-14 of the range, err on the wide side, and always enclose the observed mean.

    The interval is for the mean over the defined elements. Undefined independent draws are skipped. In a `population` of distinct
    draws the number of remaining undefined elements is unknown, so an undefined draw counts as the smallest value for the lower
    end and as the largest value for the upper end. Once the population is exhausted, the interval is the mean itself.

    >>> low, high = betting_interval(np.full((1, 100), 0.9), np.array([100]), bounds=(-1.0, 1.0), alpha=0.05)
    >>> low.round(2), high.round(2)
    (array([0.82]), array([0.93]))
    """
    x = to_unit(values, bounds)
    drawn = np.arange(x.shape[1]) < counts[:, None]
    defined = drawn & ~np.isnan(x)
    bets = plug_in_bets(x, defined, alpha)
    log_capital = np.log(2.0 / alpha)
    counted = defined if population is None else drawn
    lower = lower_bound(np.where(defined, x, 0.0), counted, bets, log_capital, population)
    upper = 1.0 - lower_bound(np.where(defined, 1.0 - x, 0.0), counted, bets, log_capital, population)
    (low, high), mean = bounds, defined_mean(values, defined)
    lower, upper = np.fmin(low + (high - low) * lower, mean), np.fmax(low + (high - low) * upper, mean)
    exhausted = ~np.isnan(mean) & (False if population is None else counts >= population)
    return np.where(exhausted, mean, lower), np.where(exhausted, mean, upper)


def to_unit(values: Array, bounds: tuple[float, float]) -> Array:
    """Values rescaled from their bounds to [0, 1]; raises if one lies outside them."""
    low, high = bounds
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise InputError(f"An anytime-valid interval needs values with finite bounds, not {low} to {high}.")
    x = (values - low) / (high - low)
    outside = (x < -OUTSIDE) | (x > 1.0 + OUTSIDE)
    if outside.any():
        raise InputError(f"Values must lie between {low} and {high}; found {values[outside][0]}.")
    return np.clip(x, 0.0, 1.0)


def defined_mean(x: Array, defined: NDArray[np.bool_]) -> Array:
    """Each row's mean over its defined draws; NaN if there are none."""
    count = defined.sum(axis=1)
    return np.where(count > 0, np.where(defined, x, 0.0).sum(axis=1) / np.maximum(count, 1), np.nan)


def plug_in_bets(x: Array, defined: NDArray[np.bool_], alpha: float) -> Array:
    """Bets (n, T): sqrt(2 log(2 / alpha) / (var_{t-1} t log(1 + t))), with the variance of the defined draws before t."""
    seen = np.cumsum(defined, axis=1)
    filled = np.where(defined, x, 0.0)
    mean = (0.5 + np.cumsum(filled, axis=1)) / (seen + 1.0)
    variance = (0.25 + np.cumsum(np.where(defined, (filled - mean) ** 2, 0.0), axis=1)) / (seen + 1.0)
    before = np.concatenate((np.full((len(x), 1), 0.25), variance[:, :-1]), axis=1)
    turn = np.maximum(seen, 1)
    bets: Array = np.sqrt(2.0 * np.log(2.0 / alpha) / (before * turn * np.log1p(turn)))
    return bets


def lower_bound(x: Array, drawn: NDArray[np.bool_], bets: Array, log_capital: float, population: int | None) -> Array:
    """The largest m (n,) at which the bets on larger values have earned exp(log_capital), rounded down by at most 2^-14."""
    if population is None:
        past, left, scale = np.zeros((1, 1)), np.ones((1, 1)), 1.0
        low, high = np.zeros(len(x)), np.ones(len(x))
    else:
        turn, total = np.cumsum(drawn, axis=1), np.cumsum(x, axis=1)
        past, left, scale = total - x, np.maximum(population - turn + 1.0, 1.0), float(population)
        count, known = drawn.sum(axis=1), x.sum(axis=1)
        low, high = known / population, (known + np.maximum(population - count, 0)) / population
    bets = np.where(drawn, bets, 0.0)
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        mean = np.clip((scale * middle[:, None] - past) / left, 1e-12, 1.0)
        wealth = np.log(1.0 + np.minimum(bets, LARGEST_BET / mean) * (x - mean)).sum(axis=1)
        earned = wealth >= log_capital
        low, high = np.where(earned, middle, low), np.where(earned, high, middle)
    return low
