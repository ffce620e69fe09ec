from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from veracity.core.errors import InputError
from veracity.statistics.differences import NONE_SEEN, bartlett, crossed_differences, mean_differences
from veracity.statistics.intervals import paired_interval


def explainers(count: int, n: int, seed: int = 0, shared: float = 1.0) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    sample = generator.normal(size=n)
    return {f"e{number}": shared * sample + (0.5 + 0.2 * number) * generator.normal(size=n) for number in range(count)}


def test_one_pair_is_the_paired_t_interval() -> None:
    values = explainers(2, 15)
    (row,) = mean_differences(values)
    plain = paired_interval(values["e0"], values["e1"])
    assert (row.first, row.second, row.n, row.status) == ("e0", "e1", 15, "ok")
    assert (row.difference, row.low, row.high) == pytest.approx((plain.value, plain.low, plain.high))


def test_all_pairs_in_order() -> None:
    rows = mean_differences(explainers(4, 15))
    assert [(row.first, row.second) for row in rows] == [(f"e{i}", f"e{j}") for i in range(4) for j in range(i + 1, 4)]
    assert mean_differences(explainers(1, 15)) == []
    assert mean_differences({}) == []


def test_quantile_is_tukeys_where_variances_are_equal() -> None:
    """With exchangeable explainers max |t| over all pairs is the studentised range over sqrt 2, here with many samples."""
    n = 3000
    generator = np.random.default_rng(0)
    orthogonal = np.linalg.qr(generator.normal(size=(n, 6)) - generator.normal(size=(1, 6)))[0]
    orthogonal = np.linalg.qr(orthogonal - orthogonal.mean(axis=0))[0]
    rows = mean_differences({str(column): orthogonal[:, column] for column in range(6)})
    error = math.sqrt(2.0 / (n - 1) / n)
    expected = stats.studentized_range.ppf(0.95, 6, np.inf) / math.sqrt(2)
    assert [(row.high - row.low) / 2 / error for row in rows] == pytest.approx([expected] * 15, rel=0.01)


def test_simultaneous_intervals_lie_between_plain_and_bonferroni() -> None:
    values = explainers(6, 20)
    for row in mean_differences(values):
        plain, most = (paired_interval(values[row.first], values[row.second], level) for level in (0.95, 1 - 0.05 / 15))
        assert (plain.high - plain.low) * 1.2 < row.high - row.low < most.high - most.low


def test_intervals_are_reproducible_and_do_not_touch_the_global_state() -> None:
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    assert mean_differences(explainers(5, 12)) == mean_differences(explainers(5, 12))
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


def test_samples_that_all_lack_are_dropped() -> None:
    values = explainers(4, 20)
    holed = {name: np.where(np.arange(20) % 5 == 0, np.nan, column) for name, column in values.items()}
    whole = {name: column[np.arange(20) % 5 != 0] for name, column in values.items()}
    assert mean_differences(holed) == mean_differences(whole)


def test_an_explainer_without_values_does_not_widen_the_rest() -> None:
    values = explainers(4, 20)
    rows = mean_differences({**values, "silent": np.full(20, np.nan)})
    assert [row for row in rows if row.second != "silent"] == mean_differences(values)
    assert [(row.n, row.status) for row in rows if row.second == "silent"] == [(0, "too few")] * 4


def test_different_gaps_take_bonferroni() -> None:
    values = explainers(3, 20)
    values["e1"][4], values["e2"][7] = np.nan, np.nan
    rows = {(row.first, row.second): row for row in mean_differences(values)}
    assert [row.n for row in rows.values()] == [19, 19, 18]
    plain = paired_interval(values["e1"], values["e2"], confidence=1 - 0.05 / 3)
    row = rows["e1", "e2"]
    assert (row.difference, row.low, row.high) == pytest.approx((plain.value, plain.low, plain.high))


def test_pairs_without_spread_are_not_ranked_and_do_not_widen_the_rest() -> None:
    values = explainers(3, 20)
    without = {(row.first, row.second): row for row in mean_differences(values)}
    values["twin"], values["shifted"] = values["e0"].copy(), values["e0"] + 0.25
    rows = {(row.first, row.second): row for row in mean_differences(values)}
    twin, shifted = rows["e0", "twin"], rows["e0", "shifted"]
    assert (twin.difference, twin.low, twin.high, twin.status, twin.differs) == (0.0, 0.0, 0.0, "no difference seen", False)
    assert (shifted.low, shifted.high) == pytest.approx((-0.25, -0.25))
    assert (shifted.status, shifted.differs) == ("same difference everywhere", False)
    assert twin.unseen == pytest.approx(1 - (0.05 / 10) ** (1 / 20))
    assert math.isnan(rows["e0", "e1"].unseen)
    for pair, row in without.items():
        assert rows[pair].high - rows[pair].low == pytest.approx(row.high - row.low, rel=0.02)
    constant = mean_differences({"a": np.ones(5), "b": np.ones(5), "c": np.zeros(5)})
    assert [(row.difference, row.status, row.differs) for row in constant] == [
        (0.0, "no difference seen", False),
        (1.0, "same difference everywhere", False),
        (1.0, "same difference everywhere", False),
    ]


