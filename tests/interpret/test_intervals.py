from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from veracity.core.errors import InputError, SpecError
from veracity.interpret.intervals import Interval, mean_interval, paired, welch


def numbers(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(seed, 1 + seed, n)


def ends(found: Interval) -> tuple[float, float]:
    return found.low, found.high


def test_mean_by_hand() -> None:
    found = mean_interval(np.array([0.0, 2.0, np.nan]), confidence=0.5)
    assert (found.value, found.n) == (1.0, 2)
    assert ends(found) == pytest.approx((0.0, 2.0))


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_intervals_are_scipys(confidence: float) -> None:
    a, b, c = numbers(12, 1), numbers(12, 2), numbers(7, 3)
    assert ends(mean_interval(a, confidence)) == pytest.approx(tuple(stats.ttest_1samp(a, 0).confidence_interval(confidence)))
    assert ends(paired(a, b, confidence)) == pytest.approx(tuple(stats.ttest_rel(a, b).confidence_interval(confidence)))
    unequal = stats.ttest_ind(a, c, equal_var=False).confidence_interval(confidence)
    assert ends(welch(a, c, confidence)) == pytest.approx(tuple(unequal))
    assert welch(a, c).value == pytest.approx(a.mean() - c.mean())


def test_missing_values_are_left_out() -> None:
    a, b = numbers(12, 1), numbers(12, 2)
    holed_a, holed_b = a.copy(), b.copy()
    holed_a[3], holed_b[8] = np.nan, np.nan
    kept = [row for row in range(12) if row not in (3, 8)]
    assert paired(holed_a, holed_b) == paired(a[kept], b[kept])
    assert welch(holed_a, holed_b) == welch(np.delete(a, 3), np.delete(b, 8))


def test_too_few_values_have_no_interval() -> None:
    one = mean_interval(np.array([0.4, np.nan]))
    assert (one.value, one.n) == (0.4, 1)
    assert math.isnan(one.low)
    assert math.isnan(one.high)
    assert math.isnan(mean_interval(np.array([])).value)
    assert math.isnan(welch(np.array([1.0, 2.0]), np.array([1.0])).low)
    assert math.isnan(welch(np.array([1.0, 2.0]), np.array([np.nan])).value)


def test_values_without_spread_have_an_interval_without_width() -> None:
    constant = np.full(37, 0.1)
    assert ends(mean_interval(constant)) == (constant.mean(), constant.mean())
    assert ends(welch(constant, np.full(3, 0.4))) == pytest.approx((-0.3, -0.3), abs=1e-12)


def test_mistakes_are_named() -> None:
    with pytest.raises(SpecError, match=r"between 0 and 1, such as 0\.95, not 95"):
        mean_interval(numbers(5, 1), confidence=95)
    with pytest.raises(InputError, match="equal numbers, not 5 and 6"):
        paired(numbers(5, 1), numbers(6, 1))
