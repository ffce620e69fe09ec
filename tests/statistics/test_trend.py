"""Page's test over seeds, slopes, Holm's correction, and what is made of them."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from veracity.core.errors import InputError
from veracity.core.measures import Direction
from veracity.statistics.trend import holm, page_p, trend, trend_verdict

DAMAGE = [0.0, 0.05, 0.10, 0.30]
FALLING = np.array([[0.9, 0.8, 0.6, 0.5], [0.8, 0.7, 0.6, 0.2], [1.0, 0.9, 0.8, 0.7]])


def literal(values):
    """Page's p-value by all orders of all blocks."""
    ranks = stats.rankdata(values, axis=1)
    weights = np.arange(1, values.shape[1] + 1)
    seen = (ranks * weights).sum()
    totals = [
        sum(float(np.dot(block, weights)) for block in blocks)
        for blocks in itertools.product(*(list(itertools.permutations(block)) for block in ranks))
    ]
    return float(np.mean([total >= seen - 1e-9 for total in totals]))


@given(st.integers(0, 10_000), st.integers(2, 4))
def test_p_is_the_share_of_all_orders_ties_or_not(seed, kinds):
    values = np.random.default_rng(seed).integers(0, kinds, size=(3, 3)).astype(float)
    assert page_p(values) == pytest.approx(literal(values), abs=1e-12)


def test_p_is_scipys_where_nothing_is_tied():
    generator = np.random.default_rng(0)
    for shape, method in (((3, 4), "exact"), ((5, 4), "exact"), ((3, 6), "exact"), ((3, 9), "asymptotic")):
        values = generator.normal(size=shape)
        assert page_p(values) == pytest.approx(stats.page_trend_test(values, method=method).pvalue, abs=1e-9)


def test_scipy_does_not_know_ties():
    assert page_p(np.ones((3, 4))) == 1.0
    assert page_p(np.ones((3, 9))) == 1.0
    assert stats.page_trend_test(np.ones((3, 4))).pvalue < 0.6


def test_values_that_differ_by_rounding_are_tied():
    assert page_p(np.array([[0.1 + 0.2, 0.3, 0.3, 0.3]] * 3)) == 1.0


def test_a_monotone_score_has_the_smallest_p_there_is():
    found = trend(FALLING, DAMAGE, Direction.HIGHER)
    assert found.p == pytest.approx(24.0**-3)
    assert trend(FALLING, DAMAGE, Direction.LOWER).p == pytest.approx(1.0)
    assert trend(-FALLING, DAMAGE, Direction.LOWER).p == pytest.approx(24.0**-3)
    generator = np.random.default_rng(1)
    assert min(page_p(generator.normal(size=(3, 4))) for _ in range(300)) >= 24.0**-3 * (1 - 1e-9)


def test_without_a_trend_p_is_at_most_alpha_in_alpha_of_the_cases():
    generator = np.random.default_rng(2)
    p = np.array([page_p(generator.normal(size=(3, 4))) for _ in range(1000)])
    for alpha in (0.01, 0.05, 0.2, 0.5):
        slack = 3 * np.sqrt(alpha * (1 - alpha) / len(p))
        assert 0.6 * alpha - slack < np.mean(p <= alpha) < alpha + slack


def test_slopes_are_least_squares_lines_with_a_t_interval_over_seeds():
    found = trend(FALLING, DAMAGE, Direction.HIGHER)
    slopes = [np.polyfit(DAMAGE, row, 1)[0] for row in FALLING]
    reach = stats.t.ppf(0.975, 2) * np.std(slopes, ddof=1) / np.sqrt(3)
    assert (found.slope, found.low, found.high) == pytest.approx((np.mean(slopes), np.mean(slopes) - reach, np.mean(slopes) + reach))
    assert trend(np.array([[3.0, 1.0]] * 3), [0.0, 0.5], Direction.HIGHER).slope == pytest.approx(-4.0)


def test_a_push_in_a_random_direction_looks_like_a_trend_more_often_and_the_slope_knows():
    generator = np.random.default_rng(3)
    found = [trend(generator.normal(size=(3, 1)) * DAMAGE, DAMAGE, Direction.HIGHER) for _ in range(1000)]
    assert 0.1 < np.mean([one.p <= 0.05 for one in found]) < 0.15
    assert np.mean([one.high < 0 for one in found]) < 0.045


def test_seeds_with_undefined_values_are_left_out_and_too_few_leave_nothing():
    broken = np.vstack([FALLING, [0.9, np.nan, 0.5, np.nan]])
    found = trend(broken, DAMAGE, Direction.HIGHER)
    assert (found.n, found.undefined) == (3, 2)
    assert found.p == trend(FALLING, DAMAGE, Direction.HIGHER).p
    nothing = trend(broken[1:], DAMAGE, Direction.HIGHER)
    assert (nothing.n, nothing.undefined) == (2, 2)
    assert np.isnan([nothing.p, nothing.slope, nothing.low, nothing.high]).all()
    assert trend_verdict(nothing.p, nothing) == "undefined"


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_step_by_step(p):
    order = sorted(range(len(p)), key=lambda index: p[index])
    expected, most = [0.0] * len(p), 0.0
    for step, index in enumerate(order):
        most = max(most, (len(p) - step) * p[index])
        expected[index] = min(1.0, most)
    np.testing.assert_allclose(holm(np.array(p)), expected)
    np.testing.assert_allclose(holm(np.array([*p, np.nan]))[:-1], expected)


def test_verdicts():
    found = trend(FALLING, DAMAGE, Direction.HIGHER)
    assert trend_verdict(0.05, found) == "follows"
    assert trend_verdict(0.051, found) == "does not follow"
    assert trend_verdict(0.05, found, confidence=0.99) == "does not follow"


def test_seeds_that_share_their_undamaged_model_do_not_follow_by_chance_more_often_than_said():
    generator = np.random.default_rng(3)
    follows = 0
    for _ in range(800):
        values = np.concatenate([np.full((3, 1), generator.normal()), generator.normal(size=(3, 3))], axis=1)
        found = trend(values, DAMAGE, Direction.HIGHER)
        follows += trend_verdict(found.p, found) == "follows"
    assert follows / 800 < 0.065


def test_too_few_seeds_and_disordered_damage_are_refused():
    with pytest.raises(InputError, match="at least 3 seeds per level, not 2"):
        trend(FALLING[:2], DAMAGE, Direction.HIGHER)
    with pytest.raises(InputError, match="one ascending amount of damage per level"):
        trend(FALLING, DAMAGE[::-1], Direction.HIGHER)
    with pytest.raises(InputError, match="one ascending amount of damage per level"):
        trend(FALLING, DAMAGE[:3], Direction.HIGHER)