@pytest.mark.parametrize(("n", "count"), [(3, 6), (4, 4), (2, 3)])
def test_no_more_samples_than_explainers_take_bonferroni(n: int, count: int) -> None:
    values = explainers(count, n)
    rows = mean_differences(values)
    for row in rows:
        plain = paired_interval(values[row.first], values[row.second], confidence=1 - 0.05 / len(rows))
        assert (row.low, row.high) == pytest.approx((plain.low, plain.high))


def test_wishart_factors_have_the_right_mean_and_spread() -> None:
    roots = bartlett(np.random.default_rng(0), 40_000, 3, 8)
    matrices = roots @ roots.transpose(0, 2, 1)
    np.testing.assert_allclose(matrices.mean(axis=0), 8 * np.eye(3), atol=0.1)
    np.testing.assert_allclose(matrices.var(axis=0), 8 * (np.ones((3, 3)) + np.eye(3)), rtol=0.08)


def test_too_few_samples_have_no_interval() -> None:
    rows = mean_differences({"a": np.array([1.0]), "b": np.array([0.5]), "c": np.array([0.25])})
    assert [row.status for row in rows] == ["too few"] * 3
    assert rows[0].difference == 0.5
    assert math.isnan(rows[0].low)
    assert not rows[0].differs
    gone = mean_differences({"a": np.array([1.0, 2.0, 3.0]), "b": np.full(3, np.nan)})
    assert (gone[0].n, gone[0].status) == (0, "too few")
    assert math.isnan(gone[0].difference)


def test_many_explainers_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("veracity.statistics.differences.SIMULATED", 1000)
    rows = mean_differences(explainers(40, 50))
    assert len(rows) == 780


def test_lengths_must_match() -> None:
    with pytest.raises(InputError, match=r"same number of values from each, not \[3, 4\]"):
        mean_differences({"a": np.zeros(3), "b": np.zeros(4)})


def test_simultaneous_coverage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six explainers with unequal spread and correlation: all fifteen intervals hold at once in 95 % of repeats."""
    monkeypatch.setattr("veracity.statistics.differences.SIMULATED", 2000)
    repeats, held, plain = 250, 0, 0
    centre = np.array([0.9, 0.9, 0.7, 0.5, 0.45, 0.0])
    for repeat in range(repeats):
        values = explainers(6, 40, seed=repeat)
        shifted = {name: column + centre[number] for number, (name, column) in enumerate(values.items())}
        truth = {name: centre[number] for number, name in enumerate(values)}
        rows = mean_differences(shifted)
        held += all(row.low <= truth[row.first] - truth[row.second] <= row.high for row in rows)
        alone = [(paired_interval(shifted[row.first], shifted[row.second]), truth[row.first] - truth[row.second]) for row in rows]
        plain += all(one.low <= right <= one.high for one, right in alone)
    assert 0.94 <= held / repeats <= 0.985
    assert plain / repeats < 0.8


def test_infinities_are_no_values() -> None:
    rows = mean_differences({"a": np.array([1.0, np.inf, 2.0, 3.0]), "b": np.array([0.5, 1.0, 1.0, 2.5]), "c": np.arange(4.0)})
    assert [row.n for row in rows] == [3, 3, 4]
    assert all(math.isfinite(row.high) for row in rows)


def test_rare_effects_are_covered_or_said_to_be_unseen() -> None:
    """Two explainers that differ by .1 in one value of a hundred: 25 samples, five draws that all share."""
    rng = np.random.default_rng(5)
    held, unseen, repetitions = 0, 0, 400
    for _ in range(repetitions):
        one = rng.random((25, 5))
        other = one.copy()
        other[rng.random((25, 5)) < 0.01] -= 0.1
        (row,) = crossed_differences({"one": one, "other": other}, 0.95)
        if row.status == NONE_SEEN:
            unseen += 1
            assert row.unseen == pytest.approx(1 - 0.05 ** (1 / 25))
        else:
            held += row.low <= 0.001 <= row.high
    assert held >= 0.96 * (repetitions - unseen)
    assert abs(unseen / repetitions - 0.99**125) < 0.07
