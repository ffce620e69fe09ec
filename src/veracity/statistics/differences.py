"""Paired differences between explainers, with simultaneous intervals for all pairs.

Nested draws: the single-step max-t method (Hothorn, Bretz and Westfall, Simultaneous inference in general parametric models,
Biometrical Journal 2008). Draws that all samples share: crossed intervals with Bonferroni's correction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from veracity.core.errors import InputError
from veracity.statistics.crossed import crossed_interval
from veracity.statistics.intervals import (
    EQUAL,
    Array,
    Interval,
    all_equal,
    largest_magnitude,
    skewed_reach,
    spread,
    standard_error,
    t_quantile,
    third_cumulant,
    unseen_share,
)
from veracity.statistics.units import Codes, by_unit, independent

Index = NDArray[np.int64]
SIMULATED = 10_000
SEED = 20_110
AT_ONCE = 2_000_000
"""How many simulated entries are held in memory at once."""
NONE_SEEN = "no difference seen"
CONSTANT = "same difference everywhere"


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The difference first - second over the `n` samples that have both values; `differs` if its interval excludes zero.

    `status` is one of:
    "ok"
    "no difference seen", "same difference everywhere"
        All samples have the same difference up to rounding, zero or not. The interval has no width, and the two are not ranked.
        `unseen` bounds the share of the population that may differ, corrected for the number of comparisons (NaN otherwise).
    "too few"
        Fewer than two samples have both values, so there is no interval (NaN).
    "undefined"
        One of the two values is undefined.
    "overlapping"
        The interval excludes zero, but the intervals of the two values overlap, so they are not ranked.

    `bound` is "at least" or "at most" if the difference is only known up to that, as for medians of censored values; an end may
    then be infinite.
    """

    first: str
    second: str
    difference: float
    low: float
    high: float
    n: int
    differs: bool
    status: str
    bound: str = ""
    unseen: float = np.nan


def mean_differences(values: Mapping[str, Array], confidence: float = 0.95, *, units: Codes | None = None) -> list[Difference]:
    """Every pair's mean difference over samples, with simultaneous intervals of this confidence.

    `values` maps a name to one value per sample (n,), NaN where undefined. An interval extends q standard errors to each side, and
    further on the side of a longer tail. q is the quantile of max |t| over all pairs, simulated for normal values with the
    explainers' covariance. Means and covariances are drawn together, so each pair's error is as uncertain as n samples make it. If
    names lack values at different samples, each pair uses the samples that it has. In that case, and if there are no more samples
    than names, q is Bonferroni's, which is wider. With `units` (n,), samples of one unit belong together, and units take the place of
    samples in errors and in q; errors are never smaller than without units, and q is Bonferroni's if the units of a pair are all equal
    and its samples are not.

    >>> rows = mean_differences({"a": np.array([0.9, 0.8, 0.7]), "b": np.array([0.1, 0.3, 0.2])})
    >>> rows[0].first, rows[0].second, round(rows[0].difference, 3), rows[0].differs
    ('a', 'b', 0.6, True)
    """
    names = list(values)
    lengths = {len(column) for column in values.values()}
    if len(lengths) > 1:
        raise InputError(f"Paired differences need the same number of values from each, not {sorted(lengths)}.")
    if len(names) < 2:
        return []
    table = np.stack([np.where(np.isfinite(column), column, np.nan) for column in values.values()], axis=1)
    missing = np.isnan(table)
    least = EQUAL * largest_magnitude(table)
    first, second = np.triu_indices(len(names), 1)
    columns = table[:, first] - table[:, second]
    sizes = np.array([independent(~np.isnan(column), units) for column in columns.T])
    reach = simultaneous_quantiles(table[:, ~missing.all(axis=0)], sizes, confidence, least, units)
    shares = [unseen_share(int(size), confidence, len(first)) for size in sizes]
    return [
        mean_difference(names[i], names[j], columns[:, pair], float(reach[pair]), least, shares[pair], units)
        for pair, (i, j) in enumerate(zip(first, second, strict=True))
    ]


def crossed_differences(values: Mapping[str, Array], confidence: float = 0.95, *, units: Codes | None = None) -> list[Difference]:
    """Every pair's mean difference over samples and shared draws, such as perturbed copies of a model's weights.

    `values` maps a name to (samples, draws). The effect of a draw on both names cancels. Its effect on one of them does not, and
    more samples do not average it out, so the interval is the crossed interval of first - second. Bonferroni's correction makes
    the intervals simultaneous.

    >>> one = np.array([[1.0, 2.0], [2.0, 3.0], [4.0, 5.5]])
    >>> row = crossed_differences({"a": one, "b": one - np.array([[0.5, 0.4]])})[0]
    >>> round(row.difference, 3), row.differs
    (0.45, False)
    """
    pairs = list(combinations(values, 2))
    level = 1.0 - (1.0 - confidence) / max(1, len(pairs))
    found = []
    for first, second in pairs:
        gap, scale = values[first] - values[second], largest_magnitude(values[first], values[second])
        interval = crossed_interval(gap, level, scale=scale, units=units)
        alike = all_equal(gap[np.isfinite(gap)], scale) and not np.isnan(interval.low)
        share = unseen_share(independent(np.asarray(np.isfinite(gap).any(axis=1)), units), confidence, len(pairs))
        found.append(as_difference(first, second, interval, alike, EQUAL * scale, share))
    return found


