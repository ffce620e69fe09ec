from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from veracity.core.errors import InputError
from veracity.measure import as_distance, l1, rank_distance, signed_rank_distance, sliced_wasserstein, ssim, wasserstein
from veracity.studies.distances import Verdict, curve, growth, moving, noisy

AT = np.linspace(0.0, 1.0, 21)


def noisy_values(slope: float, seed: int = 0) -> np.ndarray:
    return slope * AT[:, None] + np.random.default_rng(seed).normal(scale=0.1, size=(21, 50))


def test_a_growing_curve_passes() -> None:
    found = growth(AT, (AT**2)[:, None])
    assert (found.verdict, found.trend, found.fall, found.reach) == (Verdict.PASSES, pytest.approx(1.0), 0.0, 1.0)
    assert found.p < 1e-6
    assert math.isnan(found.spread)


def test_a_curve_that_stops_growing_saturates_from_where_it_does() -> None:
    found = growth(AT, np.minimum(AT, 0.4)[:, None])
    assert found.verdict is Verdict.SATURATES
    assert found.reach == pytest.approx(0.4)


def test_a_curve_that_falls_back_fails_by_how_much() -> None:
    found = growth(AT, np.minimum(AT, 1.2 - AT)[:, None])
    assert found.verdict is Verdict.FAILS
    assert found.fall == pytest.approx(0.4 / 0.6)
    assert growth(AT, np.minimum(AT, 1.55 - AT)[:, None]).verdict is Verdict.FAILS
    assert growth(AT, -AT[:, None]).verdict is Verdict.FAILS
    assert growth(AT, -AT[:, None]).p > 0.99


def test_a_curve_that_does_not_move_fails() -> None:
    found = growth(AT, np.full((21, 3), 0.7))
    assert found.verdict is Verdict.FAILS
    assert math.isnan(found.trend)


def test_repeats_give_the_trend_of_all_pairs_and_a_spread() -> None:
    values = noisy_values(1.0)
    found = growth(AT, values)
    rho = stats.spearmanr(np.repeat(AT, 50), values.ravel(), alternative="greater")
    assert (found.trend, found.p) == (rho.statistic, rho.pvalue)
    mean = values.mean(axis=1)
    assert found.spread == pytest.approx(values.std(axis=1, ddof=1).max() / (mean.max() - mean.min()))
    assert found.verdict is Verdict.PASSES


def test_noise_alone_hardly_ever_counts_as_growth() -> None:
    assert [growth(AT, noisy_values(0.0, seed)).verdict for seed in range(40)] == [Verdict.FAILS] * 40


def test_undefined_pairs_are_counted_and_means_are_of_the_rest() -> None:
    values = noisy_values(1.0)
    values[3, :7] = np.nan
    found = growth(AT, values)
    assert (found.verdict, found.undefined) == (Verdict.PASSES, 7)
    values[4] = np.nan
    found = growth(AT, values)
    assert (found.verdict, found.undefined) == (Verdict.UNDEFINED, 57)


def test_distances_of_a_test_are_those_of_single_pairs() -> None:
    test = noisy(16, 3, 4, generator=torch.Generator().manual_seed(0))
    found = curve("l1", l1, test)
    slow = [[l1(test.first, test.others[level, repeat][None]).item() for repeat in range(4)] for level in range(3)]
    assert np.allclose(found.values, slow)
    assert found.seconds > 0
    assert found.mean.tolist() == pytest.approx(np.mean(slow, axis=1).tolist())
    assert found.sd.tolist() == pytest.approx(np.std(slow, axis=1, ddof=1).tolist())


def test_what_a_distance_raises_is_kept_and_what_is_no_distance_is_said() -> None:
    def broken(a: Tensor, b: Tensor) -> Tensor:
        raise ValueError("no")

    test = moving(16, 5)
    found = curve("mine", broken, test)
    assert found.error == "ValueError: no"
    assert np.isnan(found.values).all()
    assert np.isnan(found.mean).all()
    assert growth(found.at, found.values).verdict is Verdict.UNDEFINED
    assert "one number per pair, a tensor of shape (5,), not (5, 1, 16, 16)" in curve("mine", lambda a, b: a - b, test).error


def verdict(distance: object, **settings: bool) -> Verdict:
    test = moving(32, 60, **settings)
    found = curve("", as_distance(distance), test)
    return growth(found.at, found.values).verdict


def test_a_rank_distance_without_sign_takes_the_opposite_corner_for_near() -> None:
    assert verdict(rank_distance) is Verdict.PASSES
    assert verdict(rank_distance, diagonal=True) is Verdict.FAILS
    assert verdict(signed_rank_distance, diagonal=True) is Verdict.PASSES


def test_only_what_knows_positions_tells_far_from_further_once_nothing_overlaps() -> None:
    assert verdict(sliced_wasserstein, disc=True) is Verdict.PASSES
    assert verdict(l1, disc=True) is Verdict.SATURATES
    assert verdict(rank_distance, disc=True) is Verdict.SATURATES
    assert verdict(wasserstein, disc=True) is Verdict.FAILS
    assert verdict(ssim, disc=True) is Verdict.FAILS


def test_the_disc_saturates_where_it_stops_to_overlap() -> None:
    test = moving(32, 100, disc=True)
    found = growth(test.at.numpy(), curve("", l1, test).values)
    way = 31 - 2 * (3.2 + 1.0)
    assert found.reach == pytest.approx(2 * 3.2 / way, abs=0.05)


def test_errors_of_the_package_are_kept_as_they_are() -> None:
    def refusing(a: Tensor, b: Tensor) -> Tensor:
        raise InputError("Give maps.")

    assert curve("mine", refusing, moving(16, 5)).error == "Give maps."
