"""Are there enough draws? How a Monte Carlo estimate settles, and what can be promised beforehand (appendix E).

Do two scores say the same of the same samples? Their linear correlation, with an interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from veracity.core.errors import InputError, SpecError
from veracity.core.settings import as_confidence
from veracity.core.walks import Sampling
from veracity.statistics.intervals import Array, Interval, t_quantile


@dataclass(frozen=True, kw_only=True)
class Convergence:
    """An estimate after 1, 2 ... draws a sample (Figure 7): its value, standard error and interval, each (draws,)."""

    draws: NDArray[np.int64]
    value: Array
    error: Array
    low: Array
    high: Array


def convergence(
    values: Array, sampling: Sampling | None = None, bounds: tuple[float, float] = (-math.inf, math.inf), *, confidence: float = 0.95
) -> Convergence:
    """The mean over samples of their means over the first m draws, for every m, from values (samples, draws), NaN where undefined.

    The interval is for these very samples had every perturbation been drawn: draws are nested in samples, so the squared
    error is sum_i s_i^2 / m_i (1 - m / N) over n^2, with Satterthwaite's degrees of freedom and N the space's order where
    draws are distinct; it is what `statistics.estimate` gives for the first m columns. It needs two draws.

    >>> found = convergence(np.array([[1.0, 0.5, 0.0], [0.5, 0.5, 0.5]]))
    >>> found.value, found.error.round(4)
    (array([0.75 , 0.625, 0.5  ]), array([   nan, 0.125 , 0.1443]))
    """
    sampling = sampling or Sampling()
    check_prefixes(values, sampling)
    defined = np.isfinite(values)
    first = np.take_along_axis(values, defined.argmax(axis=1)[:, None], axis=1)
    shift = np.where(np.isfinite(first), first, 0.0)
    x = np.where(defined, values - shift, 0.0)
    draws, seen = np.arange(1, values.shape[1] + 1), np.cumsum(defined, axis=1)
    kept = seen > 0
    mean = np.cumsum(x, axis=1) / np.maximum(seen, 1)
    squares = np.maximum(np.cumsum(x**2, axis=1) - seen * mean**2, 0.0)
    freedom = np.maximum(seen - 1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        value = np.where(kept, mean + shift, 0.0).sum(axis=0) / kept.sum(axis=0)
        pooled = squares.sum(axis=0) / freedom.sum(axis=0)
        variance = np.where(freedom > 0, squares / np.maximum(freedom, 1), pooled)
        left = 1.0 if sampling.population is None else 1.0 - draws / sampling.population
        parts = np.where(kept, variance / np.maximum(seen, 1) * left, 0.0)
        error = np.sqrt(parts.sum(axis=0)) / kept.sum(axis=0)
        share = parts.sum(axis=0) ** 2 / (parts**2 / np.maximum(freedom, 1)).sum(axis=0)
    reach = np.where(error == 0.0, 0.0, t_quantile(confidence, share) * error)
    return Convergence(draws=draws, value=value, error=error, low=np.clip(value - reach, *bounds), high=np.clip(value + reach, *bounds))


def check_prefixes(values: Array, sampling: Sampling) -> None:
    """Raise unless the first draws of every sample are a sample of their own."""
    if values.ndim != 2:
        raise InputError(f"Convergence needs values of shape (samples, draws), not {values.shape}.")
    reasons = {
        "an exhaustive walk visits the elements in a fixed order": sampling.exhaustive,
        "an adaptive walk stops where its values please it": sampling.anytime is not None,
        "all samples share their draws": not sampling.nested,
    }
    for reason, holds in reasons.items():
        if holds:
            raise InputError(f"The first draws do not show how an estimate settles, since {reason}: use the walk 'monte_carlo'.")


def hoeffding(samples: int, draws: int, error: float, width: float = 2.0) -> float:
    """The most that the probability of an error of at least t can be, P <= 2 exp(-2 N_test N_samp t^2 / width^2), at most 1.

    For values within a range of this width: 2 for s in [-1, 1], which gives 2 exp(-N_test N_samp t^2 / 2). It holds for
    draws that are independent across samples, with or without replacement within one; not if all samples share their
    draws. With the paper's 1,000 samples, 50 draws and t = 2 %, below 1e-4:

    >>> f"{hoeffding(1000, 50, 0.02):.2e}"
    '9.08e-05'

    Reference: Hoeffding, Probability inequalities for sums of bounded random variables (JASA 1963), theorems 2 and 4.
    """
    check_counts(samples, draws, width)
    if not error >= 0.0:
        raise SpecError(f"An error must be a number of at least 0, such as 0.02, not {error!r}.")
    return min(1.0, 2.0 * math.exp(-2.0 * samples * draws * (error / width) ** 2))


def hoeffding_error(samples: int, draws: int, confidence: float = 0.95, width: float = 2.0) -> float:
    """The error that is not exceeded with this confidence, t = width sqrt(log(2 / (1 - confidence)) / (2 N_test N_samp)).

    >>> round(hoeffding_error(1000, 50), 4)
    0.0121
    """
    check_counts(samples, draws, width)
    as_confidence(confidence)
    return width * math.sqrt(math.log(2.0 / (1.0 - confidence)) / (2.0 * samples * draws))


def check_counts(samples: int, draws: int, width: float) -> None:
    """Raise unless there is something to bound."""
    if samples < 1 or draws < 1:
        raise SpecError(f"Hoeffding's bound needs at least one sample and one draw, not {samples} and {draws}.")
    if not 0.0 < width < math.inf:
        raise SpecError(f"Hoeffding's bound needs values within a range of finite width, such as 2 for a cosine, not {width!r}.")


def correlation(a: Array, b: Array, confidence: float = 0.95) -> Interval:
    """Pearson's r of two scores over the n samples (n,) that have both, with Fisher's interval tanh(atanh r +- z / sqrt(n - 3)).

    NaN where a score does not vary or fewer than two samples have both; the ends need four. For two scores that lie on a
    line the interval has no width. As in appendix G, where sensitivity is held against equivariance.

    >>> found = correlation(np.array([1.0, 2.0, 3.0, 4.0, np.nan]), np.array([2.0, 1.0, 4.0, 3.0, 9.0]))
    >>> round(found.value, 3), round(found.low, 3), round(found.high, 3), found.n
    (0.6, -0.853, 0.99, 4)

    Reference: Fisher, On the probable error of a coefficient of correlation deduced from a small sample (Metron 1921).
    """
    as_confidence(confidence)
    if a.shape != b.shape or a.ndim != 1:
        raise InputError(f"A correlation needs two scores of the same samples, each of shape (samples,), not {a.shape} and {b.shape}.")
    both = np.isfinite(a) & np.isfinite(b)
    n = int(both.sum())
    u, v = unit(a[both]), unit(b[both])
    if u is None or v is None:
        return Interval(value=np.nan, low=np.nan, high=np.nan, n=n)
    r = float(np.clip(u @ v, -1.0, 1.0))
    if n < 4:
        return Interval(value=r, low=np.nan, high=np.nan, n=n)
    centre = math.atanh(r) if abs(r) < 1.0 else math.copysign(math.inf, r)
    reach = float(ndtri(0.5 + confidence / 2.0)) / math.sqrt(n - 3)
    return Interval(value=r, low=math.tanh(centre - reach), high=math.tanh(centre + reach), n=n)


def unit(x: Array) -> Array | None:
    """The values (n,) less their mean, as a vector of length 1; None if they do not vary."""
    if len(x) < 2 or bool((x == x[0]).all()):
        return None
    x = x - x[0]
    x = x / np.abs(x).max()
    x = x - x.mean()
    return np.asarray(x / np.linalg.norm(x), dtype=np.float64)
