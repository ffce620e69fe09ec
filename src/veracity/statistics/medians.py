"""Medians over samples of censored values, which are only known to lie at or below a number; intervals by order statistics."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from veracity.statistics.differences import Difference, as_difference, equal_status
from veracity.statistics.intervals import EQUAL, Array, Interval, all_equal, largest_magnitude, t_quantile, unseen_share
from veracity.statistics.means import Estimate, clip_to
from veracity.statistics.units import Codes, independent, unit_values

SIMULATED = 4000
"""The number of simulated medians for the interval over draws."""

Flags = NDArray[np.bool_]
Range = tuple[float, float]


def median_estimate(
    values: Array,
    errors: Array | None,
    bounds: Range,
    *,
    censored: Flags | None = None,
    confidence: float = 0.95,
    units: Codes | None = None,
) -> Estimate:
    """The median over samples (n,); values that are `censored` are only known to lie at or below their number.

    If that could move the median, the value is an upper bound, and `bound` is True. The population interval lies between two order
    statistics, which is exact for any distribution: the lower end takes censored values as minus infinity, the upper end as they are.
    It needs enough samples, six at 95 %, and is NaN otherwise. The interval over draws needs the standard error of every sample,
    `errors` (n,): it is the quantile range of the medians of normal values around the given ones. A value that is not censored and
    has no finite error may lie anywhere. With `units` (n,), samples of one unit belong together (see `order_statistic_interval`).

    >>> values = np.array([-100.0, -30.0, -20.0, -10.0, -9.0, -8.0])
    >>> found = median_estimate(values, None, (-np.inf, 0.0), censored=values == -100.0)
    >>> found.value, found.low, found.high, found.bound
    (-15.0, -inf, -8.0, False)
    """
    kept = np.isfinite(values)
    lower, upper = censored_range(values[kept], None if censored is None else censored[kept])
    own = None if units is None else units[kept]
    low, high = order_statistic_interval(lower, upper, confidence, own)
    over = interval_over_draws(lower, upper, errors[kept], confidence) if errors is not None and len(upper) else (math.nan, math.nan)
    least, most, size = median(lower), median(upper), independent(kept, units)
    return Estimate(
        value=float(most),
        low=clip_to(low, bounds),
        high=clip_to(high, bounds),
        draws_low=clip_to(over[0], bounds),
        draws_high=clip_to(over[1], bounds),
        n=int(kept.sum()),
        undefined=int((~kept).sum()),
        undefined_draws=0,
        draws=1.0,
        bound=bool(least < most),
        unseen=unseen_share(size, confidence) if size > 1 and all_equal(upper) and all_equal(lower) else math.nan,
        units=None if units is None else size,
    )


def censored_range(values: Array, censored: Flags | None) -> tuple[Array, Array]:
    """The smallest and the largest number that each value can be: minus infinity and itself if it is censored, else itself."""
    return (values if censored is None else np.where(censored, -np.inf, values)), values


def median(table: Array) -> Array:
    """The median along the last axis; NaN if the axis is empty. Values may be infinite on one side only.

    >>> float(median(np.array([-np.inf, -3.0, -1.0]))), float(median(np.array([-np.inf, -3.0])))
    (-3.0, -inf)
    """
    n = table.shape[-1]
    ordered = np.sort(table, axis=-1)
    found: Array = (ordered[..., (n - 1) // 2] + ordered[..., n // 2]) / 2 if n else np.full(table.shape[:-1], np.nan)
    return found


def order_statistic_interval(lower: Array, upper: Array, confidence: float, units: Codes | None = None) -> Range:
    """The innermost order statistics of values between `lower` and `upper` (n,) that cover the median with this confidence.

    With `units` (n,), samples of one unit belong together: the ranks are those at which the interval of the share of samples at or below
    the median ends, which is n / 2 (1 -+ width). Its error is that of the units, and never smaller than that of independent samples
    (Woodruff, Confidence intervals for medians and other position measures, JASA 1952).

    >>> table = np.arange(6.0)
    >>> order_statistic_interval(table, table, 0.95)
    (0.0, 5.0)
    """
    from scipy import stats

    rank = int(stats.binom.ppf((1.0 - confidence) / 2, len(upper), 0.5)) if len(upper) else 0
    rank = rank if units is None else min(rank, rank_over_units(lower, upper, confidence, units))
    if rank < 1:
        return math.nan, math.nan
    return float(np.sort(lower)[rank - 1]), float(np.sort(upper)[len(upper) - rank])


def rank_over_units(lower: Array, upper: Array, confidence: float, units: Codes) -> int:
    """The rank of the lower end of a median's interval if samples of one unit belong together; 0 if there are too few units."""
    n, size = len(upper), len(np.unique(units))
    if size < 2:
        return 0
    shares = [unit_values((table <= median(table)).astype(np.float64), units) for table in (lower, upper)]
    error = max(float(share.std(ddof=1)) / math.sqrt(size) for share in shares)
    return math.floor(n * (0.5 - float(t_quantile(confidence, size - 1)) * error))


