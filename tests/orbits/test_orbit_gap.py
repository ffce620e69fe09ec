"""The equivariance gap with its interval, and the agreement of consensus with truth."""

import numpy as np
import pytest
from scipy import stats

from veracity.core.errors import InputError
from veracity.orbits.statistics import agreement, equivariance_gap, spread

NAN = float("nan")


def test_the_gap_leaves_the_identity_out():
    found = equivariance_gap([[0.5, 0.0, 0.1], [0.3, 0.0, 0.5]], identity=1)
    assert found.samples.tolist() == pytest.approx([0.3, 0.4])
    assert found.value == pytest.approx(0.35)
    low, high = stats.t.interval(0.95, 1, loc=0.35, scale=stats.sem([0.3, 0.4]))
    assert (found.low, found.high) == pytest.approx((low, high))
    assert (found.n, found.undefined) == (2, 0)


def test_undefined_distances_are_left_out_and_counted():
    found = equivariance_gap([[0.0, NAN, 0.4], [0.0, NAN, NAN]])
    assert found.samples[0] == pytest.approx(0.4)
    assert (found.n, found.undefined) == (1, 3)
    assert np.isnan(found.low)


def test_the_interval_covers_as_often_as_it_says():
    """The gap of random distances, 400 times over."""
    rng = np.random.default_rng(0)
    covered = [found.low <= 0.5 <= found.high for found in (equivariance_gap(rng.random((20, 6))) for _ in range(400))]
    assert 0.92 <= np.mean(covered) <= 0.98


def test_the_spread_is_of_the_defined_values():
    found = spread([[0.2, NAN, 0.9], [NAN, NAN, NAN], [1.0, 1.0, 1.0]])
    assert found[[0, 2]].tolist() == pytest.approx([0.7, 0.0])
    assert np.isnan(found[1])
    with pytest.raises(InputError, match=r"\(samples, elements\), not \(3,\)"):
        spread([1.0, 2.0, 3.0])


def test_agreement_is_pearsons_per_sample_and_of_the_means():
    rng = np.random.default_rng(1)
    truth = rng.random((5, 9))
    consensus = truth + 0.3 * rng.random((5, 9))
    found = agreement(truth, consensus)
    expected = [stats.pearsonr(a, b).statistic for a, b in zip(truth, consensus, strict=True)]
    assert found.samples.tolist() == pytest.approx(expected)
    assert found.value == pytest.approx(np.mean(expected))
    assert found.low < found.value < found.high
    assert found.aggregate == pytest.approx(stats.pearsonr(truth.mean(axis=0), consensus.mean(axis=0)).statistic)


def test_constant_plots_correlate_with_nothing():
    """Also those that are constant up to float32 rounding."""
    line = np.array([0.1, 0.2, 0.7])
    nearly = np.float32(0.3) + np.array([0.0, 1e-8, -1e-8])
    found = agreement([line, line, nearly], [line, [0.5, 0.5, 0.5], line])
    assert found.samples[0] == pytest.approx(1.0)
    assert np.isnan(found.samples[1:]).all()
    assert (found.n, found.undefined) == (1, 2)
    flat = agreement(np.ones((2, 4)), np.ones((2, 4)))
    assert np.isnan(flat.aggregate)
    assert np.isnan(flat.value)


def test_only_what_the_mask_keeps_counts():
    truth = np.array([[0.0, 1.0, 2.0, 50.0], [0.0, 1.0, 2.0, -9.0]])
    consensus = np.array([[0.0, 1.0, 2.0, -7.0], [2.0, 1.0, 0.0, NAN]])
    mask = np.array([[True, True, True, False], [True, True, True, True]])
    found = agreement(truth, consensus, mask)
    assert found.samples.tolist() == pytest.approx([1.0, -1.0])
    assert np.isnan(found.aggregate)  # the mean of the consensus is 1 everywhere
    with pytest.raises(InputError, match="one shape"):
        agreement(truth, consensus, mask[:, :3])
    with pytest.raises(InputError, match="one shape"):
        agreement(truth, consensus[:1])


def test_the_interval_of_a_correlation_stays_within_what_a_correlation_can_be() -> None:
    found = agreement([[0.0, 1.0, 2.0], [0.0, 1.0, 2.5]], [[0.0, 1.0, 2.0], [1.0, 0.2, 0.9]])
    assert found.low == -1.0
    assert found.high == 1.0
    assert -1.0 < found.value < 1.0
