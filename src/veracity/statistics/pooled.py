"""Many resamplings and many permutations of the samples, the same ones every time; and the interval that replicates give.

From a score that pools the data set to a number with an interval, its permutation null, and differences: samples are the unit.

All distances of a sample are resampled, or relabelled, together: pairs of one sample are not pairs of several. The models are
held fixed, so nothing is said about other trainings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veracity.core.errors import InputError
from veracity.core.scores import Array, Measured, PooledScore
from veracity.core.settings import as_confidence
from veracity.statistics.differences import Difference, alike_status
from veracity.statistics.intervals import unseen
from veracity.statistics.means import Estimate, cut
from veracity.statistics.resampling import REPLICATES, permutations, resamplings

HIGH = 0.95
DEFINED = 0.99
"""The share of replicates that must have a value."""
ROUNDING = 1e-12
"""Values that differ by less than this are equal."""

Flags = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Null:
    """What a pooled score is if labels are permuted among samples: its mean, its 95 % quantile, and the share that is as high as observed.

    p = (1 + #{null >= observed}) / (1 + orders), of the `orders` that give a value.
    """

    mean: float
    high: float
    p_value: float
    orders: int


@dataclass(frozen=True, kw_only=True)
class PooledEstimate:
    """A pooled score with its interval, the `sizes` of its sets (S=, S!=), and its null, None where it has none or is undefined.

    `undefined_replicates` of the bootstrap had no value, such as those in which a set is empty, and are left out.
    """

    estimate: Estimate
    sizes: tuple[int, ...]
    undefined_replicates: int
    null: Null | None


def pooled_estimate(score: PooledScore, measured: Measured, bounds: tuple[float, float], confidence: float = 0.95) -> PooledEstimate:
    """The data set's value, an interval by the bootstrap clustered by sample, cut to the `bounds`, and the permutation null by sample.

    1,000 replicates and 1,000 orders, always the same ones. How an interval comes from the replicates is up to the score (its
    `interval`), and so is how many samples it takes (`enough`): with fewer, the interval would hold less often than it says, and
    there is none (NaN), as where more than one replicate in a hundred has no value. The permutation null needs no such number.

    `n` counts the samples that enter the value, `undefined` those without any distance, `undefined_draws` the pairs that were
    compared and have none. Where every replicate has the same value the interval has no width, and `unseen` says what that
    leaves open.

    >>> from veracity.scores.stability import MeGe
    >>> ones = np.ones((5, 2, 1))
    >>> distance = np.array([[0.1, 0.3], [0.2, 0.4], [0.0, 0.2], [0.3, 0.5], [0.2, 0.3]])[:, :, None]
    >>> found = pooled_estimate(MeGe(), Measured({"distance": distance, "right": ones, "other_right": ones, "same": ones}), (0.0, 1.0))
    >>> round(found.estimate.value, 3), round(found.estimate.low, 3), round(found.estimate.high, 3), found.sizes
    (0.8, 0.72, 0.9, (10, 0))
    """
    as_confidence(confidence)
    known = np.isfinite(measured[score.quantities[0]])
    made = np.any([np.isfinite(measured[name]) for name in score.quantities], axis=0)
    value, n = whole(score, measured), int(entering(score, measured).sum())
    found = bootstrapped(score, [measured], len(known))[:, 0]
    defined = found[np.isfinite(found)]
    low, high = ends(score, measured, value, found, confidence)
    estimate = Estimate(
        value=value,
        low=cut(low, bounds),
        high=cut(high, bounds),
        draws_low=np.nan,
        draws_high=np.nan,
        n=n,
        undefined=int((~known.any(axis=(1, 2))).sum()),
        undefined_draws=int((made & ~known).sum()),
        draws=float(made.sum() / len(made)) if len(made) else np.nan,
        unseen=unseen(n, confidence) if low == high else np.nan,
    )
    sizes = score.sizes(measured)
    null = permutation_null(score, measured, value)
    return PooledEstimate(estimate=estimate, sizes=sizes, undefined_replicates=REPLICATES - len(defined), null=null)


def ends(score: PooledScore, measured: Measured, value: float, replicates: Array, confidence: float) -> tuple[float, float]:
    """The interval's ends, from the replicates (B,), NaN where undefined; NaN where there are too few samples for it."""
    defined = replicates[np.isfinite(replicates)]
    if not np.isfinite(value) or len(defined) < DEFINED * REPLICATES or not score.enough(measured):
        return np.nan, np.nan
    return score.interval(measured, value, defined, confidence)


def permutation_null(score: PooledScore, measured: Measured, value: float) -> Null | None:
    """The null of a score whose value is this: labels permuted among the samples that have a distance, all pairs of a sample together."""
    if not np.isfinite(value):
        return None
    parts = []
    for orders in permutations(distances(score, measured)):
        part = score.permuted(measured, orders)
        if part is None:
            return None
        parts.append(part)
    found = np.concatenate(parts)
    found = found[np.isfinite(found)]
    reached = int((found >= value - ROUNDING).sum())
    mean, high = (float(found.mean()), float(np.quantile(found, HIGH))) if len(found) else (np.nan, np.nan)
    return Null(mean=mean, high=high, p_value=(1 + reached) / (1 + len(found)), orders=len(found))


def pooled_differences(score: PooledScore, measured: Mapping[str, Measured], confidence: float = 0.95) -> list[Difference]:
    """Every pair's difference of the data set's values, first - second, with intervals that all hold at once with this confidence.

        d +- q se(d),   q the `confidence` quantile of max over pairs of |d_b - d| / se(d)

    over bootstrap replicates b of the samples, the same ones for all names, so that what makes a sample easy for all cancels.
    Only samples that have a distance under every name count; a name that has none at all is left out, and its pairs are
    "too few", as are all where a value is undefined or there are too few samples for the values' own intervals. Of ReCo's KS form,
    whose replicates are biased, the ends are those of the two values' own intervals, at a level at which all of them hold at once.

    >>> from veracity.scores.stability import MeGe
    >>> ones, near = np.ones((6, 2, 1)), np.linspace(0.1, 0.3, 12).reshape(6, 2, 1)
    >>> one, other = ({"distance": found, "right": ones, "other_right": ones, "same": ones} for found in (near, near + 0.2))
    >>> (row,) = pooled_differences(MeGe(), {"a": Measured(one), "b": Measured(other)})
    >>> round(row.difference, 3), row.differs, row.n
    (0.119, True, 6)
    """
    as_confidence(confidence)
    names = list(measured)
    known = {name: distances(score, measured[name]) for name in names}
    if len({len(flags) for flags in known.values()}) > 1:
        sizes = sorted({len(flags) for flags in known.values()})
        raise InputError(f"Paired differences need the same samples from each, not {sizes} samples.")
    shared = np.all([flags for flags in known.values() if flags.any()], axis=0) if names else np.zeros(0, dtype=np.bool_)
    kept = {name: only(measured[name], shared) for name in names if known[name].any()}
    n = int(np.all([entering(score, one) for one in kept.values()], axis=0).sum()) if kept else 0
    values = {name: whole(score, one) for name, one in kept.items()}
    usable = [name for name, value in values.items() if np.isfinite(value)]
    found = bootstrapped(score, [kept[name] for name in usable], int(shared.sum()))
    found = found[np.isfinite(found).all(axis=1)]
    by_ends = score.by_ends
    level = 1.0 - (1.0 - confidence) / max(1, len(usable)) if by_ends else confidence
    own = np.full((len(names), 2), np.nan)
    for column, name in enumerate(usable):
        own[names.index(name)] = ends(score, kept[name], values[name], found[:, column], level)
    theta = np.array([values[name] if name in usable else np.nan for name in names])
    table = np.full((len(found), len(names)), np.nan)
    table[:, [names.index(name) for name in usable]] = found
    if by_ends:
        return from_ends(names, theta, own, n)
    few = n < 2 or len(found) < DEFINED * REPLICATES
    return simultaneous(names, theta, table[:0] if few else table, own, n, confidence)


def from_ends(names: Sequence[str], values: Array, own: Array, n: int) -> list[Difference]:
    """All pairs of values (names,) by intervals (names, 2) that hold at once: where they do, so do those of all differences."""
    found = []
    first, second = np.triu_indices(len(names), 1)
    for i, j in zip(first.tolist(), second.tolist(), strict=True):
        gap, low, high = values[i] - values[j], own[i, 0] - own[j, 1], own[i, 1] - own[j, 0]
        status = "undefined" if np.isnan(gap) else "too few" if np.isnan(low) else "ok"
        found.append(
            Difference(
                first=names[i],
                second=names[j],
                difference=float(gap),
                low=float(low),
                high=float(high),
                n=n,
                differs=bool(low > 0 or high < 0),
                status=status,
            )
        )
    return found


def simultaneous(names: Sequence[str], values: Array, replicates: Array, own: Array, n: int, confidence: float) -> list[Difference]:
    """All pairs of values (names,) by max-t over their replicates (B, names), NaN where undefined; none at all if there are too few.

    A pair differs where its interval leaves zero out and the two values' own intervals (names, 2) are apart; else, "overlapping", it
    is not ranked. A pair of which a value has no interval has none either.
    """
    first, second = np.triu_indices(len(names), 1)
    gaps, moved = values[first] - values[second], replicates[:, first] - replicates[:, second]
    least = ROUNDING * float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
    errors = moved.std(axis=0, ddof=1) if len(moved) > 1 else np.full(len(first), np.nan)
    varies = errors > least
    largest = (np.abs(moved - gaps)[:, varies] / errors[varies]).max(axis=1, initial=0.0)
    reach = float(np.quantile(largest, confidence, method="higher")) if len(largest) else np.nan
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
            status=status(float(gap), float(width), bool(out), bool(alone)),
            unseen=unseen(n, confidence, len(first)) if width == 0 else np.nan,
        )
        for i, j, gap, width, out, alone in zip(first.tolist(), second.tolist(), gaps, widths, beyond, apart, strict=True)
    ]


