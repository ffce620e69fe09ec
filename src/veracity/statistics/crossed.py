"""The interval of a mean over samples and draws that are crossed: every draw is seen by all samples.

A draw of a model's weights moves all samples together, so that more samples do not average it away. With values
y_ij = mu + a_i + b_j + c_ij, of variances s_sample^2, s_draw^2 and s_both^2 (c holds the noise too),

    var(mean) = s_sample^2 / N + s_draw^2 / M + s_both^2 / (N M)

for N samples and M draws. Values within a draw vary by s_sample^2 + s_both^2, values within a sample by
s_draw^2 + s_both^2, and all values together by what tells the three apart.

Reference: Henderson, Estimation of variance and covariance components (Biometrics 1953), method 1; Satterthwaite, An
approximate distribution of estimates of variance components (Biometrics Bulletin 1946).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from veracity.core.errors import InputError
from veracity.statistics.intervals import Array, Interval, around, equal, satterthwaite, third_cumulant


@dataclass(frozen=True, kw_only=True)
class Components:
    """Variances of samples, of draws, and of both together, none below zero; NaN where they cannot be told apart."""

    sample: float
    draw: float
    both: float


def crossed_interval(values: Array, confidence: float = 0.95, *, population: int | None = None, scale: float = 0.0) -> Interval:
    """The mean over samples of their means over shared draws, with the interval for other samples and other draws.

    `values` (samples, draws), NaN where undefined. The variance is the sum above, in which a missing value changes the
    weights; written in mean squares it is (MS_sample + MS_draw - MS_both) / (N M), from which Satterthwaite's degrees of
    freedom follow. Of a finite `population` of distinct draws, the share that was not drawn remains of s_draw^2. Where samples'
    or draws' means are skewed, the interval reaches further on that side: the third cumulants of the two add up. It has no
    width where all values are equal up to rounding (see `mean_interval` for `scale`). The ends are NaN with fewer than two
    samples or draws; n is the number of samples.

    >>> found = crossed_interval(np.array([[0.0, 1.0, 2.0], [1.0, 2.0, 3.0], [2.0, 3.0, 4.5]]))
    >>> round(found.low, 3), round(found.value, 3), round(found.high, 3), found.n
    (-0.406, 2.056, 4.729, 3)
    """
    y = table(values)
    defined = np.isfinite(y)
    (n, m), seen = y.shape, defined.sum(axis=1)
    if n == 0:
        return Interval(value=np.nan, low=np.nan, high=np.nan, n=0)
    value = float((np.where(defined, y, 0.0).sum(axis=1) / seen).mean())
    found = components(y)
    if np.isnan(found.both):
        return Interval(value=value, low=np.nan, high=np.nan, n=n)
    if equal(y[defined], scale):
        return Interval(value=value, low=value, high=value, n=n)
    weight = defined / (n * seen[:, None])
    both, draws = found.both * float((weight**2).sum()), found.draw * float((weight.sum(axis=0) ** 2).sum())
    left = 1.0 if population is None else max(0.0, 1.0 - m / population)
    in_samples, in_draws = float(found.sample > 0.0), left * float(found.draw > 0.0)
    parts = np.array([in_samples * (found.sample / n + both), in_draws * (draws + both), (1.0 - in_samples - in_draws) * both])
    freedom = np.array([n - 1, m - 1, defined.sum() - n - m + 1])
    by_sample, by_draw = (np.where(defined, y, 0.0).sum(axis=axis) / defined.sum(axis=axis) for axis in (1, 0))
    third = float(third_cumulant(by_sample) + left**1.5 * third_cumulant(by_draw))
    return around(value, float(np.sqrt(parts.sum())), satterthwaite(parts, freedom), confidence, n, third=third)


def components(values: Array) -> Components:
    """The three variances of values (samples, draws), by the method of moments: unbiased, also where values are missing.

    With sums of squares around the means of samples, of draws and of all k values,
    s_draw^2 + s_both^2 = SS_within_samples / (k - N), s_sample^2 + s_both^2 = SS_within_draws / (k - M), and the total gives
    the third equation; where nothing is missing this is the analysis of variance. Negative ones become zero.

    >>> components(np.array([[0.0, 2.0], [4.0, 6.0], [8.0, 13.0]]))
    Components(sample=22.0, draw=4.0, both=1.5)
    """
    y = table(values)
    defined = np.isfinite(y)
    k, (n, m) = int(defined.sum()), y.shape
    rows, columns = defined.sum(axis=1), defined.sum(axis=0)
    if n < 2 or m < 2 or k - n - m + 1 < 1:
        return Components(sample=np.nan, draw=np.nan, both=np.nan)
    y = np.where(defined, y - y[defined][0], 0.0)
    around_sample = np.where(defined, y - (y.sum(axis=1) / rows)[:, None], 0.0)
    around_draw = np.where(defined, y - y.sum(axis=0) / columns, 0.0)
    around_all = np.where(defined, y - y.sum() / k, 0.0)
    in_sample, in_draw = float((around_sample**2).sum()) / (k - n), float((around_draw**2).sum()) / (k - m)
    from_rows, from_columns = k - float((rows**2).sum()) / k, k - float((columns**2).sum()) / k
    left = from_rows * in_draw + from_columns * in_sample - float((around_all**2).sum())
    both = max(0.0, left / (from_rows + from_columns - k + 1))
    return Components(sample=max(0.0, in_draw - both), draw=max(0.0, in_sample - both), both=both)


def table(values: Array) -> Array:
    """Values (samples, draws) without the samples and draws that have none."""
    if values.ndim != 2:
        raise InputError(f"Crossed values must have the shape (samples, draws), not {values.shape}.")
    defined = np.isfinite(values)
    return values[defined.any(axis=1)][:, defined.any(axis=0)]
