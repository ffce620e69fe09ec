"""Do two scores say the same of the same samples? Their linear correlation, with an interval."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri

from veracity.core.errors import InputError
from veracity.core.settings import as_confidence
from veracity.interpret.intervals import Array, Interval


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