def status(gap: float, width: float, out: bool, apart: bool) -> str:
    """What is to be known of one difference, in a word or two."""
    if np.isnan(gap):
        return "undefined"
    if np.isnan(width):
        return "too few"
    if width == 0:
        return alike_status(gap, ROUNDING)
    return "overlapping" if out and not apart else "ok"


def bootstrapped(score: PooledScore, measured: Sequence[Measured], samples: int) -> Array:
    """The values (REPLICATES, subjects) of some subjects on the same resamplings of their samples."""
    parts = [np.stack([score.pool(one, weights) for one in measured], axis=1) for weights in resamplings(samples) if measured]
    return np.concatenate([np.empty((0, len(measured))), *parts])


def whole(score: PooledScore, measured: Measured) -> float:
    """The value of all samples, each counted once."""
    return float(score.pool(measured, np.ones((1, len(distances(score, measured)))))[0])


def distances(score: PooledScore, measured: Measured) -> Flags:
    """Which samples (samples,) have a distance: what the score observes first."""
    return np.asarray(np.isfinite(measured[score.quantities[0]]).any(axis=(1, 2)))


def entering(score: PooledScore, measured: Measured) -> Flags:
    """Which samples (samples,) the value is made of."""
    return np.asarray(np.isfinite(score.values(measured)).any(axis=1))


def only(measured: Measured, samples: Flags) -> Measured:
    """What was measured of some samples (samples,)."""
    return Measured({name: values[samples] for name, values in measured.quantities.items()})
