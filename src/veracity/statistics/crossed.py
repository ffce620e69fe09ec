"""Intervals for means over samples and draws that are crossed: all samples share every draw.

A draw of a model's weights moves all samples together, so more samples do not average it out. With values
y_ij = mu + a_i + b_j + c_ij of variances s_sample^2, s_draw^2 and s_both^2 (c includes the noise),

    var(mean) = s_sample^2 / N + s_draw^2 / M + s_both^2 / (N M)

for N samples and M draws. The variance within a draw is s_sample^2 + s_both^2, and that within a sample s_draw^2 + s_both^2; the
total variance gives the third equation.

Reference: Henderson, Estimation of variance and covariance components (Biometrics 1953), method 1; Satterthwaite, An
approximate distribution of estimates of variance components (Biometrics Bulletin 1946).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from veracity.core.errors import InputError
from veracity.statistics.intervals import Array, Interval, all_equal, satterthwaite, t_interval, third_cumulant
from veracity.statistics.units import Codes, unit_values


@dataclass(frozen=True, kw_only=True)
class VarianceComponents:
    """Variances of samples, of draws and of their interaction, none below 0; NaN if there is too little data to separate them."""

    sample: float
    draw: float
    both: float


def crossed_interval(
    values: Array, confidence: float = 0.95, *, population: int | None = None, scale: float = 0.0, units: Codes | None = None
) -> Interval:
    """The mean over samples of their means over shared draws, with an interval that allows for other samples and other draws.

    `values` (samples, draws) are NaN where undefined; a missing value changes the weights in the variance above. In mean squares
    that variance is (MS_sample + MS_draw - MS_both) / (N M), which gives Satterthwaite's degrees of freedom. For distinct draws from
    a finite `population`, s_draw^2 is multiplied by the share that was not drawn. If the means of samples or draws are skewed, the
    interval is longer on that side: their third cumulants add up. If all values are equal up to rounding, the interval has no
    width (see `mean_interval` for `scale`). The ends are NaN with fewer than two samples or draws; n is the number of samples. With
    `units` (samples,), samples of one unit belong together, and units are what is crossed with the draws; the variance is never smaller
    than that of the samples without units, since units may have equal means by chance.

    >>> found = crossed_interval(np.array([[0.0, 1.0, 2.0], [1.0, 2.0, 3.0], [2.0, 3.0, 4.5]]))
    >>> round(found.low, 3), round(found.value, 3), round(found.high, 3), found.n
    (-0.406, 2.056, 4.729, 3)
    """
    y = drop_empty(values)
    defined = np.isfinite(y)
    n, seen = len(y), defined.sum(axis=1)
    if n == 0:
        return Interval(value=np.nan, low=np.nan, high=np.nan, n=0)
    value = float((np.where(defined, y, 0.0).sum(axis=1) / seen).mean())
    table = y if units is None else drop_empty(unit_values(values, units))
    size, drawn = table.shape
    left = 1.0 if population is None else max(0.0, 1.0 - drawn / population)
    variance, freedom = crossed_variance(table, left)
    if np.isnan(variance):
        return Interval(value=value, low=np.nan, high=np.nan, n=n)
    if all_equal(y[defined], scale):
        return Interval(value=value, low=value, high=value, n=n)
    if units is not None and (plain := crossed_variance(y, left, size))[0] > variance:
        table, (variance, freedom) = y, plain
    known = np.isfinite(table)
    by_sample, by_draw = (np.where(known, table, 0.0).sum(axis=axis) / known.sum(axis=axis) for axis in (1, 0))
    third = float(third_cumulant(by_sample) + left**1.5 * third_cumulant(by_draw))
    return t_interval(value, float(np.sqrt(variance)), freedom, confidence, n, third=third)


def crossed_variance(values: Array, left: float = 1.0, size: int | None = None) -> tuple[float, float]:
    """The variance of the mean over samples of their means over shared draws, and its degrees of freedom; NaN with too little data.

    `left` is the share of a finite population of draws that was not drawn; `size`, how many of the samples are independent, if not all.

    >>> tuple(round(part, 3) for part in crossed_variance(np.array([[0.0, 1.0, 2.0], [1.0, 2.0, 3.0], [2.0, 3.0, 4.5]])))
    (0.781, 3.969)
    """
    y = drop_empty(values)
    defined, found = np.isfinite(y), variance_components(y)
    (n, m), seen = y.shape, defined.sum(axis=1)
    if np.isnan(found.both):
        return np.nan, np.nan
    weight = defined / (n * seen[:, None])
    both, draws = found.both * float((weight**2).sum()), found.draw * float((weight.sum(axis=0) ** 2).sum())
    in_samples, in_draws = float(found.sample > 0.0), left * float(found.draw > 0.0)
    parts = np.array([in_samples * (found.sample / n + both), in_draws * (draws + both), (1.0 - in_samples - in_draws) * both])
    freedom = (size or n) - 1
    return float(parts.sum()), satterthwaite(parts, np.array([freedom, m - 1, min(defined.sum() - n - m + 1, freedom * (m - 1))]))


def variance_components(values: Array) -> VarianceComponents:
    """The three variances of values (samples, draws) by the method of moments, unbiased even if values are missing.

    With sums of squares around the means of samples, of draws and of all k values,
    s_draw^2 + s_both^2 = SS_within_samples / (k - N), s_sample^2 + s_both^2 = SS_within_draws / (k - M), and the total gives the
    third equation. Without missing values this is the analysis of variance. Negative estimates become 0.

    >>> variance_components(np.array([[0.0, 2.0], [4.0, 6.0], [8.0, 13.0]]))
    VarianceComponents(sample=22.0, draw=4.0, both=1.5)
    """
    y = drop_empty(values)
    defined = np.isfinite(y)
    k, (n, m) = int(defined.sum()), y.shape
    rows, columns = defined.sum(axis=1), defined.sum(axis=0)
    if n < 2 or m < 2 or k - n - m + 1 < 1:
        return VarianceComponents(sample=np.nan, draw=np.nan, both=np.nan)
    y = np.where(defined, y - y[defined][0], 0.0)
    around_sample = np.where(defined, y - (y.sum(axis=1) / rows)[:, None], 0.0)
    around_draw = np.where(defined, y - y.sum(axis=0) / columns, 0.0)
    around_all = np.where(defined, y - y.sum() / k, 0.0)
    in_sample, in_draw = float((around_sample**2).sum()) / (k - n), float((around_draw**2).sum()) / (k - m)
    from_rows, from_columns = k - float((rows**2).sum()) / k, k - float((columns**2).sum()) / k
    left = from_rows * in_draw + from_columns * in_sample - float((around_all**2).sum())
    both = max(0.0, left / (from_rows + from_columns - k + 1))
    return VarianceComponents(sample=max(0.0, in_draw - both), draw=max(0.0, in_sample - both), both=both)


def drop_empty(values: Array) -> Array:
    """Values (samples, draws) without the samples and draws that have no defined value."""
    if values.ndim != 2:
        raise InputError(f"Crossed values must have the shape (samples, draws), not {values.shape}.")
    defined = np.isfinite(values)
    return values[defined.any(axis=1)][:, defined.any(axis=0)]
