"""Samples that belong to units: errors by hand, by leaving each unit out, and how often the intervals cover."""

from __future__ import annotations

import numpy as np
import pytest

from veracity.core.scores import Measured
from veracity.core.walks import Sampling
from veracity.results.over_random import differing
from veracity.scores.stability import MeGe, ReCoKS
from veracity.statistics.crossed import crossed_interval
from veracity.statistics.differences import crossed_differences, mean_differences
from veracity.statistics.intervals import mean_interval, t_quantile, unseen_share, welch_interval
from veracity.statistics.means import estimate
from veracity.statistics.medians import median_differences, median_estimate
from veracity.statistics.pooled import merge_units, pooled_differences, pooled_estimate
from veracity.statistics.resampling import resamplings
from veracity.statistics.units import independent, unit_values

WIDE = (-np.inf, np.inf)


def test_a_cluster_error_by_hand() -> None:
    """Units (0, 2), (4, 6), (8, 10): the mean is 5, the units move it by sums of -8, 0 and 8: error sqrt(3 / 2 * 128) / 6."""
    values, units = np.array([0.0, 2.0, 4.0, 6.0, 8.0, 10.0]), np.array([0, 0, 1, 1, 2, 2])
    found = mean_interval(values, units=units)
    reach = float(t_quantile(0.95, 2)) * np.sqrt(1.5 * 128) / 6
    assert (found.value, found.n) == (5.0, 6)
    assert found.low == pytest.approx(5 - reach)
    assert found.high == pytest.approx(5 + reach)


def slow_error(values: np.ndarray, units: np.ndarray) -> float:
    """The delete-one-unit jackknife, literally: the mean without each unit."""
    known = np.isfinite(values)
    names = sorted(set(units[known].tolist()))
    without = np.array([values[known & (units != name)].mean() for name in names])
    return float(np.sqrt((len(names) - 1) / len(names) * ((without - without.mean()) ** 2).sum()))


def test_the_error_is_that_of_leaving_each_unit_out() -> None:
    generator = np.random.default_rng(0)
    units = generator.integers(0, 9, 40)
    values = generator.standard_normal(40) + units
    values[generator.random(40) < 0.2] = np.nan
    own = unit_values(values, units)
    own = own[np.isfinite(own)]
    assert own.std(ddof=1) / np.sqrt(len(own)) == pytest.approx(slow_error(values, units))
    found = estimate(values, Sampling(exhaustive=True), WIDE, units=units)
    assert found.value == pytest.approx(np.nanmean(values))
    assert (found.n, found.undefined, found.units) == (int(np.isfinite(values).sum()), int(np.isnan(values).sum()), len(own))


def test_units_of_one_sample_each_change_nothing() -> None:
    generator = np.random.default_rng(1)
    alone = generator.permutation(30)
    table = generator.standard_normal((30, 4))
    one, two = table[:, 0], table[:, 1]
    same = [
        (mean_interval(one), mean_interval(one, units=alone)),
        (crossed_interval(table), crossed_interval(table, units=alone)),
        (welch_interval(one, two[:20]), welch_interval(one, two[:20], units=(alone, alone[:20]))),
    ]
    for plain, grouped in same:
        assert [grouped.value, grouped.low, grouped.high] == pytest.approx([plain.value, plain.low, plain.high])
    columns = {"a": one, "b": two, "c": table[:, 2]}
    for plain_row, row in zip(mean_differences(columns), mean_differences(columns, units=alone), strict=True):
        assert [row.low, row.high] == pytest.approx([plain_row.low, plain_row.high], abs=0.05)  # the simulation has another order


def test_one_unit_has_no_interval_and_equal_units_say_what_is_unseen() -> None:
    values, together = np.arange(6.0), np.zeros(6, dtype=np.int64)
    assert np.isnan(mean_interval(values, units=together).low)
    assert np.isnan(crossed_interval(np.outer(values, [1.0, 2.0]), units=together).low)
    assert np.isnan(median_estimate(values, None, WIDE, units=together).low)
    pairs = np.array([0, 0, 1, 1, 2, 2])
    found = estimate(np.ones(6), Sampling(exhaustive=True), WIDE, units=pairs)
    assert found.low == found.high == 1.0
    assert found.unseen == pytest.approx(unseen_share(3))
    assert independent(np.array([True] * 4 + [False] * 2), pairs) == 2


def test_equal_means_of_units_are_no_equal_samples() -> None:
    """Samples 0 and 1 in each of ten units: the error is that of 20 independent samples, with the degrees of freedom of the units."""
    values, units = np.tile([0.0, 1.0], 10), np.repeat(np.arange(10), 2)
    found, plain = mean_interval(values, units=units), mean_interval(values)
    reach = float(t_quantile(0.95, 9)) * values.std(ddof=1) / np.sqrt(20)
    assert [found.low, found.high] == pytest.approx([0.5 - reach, 0.5 + reach])
    assert found.low < plain.low < plain.high < found.high
    assert np.isnan(estimate(values, Sampling(exhaustive=True), WIDE, units=units).unseen)
    table = np.stack([values, values, values], axis=1)
    crossed, alone = crossed_interval(table, units=units), crossed_interval(table)
    assert crossed.low < alone.low < alone.high < crossed.high
    assert np.isnan(estimate(table, Sampling(nested=False), WIDE, units=units).unseen)
    one, other = (differing(values[:, None], np.ones((20, 1)), units=codes)[0] for codes in (units, None))
    assert one.low < other.low < other.high < one.high
    apart = welch_interval(values, values[:10], units=(units, units[:10]))
    assert apart.low < welch_interval(values, values[:10]).low < 0.0 < apart.high