def simultaneous_quantiles(table: Array, sizes: Index, confidence: float, least: float, units: Codes | None = None) -> Array:
    """Half-widths of the pairs' intervals in standard errors: max-t's quantile, or Bonferroni's for the sample size of each pair."""
    names = table.shape[1]
    missing = np.isnan(table)
    complete = ~missing.any(axis=1)
    alike = bool((complete | missing.all(axis=1)).all())
    whole = by_unit(table[complete], None if units is None else units[complete])
    hidden = units is not None and bool((vary(table[complete], least) & ~vary(whole, least)).any())
    if alike and len(whole) > names > 1 and not hidden:
        return np.full(len(sizes), max_t(whole, confidence, least))
    count = max(1, names * (names - 1) // 2)
    return t_quantile(1.0 - (1.0 - confidence) / count, np.maximum(sizes - 1, 1))


def vary(table: Array, least: float) -> NDArray[np.bool_]:
    """Which pairs of columns of a complete table (n, names) have differences that vary by more than `least`."""
    first, second = np.triu_indices(table.shape[1], 1)
    return np.asarray(np.ptp(table[:, first] - table[:, second], axis=0) > least) if len(table) else np.zeros(len(first), dtype=np.bool_)


def mean_difference(
    first: str, second: str, values: Array, reach: float, least: float, share: float, units: Codes | None = None
) -> Difference:
    """One pair's mean difference (n,), with an interval of `reach` standard errors, longer on the side of a longer tail.

    Differences that vary by at most `least` count as equal; at most the `share` of the population may then differ.
    """
    x = values[~np.isnan(values)]
    n = len(x)
    value = float(x.mean()) if n else np.nan
    own, size = spread(x, None if units is None else units[~np.isnan(values)])
    alike = size > 1 and float(np.ptp(x)) <= least
    below = above = 0.0 if alike else np.nan
    if size > 1 and not alike:
        below, above = (float(end) for end in skewed_reach(standard_error(own), third_cumulant(own), reach, size - 1))
    return as_difference(first, second, Interval(value=value, low=value - below, high=value + above, n=n), alike, least, share)


def as_difference(first: str, second: str, found: Interval, alike: bool, least: float, share: float) -> Difference:
    """The difference with this interval; if all samples have the same one (`alike`), at most the `share` of the population differs."""
    status = "too few" if np.isnan(found.low) else equal_status(found.value, least) if alike else "ok"
    return Difference(
        first=first,
        second=second,
        difference=found.value,
        low=found.low,
        high=found.high,
        n=found.n,
        differs=bool(not alike and (found.low > 0.0 or found.high < 0.0)),
        status=status,
        unseen=share if alike else np.nan,
    )


def equal_status(value: float, least: float) -> str:
    """The status of a difference that is the same for all samples."""
    return NONE_SEEN if abs(value) <= least else CONSTANT


def max_t(table: Array, confidence: float, least: float) -> float:
    """The quantile of max |t| over pairs of columns of a complete table (n, names); pairs that do not vary are left out.

    The correlation of the pairs comes from the QR factor of the centred table, so no (pairs, pairs) matrix is needed.
    """
    centred = table - table[:1]
    factor: Array = np.linalg.qr(centred - centred.mean(axis=0)).R
    first, second = np.triu_indices(table.shape[1], 1)
    lengths = np.linalg.norm(factor[:, first] - factor[:, second], axis=0)
    varies = lengths > least
    if varies.sum() < 2:
        return float(t_quantile(confidence, len(table) - 1))
    largest = largest_t(factor, first[varies], second[varies], len(table) - 1)
    return float(np.quantile(largest, confidence, method="higher"))


def largest_t(factor: Array, first: Index, second: Index, freedom: int) -> Array:
    """SIMULATED draws of max |t| over pairs of columns of the factor R (rank, names).

    For normal values with covariance R'R / f, the mean difference is (R d)'z and its estimated variance is |A'(R d)|^2 / f, where
    z is standard normal and A is the Bartlett factor of a Wishart matrix with f degrees of freedom.
    """
    generator = np.random.Generator(np.random.PCG64(SEED))
    rank = len(factor)
    step = max(1, AT_ONCE // (rank * len(first)))
    parts = []
    for start in range(0, SIMULATED, step):
        count = min(step, SIMULATED - start)
        means = generator.standard_normal((count, rank)) @ factor
        roots = bartlett(generator, count, rank, freedom).transpose(0, 2, 1) @ factor
        errors = np.sqrt(((roots[:, :, first] - roots[:, :, second]) ** 2).sum(axis=1) / freedom)
        parts.append((np.abs(means[:, first] - means[:, second]) / errors).max(axis=1))
    return np.concatenate(parts)


def bartlett(generator: np.random.Generator, count: int, rank: int, freedom: int) -> Array:
    """Lower triangular A (count, rank, rank) such that A A' is a standard Wishart matrix; freedom >= rank."""
    roots: Array = np.tril(generator.standard_normal((count, rank, rank)), -1)
    place = np.arange(rank)
    roots[:, place, place] = np.sqrt(generator.chisquare(freedom - place, size=(count, rank)))
    return roots
