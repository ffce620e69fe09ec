"""Consistency of a score: a minor perturbation should not change it, and a disruptive one should.

Scores of several explanation methods are taken before and after a perturbation: `before` is (methods, samples), and `after`
is (perturbations, methods, samples), or (methods, samples) for a single one. `kept` (perturbations, samples) or (samples,)
marks the samples that count: those whose prediction is unchanged by a minor perturbation, or changed by a disruptive one.
A sample without a score (NaN) before or after is left out, and `left_out` counts it.

Reference: Hedström et al., The meta-evaluation problem in explainable AI: identifying reliable estimators with MetaQuantus
(TMLR 2023); appendix A.3 of the GEF paper.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfc

from veracity.core.errors import InputError, SpecError
from veracity.core.measures import Direction
from veracity.core.settings import short_repr

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


def intra_consistency(before: Array, after: Array, *, disruptive: bool, kept: Mask | None = None) -> float:
    """IAC: whether each method's scores stay the same under a minor perturbation, or change under a disruptive one.

    The mean over perturbations and methods of the p-value of Wilcoxon's signed-rank test between a method's scores before
    and after; of 1 - p if the perturbation is disruptive. Those without any sample are skipped; NaN if all are.

    >>> before, after = np.array([[0.1, 0.2, 0.3, 0.4]]), np.array([[0.2, 0.1, 0.5, 0.7]])
    >>> round(intra_consistency(before, after, disruptive=False), 4)
    0.1975
    """
    before, after, chosen, defined = as_arrays(before, after, kept)
    p = signed_rank_p(np.where(chosen & defined, after - before, np.nan))
    return mean_of_defined(1.0 - p if disruptive else p)


def inter_consistency(before: Array, after: Array, *, direction: Direction, disruptive: bool, kept: Mask | None = None) -> float:
    """IEC: whether a minor perturbation keeps the ranking of methods, or a disruptive one makes every score worse.

    Minor: the share of (sample, method) pairs in which the method keeps its rank among the methods for that sample, ties
    averaged; samples count that have all methods' scores. Disruptive: the share of pairs scored strictly better before, as
    the score's `direction` says. The mean over the perturbations that have a sample left, NaN if none has.

    >>> before, after = np.array([[0.9, 0.8], [0.5, 0.1], [0.1, 0.3]]), np.array([[0.8, 0.9], [0.6, 0.3], [0.2, 0.1]])
    >>> inter_consistency(before, after, direction=Direction.HIGHER, disruptive=False)
    0.6666666666666666
    >>> inter_consistency(before, after, direction=Direction.HIGHER, disruptive=True)
    0.3333333333333333
    """
    before, after, chosen, defined = as_arrays(before, after, kept)
    counts = chosen & defined
    if before.shape[1] < 2:
        raise InputError("One explainer alone always ranks first, so that inter-consistency would be 1: pass at least two.")
    if disruptive:
        hit = before > after if better(direction) is Direction.HIGHER else before < after
    else:
        counts = np.broadcast_to(counts.all(axis=1, keepdims=True), counts.shape)
        from scipy.stats import rankdata

        hit = rankdata(before, axis=1) == rankdata(after, axis=1)
    total = counts.sum(axis=(1, 2))
    return mean_of_defined(np.where(total > 0, (hit & counts).sum(axis=(1, 2)) / np.maximum(total, 1), np.nan))


def meta_consistency(iac_nr: float, iac_ar: float, iec_nr: float, iec_ar: float) -> float:
    """MC: the mean of intra- and inter-consistency under minor (NR) and disruptive (AR) perturbations, equation (20).

    m*^T m / |m*| with m* = (1, 1, 1, 1); 1 is a perfect score. NaN where one of the four is undefined.

    >>> meta_consistency(0.5, 1.0, 0.75, 0.25)
    0.625
    """
    return float(np.mean([iac_nr, iac_ar, iec_nr, iec_ar]))


def left_out(before: Array, after: Array, *, kept: Mask | None = None) -> int:
    """How many of the (perturbation, method, sample) that count have no score before or after, and were left out.

    >>> left_out(np.array([[0.1, np.nan, 0.3]]), np.array([[0.1, 0.2, 0.3]]))
    1
    """
    *_, chosen, defined = as_arrays(before, after, kept)
    return int((chosen & ~defined).sum())


def signed_rank_p(differences: Array) -> Array:
    """The two-sided p-value of Wilcoxon's signed-rank test along the last axis, NaN left out; NaN if nothing is left.

    With ranks r of |d|, ties averaged, and the ranks of zero differences split between both signs (zsplit), the statistic is
    z = sum sign(d) r / sqrt(sum r^2), by the normal approximation, which is within 0.025 of the exact
    p-value from 20 samples on. Differences that are all zero have p = 1.

    >>> signed_rank_p(np.array([[1.0, 2.0, 3.0, -4.0, np.nan], [0.0, 0.0, 0.0, 0.0, 0.0]])).round(4)
    array([0.715, 1.   ])

    Reference: Wilcoxon, Individual comparisons by ranking methods (Biometrics Bulletin 1945).
    """
    from scipy.stats import rankdata

    ranks = np.nan_to_num(rankdata(np.abs(differences), axis=-1, nan_policy="omit"))
    with np.errstate(invalid="ignore"):
        z = (np.sign(np.nan_to_num(differences)) * ranks).sum(axis=-1) / np.sqrt((ranks**2).sum(axis=-1))
    return np.asarray(erfc(np.abs(z) / np.sqrt(2.0)), dtype=np.float64)


def as_arrays(before: Array, after: Array, kept: Mask | None) -> tuple[Array, Array, Mask, Mask]:
    """Scores before (1, methods, samples) and after (perturbations, methods, samples), which samples count (perturbations, 1, samples),
    and where there is a score both before and after (perturbations, methods, samples).
    """
    if before.ndim != 2 or after.ndim not in (2, 3) or after.shape[-2:] != before.shape:
        raise InputError(
            "Meta-evaluation needs scores of shape (methods, samples) before and (perturbations, methods, samples) after, "
            f"not {before.shape} and {after.shape}."
        )
    after = after.reshape(-1, *before.shape)
    chosen = np.ones((1, before.shape[1]), dtype=bool) if kept is None else np.atleast_2d(kept)
    if chosen.dtype != np.bool_ or chosen.ndim != 2 or len(chosen) not in (1, len(after)) or chosen.shape[1] != before.shape[1]:
        raise InputError(
            f"The samples that count are marked by booleans of shape ({before.shape[1]},) or {(len(after), before.shape[1])}, "
            f"not by {chosen.dtype} of shape {chosen.shape}."
        )
    counts = np.broadcast_to(chosen, (len(after), before.shape[1]))[:, None]
    return before[None], after, counts, np.isfinite(before) & np.isfinite(after)


def better(direction: Direction) -> Direction:
    """The direction, which may be given as a word; raises on any other word."""
    try:
        return Direction(direction)
    except ValueError:
        raise SpecError(f"A direction is 'higher' or 'lower', whichever is better, not {short_repr(direction)}.") from None


def mean_of_defined(values: Array) -> float:
    """The mean of the values that are not NaN; NaN if all are."""
    found = values[~np.isnan(values)]
    return float(found.mean()) if found.size else np.nan
