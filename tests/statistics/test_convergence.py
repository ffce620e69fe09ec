"""How estimates settle: against the estimate of every prefix, by coverage, and Hoeffding's promise with its condition."""

import math

import numpy as np
import pytest

from veracity.core.errors import InputError, SpecError
from veracity.core.walks import Sampling
from veracity.statistics.convergence import convergence, hoeffding, hoeffding_error
from veracity.statistics.means import estimate


def table(samples=7, draws=12, seed=0):
    """Samples with means and spreads of their own, between -1 and 1; some draws undefined, one sample wholly."""
    rng = np.random.default_rng(seed)
    values = np.clip(
        rng.uniform(-0.5, 0.9, (samples, 1)) + rng.uniform(0, 0.4, (samples, 1)) * rng.standard_normal((samples, draws)), -1, 1
    )
    values[rng.random(values.shape) < 0.15] = np.nan
    values[2], values[3, :5], values[4, 1:] = np.nan, np.nan, np.nan
    return values


@pytest.mark.parametrize("population", [None, 12, 40])
def test_every_prefix_is_its_own_estimate(population):
    values, sampling = table(), Sampling(population=population)
    found = convergence(values, sampling, (-1.0, 1.0), confidence=0.9)
    assert found.draws.tolist() == list(range(1, 13))
    for m in range(1, 13):
        expected = estimate(values[:, :m], sampling, (-1.0, 1.0), confidence=0.9)
        got = (found.value[m - 1], found.low[m - 1], found.high[m - 1])
        assert got == pytest.approx((expected.value, expected.draws_low, expected.draws_high), abs=1e-12, nan_ok=True)


def test_by_hand():
    """Two samples, two draws: variances .02 and 0, so the error is sqrt(.02 / 2) / 2 = .05, less where 2 of 4 elements are seen."""
    values = np.array([[0.5, 0.7], [0.2, 0.2]])
    assert convergence(values).error[1] == pytest.approx(0.05)
    assert convergence(values).value.tolist() == pytest.approx([0.35, 0.4])
    assert convergence(values, Sampling(population=4)).error[1] == pytest.approx(0.05 * math.sqrt(0.5))
    exact = convergence(values, Sampling(population=2))
    assert (exact.low[1], exact.high[1]) == (exact.value[1], exact.value[1])


def test_a_perfect_score_has_settled_at_once():
    found = convergence(np.full((5, 4), 0.1))
    assert found.value == pytest.approx(0.1)
    assert (found.low[1:] == found.high[1:]).all()
    assert np.isnan(found.low[0])


def test_nothing_defined_is_nan():
    found = convergence(np.full((2, 3), np.nan))
    assert np.isnan(np.stack([found.value, found.low, found.high])).all()


def test_intervals_cover_after_every_number_of_draws():
    """20 samples with different means and skewed draws; 400 repetitions; 95 % within what 400 can tell."""
    rng = np.random.default_rng(1)
    means = rng.uniform(0.2, 0.8, 20)
    covered = np.zeros(11)
    for _ in range(400):
        values = rng.beta(4 * means[:, None], 4 * (1 - means[:, None]), (20, 12))
        found = convergence(values)
        covered += (found.low[1:] <= means.mean()) & (means.mean() <= found.high[1:])
    assert np.abs(covered / 400 - 0.95).max() < 4 * math.sqrt(0.95 * 0.05 / 400)


def test_hoeffding_with_the_papers_numbers():
    """1,000 samples, 50 draws, t = .02: 2 exp(-10) < 1e-4; and the inverse brings t back."""
    assert hoeffding(1000, 50, 0.02) == pytest.approx(2 * math.exp(-10))
    assert hoeffding(1000, 50, 0.02) < 1e-4
    assert hoeffding(10, 5, 0.01) == 1.0
    assert hoeffding(100, 50, 0.03, width=1.0) == pytest.approx(2 * math.exp(-2 * 5000 * 0.0009))
    for confidence in (0.5, 0.95, 0.9999):
        assert hoeffding(433, 50, hoeffding_error(433, 50, confidence)) == pytest.approx(1 - confidence)


def test_hoeffding_holds_for_independent_draws_and_fails_for_shared_ones():
    """Signs, the widest values there are: own draws for each of 20 samples stay within the bound, shared ones do not."""
    rng = np.random.default_rng(2)
    own = rng.choice([-1.0, 1.0], (4000, 20, 10)).mean(axis=(1, 2))
    shared = rng.choice([-1.0, 1.0], (4000, 1, 10)).mean(axis=(1, 2))
    for error in (0.1, 0.15, 0.2):
        assert (np.abs(own) >= error).mean() <= hoeffding(20, 10, error)
    assert (np.abs(shared) >= 0.3).mean() > 0.2 > hoeffding(20, 10, 0.3)


@pytest.mark.parametrize(
    ("sampling", "reason"),
    [
        (Sampling(exhaustive=True, population=4), "an exhaustive walk visits the elements in a fixed order"),
        (Sampling(anytime=0.95), "an adaptive walk stops because of its values"),
        (Sampling(nested=False), "all samples share their draws"),
    ],
)
def test_first_draws_that_are_no_sample_are_refused(sampling, reason):
    with pytest.raises(InputError, match=f"because {reason}: use the walk 'monte_carlo'"):
        convergence(np.zeros((2, 4)), sampling)


def test_misuse_is_refused():
    with pytest.raises(InputError, match=r"shape \(samples, draws\), not \(4,\)"):
        convergence(np.zeros(4))
    with pytest.raises(SpecError, match="at least one sample and one draw, not 0 and 5"):
        hoeffding(0, 5, 0.1)
    with pytest.raises(SpecError, match="finite width"):
        hoeffding_error(1, 1, width=math.inf)
    with pytest.raises(SpecError, match="at least 0"):
        hoeffding(1, 1, math.nan)
    with pytest.raises(SpecError, match="confidence must lie between 0 and 1"):
        hoeffding_error(1, 1, confidence=1.0)
