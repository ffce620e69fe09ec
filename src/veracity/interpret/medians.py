"""Medians over samples, for values of which some are only known to lie below a floor."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from veracity.interpret.differences import Difference
from veracity.interpret.intervals import Array
from veracity.interpret.statistics import Estimate, cut

MEDIANS = 4000
"""How often each sample's error is drawn for the interval of a median."""


def middle(values: Array, errors: Array | None, bounds: tuple[float, float], *, confidence: float = 0.95) -> Estimate:
    """The median over samples (n,), for values that may be censored: whatever lies below it, how far below does not matter.

    The population interval lies between two order statistics, exact for any distribution; there is none (NaN) for fewer
    samples than it needs, six at 95 %. The interval over draws takes each sample's value for normal around itself with its
    own standard error, where there are `errors` (n,), and is the range of the medians that come about.

    >>> found = middle(np.array([-100.0, -30.0, -20.0, -10.0, -9.0, -8.0]), None, (-np.inf, 0.0))
    >>> found.value, found.low, found.high
    (-15.0, -100.0, -8.0)
    """
    kept = np.isfinite(values)
    table = np.sort(values[kept])
    low, high = medians(table, confidence)
    over = (np.nan, np.nan)
    if errors is not None and len(table):
        own = np.nan_to_num(errors[kept], nan=0.0)
        noise = np.random.Generator(np.random.Philox(0)).standard_normal((MEDIANS, len(own)))
        found = np.median(values[kept] + own * noise, axis=1)
        over = (float(np.quantile(found, (1 - confidence) / 2)), float(np.quantile(found, (1 + confidence) / 2)))
    return Estimate(
        value=float(np.median(table)) if len(table) else np.nan,
        low=cut(low, bounds),
        high=cut(high, bounds),
        draws_low=cut(over[0], bounds),
        draws_high=cut(over[1], bounds),
        n=int(kept.sum()),
        undefined=int((~kept).sum()),
        undefined_draws=0,
        draws=1.0,
    )


def medians(table: Array, confidence: float) -> tuple[float, float]:
    """The innermost pair of order statistics of sorted values (n,) that holds the median with at least this confidence."""
    rank = int(stats.binom.ppf((1.0 - confidence) / 2, len(table), 0.5)) if len(table) else 0
    if rank < 1:
        return np.nan, np.nan
    return float(table[rank - 1]), float(table[len(table) - rank])


def median_differences(
    values: Mapping[str, Array], censored: Mapping[str, NDArray[np.bool_]], confidence: float = 0.95
) -> list[Difference]:
    """Every pair's median difference over samples, by order statistics, with Bonferroni's correction for all pairs at once.

    Where the lower of two values is `censored`, the difference is at least as far from zero as it looks, which a median does
    not mind; where the upper one is, or both are, nothing is known about it, and the sample is left out.

    >>> floor = np.full(8, -100.0)
    >>> (row,) = median_differences({"a": np.arange(-20.0, -12.0), "b": floor}, {"a": floor > 0, "b": floor < 0})
    >>> row.difference, row.low, row.high, row.differs
    (83.5, 80.0, 87.0, True)
    """
    pairs = list(combinations(values, 2))
    level = 1.0 - (1.0 - confidence) / max(1, len(pairs))
    found = []
    for first, second in pairs:
        gap = values[first] - values[second]
        unknown = (censored[first] & (gap >= 0)) | (censored[second] & (gap <= 0)) | (censored[first] & censored[second])
        table = np.sort(gap[np.isfinite(gap) & ~unknown])
        low, high = medians(table, level)
        middle_of = float(np.median(table)) if len(table) else np.nan
        status = "too few" if np.isnan(low) else "exact" if low == high else "ok"
        found.append(
            Difference(
                first=first,
                second=second,
                difference=middle_of,
                low=low,
                high=high,
                n=len(table),
                differs=bool(low > 0 or high < 0),
                status=status,
            )
        )
    return found
