"""Intervals the slow way, for the tests of statistics."""

from __future__ import annotations

import math

import numpy as np
from scipy import stats


def hidden(values: np.ndarray) -> float:
    """The third cumulant of the mean, made larger by what a small sample hides."""
    n, mean = len(values), sum(values) / len(values)
    return (1 + 12 / math.sqrt(n)) * sum((value - mean) ** 3 for value in values) / n / n**2


def skewed(value: float, error: float, third: float, freedom: float, confidence: float = 0.95) -> tuple[float, float]:
    """t standard errors to either side, and further on the side of the longer tail."""
    reach, z = stats.t.ppf(0.5 + confidence / 2, freedom), stats.norm.ppf(0.5 + confidence / 2)
    further = third / error**3 * (1 + 2 * z**2) / 6
    return value - error * (reach + max(0.0, -further)), value + error * (reach + max(0.0, further))


def skewed_mean(values: np.ndarray, confidence: float = 0.95) -> tuple[float, float]:
    """The interval of the mean of independent values."""
    error = np.std(values, ddof=1) / math.sqrt(len(values))
    return skewed(float(np.mean(values)), error, hidden(values), len(values) - 1, confidence)
