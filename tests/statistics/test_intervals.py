from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from interval_oracles import hidden, skewed, skewed_mean
from veracity.core.errors import InputError, SpecError
from veracity.statistics.intervals import Interval, mean_interval, paired_interval, unseen_share, welch_interval


def numbers(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(seed, 1 + seed, n)


def ends(found: Interval) -> tuple[float, float]:
    return found.low, found.high


def test_mean_by_hand() -> None:
    found = mean_interval(np.array([0.0, 2.0, np.nan]), confidence=0.5)
    assert (found.value, found.n) == (1.0, 2)
    assert ends(found) == pytest.approx((0.0, 2.0))


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_symmetric_values_have_students_interval(confidence: float) -> None:
    a = np.concatenate([numbers(6, 1), 4 - numbers(6, 1)])
    b = np.concatenate([numbers(4, 2), 7 - numbers(4, 2)])
    assert ends(mean_interval(a, confidence)) == pytest.approx(tuple(stats.ttest_1samp(a, 0).confidence_interval(confidence)))
    unequal = stats.ttest_ind(a, b, equal_var=False).confidence_interval(confidence)
    assert ends(welch_interval(a, b, confidence)) == pytest.approx(tuple(unequal))
    assert welch_interval(a, b).value == pytest.approx(a.mean() - b.mean())


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_skewed_values_against_the_slow_way(confidence: float) -> None:
    a, b, c = np.exp(numbers(12, 1)), numbers(12, 2), np.exp(numbers(7, 3) / 3)
    assert ends(mean_interval(a, confidence)) == pytest.approx(skewed_mean(a, confidence))
    assert ends(paired_interval(a, b, confidence)) == pytest.approx(skewed_mean(a - b, confidence))
    plain = stats.ttest_ind(a, c, equal_var=False).confidence_interval(confidence)
    error = math.sqrt(a.var(ddof=1) / 12 + c.var(ddof=1) / 7)
    parts = np.array([a.var(ddof=1) / 12, c.var(ddof=1) / 7])
    freedom = parts.sum() ** 2 / (parts**2 / [11, 6]).sum()
    found = welch_interval(a, c, confidence)
    assert ends(found) == pytest.approx(skewed(a.mean() - c.mean(), error, hidden(a) - hidden(c), freedom, confidence))
    assert found.low <= plain.low + 1e-12
    assert found.high >= plain.high - 1e-12


def test_only_the_side_of_the_longer_tail_reaches_further() -> None:
    """By hand: 0, 0, 3 has mean 1, variance 3 and third central moment 2."""
    found = mean_interval(np.array([0.0, 0.0, 3.0]))
    assert found.low == pytest.approx(1 - 4.302653)
    third = (1 + 12 / math.sqrt(3)) * 2 / 9
    assert found.high == pytest.approx(1 + 4.302653 + third * (1 + 2 * 1.959964**2) / 6)
    turned = mean_interval(-np.array([0.0, 0.0, 3.0]))
    assert ends(turned) == pytest.approx((-found.high, -found.low))


@pytest.mark.parametrize(("n", "least"), [(10, 0.895), (25, 0.925), (50, 0.935)])
def test_the_mean_of_a_skewed_population_is_covered(n: int, least: float) -> None:
    """1 - lognormal with sigma 1.1, of which the plain t interval covers the mean in 82, 86 and 89 %."""
    values = 1 - np.random.default_rng(n).lognormal(0, 1.1, (2000, n))
    truth = 1 - math.exp(1.1**2 / 2)
    found = [mean_interval(row) for row in values]
    plain = values.std(axis=1, ddof=1) / math.sqrt(n) * stats.t.ppf(0.975, n - 1)
    assert np.mean([one.low <= truth <= one.high for one in found]) >= least
    assert np.mean([abs(row.mean() - truth) <= reach for row, reach in zip(values, plain, strict=True)]) < least - 0.02
    assert np.mean([one.high - one.low for one in found]) < 1.8 * 2 * np.mean(plain)


def test_values_equal_up_to_rounding_have_no_width() -> None:
    rounded = 1 + np.array([0.0, 1e-7, -1e-7, 2e-7])
    found = mean_interval(rounded)
    assert found.low == found.high == pytest.approx(1.0)
    assert mean_interval(rounded - 1).low < mean_interval(rounded - 1).high
    tiny = mean_interval(rounded - 1, scale=1.0)
    assert tiny.low == tiny.high


def test_what_equal_samples_leave_unseen() -> None:
    """Were the share larger, samples without any of it would come about in fewer than one case in twenty."""
    for n in (1, 3, 25, 1000):
        assert (1 - unseen_share(n)) ** n == pytest.approx(0.05)
        assert (1 - unseen_share(n, 0.9, comparisons=4)) ** n == pytest.approx(0.025)
    assert math.isnan(unseen_share(0))
    with pytest.raises(SpecError, match="between 0 and 1"):
        unseen_share(5, 95)


def test_missing_values_are_left_out() -> None:
    a, b = numbers(12, 1), numbers(12, 2)
    holed_a, holed_b = a.copy(), b.copy()
    holed_a[3], holed_b[8] = np.nan, np.nan
    kept = [row for row in range(12) if row not in (3, 8)]
    assert paired_interval(holed_a, holed_b) == paired_interval(a[kept], b[kept])
    assert welch_interval(holed_a, holed_b) == welch_interval(np.delete(a, 3), np.delete(b, 8))


def test_too_few_values_have_no_interval() -> None:
    one = mean_interval(np.array([0.4, np.nan]))
    assert (one.value, one.n) == (0.4, 1)
    assert math.isnan(one.low)
    assert math.isnan(one.high)
    assert math.isnan(mean_interval(np.array([])).value)
    assert math.isnan(welch_interval(np.array([1.0, 2.0]), np.array([1.0])).low)
    assert math.isnan(welch_interval(np.array([1.0, 2.0]), np.array([np.nan])).value)


def test_values_without_spread_have_an_interval_without_width() -> None:
    constant = np.full(37, 0.1)
    assert ends(mean_interval(constant)) == (constant.mean(), constant.mean())
    assert ends(welch_interval(constant, np.full(3, 0.4))) == pytest.approx((-0.3, -0.3), abs=1e-12)


def test_mistakes_are_named() -> None:
    with pytest.raises(SpecError, match=r"between 0 and 1, such as 0\.95, not 95"):
        mean_interval(numbers(5, 1), confidence=95)
    with pytest.raises(InputError, match="one a per b, not 5 and 6 values"):
        paired_interval(numbers(5, 1), numbers(6, 1))
