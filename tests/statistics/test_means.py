from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from interval_oracles import skewed_mean
from veracity.core.errors import InputError
from veracity.core.walks import Sampling
from veracity.statistics.anytime import betting_interval
from veracity.statistics.means import estimate

BOUNDS = (-1.0, 1.0)
NAN = math.nan


def table(samples: int = 8, draws: int = 12, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    centre = generator.beta(6, 2, size=(samples, 1))
    return 2 * generator.beta(8 * centre, 8 * (1 - centre), size=(samples, draws)) - 1


def test_by_hand() -> None:
    """Two samples, two draws each of ten: s^2 = .02 and .08, so that the error is sqrt((.01 + .04) .8) / 2 = .1."""
    found = estimate(np.array([[0.1, 0.3], [0.0, 0.4]]), Sampling(population=10), BOUNDS)
    assert found.value == pytest.approx(0.2)
    freedom = (0.01 + 0.04) ** 2 / (0.01**2 + 0.04**2)
    reach = stats.t.ppf(0.975, freedom) * 0.1
    assert (found.draws_low, found.draws_high) == pytest.approx((0.2 - reach, 0.2 + reach))
    assert (found.low, found.high) == pytest.approx((0.2, 0.2))
    assert (found.n, found.undefined, found.undefined_draws, found.draws) == (2, 0, 0, 2.0)


def test_interval_over_draws_against_the_slow_way() -> None:
    values = table()
    values[2, 5:], values[4, 0] = NAN, NAN
    counts = np.full(8, 12)
    counts[2] = 5
    for population, confidence in ((None, 0.95), (30, 0.9)):
        parts, freedoms = [], []
        for row, made in zip(values, counts, strict=True):
            seen = [value for value in row[:made] if not math.isnan(value)]
            left = 1 if population is None else 1 - made / population
            parts.append(np.var(seen, ddof=1) / len(seen) * left)
            freedoms.append(len(seen) - 1)
        freedom = sum(parts) ** 2 / sum(part**2 / f for part, f in zip(parts, freedoms, strict=True))
        reach = stats.t.ppf(0.5 + confidence / 2, freedom) * math.sqrt(sum(parts)) / 8
        found = estimate(values, Sampling(population=population), BOUNDS, confidence=confidence, counts=counts)
        assert found.value == pytest.approx(np.mean([np.nanmean(row) for row in values]))
        assert (found.draws_low, found.draws_high) == pytest.approx((found.value - reach, found.value + reach))
        assert (found.undefined_draws, found.draws) == (1, 89 / 8)


def test_population_interval_is_that_of_sample_means() -> None:
    values = table(20)
    found = estimate(values, Sampling(), BOUNDS, confidence=0.9)
    assert (found.low, found.high) == pytest.approx(skewed_mean(values.mean(axis=1), 0.9))
    pairs_as_samples = stats.ttest_1samp(values.ravel(), 0).confidence_interval(0.9)
    assert found.high - found.low > 1.5 * (pairs_as_samples.high - pairs_as_samples.low)


def test_exhaustive_draws_have_no_error() -> None:
    found = estimate(table(), Sampling(exhaustive=True, population=12), BOUNDS)
    assert found.draws_low == found.draws_high == found.value
    assert found.low < found.value < found.high


def test_draws_that_stopped_by_their_values_get_bounds_for_any_time() -> None:
    values = table(5, 60)
    counts = np.array([60, 16, 32, 48, 60])
    values[np.arange(60) >= counts[:, None]] = NAN
    for population in (None, 90):
        low, high = betting_interval(values, counts, bounds=BOUNDS, alpha=0.05 / 5, population=population)
        for given in (counts, None):
            found = estimate(values, Sampling(population=population, anytime=0.95), BOUNDS, counts=given)
            assert (found.draws_low, found.draws_high) == pytest.approx((low.mean(), high.mean()))
            assert found.draws == counts.mean()
        assert found.draws_low < found.value < found.draws_high


def test_undefined_is_counted() -> None:
    values = table(6, 10)
    values[1], values[3, 4:6] = NAN, NAN
    found = estimate(values, Sampling(), BOUNDS)
    assert (found.n, found.undefined, found.undefined_draws, found.draws) == (5, 1, 12, 10.0)
    assert found.value == pytest.approx(np.mean([np.nanmean(values[row]) for row in (0, 2, 3, 4, 5)]))


def test_one_sample_has_no_population_interval() -> None:
    found = estimate(table(1), Sampling(population=40), BOUNDS)
    assert math.isnan(found.low)
    assert math.isnan(found.high)
    assert found.draws_low < found.value < found.draws_high


def test_one_draw_a_sample_has_no_interval_over_draws() -> None:
    found = estimate(table(9, 1), Sampling(), BOUNDS)
    assert math.isnan(found.draws_low)
    assert math.isnan(found.draws_high)
    assert found.low < found.value < found.high


def test_a_lone_defined_draw_takes_the_pooled_variance() -> None:
    values = np.array([[0.1, 0.3], [0.5, NAN]])
    found = estimate(values, Sampling(), BOUNDS)
    parts = np.array([0.02 / 2, 0.02])
    reach = stats.t.ppf(0.975, parts.sum() ** 2 / (parts**2).sum()) * math.sqrt(parts.sum()) / 2
    assert (found.draws_low, found.draws_high) == pytest.approx((max(-1.0, 0.35 - reach), min(1.0, 0.35 + reach)))


def test_reduced_values_have_a_population_interval_alone() -> None:
    values = table(9).mean(axis=1)
    values[2] = NAN
    found = estimate(values, Sampling(), BOUNDS)
    assert (found.low, found.high) == pytest.approx(skewed_mean(np.delete(values, 2)))
    assert math.isnan(found.draws_low)
    assert (found.n, found.undefined) == (8, 1)
    exact = estimate(values, Sampling(exhaustive=True), BOUNDS)
    assert exact.draws_low == exact.draws_high == exact.value


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(exhaustive=True), Sampling(population=9), Sampling(anytime=0.95)])
@pytest.mark.parametrize("shape", [(0, 0), (3, 0), (3, 4)])
def test_nothing_defined_gives_nothing(sampling: Sampling, shape: tuple[int, int]) -> None:
    found = estimate(np.full(shape, NAN), sampling, BOUNDS)
    assert all(math.isnan(number) for number in (found.value, found.low, found.high, found.draws_low, found.draws_high))
    assert (found.n, found.undefined) == (0, shape[0])


def test_intervals_keep_to_the_bounds() -> None:
    values = np.array([[1.0, 0.2], [0.9, 1.0], [1.0, 1.0]])
    found = estimate(values, Sampling(), BOUNDS)
    assert found.high == found.draws_high == 1.0
    far = estimate(values, Sampling(), (0.0, math.inf))
    assert far.high > 1.0


def test_more_confidence_is_wider() -> None:
    for sampling in (Sampling(), Sampling(population=20), Sampling(anytime=0.95)):
        narrow, wide = (estimate(table(), sampling, BOUNDS, confidence=level) for level in (0.8, 0.99))
        assert wide.low < narrow.low
        assert wide.draws_high - wide.draws_low > narrow.draws_high - narrow.draws_low


def test_values_must_be_a_table() -> None:
    with pytest.raises(InputError, match=r"\(samples, draws\) or \(samples,\), not \(2, 3, 4\)"):
        estimate(np.zeros((2, 3, 4)), Sampling(), BOUNDS)
