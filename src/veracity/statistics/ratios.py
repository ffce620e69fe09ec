"""The ratio of two means with Fieller's interval, which knows that the denominator is uncertain too.

The set of ratios t for which the mean of a - t b does not differ from 0. If the denominator does not differ from 0, no ratio can be
excluded, and the interval is unbounded.

Reference: Fieller, Some problems in interval estimation (JRSS B 1954).
"""

from __future__ import annotations

import numpy as np

from veracity.statistics.intervals import Interval, t_quantile


def ratio_interval(
    means: tuple[float, float], variances: tuple[float, float], covariance: float, freedom: float, confidence: float = 0.95, n: int = 0
) -> Interval:
    """The ratio of the first mean to the second with its interval; `variances` and `covariance` are those of the means.

    >>> found = ratio_interval((6.0, 2.0), (0.04, 0.01), 0.0, np.inf)
    >>> round(found.low, 3), found.value, round(found.high, 3)
    (2.673, 3.0, 3.385)
    >>> ratio_interval((6.0, 0.1), (0.04, 0.01), 0.0, np.inf).high
    inf
    """
    (above, below), (of_above, of_below) = means, variances
    value = above / below if below != 0 else np.nan
    if not np.isfinite([above, below, of_above, of_below, covariance]).all() or freedom <= 0:
        return Interval(value=value, low=np.nan, high=np.nan, n=n)
    square = float(t_quantile(confidence, freedom)) ** 2
    a, b, c = below**2 - square * of_below, above * below - square * covariance, above**2 - square * of_above
    if a <= 0:
        return Interval(value=value, low=-np.inf, high=np.inf, n=n)
    root = np.sqrt(max(0.0, b**2 - a * c))
    return Interval(value=value, low=float((b - root) / a), high=float((b + root) / a), n=n)
