"""Medians over samples, for values of which some are only known to lie at or below a place."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from veracity.statistics.differences import Difference, alike_status
from veracity.statistics.intervals import EQUAL, Array, equal, largest, unseen
from veracity.statistics.means import Estimate, cut

MEDIANS = 4000
"""How often each sample's error is drawn for the interval of a median."""

Flags = NDArray[np.bool_]
Range = tuple[float, float]


def middle(values: Array, errors: Array | None, bounds: Range, *, censored: Flags | None = None, confidence: float = 0.95) -> Estimate:
    """The median over samples (n,), of which those that are `censored` are only known to lie at or below their value.

    Where that could move the median, the value is what it lies at or below, and `bound` says so. The population interval lies
    between two order statistics, exact for any distribution: the lower end takes censored values for minus infinity, the upper
    one for what they are. There is none (NaN) for fewer samples than it needs, six at 95 %. The interval over draws takes each
    sample's value for normal around itself with its own standard error, where there are `errors` (n,), and is the range of
    the medians that come about; a value that is not censored and has no finite error may lie anywhere.

    >>> values = np.array([-100.0, -30.0, -20.0, -10.0, -9.0, -8.0])
    >>> found = middle(values, None, (-np.inf, 0.0), censored=values == -100.0)
    >>> found.value, found.low, found.high, found.bound
    (-15.0, -inf, -8.0, False)
    """
    kept = np.isfinite(values)
    lower, upper = between(values[kept], None if censored is None else censored[kept])
    low, high = order_ends(lower, upper, confidence)
    over = redrawn(lower, upper, errors[kept], confidence) if errors is not None and len(upper) else (math.nan, math.nan)
    least, most = central(lower), central(upper)
    return Estimate(
        value=float(most),
        low=cut(low, bounds),
        high=cut(high, bounds),
        draws_low=cut(over[0], bounds),
        draws_high=cut(over[1], bounds),
        n=int(kept.sum()),
        undefined=int((~kept).sum()),
        undefined_draws=0,
        draws=1.0,
        bound=bool(least < most),
        unseen=unseen(len(upper), confidence) if len(upper) > 1 and equal(upper) and equal(lower) else math.nan,
    )


def between(values: Array, censored: Flags | None) -> tuple[Array, Array]:
    """What each value lies between: minus infinity and itself if it is censored, else itself twice."""
    return (values if censored is None else np.where(censored, -np.inf, values)), values


def central(table: Array) -> Array:
    """The median along the last axis, infinite where it is; NaN of nothing. Values may be infinite on one side alone.

    >>> float(central(np.array([-np.inf, -3.0, -1.0]))), float(central(np.array([-np.inf, -3.0])))
    (-3.0, -inf)
    """
    n = table.shape[-1]
    ordered = np.sort(table, axis=-1)
    found: Array = (ordered[..., (n - 1) // 2] + ordered[..., n // 2]) / 2 if n else np.full(table.shape[:-1], np.nan)
    return found


def order_ends(lower: Array, upper: Array, confidence: float) -> Range:
    """The innermost order statistics (n,) that hold the median with at least this confidence, of values between `lower` and `upper`.

    >>> table = np.arange(6.0)
    >>> order_ends(table, table, 0.95)
    (0.0, 5.0)
    """
    from scipy import stats

    rank = int(stats.binom.ppf((1.0 - confidence) / 2, len(upper), 0.5)) if len(upper) else 0
    if rank < 1:
        return math.nan, math.nan
    return float(np.sort(lower)[rank - 1]), float(np.sort(upper)[len(upper) - rank])


def redrawn(lower: Array, upper: Array, errors: Array, confidence: float) -> Range:
    """The range of the medians of values (n,) drawn around themselves; one whose error is not known may lie anywhere it could."""
    known = np.isfinite(errors)
    noise = np.where(known, errors, 0.0) * np.random.Generator(np.random.Philox(0)).standard_normal((MEDIANS, len(errors)))
    anywhere = ~known & np.isfinite(lower)
    low, high = central(np.where(anywhere, -np.inf, lower) + noise), central(np.where(anywhere, np.inf, upper) + noise)
    place = math.floor((1 - confidence) / 2 * (MEDIANS - 1))
    return float(np.sort(low)[place]), float(np.sort(high)[MEDIANS - 1 - place])


def median_differences(values: Mapping[str, Array], censored: Mapping[str, Flags], confidence: float = 0.95) -> list[Difference]:
    """Every pair's median difference over samples (n,), by order statistics, with Bonferroni's correction for all pairs at once.

    Where the first of two values is `censored`, the difference is at most what it looks like, where the second one is, at
    least that; where both are, nothing is known about it. No sample is left out for it: the ends of the interval are order
    statistics of the least and of the most that each difference can be, infinite where enough of them are.

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
        ends = order_ends(lower, upper, level)
        row = stated(first, second, (float(central(lower)), float(central(upper))), ends, len(gap))
        scale = largest(values[first][seen], values[second][seen])
        if row.status == "ok" and np.isfinite(lower).all() and np.isfinite(upper).all() and equal(gap, scale):
            status, share = alike_status(row.difference, EQUAL * scale), unseen(len(gap), confidence, len(pairs))
            row = replace(row, differs=False, status=status, unseen=share)
        found.append(row)
    return found


def separate_medians(values: Mapping[str, Array], censored: Mapping[str, Flags], confidence: float = 0.95) -> Difference:
    """The difference of two independent groups' medians, first - second, from the interval of each; n is the smaller group's size.

    Each interval has half of what may go wrong, so that both hold at once with this confidence, whatever the distributions.

    >>> groups = {"a": np.arange(7.0), "b": np.arange(10.0, 18.0)}
    >>> row = separate_medians(groups, {name: values > 99 for name, values in groups.items()})
    >>> row.difference, row.low, row.high, row.n
    (-10.5, -17.0, -4.0, 7)
    """
    (first, one), (second, other) = (
        (name, between(table[np.isfinite(table)], censored[name][np.isfinite(table)])) for name, table in values.items()
    )
    level = 1.0 - (1.0 - confidence) / 2
    (low, high), (under, over) = (order_ends(*group, level) for group in (one, other))
    (least, most), (little, much) = ((float(central(group[0])), float(central(group[1]))) for group in (one, other))
    n = min(len(one[1]), len(other[1]))
    row = stated(first, second, (least - much, most - little), (low - over, high - under), n)
    if row.low == row.high:
        return replace(row, differs=False, status=alike_status(row.difference, 0.0), unseen=unseen(n, confidence))
    return row


def stated(first: str, second: str, centre: Range, ends: Range, n: int) -> Difference:
    """A difference whose centre lies between two values: that centre, or the one of them that says most, or nothing."""
    (least, most), (low, high) = centre, ends
    value, bound = math.nan, ""
    if least == most:
        value = most
    elif math.isfinite(least) and (least > 0 or not math.isfinite(most)):
        value, bound = least, "at least"
    elif math.isfinite(most) and (most < 0 or not math.isfinite(least)):
        value, bound = most, "at most"
    return Difference(
        first=first,
        second=second,
        difference=value,
        low=low,
        high=high,
        n=n,
        differs=bool(low > 0 or high < 0),
        status="too few" if math.isnan(low) else "ok",
        bound=bound,
    )
