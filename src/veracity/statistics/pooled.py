"""Pooled scores, one number for the whole data set: bootstrap intervals, permutation nulls and paired differences.

Samples are the unit: all distances of a sample are resampled, or relabelled, together. The models are held fixed, so the intervals
say nothing about other training runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from veracity.core.errors import InputError
from veracity.core.scores import Array, Measured, PooledScore
from veracity.statistics.differences import Difference, as_difference, equal_status
from veracity.statistics.intervals import Interval, check_confidence, unseen_share
from veracity.statistics.means import Estimate, clip_to
from veracity.statistics.resampling import REPLICATES, expanded_hull, few_factor, permutations, resamplings
from veracity.statistics.units import Codes, independent

NULL_QUANTILE = 0.95
DEFINED = 0.99
"""The share of replicates that must have a value."""
SAME_VALUE = 1e-12
"""Values count as equal if they differ by less than this."""

FEWEST_UNITS = 5
"""Units that the widened bootstrap interval takes."""

Flags = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Null:
    """The permutation null of a pooled score, with labels permuted among samples: mean, 95 % quantile, and p-value.

    p = (1 + #{null >= observed}) / (1 + orders), over the `orders` that give a value.
    """

    mean: float
    high: float
    p_value: float
    orders: int


@dataclass(frozen=True, kw_only=True)
class PooledEstimate:
    """A pooled score with its interval, the `sizes` of its sets (S=, S!=), and its null, if there is one.

    `undefined_replicates` counts the bootstrap replicates without a value, such as those with an empty set; they are left out.
    """

    estimate: Estimate
    sizes: tuple[int, ...]
    undefined_replicates: int
    null: Null | None


def pooled_estimate(
    score: PooledScore, measured: Measured, bounds: tuple[float, float], confidence: float = 0.95, *, units: Codes | None = None
) -> PooledEstimate:
    """The value of the data set with a bootstrap interval, clipped to the `bounds`, and its permutation null, both by sample.

    There are 1,000 replicates and 1,000 permutations, always the same ones. The score turns the replicates into an interval
    (`interval`) and decides how many samples that takes (`enough`). With fewer samples, or if more than 1 % of the replicates have no
    value, there is no interval (NaN). The permutation null does not depend on `enough`.

    `n` counts the samples that enter the value, `undefined` those without any distance, and `undefined_draws` the pairs that were
    compared and have no distance. If all replicates have the same value, the interval has no width, and `unseen` says what that
    leaves open. With `units` (samples,), samples of one unit are resampled together; the permutation null exchanges samples.

    >>> from veracity.scores.stability import MeGe
    >>> ones = np.ones((5, 2, 1))
    >>> distance = np.array([[0.1, 0.3], [0.2, 0.4], [0.0, 0.2], [0.3, 0.5], [0.2, 0.3]])[:, :, None]
    >>> found = pooled_estimate(MeGe(), Measured({"distance": distance, "right": ones, "other_right": ones, "same": ones}), (0.0, 1.0))
    >>> round(found.estimate.value, 3), round(found.estimate.low, 3), round(found.estimate.high, 3), found.sizes
    (0.8, 0.72, 0.9, (10, 0))
    """
    check_confidence(confidence)
    known = np.isfinite(measured[score.quantities[0]])
    made = np.any([np.isfinite(measured[name]) for name in score.quantities], axis=0)
    value, entering = pooled_value(score, measured), has_value(score, measured)
    n, size = int(entering.sum()), independent(entering, units)
    found = bootstrap_values(score, [measured], len(known), units)[:, 0]
    low, high = bootstrap_interval(score, measured, value, found, confidence, units)
    estimate = Estimate(
        value=value,
        low=clip_to(low, bounds),
        high=clip_to(high, bounds),
        draws_low=np.nan,
        draws_high=np.nan,
        n=n,
        undefined=int((~known.any(axis=(1, 2))).sum()),
        undefined_draws=int((made & ~known).sum()),
        draws=float(made.sum() / len(made)) if len(made) else np.nan,
        unseen=unseen_share(size, confidence) if low == high else np.nan,
        units=None if units is None else size,
    )
    null, undefined = permutation_null(score, measured, value), int((~np.isfinite(found)).sum())
    return PooledEstimate(estimate=estimate, sizes=score.sizes(measured), undefined_replicates=undefined, null=null)


def bootstrap_interval(
    score: PooledScore, measured: Measured, value: float, replicates: Array, confidence: float, units: Codes | None = None
) -> tuple[float, float]:
    """The ends of the interval, from the replicates (B,), NaN where undefined; NaN if there are too few samples or replicates.

    With `units`, all measurements of a unit count as those of one sample. If the score is not the same for these, because it does not
    treat all measurements of a sample alike, the interval is the bootstrap's, widened for the number of units, of which it takes five.
    """
    defined = replicates[np.isfinite(replicates)]
    if not np.isfinite(value) or len(defined) < DEFINED * REPLICATES:
        return np.nan, np.nan
    if units is not None:
        together = merge_units(measured, units)
        if not np.isclose(pooled_value(score, together), value, rtol=1e-9, atol=SAME_VALUE):
            size = independent(has_value(score, measured), units)
            return expanded_hull(value, defined, size, confidence) if size >= FEWEST_UNITS else (np.nan, np.nan)
        measured = together
    return score.interval(measured, value, defined, confidence) if score.enough(measured) else (np.nan, np.nan)


def merge_units(measured: Measured, units: Codes) -> Measured:
    """The measurements (units, draws, levels), in which a unit has the draws of all of its samples, padded with NaN.

    >>> merge_units(Measured({"d": np.arange(3.0).reshape(3, 1, 1)}), np.array([5, 2, 5]))["d"][:, :, 0].tolist()
    [[1.0, nan], [0.0, 2.0]]
    """
    names, place = np.unique(units, return_inverse=True)
    order = np.argsort(place, kind="stable")
    sizes = np.bincount(place, minlength=len(names))
    within = np.empty(len(place), dtype=np.int64)
    within[order] = np.arange(len(place)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    found: dict[str, Array] = {}
    for name, table in measured.quantities.items():
        whole = np.full((len(names), int(sizes.max(initial=0)), *table.shape[1:]), np.nan)
        whole[place, within] = table
        found[name] = whole.reshape(len(names), -1, table.shape[2])
    return Measured(found)


def permutation_null(score: PooledScore, measured: Measured, value: float) -> Null | None:
    """The null of a score with this value: labels permuted among the samples with a distance, all pairs of a sample together."""
    if not np.isfinite(value):
        return None
    parts = [score.permuted(measured, orders) for orders in permutations(has_distance(score, measured))]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    found = np.concatenate(known)
    found = found[np.isfinite(found)]
    reached = int((found >= value - SAME_VALUE).sum())
    mean, high = (float(found.mean()), float(np.quantile(found, NULL_QUANTILE))) if len(found) else (np.nan, np.nan)
    return Null(mean=mean, high=high, p_value=(1 + reached) / (1 + len(found)), orders=len(found))


def pooled_differences(
    score: PooledScore, measured: Mapping[str, Measured], confidence: float = 0.95, *, units: Codes | None = None
) -> list[Difference]:
    """Every pair's difference between the data set's values, first - second, with simultaneous intervals of this confidence.

        d +- q se(d),   where q is the `confidence` quantile of max over pairs of |d_b - d| / se(d)

    over bootstrap replicates b of the samples, the same ones for all names, so effects that a sample has on all names cancel. Only
    samples with a distance under every name count. A name without any distance is left out; its pairs are "undefined". Pairs are
    "too few" if there are too few samples for the values' own intervals. If the score's replicates are biased (`by_ends`), a
    difference takes its ends from the intervals of the two values, which then hold simultaneously.

    >>> from veracity.scores.stability import MeGe
    >>> ones, near = np.ones((6, 2, 1)), np.linspace(0.1, 0.3, 12).reshape(6, 2, 1)
    >>> one, other = ({"distance": found, "right": ones, "other_right": ones, "same": ones} for found in (near, near + 0.2))
    >>> (row,) = pooled_differences(MeGe(), {"a": Measured(one), "b": Measured(other)})
    >>> round(row.difference, 3), row.differs, row.n
    (0.119, True, 6)
    """
    check_confidence(confidence)
    names = list(measured)
    known = {name: has_distance(score, one) for name, one in measured.items()}
    sizes = sorted({len(flags) for flags in known.values()})
    if len(sizes) > 1:
        raise InputError(f"Paired differences need the same samples from each, not {sizes} samples.")
    shared = np.all([flags for flags in known.values() if flags.any()], axis=0) if names else np.zeros(0, dtype=np.bool_)
    kept = {name: select_samples(measured[name], shared) for name in names if known[name].any()}
    n = int(np.all([has_value(score, one) for one in kept.values()], axis=0).sum()) if kept else 0
    values = {name: pooled_value(score, one) for name, one in kept.items()}
    usable = [name for name, value in values.items() if np.isfinite(value)]
    groups = None if units is None else units[shared]
    found = bootstrap_values(score, [kept[name] for name in usable], int(shared.sum()), groups)
    found = found[np.isfinite(found).all(axis=1)]
    level = 1.0 - (1.0 - confidence) / max(1, len(usable)) if score.by_ends else confidence
    own, theta, table = (np.full(shape, np.nan) for shape in ((len(names), 2), len(names), (len(found), len(names))))
    for column, name in enumerate(usable):
        place = names.index(name)
        own[place] = bootstrap_interval(score, kept[name], values[name], found[:, column], level, groups)
        theta[place], table[:, place] = values[name], found[:, column]
    if score.by_ends:
        return interval_differences(names, theta, own, n)
    few = n < 2 or len(found) < DEFINED * REPLICATES
    widen = 1.0 if groups is None else few_factor(independent(np.ones(len(groups), dtype=np.bool_), groups), confidence)
    return max_t_differences(names, theta, table[:0] if few else table, own, n, confidence, widen)


def interval_differences(names: Sequence[str], values: Array, own: Array, n: int) -> list[Difference]:
    """Differences between all pairs of values (names,), from simultaneous intervals of the values (names, 2)."""
    rows = [
        as_difference(names[i], names[j], Interval(value=values[i] - values[j], low=low, high=high, n=n), False, 0.0, np.nan)
        for i, j in combinations(range(len(names)), 2)
        for low, high in [(own[i, 0] - own[j, 1], own[i, 1] - own[j, 0])]
    ]
    return [replace(row, status="undefined") if np.isnan(row.difference) else row for row in rows]


def max_t_differences(
    names: Sequence[str], values: Array, replicates: Array, own: Array, n: int, confidence: float, widen: float = 1.0
) -> list[Difference]:
    """Differences between all pairs of values (names,) by max-t over their replicates (B, names), NaN where undefined.

    A pair differs if its interval excludes zero and the intervals of its two values (names, 2) do not overlap; if they overlap, it
    is not ranked. If a value has no interval, its differences have none. Intervals of few units are to be `widen` times as wide.
    """
    first, second = np.triu_indices(len(names), 1)
    gaps, moved = values[first] - values[second], replicates[:, first] - replicates[:, second]
    least = SAME_VALUE * float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
    errors = moved.std(axis=0, ddof=1) if len(moved) > 1 else np.full(len(first), np.nan)
    varies = errors > least
    largest = (np.abs(moved - gaps)[:, varies] / errors[varies]).max(axis=1, initial=0.0)
    reach = widen * float(np.quantile(largest, confidence, method="higher")) if len(largest) else np.nan
    low, high = own.T
    known = ~np.isnan(low[first] + low[second])
    widths = np.where(known, np.where(varies, reach * errors, np.where(errors <= least, 0.0, np.nan)), np.nan)
    beyond, apart = np.abs(gaps) > np.maximum(widths, least), (low[first] > high[second]) | (low[second] > high[first])
    return [
        Difference(
            first=names[i],
            second=names[j],
            difference=float(gap),
            low=float(gap - width),
            high=float(gap + width),
            n=n,
            differs=bool(out and alone and width > 0),
            status=difference_status(float(gap), float(width), bool(out), bool(alone)),
            unseen=unseen_share(n, confidence, len(first)) if width == 0 else np.nan,
        )
        for i, j, gap, width, out, alone in zip(first.tolist(), second.tolist(), gaps, widths, beyond, apart, strict=True)
    ]


def difference_status(gap: float, width: float, out: bool, apart: bool) -> str:
    """The status of a `Difference` whose interval is gap +- width; `out` if it excludes zero, `apart` if the two intervals are."""
    if np.isnan(gap):
        return "undefined"
    if np.isnan(width):
        return "too few"
    if width == 0:
        return equal_status(gap, SAME_VALUE)
    return "overlapping" if out and not apart else "ok"


def bootstrap_values(score: PooledScore, measured: Sequence[Measured], samples: int, units: Codes | None = None) -> Array:
    """Values (REPLICATES, subjects) of several subjects on the same bootstrap resamples, of whole `units` if there are some."""
    parts = [np.stack([score.pool(one, weights) for one in measured], axis=1) for weights in resamplings(samples, units) if measured]
    return np.concatenate([np.empty((0, len(measured))), *parts])


def pooled_value(score: PooledScore, measured: Measured) -> float:
    """The value of the whole data set, in which each sample counts once."""
    return float(score.pool(measured, np.ones((1, len(has_distance(score, measured)))))[0])


def has_distance(score: PooledScore, measured: Measured) -> Flags:
    """Which samples (samples,) have a distance, the first quantity of the score."""
    return np.asarray(np.isfinite(measured[score.quantities[0]]).any(axis=(1, 2)))


def has_value(score: PooledScore, measured: Measured) -> Flags:
    """Which samples (samples,) enter the value."""
    return np.asarray(np.isfinite(score.values(measured)).any(axis=1))


def select_samples(measured: Measured, samples: Flags) -> Measured:
    """The measurements of the selected samples (samples,)."""
    return Measured({name: values[samples] for name, values in measured.quantities.items()})
