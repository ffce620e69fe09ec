import numpy as np
import pytest
from scipy.stats import pearsonr

from veracity.core.errors import InputError, SpecError
from veracity.statistics.convergence import correlation


def pair(n, r, seed=0):
    rng = np.random.default_rng(seed)
    a, noise = rng.standard_normal(n), rng.standard_normal(n)
    return a, r * a + np.sqrt(1 - r**2) * noise


@pytest.mark.parametrize(("n", "r"), [(4, 0.0), (10, -0.6), (1000, 0.99)])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_against_scipy(n, r, confidence):
    a, b = pair(n, r)
    found, expected = correlation(a, b, confidence), pearsonr(a, b)
    ends = expected.confidence_interval(confidence)
    assert (found.value, found.low, found.high) == pytest.approx((expected.statistic, ends.low, ends.high), abs=1e-12)
    assert found.n == n


def test_samples_without_a_value_are_left_out():
    a, b = pair(20, 0.5)
    holes_a, holes_b = np.append(a, [np.nan, 7.0, np.inf]), np.append(b, [1.0, np.nan, 2.0])
    assert correlation(holes_a, holes_b) == correlation(a, b)


def test_neither_place_nor_scale_matters():
    a, b = pair(30, -0.4)
    found, moved = correlation(a, b), correlation(1e-200 * a, 5.0 - 1e100 * b)
    assert (moved.value, moved.low, moved.high) == pytest.approx((-found.value, -found.high, -found.low), abs=1e-9)


def test_lines_and_what_does_not_vary():
    a = np.arange(5.0)
    line = correlation(a, 2 - 3 * a)
    assert (line.value, line.low, line.high) == pytest.approx((-1, -1, -1), abs=1e-6)
    assert np.isnan(correlation(a, np.full(5, 0.1)).value)
    assert np.isnan(correlation(a[:1], a[:1]).value)
    assert correlation(np.zeros(0), np.zeros(0)).n == 0
    three = correlation(np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0]))
    assert three.value == pytest.approx(0.5)
    assert np.isnan([three.low, three.high]).all()


def test_the_interval_covers():
    """95 % of 600 intervals for normal pairs with r = -.6, within three standard errors."""
    rows = [correlation(*pair(25, -0.6, seed)) for seed in range(600)]
    covered = np.mean([row.low <= -0.6 <= row.high for row in rows])
    assert abs(covered - 0.95) < 3 * np.sqrt(0.95 * 0.05 / 600)


def test_misuse_is_refused():
    with pytest.raises(InputError, match=r"same samples, each of shape \(samples,\), not \(3,\) and \(4,\)"):
        correlation(np.zeros(3), np.zeros(4))
    with pytest.raises(SpecError, match=r"^The confidence must lie between 0 and 1"):
        correlation(np.zeros(3), np.zeros(3), confidence=95)
