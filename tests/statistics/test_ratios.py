"""Fieller's interval: by hand, against its definition, and its coverage; and a score over a random one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats
from torch import nn

from veracity import Audit
from veracity.core.errors import InputError, VeracityError
from veracity.results.over_random import differing
from veracity.scores import FastGEF
from veracity.statistics.ratios import ratio_interval


def test_the_ends_are_where_the_test_turns() -> None:
    """At both ends t, the mean of a - t b lies one quantile of standard errors from zero."""
    means, variances, covariance, freedom = (0.6, 0.2), (0.002, 0.0007), 0.0004, 9.0
    found = ratio_interval(means, variances, covariance, freedom)
    for end in (found.low, found.high):
        error = np.sqrt(variances[0] - 2 * end * covariance + end**2 * variances[1])
        assert abs(means[0] - end * means[1]) / error == pytest.approx(stats.t.ppf(0.975, 9))
    assert found.low < found.value < found.high


def test_a_known_denominator_is_the_plain_interval() -> None:
    found = ratio_interval((0.6, 0.2), (0.0004, 0.0), 0.0, 20.0)
    reach = stats.t.ppf(0.975, 20) * 0.02 / 0.2
    assert (found.low, found.high) == (pytest.approx(3.0 - reach), pytest.approx(3.0 + reach))


@pytest.mark.parametrize("random", [0.0, 0.01])
def test_nothing_is_excluded_if_the_denominator_may_be_zero(random: float) -> None:
    found = ratio_interval((0.6, random), (0.0004, 0.0004), 0.0, 20.0)
    assert (found.low, found.high) == (-np.inf, np.inf)


@pytest.mark.parametrize(("random", "least"), [(0.4, 0.93), (0.03, 0.93)])
def test_coverage_of_differences_and_ratios(random: float, least: float) -> None:
    """Crossed draws for the explainer, nested ones for the random map: both intervals hold the truth as often as they say."""
    generator, hits, draws = np.random.default_rng(3), np.zeros(2), 400
    for _ in range(draws):
        samples, copies = 0.1 * generator.standard_normal((30, 1)), 0.1 * generator.standard_normal((1, 5))
        a = 0.6 + samples + copies + 0.2 * generator.standard_normal((30, 5))
        b = random + samples + 0.4 * generator.standard_normal((30, 5))
        difference, ratio, _ = differing(a, b, crossed=(True, False))
        hits += [difference.low <= 0.6 - random <= difference.high, ratio.low <= 0.6 / random <= ratio.high]
    assert (hits / draws >= least).all()
    assert hits[0] / draws <= 0.99


@pytest.mark.parametrize("random", [0.4, 0.03])
def test_copies_that_both_share_cancel(random: float) -> None:
    """Both intervals hold the truth as often as they say, and that of the difference is short."""
    generator, hits, draws, width = np.random.default_rng(4), np.zeros(2), 400, np.zeros(2)
    for _ in range(draws):
        samples, copies = 0.1 * generator.standard_normal((30, 1)), 0.3 * generator.standard_normal((1, 5))
        a = 0.6 + samples + copies + 0.1 * generator.standard_normal((1, 5)) + 0.2 * generator.standard_normal((30, 5))
        b = random + samples + copies + 0.2 * generator.standard_normal((30, 5))
        difference, ratio, _ = differing(a, b, crossed=(True, True))
        hits += [difference.low <= 0.6 - random <= difference.high, ratio.low <= 0.6 / random <= ratio.high]
        apart, _, _ = differing(a, b, crossed=(True, False))
        width += [difference.high - difference.low, apart.high - apart.low]
    assert (hits / draws >= 0.93).all()
    assert hits[0] / draws <= 0.99
    assert width[0] < 0.5 * width[1]
    same, _, _ = differing(a, a - 0.5, crossed=(True, True))
    assert (same.low, same.high) == (pytest.approx(0.5), pytest.approx(0.5))


def test_copies_that_all_samples_share_widen_the_interval() -> None:
    generator = np.random.default_rng(0)
    a = 0.5 + 0.2 * generator.standard_normal((1, 5)) + 0.05 * generator.standard_normal((40, 5))
    b = 0.1 + 0.05 * generator.standard_normal((40, 5))
    (nested, _, _), (crossed, _, _) = (differing(a, b, crossed=(shared, False)) for shared in (False, True))
    assert crossed.high - crossed.low > 4 * (nested.high - nested.low)


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_samples_have_no_interval(count: int) -> None:
    difference, ratio, _ = differing(np.full((count, 2), 0.5), np.full((count, 2), 0.25))
    assert np.isnan([difference.low, ratio.low]).all()
    assert count == 0 or (difference.value, ratio.value) == (0.25, 2.0)


def linear() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Linear(12, 3)


def points() -> torch.Tensor:
    return torch.randn(20, 12, generator=torch.Generator().manual_seed(5))


def test_explainers_over_the_control_that_is_fair_to_them(tmp_path: Path) -> None:
    result = Audit(models=linear(), inputs=points(), explainers=["gradient", "saliency"], scores=[FastGEF(sigma=0.5)]).run(
        tmp_path, progress=False
    )
    table = result.over_random("fast_gef").set_index("explainer")
    assert list(table["random"]) == ["random_gaussian", "random_uniform"]
    means = result.table().set_index("explainer")["value"]
    assert table.loc["gradient", "difference"] == pytest.approx(means["gradient"] - means["random_gaussian"])
    assert table.loc["gradient", "low"] > 0.5
    assert np.isnan(table.loc["gradient", "per_cent"])
    assert table.loc["gradient", "no_per_cent"] == "the random score may be 0"
    other = result.over_random("fast_gef", random="saliency").set_index("explainer")
    assert list(other.index) == ["gradient"]
    assert other.loc["gradient", "no_per_cent"] == ""
    assert other.loc["gradient", "per_cent"] == pytest.approx(100 * (means["gradient"] / means["saliency"] - 1))


def test_a_random_mean_below_zero_has_no_percentage(tmp_path: Path) -> None:
    """The explainer is better, and 100 (a / b - 1) would be negative."""
    audit = Audit(models=linear(), inputs=points(), explainers=["gradient", "saliency"], scores=[FastGEF(sigma=0.5)], companions=False)
    result = audit.run(tmp_path, progress=False)
    for one in result.series:
        one.values[:] = one.values - (2.0 if one.control else 0.0)
        one.per_sample[:] = one.per_sample - (2.0 if one.control else 0.0)
    table = result.over_random("fast_gef")
    assert (table["of_random"] < 0).all()
    assert (table["difference"] > 0).all()
    assert table[["per_cent", "per_cent_low", "per_cent_high"]].isna().all(axis=None)
    assert set(table["no_per_cent"]) == {"the random score is below 0"}


@pytest.fixture
def measured(tmp_path: Path) -> Callable[[list[float], list[float]], pd.Series]:
    """The row of an explainer and a random map with these scores on four samples."""
    audit = Audit(models=linear(), inputs=points()[:4], explainers=["gradient"], scores=[FastGEF(sigma=0.5, draws=1)], companions=False)
    result = audit.run(tmp_path, progress=False)

    def row(own: list[float], random: list[float]) -> pd.Series:
        for one in result.series:
            values = np.array(random if one.control else own)
            one.values[:] = values[:, None]
            one.per_sample[:] = values
        return result.over_random("fast_gef").set_index("explainer").loc["gradient"]

    return row


def test_per_cent_by_hand(measured: Callable[[list[float], list[float]], pd.Series]) -> None:
    """Means .6 and .2; both sums of squares are .02, so that var = .02 / 3 / 4 = 1/600 each, and the covariance is 0.

    With t = 3.18245 (3 degrees of freedom) t^2 var = .0168799. Fieller: a = .04 - .0168799 = .0231201, b = .12, c = .36 - .0168799 =
    .3431201, root = sqrt(.0144 - a c) = .0804180, so that the ratio lies in (b -+ root) / a = 1.71202 to 8.66859.
    """
    row = measured([0.5, 0.6, 0.6, 0.7], [0.2, 0.1, 0.3, 0.2])
    assert (row["value"], row["of_random"], row["difference"]) == (pytest.approx(0.6), pytest.approx(0.2), pytest.approx(0.4))
    assert row["per_cent"] == pytest.approx(200.0)
    assert (row["per_cent_low"], row["per_cent_high"]) == (pytest.approx(71.202, abs=0.002), pytest.approx(766.859, abs=0.01))
    reach = 3.18245 * np.sqrt(2 / 600)  # of the difference
    assert (row["low"], row["high"]) == (pytest.approx(0.4 - reach, abs=1e-5), pytest.approx(0.4 + reach, abs=1e-5))
    assert row["no_per_cent"] == ""


@pytest.mark.parametrize(
    ("random", "why"),
    [
        ([0.15, -0.1, 0.1, -0.05], "the random score may be 0"),  # .025 +- .18
        ([0.5, -0.5, 0.25, -0.25], "the random score may be 0"),  # 0
        ([1e-17, 1.1e-17, 1e-17, 1.1e-17], "the random score may be 0"),  # rounding
        ([0.0, 0.0, 0.0, 0.0], "the random score may be 0"),
        ([-0.2, -0.1, -0.3, -0.2], "the random score is below 0"),
    ],
)
def test_no_percentage_says_why(measured: Callable[[list[float], list[float]], pd.Series], random: list[float], why: str) -> None:
    row = measured([0.5, 0.6, 0.6, 0.7], random)
    assert row[["per_cent", "per_cent_low", "per_cent_high"]].isna().all()
    assert row["no_per_cent"] == why
    assert row["difference"] == pytest.approx(0.6 - np.mean(random))
    assert row["low"] < row["difference"] < row["high"]


def test_one_sample_has_a_difference_and_no_percentage(measured: Callable[[list[float], list[float]], pd.Series]) -> None:
    row = measured([0.5, np.nan, np.nan, np.nan], [0.25] * 4)
    assert (row["difference"], row["no_per_cent"], row["n"]) == (0.25, "too few samples", 1)
    assert np.isnan([row["low"], row["per_cent"]]).all()


def test_bad_input_is_one_sentence(tmp_path: Path) -> None:
    audit = Audit(models=linear(), inputs=points(), explainers=["gradient"], scores=[FastGEF(sigma=0.5)], controls=False)
    result = audit.run(tmp_path, progress=False)
    with pytest.raises(InputError, match="has no control 'random_gaussian' to compare 'gradient' with: measure it with controls=True"):
        result.over_random("fast_gef")
    with pytest.raises(VeracityError, match=r"score of this run 'fast_gfe'\. Did you mean 'fast_gef'"):
        result.over_random("fast_gfe")
    with pytest.raises(VeracityError, match=r"explainer of this run 'gradent'\. Did you mean 'gradient'"):
        result.over_random("fast_gef", random="gradent")
