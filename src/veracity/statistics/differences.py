"""Which of several explainers differ: all paired differences, with intervals that hold for all of them at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veracity.core.errors import InputError
from veracity.statistics.crossed import crossed_interval
from veracity.statistics.intervals import EQUAL, Array, equal, largest, skewed_reach, spread, t_quantile, third_cumulant, unseen

Index = NDArray[np.int64]
SIMULATED = 10_000
SEED = 20_110
AT_ONCE = 2_000_000
NONE_SEEN = "no difference seen"
CONSTANT = "same difference everywhere"


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The mean of first - second over the `n` samples that have both, and whether its interval leaves zero out.

    `status` is one of
    "ok";
    "no difference seen" or "same difference everywhere": all samples have the same difference up to rounding, none or another.
    The interval then has no width and does not rank the two; `unseen` is the largest share of the population that may differ
    without having been seen, corrected for the number of comparisons (NaN otherwise);
    "too few": fewer than two samples have both values, so that there is no interval (NaN);
    "overlapping": the interval leaves zero out but the two numbers' own intervals overlap, so that they are not ranked.
    `bound` is "at least" or "at most" where no more than that is known of the difference, as of a median of censored values;
    then an end may be infinite.
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


def differences(values: Mapping[str, Array], confidence: float = 0.95) -> list[Difference]:
    """Every pair's mean difference over samples, with intervals that all hold at once with this confidence.

    `values` maps a name to one value per sample (n,), NaN where undefined. The intervals reach q standard errors, and further on
    the side of a longer tail, with q the quantile of max |t| over all pairs (the single-step max-t method). Its distribution is
    simulated for normal values with the explainers' own covariance: means and covariances are drawn together, so that each pair's
    error is as uncertain as n samples leave it. Where names lack values at different samples, each pair keeps the samples that it
    has; then, and where there are no more samples than names, q is Bonferroni's, which is wider.

    >>> rows = differences({"a": np.array([0.9, 0.8, 0.7]), "b": np.array([0.1, 0.3, 0.2])})
    >>> rows[0].first, rows[0].second, round(rows[0].difference, 3), rows[0].differs
    ('a', 'b', 0.6, True)

    Reference: Hothorn, Bretz and Westfall, Simultaneous inference in general parametric models (Biometrical Journal 2008).
    """
    names = list(values)
    lengths = {len(values[name]) for name in names}
    if len(lengths) > 1:
        raise InputError(f"Paired differences need one value per sample from each, not {sorted(lengths)} values.")
    if len(names) < 2:
        return []
    table = np.stack([np.where(np.isfinite(values[name]), values[name], np.nan) for name in names], axis=1)
    missing = np.isnan(table)
    least = EQUAL * largest(table)
    first, second = np.triu_indices(len(names), 1)
    sizes = (~missing[:, first] & ~missing[:, second]).sum(axis=0)
    reach = reaches(table[:, ~missing.all(axis=0)], sizes, confidence, least)
    columns = table[:, first] - table[:, second]
    return [
        difference(names[i], names[j], columns[:, pair], float(reach[pair]), least, unseen(int(sizes[pair]), confidence, len(first)))
        for pair, (i, j) in enumerate(zip(first, second, strict=True))
    ]


def crossed_differences(values: Mapping[str, Array], confidence: float = 0.95) -> list[Difference]:
    """Every pair's mean difference over samples and draws that all of them share, such as copies of a model's weights.

    `values` maps a name to (samples, draws). What a draw does to both names cancels, what it does to one alone does not, and
    no number of samples averages it away: the interval is the crossed one of first - second. Bonferroni's correction makes
    all of them hold at once.

    >>> one = np.array([[1.0, 2.0], [2.0, 3.0], [4.0, 5.5]])
    >>> row = crossed_differences({"a": one, "b": one - np.array([[0.5, 0.4]])})[0]
    >>> round(row.difference, 3), row.differs
    (0.45, False)
    """
    names = list(values)
    first, second = np.triu_indices(len(names), 1)
    level = 1.0 - (1.0 - confidence) / max(1, len(first))
    found = []
    for i, j in zip(first, second, strict=True):
        one, other = values[names[i]], values[names[j]]
        gap = one - other
        scale = largest(one, other)
        interval = crossed_interval(gap, level, scale=scale)
        alike = equal(gap[np.isfinite(gap)], scale) and not np.isnan(interval.low)
        found.append(
            Difference(
                first=names[i],
                second=names[j],
                difference=interval.value,
                low=interval.low,
                high=interval.high,
                n=interval.n,
                differs=bool(not alike and (interval.low > 0.0 or interval.high < 0.0)),
                status="too few" if np.isnan(interval.low) else alike_status(interval.value, EQUAL * scale) if alike else "ok",
                unseen=unseen(interval.n, confidence, len(first)) if alike else np.nan,
            )
        )
    return found


def reaches(table: Array, sizes: Index, confidence: float, least: float) -> Array:
    """How many standard errors each pair's interval reaches: max-t's quantile, or Bonferroni's for the pair's own size."""
    names = table.shape[1]
    missing = np.isnan(table)
    complete = ~missing.any(axis=1)
    alike = bool((complete | missing.all(axis=1)).all())
    if alike and complete.sum() > names > 1:
        return np.full(len(sizes), max_t(table[complete], confidence, least))
    count = max(1, names * (names - 1) // 2)
    return t_quantile(1.0 - (1.0 - confidence) / count, np.maximum(sizes - 1, 1))


def difference(first: str, second: str, values: Array, reach: float, least: float, share: float) -> Difference:
    """One pair: its mean difference, `reach` standard errors to either side and further to that of a longer tail.

    Differences that vary by no more than `least` do not vary; `share` of the population may then differ unseen.
    """
    x = values[~np.isnan(values)]
    n = len(x)
    value = float(x.mean()) if n else np.nan
    alike = n > 1 and float(np.ptp(x)) <= least
    below = above = 0.0 if alike else np.nan
    if n > 1 and not alike:
        below, above = (float(end) for end in skewed_reach(spread(x) / n**0.5, third_cumulant(x), reach, n - 1))
    return Difference(
        first=first,
        second=second,
        difference=value,
        low=value - below,
        high=value + above,
        n=n,
        differs=bool(not alike and (value > below or value < -above)),
        status="too few" if n < 2 else alike_status(value, least) if alike else "ok",
        unseen=share if alike else np.nan,
    )


def alike_status(value: float, least: float) -> str:
    """What to say of a difference that is the same for all samples."""
    return NONE_SEEN if abs(value) <= least else CONSTANT


def max_t(table: Array, confidence: float, least: float) -> float:
    """The quantile of max |t| over pairs of columns of a complete table (n, names).

    The pairs' correlation comes from the QR factor of the centred table, so that no (pairs, pairs) matrix is needed; pairs
    that do not vary take no part.
    """
    n = len(table)
    centred = table - table[:1]
    factor: Array = np.linalg.qr(centred - centred.mean(axis=0)).R
    first, second = np.triu_indices(table.shape[1], 1)
    lengths = np.linalg.norm(factor[:, first] - factor[:, second], axis=0)
    varies = lengths > least
    if varies.sum() < 2:
        return float(t_quantile(confidence, n - 1))
    largest = largest_t(factor, first[varies], second[varies], n - 1)
    return float(np.quantile(largest, confidence, method="higher"))


def largest_t(factor: Array, first: Index, second: Index, freedom: int) -> Array:
    """max |t| over pairs of columns of the factor R (rank, names), SIMULATED times, a bounded number of entries at a time.

    For normal values with covariance R'R / f, the mean difference is (R d)'z and its estimated variance |A'(R d)|^2 / f, where
    z is standard normal and A the Bartlett factor of a Wishart matrix with f degrees of freedom.
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
