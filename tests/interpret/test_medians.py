from __future__ import annotations

import numpy as np
import pytest

from veracity.interpret.medians import median_differences, medians, middle

ANY = (-np.inf, 0.0)
NO = np.zeros(8, dtype=np.bool_)


@pytest.mark.parametrize("count", [6, 7, 20, 51])
def test_order_statistics_cover_the_median_of_any_distribution(count: int) -> None:
    table = -np.random.default_rng(0).exponential(size=(4000, count))
    found = np.array([medians(np.sort(row), 0.95) for row in table])
    share = ((found[:, 0] <= -np.log(2)) & (-np.log(2) <= found[:, 1])).mean()
    assert share > 0.945
    # The next pair inside would be too narrow.
    inner = np.sort(table, axis=1)
    rank = int((inner[0] == found[0, 0]).argmax())
    narrower = ((inner[:, rank + 1] <= -np.log(2)) & (-np.log(2) <= inner[:, count - rank - 2])).mean()
    assert narrower < 0.95


def test_too_few_samples_have_no_interval() -> None:
    assert np.isnan(medians(np.arange(5.0), 0.95)).all()
    assert np.isnan(medians(np.zeros(0), 0.95)).all()
    found = middle(np.full(3, np.nan), None, ANY)
    assert np.isnan([found.value, found.low, found.high]).all()
    assert (found.n, found.undefined) == (0, 3)


def test_how_far_below_the_median_a_value_lies_does_not_matter() -> None:
    values = np.array([-100.0, -100.0, -20.0, -10.0, -9.0, -8.0, -7.0, -6.0, np.nan])
    lower = np.where(values == -100.0, -1e6, values)
    first, second = (middle(one, None, ANY) for one in (values, lower))
    assert first.value == second.value == -9.5
    assert (first.n, first.undefined) == (8, 1)
    assert (first.low, first.high) == (-100.0, -6.0)


def test_each_samples_error_makes_the_interval_over_draws() -> None:
    values = np.linspace(-12.0, -10.0, 9)
    found = middle(values, np.full(9, 0.3), ANY)
    by_chance = np.median(values + 0.3 * np.random.default_rng(1).standard_normal((20000, 9)), axis=1)
    assert (found.draws_low, found.draws_high) == pytest.approx(np.quantile(by_chance, (0.025, 0.975)), abs=0.03)
    exact = middle(values, np.zeros(9), ANY)
    assert exact.draws_low == exact.draws_high == exact.value == -11.0
    assert np.isnan(middle(values, None, ANY).draws_low)


def test_intervals_stay_within_the_bounds() -> None:
    found = middle(np.full(6, -0.01), np.full(6, 1.0), ANY)
    assert found.draws_high == 0.0
    assert found.draws_low < -0.1


def test_pairs_by_hand_with_bonferroni() -> None:
    values = {name: np.arange(8.0) * scale for name, scale in (("a", -1.0), ("b", -2.0), ("c", -1.0))}
    rows = median_differences(values, dict.fromkeys(values, NO))
    assert [(row.first, row.second) for row in rows] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert rows[0].difference == 3.5
    # Three pairs at 95 %: each at 98.3 %, which takes the smallest and the largest of eight.
    assert (rows[0].low, rows[0].high) == (0.0, 7.0)
    assert rows[1].status == "exact"
    assert not rows[1].differs


def test_a_pair_of_censored_values_is_left_out() -> None:
    first, second = np.array([-100.0, *np.arange(-20.0, -13.0)]), np.full(8, -100.0)
    (row,) = median_differences({"a": first, "b": second}, {"a": first == -100.0, "b": ~NO})
    assert row.n == 7
    assert row.difference == 83.0
    assert row.differs


def test_a_censored_value_above_the_other_says_nothing() -> None:
    # b is only known to lie below -5: it may be above or below a.
    first, second = np.full(8, -20.0), np.full(8, -5.0)
    (row,) = median_differences({"a": first, "b": second}, {"a": NO, "b": ~NO})
    assert row.n == 0
    assert np.isnan(row.difference)
    assert row.status == "too few"
    (known,) = median_differences({"a": first, "b": second}, {"a": ~NO, "b": NO})
    assert known.n == 8
    assert known.difference == -15.0
    assert known.differs


def test_differences_cover() -> None:
    generator = np.random.default_rng(3)
    hits = 0
    for _ in range(300):
        one, other = generator.normal(-10.0, 1.0, 12), generator.normal(-12.0, 2.0, 12)
        (row,) = median_differences({"a": one, "b": other}, {"a": np.zeros(12, bool), "b": np.zeros(12, bool)})
        hits += row.low <= 2.0 <= row.high
    assert hits / 300 > 0.93
