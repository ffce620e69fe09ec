from __future__ import annotations

import math

import numpy as np
import pytest

from veracity.statistics.medians import independent_median_difference, median, median_differences, median_estimate, order_statistic_interval

ANY = (-np.inf, 0.0)
NO = np.zeros(8, dtype=np.bool_)


@pytest.mark.parametrize("count", [6, 7, 20, 51])
def test_order_statistics_cover_the_median_of_any_distribution(count: int) -> None:
    table = -np.random.default_rng(0).exponential(size=(4000, count))
    found = np.array([order_statistic_interval(row, row, 0.95) for row in table])
    share = ((found[:, 0] <= -np.log(2)) & (-np.log(2) <= found[:, 1])).mean()
    assert share > 0.945
    # The next pair inside would be too narrow.
    inner = np.sort(table, axis=1)
    rank = int((inner[0] == found[0, 0]).argmax())
    narrower = ((inner[:, rank + 1] <= -np.log(2)) & (-np.log(2) <= inner[:, count - rank - 2])).mean()
    assert narrower < 0.95


def test_too_few_samples_have_no_interval() -> None:
    assert np.isnan(order_statistic_interval(np.arange(5.0), np.arange(5.0), 0.95)).all()
    assert np.isnan(order_statistic_interval(np.zeros(0), np.zeros(0), 0.95)).all()
    assert np.isnan(median(np.zeros(0)))
    found = median_estimate(np.full(3, np.nan), None, ANY)
    assert np.isnan([found.value, found.low, found.high]).all()
    assert (found.n, found.undefined) == (0, 3)


def test_how_far_below_the_median_a_value_lies_does_not_matter() -> None:
    values = np.array([-100.0, -100.0, -20.0, -10.0, -9.0, -8.0, -7.0, -6.0, np.nan])
    lower = np.where(values == -100.0, -1e6, values)
    first, second = (median_estimate(one, None, ANY, censored=values == -100.0) for one in (values, lower))
    assert first.value == second.value == -9.5
    assert not first.bound
    assert (first.n, first.undefined) == (8, 1)
    assert (first.low, first.high) == (second.low, second.high) == (-np.inf, -6.0)
    assert median_estimate(values, None, ANY).low == -100.0


def test_medians_that_could_lie_lower_are_bounds() -> None:
    def of(values: list[float], censored: list[bool]) -> tuple[float, bool]:
        found = median_estimate(np.array(values), None, ANY, censored=np.array(censored))
        return found.value, found.bound

    assert of([-100, -100, -9, np.nan], [True, True, False, False]) == (-100.0, True)
    assert of([-100, -12, -9], [True, False, False]) == (-12.0, False)
    assert of([-100, -9], [True, False]) == (-54.5, True)  # half of the median is unknown
    assert of([-20, -12, -3], [False, False, True]) == (-12.0, True)  # what stopped above may lie below
    assert of([-12, -12, -3], [False, False, True]) == (-12.0, False)
    assert np.isnan(of([np.nan], [False])[0])


def test_a_censored_value_that_can_reach_the_low_end_opens_it() -> None:
    values = np.arange(-20.0, 0.0)  # the low end is the sixth of twenty
    places = np.arange(20)
    assert median_estimate(values, None, ANY, censored=places < 5).low == -15.0
    assert median_estimate(values, None, ANY, censored=places < 6).low == -np.inf
    # Five censored values above it push it down a place each, the sixth one out of sight.
    assert median_estimate(values, None, ANY, censored=places >= 15).low == -20.0
    assert median_estimate(values, None, ANY, censored=places >= 14).low == -np.inf
    assert median_estimate(values, None, ANY, censored=places >= 14).high == -6.0
    assert median_estimate(values, None, ANY, censored=places >= 14).bound


