"""Does a score get worse with growing damage? Page's trend test with seeds as blocks, the mean slope, and Holm's correction.

References: Page, Ordered hypotheses for multiple treatments (Journal of the American Statistical Association 1963); Holm, A simple
sequentially rejective multiple test procedure (Scandinavian Journal of Statistics 1979).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, reduce
from itertools import permutations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtrit

from veracity.core.errors import InputError
from veracity.core.measures import Direction
from veracity.statistics.intervals import Array, standard_deviation, t_interval

SEEDS = 3
"""The smallest number of seeds for a trend."""
EXACT = 7
"""Up to this many levels, the p-value enumerates all orders."""
TIED = 1e-9
"""Values are tied if they differ by less than this share of the largest one."""

FOLLOWS, STAYS, UNDEFINED = "follows", "does not follow", "undefined"
AGAINST = "goes the other way"


@dataclass(frozen=True, kw_only=True)
class Trend:
    """How a score changes with damage: Page's p-value, and the mean slope per unit of damage with its t interval over seeds.

    `n` seeds have a value at every level; `undefined` counts the NaN values of all seeds. With fewer than three complete seeds all
    other fields are NaN. `against` is Page's p-value in the other direction: that the score gets better with damage.
    """

    p: float
    slope: float
    low: float
    high: float
    n: int
    undefined: int
    against: float = np.nan


def page_p(values: Array) -> float:
    """The one-sided p-value of Page's test that values (blocks, levels) rise from level to level.

    L = sum_j j R_j, where R_j is the sum over blocks of the rank of level j within its block. p is the share of all orders within
    blocks, ties included, whose L is at least as large. It is exact up to seven levels; beyond that it uses the normal distribution
    with the same mean and variance.

    >>> round(page_p(np.array([[0.1, 0.2, 0.5, 0.9], [0.2, 0.3, 0.4, 0.7], [0.1, 0.3, 0.5, 0.6]])) * 24**3, 6)
    1.0
    """
    from scipy.stats import rankdata

    scale = max(float(np.abs(values).max(initial=0.0)), np.finfo(np.float64).tiny)
    ranks = rankdata(np.round(values / (scale * TIED)), axis=1)
    levels = values.shape[1]
    if levels > EXACT:
        centred, steps = ranks - (levels + 1) / 2, np.arange(levels) - (levels - 1) / 2
        variance = (steps**2).sum() * (centred**2).sum() / (levels - 1)
        return float(ndtr(-(centred @ steps).sum() / np.sqrt(variance))) if variance > 0 else 1.0
    doubled = np.rint(2 * ranks).astype(np.int64)
    weights, orders = np.arange(1, levels + 1), all_orders(levels)
    chances: Array = reduce(np.convolve, [np.bincount(block[orders] @ weights) / len(orders) for block in doubled])
    return min(1.0, float(chances[int((doubled @ weights).sum()) :].sum()))


@cache
def all_orders(levels: int) -> NDArray[np.int64]:
    """All permutations of the levels, (levels!, levels)."""
    return np.array(list(permutations(range(levels))))


def trend(values: Array, damage: Sequence[float], direction: Direction, confidence: float = 0.95) -> Trend:
    """The trend of a score, values (seeds, levels), over ascending damage (levels,).

    The p-value of Page's test is small if the score gets worse with damage. Its null hypothesis: within a seed, every order of the
    levels is equally likely. The slope is that of each seed's least-squares line, in units of the score per unit of damage, averaged
    over seeds. Seeds with an undefined value are left out.

    >>> found = trend(np.array([[0.9, 0.8, 0.5], [0.8, 0.7, 0.4], [0.9, 0.7, 0.5]]), [0.0, 0.1, 0.3], Direction.HIGHER)
    >>> round(found.p, 5), round(found.slope, 3), found.n
    (0.00463, -1.333, 3)
    """
    table, places = np.asarray(values, dtype=np.float64), np.asarray(damage, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] != len(places) or len(places) < 2 or not bool((np.diff(places) > 0).all()):
        raise InputError(
            f"A trend needs values (seeds, levels) and one ascending amount of damage per level, not {table.shape} and {places.tolist()}."
        )
    if len(table) < SEEDS:
        raise InputError(f"A trend needs at least {SEEDS} seeds per level, not {len(table)}: repeat the run with more seeds.")
    whole = table[np.isfinite(table).all(axis=1)]
    undefined = int((~np.isfinite(table)).sum())
    if len(whole) < SEEDS:
        return Trend(p=np.nan, slope=np.nan, low=np.nan, high=np.nan, n=len(whole), undefined=undefined)
    worse = whole if direction is Direction.LOWER else -whole
    centred = places - places.mean()
    slopes = whole @ centred / (centred**2).sum()
    slope = t_interval(float(slopes.mean()), standard_deviation(slopes) / len(slopes) ** 0.5, len(slopes) - 1, confidence, len(slopes))
    p, against = page_p(worse), page_p(-worse)
    return Trend(p=p, slope=slope.value, low=slope.low, high=slope.high, n=len(whole), undefined=undefined, against=against)


def holm(p: Array) -> Array:
    """Holm's adjusted p-values (m,), which control the error over all of them; NaN stays NaN and does not count.

    >>> holm(np.array([0.01, np.nan, 0.04, 0.03])).round(3).tolist()
    [0.03, nan, 0.06, 0.06]
    """
    known = np.flatnonzero(np.isfinite(p))
    order = known[np.argsort(p[known], kind="stable")]
    adjusted = np.full(len(p), np.nan)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(order), 0, -1)))
    return adjusted


def trend_verdict(adjusted: float, found: Trend, confidence: float = 0.95) -> str:
    """One of "follows", "goes the other way", "does not follow" and "undefined" (NaN).

    "follows": the adjusted p-value is at most 1 - confidence, and the mean slope differs from zero by a one-sided t test over seeds.
    "goes the other way": the same holds for a score that gets better with damage, by its unadjusted p-value.
    "does not follow": no trend was found, which does not prove that there is none.

    The t test is needed because the levels within a seed are not always exchangeable. Damage may push each seed's score in a random
    direction and larger damage push it further, or all seeds may share one undamaged model. Three seeds then agree by chance in 12 %
    of cases instead of 5 %.

    >>> from dataclasses import replace
    >>> sure = Trend(p=0.001, slope=-2.0, low=-4.5, high=0.5, n=3, undefined=0)
    >>> flat = replace(sure, slope=-1.0, low=-3.5, high=1.5)
    >>> trend_verdict(0.01, sure), trend_verdict(0.2, sure), trend_verdict(0.01, flat), trend_verdict(float("nan"), sure)
    ('follows', 'does not follow', 'does not follow', 'undefined')
    """
    if not np.isfinite(adjusted):
        return UNDEFINED
    two_sided, one_sided = (float(stdtrit(max(1, found.n - 1), level)) for level in ((1.0 + confidence) / 2, confidence))
    reach = (found.high - found.low) / 2 * one_sided / two_sided
    if abs(found.slope) <= reach:
        return STAYS
    alpha = 1.0 - confidence + 1e-12
    return FOLLOWS if adjusted <= alpha else AGAINST if found.against <= alpha else STAYS