def test_differences_between_units_of_equal_means() -> None:
    units, zero = np.repeat(np.arange(8), 4), np.zeros(32)
    far = np.tile([-1.0, -1.0, -1.0, 3.4], 8)
    (row,) = mean_differences({"a": far, "b": zero}, units=units)
    assert row.status == "ok"
    assert not row.differs
    assert np.isnan(row.unseen)
    noise = np.random.default_rng(5).standard_normal(32)
    rows = mean_differences({"a": far, "b": zero, "c": noise}, units=units)
    alone = mean_differences({"a": far, "b": zero, "c": noise})
    assert all(one.high - one.low > other.high - other.low for one, other in zip(rows, alone, strict=True))
    (one_unit,) = mean_differences({"a": zero, "b": zero}, units=zero.astype(np.int64))
    assert one_unit.status == "too few"


def test_repeated_samples_say_no_more() -> None:
    """Each sample ten times is one unit: every interval is at least as wide as that of the samples themselves."""
    generator = np.random.default_rng(2)
    few, other = generator.standard_normal((2, 12))
    units, table = np.repeat(np.arange(12), 10), generator.standard_normal((12, 5))
    plain, many = mean_interval(few), mean_interval(np.repeat(few, 10), units=units)
    assert [many.low, many.high] == pytest.approx([plain.low, plain.high])
    (small,), (large,) = (
        crossed_differences({"a": one, "b": np.zeros_like(one)}, units=codes)
        for one, codes in ((table, None), (np.repeat(table, 10, axis=0), units))
    )
    assert [large.low, large.high] == pytest.approx([small.low, small.high])
    middle, wide = median_estimate(few, None, WIDE), median_estimate(np.repeat(few, 10), None, WIDE, units=units)
    assert wide.high - wide.low >= 0.8 * (middle.high - middle.low)
    (row,) = median_differences(
        {"a": np.repeat(few, 10), "b": np.repeat(other, 10)}, dict.fromkeys("ab", np.zeros(120, dtype=bool)), units=units
    )
    (narrow,) = median_differences({"a": np.repeat(few, 10), "b": np.repeat(other, 10)}, dict.fromkeys("ab", np.zeros(120, dtype=bool)))
    assert row.high - row.low > narrow.high - narrow.low


def folds(samples: int, seed: int = 3) -> Measured:
    generator = np.random.default_rng(seed)
    right = (generator.random((samples, 3, 1)) < 0.6).astype(float)
    found = {"distance": generator.random((samples, 3, 1)) - 0.2 * right, "right": np.ones_like(right), "other_right": right, "same": right}
    return Measured(found)


@pytest.mark.parametrize("score", [MeGe(), ReCoKS()])
def test_pooled_scores_resample_units(score: MeGe | ReCoKS) -> None:
    few, units = folds(24), np.repeat(np.arange(24), 4)
    many = Measured({name: np.repeat(table, 4, axis=0) for name, table in few.quantities.items()})
    plain, alone, grouped = (
        pooled_estimate(score, one, (0.0, 1.0), units=codes).estimate for one, codes in ((few, None), (many, None), (many, units))
    )
    assert grouped.value == pytest.approx(plain.value)
    assert (grouped.n, grouped.units) == (alone.n, plain.n)
    assert [grouped.low, grouped.high] == pytest.approx([plain.low, plain.high], abs=0.02)
    assert alone.high - alone.low < 0.8 * (grouped.high - grouped.low)
    assert merge_units(many, units)["distance"].shape == (24, 12, 1)
    (row,) = pooled_differences(score, {"a": many, "b": Measured({**many.quantities, "distance": many["distance"] * 0.9})}, units=units)
    assert row.low < row.high


def test_whole_units_are_drawn() -> None:
    units = np.array([5, 7, 5, 9])
    tables = list(resamplings(4, units))
    assert sum(map(len, tables)) == 1000
    assert all((table[:, 0] == table[:, 2]).all() for table in tables)
    assert all((table[:, [0, 1, 3]].sum(axis=1) == 3).all() for table in tables)


def test_intervals_over_units_cover_where_those_over_samples_do_not() -> None:
    generator = np.random.default_rng(4)
    held = {"units": 0, "samples": 0}
    for _ in range(300):
        units = np.repeat(np.arange(30), generator.integers(1, 21, 30))
        values = (generator.standard_normal(30)[units] + generator.standard_normal(len(units))) / np.sqrt(2)
        for name, codes in (("units", units), ("samples", None)):
            found = mean_interval(values, units=codes)
            held[name] += found.low <= 0.0 <= found.high
    assert held["units"] >= 0.93 * 300
    assert held["samples"] < 0.7 * 300