def test_medians_of_censored_values_cover() -> None:
    generator = np.random.default_rng(5)
    truth, hits, opened = -np.log(2.0), 0, 0
    for _ in range(700):
        values = -generator.exponential(size=15)
        stopped = -generator.exponential(2.0, size=15)  # where each search gives up, be it above or below the median
        censored = values < stopped
        found = median_estimate(np.maximum(values, stopped), None, ANY, censored=censored)
        hits += found.low <= truth <= found.high
        opened += np.isinf(found.low)
        assert found.value >= np.median(values) or not found.bound
    assert hits / 700 > 0.95
    assert opened > 0


def test_each_samples_error_makes_the_interval_over_draws() -> None:
    values = np.linspace(-12.0, -10.0, 9)
    found = median_estimate(values, np.full(9, 0.3), ANY)
    by_chance = np.median(values + 0.3 * np.random.default_rng(1).standard_normal((20000, 9)), axis=1)
    assert (found.draws_low, found.draws_high) == pytest.approx(np.quantile(by_chance, (0.025, 0.975)), abs=0.03)
    exact = median_estimate(values, np.zeros(9), ANY)
    assert exact.draws_low == exact.draws_high == exact.value == -11.0
    assert np.isnan(median_estimate(values, None, ANY).draws_low)


@pytest.mark.parametrize("unknown", [np.inf, np.nan])
def test_values_without_an_error_may_lie_anywhere(unknown: float) -> None:
    values, errors = np.linspace(-12.0, -10.0, 9), np.full(9, 0.1)
    with np.errstate(all="raise"):
        one = median_estimate(values, np.where(np.arange(9) == 4, unknown, errors), ANY)
        all_of_them = median_estimate(values, np.full(9, unknown), ANY)
    assert one.value == -11.0
    assert -11.6 < one.draws_low < -11.2
    assert -10.8 < one.draws_high < -10.4
    assert (all_of_them.draws_low, all_of_them.draws_high) == (-np.inf, 0.0)


def test_a_median_that_rests_on_censored_values_is_open_over_draws() -> None:
    values, errors = np.array([-30.0] * 4 + [-20.0, -10.0, -5.0]), np.array([np.nan] * 4 + [0.1] * 3)
    with np.errstate(all="raise"):
        found = median_estimate(values, errors, ANY, censored=values == -30.0)
    assert (found.value, found.draws_low, found.draws_high, found.bound) == (-30.0, -np.inf, -30.0, True)
    known = median_estimate(values[2:], errors[2:], ANY, censored=values[2:] == -30.0)
    assert (known.value, known.bound) == (-20.0, False)
    assert -20.5 < known.draws_low < -20.0 < known.draws_high < -19.5


def test_intervals_stay_within_the_bounds() -> None:
    found = median_estimate(np.full(6, -0.01), np.full(6, 1.0), ANY)
    assert found.draws_high == 0.0
    assert found.draws_low < -0.1


def test_pairs_by_hand_with_bonferroni() -> None:
    values = {name: np.arange(8.0) * scale for name, scale in (("a", -1.0), ("b", -2.0), ("c", -1.0))}
    rows = median_differences(values, dict.fromkeys(values, NO))
    assert [(row.first, row.second) for row in rows] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert rows[0].difference == 3.5
    # Three pairs at 95 %: each at 98.3 %, which takes the smallest and the largest of eight.
    assert (rows[0].low, rows[0].high) == (0.0, 7.0)
    assert (rows[1].status, rows[1].differs) == ("no difference seen", False)
    assert rows[1].unseen == pytest.approx(1 - (0.05 / 3) ** (1 / 8))
    assert math.isnan(rows[0].unseen)


def test_samples_are_not_left_out_by_their_outcome() -> None:
    # On 22 of 30 samples both are at the floor, on the others b alone: the median difference is not known at all.
    first, second = np.where(np.arange(30) < 22, -100.0, -10.0), np.full(30, -100.0)
    (row,) = median_differences({"a": first, "b": second}, {"a": first == -100.0, "b": second == -100.0})
    assert row.n == 30
    assert np.isnan(row.difference)
    assert (row.low, row.high) == (-np.inf, np.inf)
    assert not row.differs


