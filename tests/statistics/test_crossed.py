"""Samples crossed with draws: by hand, as analysis of variance, with values missing, and how often the interval holds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from interval_oracles import hidden, skewed
from veracity.core.errors import InputError, SpecError
from veracity.core.walks import Sampling
from veracity.statistics.crossed import crossed_interval, variance_components
from veracity.statistics.differences import crossed_differences, mean_differences
from veracity.statistics.intervals import mean_interval
from veracity.statistics.means import estimate

WIDE = (-1e9, 1e9)
SHARED = Sampling(nested=False)


def crossed(rng, samples, draws, *, sample=1.0, draw=1.0, both=1.0):
    """Values with effects of these standard deviations around 0."""
    return rng.normal(0, sample, (samples, 1)) + rng.normal(0, draw, (1, draws)) + rng.normal(0, both, (samples, draws))


def anova(y):
    """Mean squares of samples, of draws, and of the rest, from a full table."""
    n, m = y.shape
    rest = y - y.mean(axis=1, keepdims=True) - y.mean(axis=0) + y.mean()
    return m * y.mean(axis=1).var(ddof=1), n * y.mean(axis=0).var(ddof=1), (rest**2).sum() / ((n - 1) * (m - 1))


def test_by_hand():
    """Means 1, 5, 10.5 of samples and 4, 7 of draws: mean squares 45.5, 13.5 and 1.5, so that var = (45.5 + 13.5 - 1.5) / 6.

    The samples' means lie -4.5, -.5 and 5 from theirs: their cubes add up to 33.75. Two draws have no skewness.
    """
    y = np.array([[0.0, 2.0], [4.0, 6.0], [8.0, 13.0]])
    assert anova(y) == pytest.approx((45.5, 13.5, 1.5))
    found = variance_components(y)
    assert (found.sample, found.draw, found.both) == pytest.approx((22.0, 4.0, 1.5))
    variance = 22 / 3 + 4 / 2 + 1.5 / 6
    assert variance == pytest.approx(57.5 / 6)
    freedom = 57.5**2 / (45.5**2 / 2 + 13.5**2 / 1 + 1.5**2 / 2)
    reach = stats.t.ppf(0.975, freedom) * math.sqrt(variance)
    further = (1 + 12 / math.sqrt(3)) * 33.75 / 27 / variance * (1 + 2 * 1.959964**2) / 6
    interval = crossed_interval(y)
    assert (interval.low, interval.value, interval.high) == pytest.approx((5.5 - reach, 5.5, 5.5 + reach + further))
    assert interval.n == 3


@pytest.mark.parametrize(("sample", "draw"), [(1.0, 1.0), (1.0, 0.0), (0.0, 1.0), (0.0, 0.0)])
def test_full_tables_are_analysis_of_variance(sample, draw):
    rng = np.random.default_rng(2)
    cases = set()
    for _ in range(30):
        y = crossed(rng, 7, 4, sample=sample, draw=draw)
        of_samples, of_draws, rest = anova(y)
        parts = max(0.0, (of_samples - rest) / 4), max(0.0, (of_draws - rest) / 7), rest
        found = variance_components(y)
        assert (found.sample, found.draw, found.both) == pytest.approx(parts, abs=1e-12)
        variance = parts[0] / 7 + parts[1] / 4 + parts[2] / 28
        there = [float(part > 0) for part in parts[:2]]
        used = np.array([there[0] * of_samples, there[1] * of_draws, (1 - sum(there)) * rest])
        assert used.sum() == pytest.approx(28 * variance)
        freedom = used.sum() ** 2 / (used**2 / [6, 3, 18]).sum()
        third = hidden(y.mean(axis=1)) + hidden(y.mean(axis=0))
        interval = crossed_interval(y, 0.9)
        assert (interval.low, interval.high) == pytest.approx(skewed(y.mean(), math.sqrt(variance), third, freedom, 0.9))
        cases.add(tuple(there))
    assert len(cases) > 1 or sample == draw == 1.0


def test_a_table_with_holes_estimates_the_same_variances():
    """The method of moments is unbiased with a third of the values missing: variances 4, 1 and 2 within 4 standard errors."""
    rng = np.random.default_rng(5)
    found = []
    for _ in range(600):
        y = crossed(rng, 12, 9, sample=2.0, draw=1.0, both=math.sqrt(2.0))
        y[rng.random(y.shape) < 0.35] = np.nan
        one = variance_components(y)
        found.append((one.sample, one.draw, one.both))
    mean, error = np.mean(found, axis=0), np.std(found, axis=0) / math.sqrt(600)
    assert (np.abs(mean - [4.0, 1.0, 2.0]) < 4 * error).all()
    assert (error < 0.1).all()


def test_holes_only_change_the_weights():
    """The variance of a mean of means, from the weight of every value, summed the slow way."""
    y = crossed(np.random.default_rng(6), 6, 5, sample=2.0, draw=2.0)
    y[0, :3], y[4, 4], y[:, 2] = np.nan, np.nan, np.nan
    found, interval = variance_components(y), crossed_interval(y)
    weight = np.zeros(y.shape)
    for i, row in enumerate(y):
        for j in np.flatnonzero(np.isfinite(row)):
            weight[i, j] = 1 / 6 / np.isfinite(row).sum()
    assert interval.value == pytest.approx(np.nansum(weight * y))
    of_draws = (weight.sum(axis=0) ** 2).sum()
    variance = found.sample / 6 + found.draw * of_draws + found.both * (weight**2).sum()
    both = found.both * (weight**2).sum()
    parts = np.array([found.sample / 6 + both, found.draw * of_draws + both, both])
    freedom = variance**2 / (parts**2 / [5, 3, np.isfinite(y).sum() - 6 - 4 + 1]).sum()
    assert interval.high - interval.value == pytest.approx(stats.t.ppf(0.975, freedom) * math.sqrt(variance))


def test_a_sample_or_draw_without_values_changes_nothing():
    y = crossed(np.random.default_rng(7), 8, 5)
    holed = np.insert(np.insert(y, 3, np.nan, axis=0), 2, np.nan, axis=1)
    assert crossed_interval(holed) == crossed_interval(y)


def test_too_little_has_no_interval():
    one = crossed_interval(np.array([[0.2, 0.4, 0.6]]))
    assert (one.value, one.n) == (pytest.approx(0.4), 1)
    for y in (np.array([[1.0], [2.0]]), np.array([[1.0, np.nan], [np.nan, 2.0]]), np.full((3, 3), np.nan), np.zeros((0, 4))):
        found = crossed_interval(y)
        assert math.isnan(found.low)
        assert math.isnan(found.high)
    same = crossed_interval(np.full((4, 3), 0.1))
    assert same.low == same.value == same.high == pytest.approx(0.1)


def test_a_finite_population_that_was_drawn_leaves_the_samples_alone():
    y = crossed(np.random.default_rng(9), 30, 5)
    full = crossed_interval(y, population=5)
    plain = mean_interval(y.mean(axis=1))
    assert (full.low, full.high) == pytest.approx((plain.low, plain.high))
    ends = [crossed_interval(y, population=size).high for size in (5, 8, 50, None)]
    assert ends == sorted(ends)
    assert ends[0] < ends[1]


@pytest.mark.parametrize("draws", [5, 10])
def test_the_interval_covers_the_mean_where_that_of_the_samples_does_not(draws):
    """Forty samples, a strong draw effect, 500 repeats: at least 93 %, where samples alone are right in fewer than 70 %."""
    rng = np.random.default_rng(draws)
    held, naive, widths = 0, 0, []
    for _ in range(500):
        y = crossed(rng, 40, draws, draw=1.5)
        found, plain = estimate(y, SHARED, WIDE), estimate(y, Sampling(), WIDE)
        held += found.low <= 0.0 <= found.high
        naive += plain.low <= 0.0 <= plain.high
        widths.append(found.high - found.low)
    assert 0.93 <= held / 500 <= 0.975
    assert naive / 500 < 0.7
    least = 2 * stats.t.ppf(0.975, draws - 1) * math.sqrt(1 / 40 + 1.5**2 / draws + 1 / (40 * draws))
    assert np.mean(widths) < 1.2 * least


@pytest.mark.parametrize(("draw", "missing"), [(0.0, 0.0), (1.0, 0.25)])
def test_the_interval_covers_with_weak_effects_and_with_holes(draw, missing):
    rng = np.random.default_rng(11)
    held = 0
    for _ in range(500):
        y = crossed(rng, 40, 5, draw=draw)
        y[rng.random(y.shape) < missing] = np.nan
        found = crossed_interval(y)
        held += found.low <= 0.0 <= found.high
    assert 0.93 <= held / 500 <= 0.98


def test_estimates_know_when_draws_are_crossed():
    y = crossed(np.random.default_rng(12), 20, 6)
    shared, nested = estimate(y, SHARED, WIDE), estimate(y, Sampling(), WIDE)
    interval = crossed_interval(y)
    assert (shared.low, shared.high) == (interval.low, interval.high)
    assert shared.value == pytest.approx(nested.value)
    assert shared.high - shared.low > nested.high - nested.low
    means = mean_interval(y.mean(axis=0))
    assert (shared.draws_low, shared.draws_high) == pytest.approx((means.low, means.high))
    plain = mean_interval(y.mean(axis=1))
    found = estimate(y, Sampling(exhaustive=True, nested=False), WIDE)
    assert (found.low, found.high) == pytest.approx((plain.low, plain.high))
    for values in (y.mean(axis=1), y.mean(axis=1)[:, None]):  # one draw that all share says nothing about others
        found = estimate(values, SHARED, WIDE)
        assert np.isnan((found.low, found.high)).all()
    part = estimate(y, Sampling(nested=False, population=12), WIDE)
    assert part.high == crossed_interval(y, population=12).high < shared.high
    holed = y.copy()
    holed[3], holed[5, 2] = np.nan, np.nan
    found = estimate(holed, SHARED, WIDE)
    assert (found.n, found.undefined, found.undefined_draws) == (19, 1, 7)
    assert found.value == pytest.approx(crossed_interval(holed).value)
    assert (found.low, found.high) == pytest.approx((crossed_interval(holed).low, crossed_interval(holed).high))


def test_mistakes_are_named():
    with pytest.raises(InputError, match=r"shape \(samples, draws\), not \(3,\)"):
        crossed_interval(np.zeros(3))
    with pytest.raises(SpecError, match="between 0 and 1"):
        crossed_interval(np.array([[1.0, 2.0], [3.0, 5.0]]), confidence=95)


def test_differences_of_crossed_values_count_what_draws_do_to_one_alone() -> None:
    generator = np.random.default_rng(4)
    covered, naive = 0, 0
    for _ in range(300):
        common, own = generator.normal(size=(1, 6)), generator.normal(size=(1, 6))
        one = generator.normal(size=(40, 1)) + common + own + generator.normal(size=(40, 6))
        other = generator.normal(size=(40, 1)) + common + generator.normal(size=(40, 6))
        (row,) = crossed_differences({"one": one, "other": other})
        covered += row.low <= 0 <= row.high
        (plain,) = mean_differences({"one": one.mean(axis=1), "other": other.mean(axis=1)})
        naive += plain.low <= 0 <= plain.high
    assert covered >= 276
    assert naive < 240


def test_equal_values_do_not_differ_and_a_constant_gap_is_not_ranked() -> None:
    values = np.random.default_rng(5).random((4, 3))
    (same,) = crossed_differences({"a": values, "b": values})
    (gap,) = crossed_differences({"a": values + 0.25, "b": values})
    assert (same.differs, same.status, same.low, same.high) == (False, "no difference seen", 0.0, 0.0)
    assert same.unseen == pytest.approx(1 - 0.05 ** (1 / 4))
    assert (gap.differs, gap.status, gap.difference) == (False, "same difference everywhere", pytest.approx(0.25))
    assert crossed_differences({"a": values}) == []