def interval_over_draws(lower: Array, upper: Array, errors: Array, confidence: float) -> Range:
    """The quantile range of simulated medians: values (n,) plus normal noise; a value with an unknown error may lie anywhere."""
    known = np.isfinite(errors)
    noise = np.where(known, errors, 0.0) * np.random.Generator(np.random.Philox(0)).standard_normal((SIMULATED, len(errors)))
    anywhere = ~known & np.isfinite(lower)
    low, high = median(np.where(anywhere, -np.inf, lower) + noise), median(np.where(anywhere, np.inf, upper) + noise)
    place = math.floor((1 - confidence) / 2 * (SIMULATED - 1))
    return float(np.sort(low)[place]), float(np.sort(high)[SIMULATED - 1 - place])


def median_differences(
    values: Mapping[str, Array], censored: Mapping[str, Flags], confidence: float = 0.95, *, units: Codes | None = None
) -> list[Difference]:
    """Every pair's median difference over samples (n,), by order statistics, with Bonferroni's correction over all pairs.

    If the first of two values is `censored`, their difference is an upper bound; if the second is, a lower bound; if both are, the
    difference is unknown. No sample is left out because of this: the ends of the interval are order statistics of the smallest and
    of the largest number that each difference can be, and are infinite if enough of these are.

    >>> floor = np.full(8, -100.0)
    >>> (row,) = median_differences({"a": np.arange(-20.0, -12.0), "b": floor}, {"a": floor > 0, "b": floor < 0})
    >>> row.bound, row.difference, row.low, row.high, row.differs
    ('at least', 83.5, 80.0, inf, True)
    """
    pairs = list(combinations(values, 2))
    level = 1.0 - (1.0 - confidence) / max(1, len(pairs))
    found = []
    for first, second in pairs:
        seen = np.isfinite(values[first]) & np.isfinite(values[second])
        gap = values[first][seen] - values[second][seen]
        lower, upper = np.where(censored[first][seen], -np.inf, gap), np.where(censored[second][seen], np.inf, gap)
        ends = order_statistic_interval(lower, upper, level, None if units is None else units[seen])
        row = censored_difference(first, second, (float(median(lower)), float(median(upper))), ends, len(gap))
        scale = largest_magnitude(values[first][seen], values[second][seen])
        if row.status == "ok" and np.isfinite(lower).all() and np.isfinite(upper).all() and all_equal(gap, scale):
            status, share = equal_status(row.difference, EQUAL * scale), unseen_share(independent(seen, units), confidence, len(pairs))
            row = replace(row, differs=False, status=status, unseen=share)
        found.append(row)
    return found


def independent_median_difference(
    values: Mapping[str, Array],
    censored: Mapping[str, Flags],
    confidence: float = 0.95,
    *,
    units: tuple[Codes | None, Codes | None] = (None, None),
) -> Difference:
    """The difference between the medians of two independent groups, first - second; n is the smaller group's size.

    Its interval comes from those of the two medians, each at level 1 - alpha / 2, so that both hold at once for any distribution.

    >>> groups = {"a": np.arange(7.0), "b": np.arange(10.0, 18.0)}
    >>> row = independent_median_difference(groups, {name: values > 99 for name, values in groups.items()})
    >>> row.difference, row.low, row.high, row.n
    (-10.5, -17.0, -4.0, 7)
    """
    (first, one), (second, other) = (
        (name, censored_range(table[np.isfinite(table)], censored[name][np.isfinite(table)])) for name, table in values.items()
    )
    level = 1.0 - (1.0 - confidence) / 2
    own = [None if codes is None else codes[np.isfinite(table)] for codes, table in zip(units, values.values(), strict=True)]
    (low, high), (under, over) = (order_statistic_interval(*group, level, codes) for group, codes in zip((one, other), own, strict=True))
    (least, most), (little, much) = ((float(median(group[0])), float(median(group[1]))) for group in (one, other))
    n = min(len(one[1]), len(other[1]))
    row = censored_difference(first, second, (least - much, most - little), (low - over, high - under), n)
    if row.low == row.high:
        size = min(independent(np.isfinite(table), codes) for codes, table in zip(units, values.values(), strict=True))
        return replace(row, differs=False, status=equal_status(row.difference, 0.0), unseen=unseen_share(size, confidence))
    return row


def censored_difference(first: str, second: str, centre: Range, ends: Range, n: int) -> Difference:
    """A difference that lies between the two numbers `centre`: the value if they agree, else the more informative bound, or NaN."""
    (least, most), (low, high) = centre, ends
    value, bound = math.nan, ""
    if least == most:
        value = most
    elif math.isfinite(least) and (least > 0 or not math.isfinite(most)):
        value, bound = least, "at least"
    elif math.isfinite(most) and (most < 0 or not math.isfinite(least)):
        value, bound = most, "at most"
    return replace(as_difference(first, second, Interval(value=value, low=low, high=high, n=n), False, 0.0, math.nan), bound=bound)