def test_a_pair_of_censored_values_lies_anywhere() -> None:
    first, second = np.array([-100.0, *np.arange(-20.0, -9.0)]), np.full(12, -100.0)
    (row,) = median_differences({"a": first, "b": second}, {"a": first == -100.0, "b": second == -100.0})
    # Twelve samples: the third smallest of the least that each difference can be, of which one is minus infinity.
    assert (row.n, row.low, row.high) == (12, 81.0, np.inf)
    assert (row.difference, row.bound) == (84.5, "at least")
    assert row.differs


def test_a_censored_value_above_the_other_says_how_much_at_most() -> None:
    # b is only known to lie below -5: it may be above or below a.
    first, second = np.full(8, -20.0), np.full(8, -5.0)
    (row,) = median_differences({"a": first, "b": second}, {"a": NO, "b": ~NO})
    assert (row.low, row.high, row.n) == (-15.0, np.inf, 8)
    assert (row.difference, row.bound) == (-15.0, "at least")
    assert not row.differs
    (known,) = median_differences({"a": first, "b": second}, {"a": ~NO, "b": NO})
    assert (known.difference, known.bound, known.low, known.high) == (-15.0, "at most", -np.inf, -15.0)
    assert known.differs


def test_a_difference_that_is_known_on_neither_side() -> None:
    # 1 at least, 2 at most, 5: between 1 and 5; of 0 there is nothing to say in the second case.
    for shift, told in ((0.0, (1.0, "at least")), (-3.0, (np.nan, "")), (-9.0, (-4.0, "at most"))):
        second = np.zeros(3)
        first = np.array([1.0, 2.0, 5.0]) + shift
        (row,) = median_differences({"a": first, "b": second}, {"a": first == first[1], "b": np.arange(3) == 0})
        assert (row.difference, row.bound) == pytest.approx(told, nan_ok=True)
        assert row.status == "too few"


def test_censored_differences_cover_and_hardly_ever_invent_one() -> None:
    generator = np.random.default_rng(7)
    covered = false = 0
    for _ in range(700):
        shared = generator.normal(-10.0, 3.0, 25)
        truths = {"a": shared + generator.normal(0.0, 1.0, 25), "b": shared + generator.normal(0.0, 1.0, 25)}
        floor = {"a": -9.0, "b": -11.0}  # floors that differ: dropped by outcome, samples would speak for one of them
        values = {name: np.maximum(table, floor[name]) for name, table in truths.items()}
        (row,) = median_differences(values, {name: table < floor[name] for name, table in truths.items()})
        covered += row.low <= 0.0 <= row.high
        false += row.differs
    assert covered / 700 > 0.95
    assert false / 700 < 0.05


def test_medians_of_separate_groups() -> None:
    generator = np.random.default_rng(11)
    hits = 0
    for _ in range(500):
        groups = {"a": generator.normal(-10.0, 1.0, 15), "b": generator.normal(-12.0, 2.0, 20)}
        row = independent_median_difference(
            {"a": groups["a"], "b": np.maximum(groups["b"], -12.5)}, {"a": NO[:1].repeat(15), "b": groups["b"] < -12.5}
        )
        hits += row.low <= 2.0 <= row.high
        assert row.n == 15
    assert hits / 500 > 0.95
    floor = np.full(9, -30.0)
    row = independent_median_difference({"a": np.arange(-10.0, -2.0), "b": floor}, {"a": NO, "b": floor < 0})
    assert (row.difference, row.bound, row.low, row.high, row.differs) == (23.5, "at least", 20.0, np.inf, True)
    assert independent_median_difference({"a": floor[:3], "b": floor}, {"a": NO[:3], "b": floor < 0}).status == "too few"


def test_differences_cover() -> None:
    generator = np.random.default_rng(3)
    hits = 0
    for _ in range(300):
        one, other = generator.normal(-10.0, 1.0, 12), generator.normal(-12.0, 2.0, 12)
        (row,) = median_differences({"a": one, "b": other}, {"a": np.zeros(12, bool), "b": np.zeros(12, bool)})
        hits += row.low <= 2.0 <= row.high
    assert hits / 300 > 0.93
