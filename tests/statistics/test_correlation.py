"""Correlations along an axis: by hand, against scipy row by row, and where there is none."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from veracity.core.errors import InputError, SpecError
from veracity.statistics import correlation
from veracity.statistics.correlation import kendall_correlation, pearson_correlation, pearson_interval, spearman_correlation

SCIPY = {pearson_correlation: stats.pearsonr, spearman_correlation: stats.spearmanr, kendall_correlation: stats.kendalltau}
numbers = st.one_of(st.integers(-3, 3).map(float), st.just(np.nan))


def slow(function, a, b):
    """One row the literal way: the pairs that have both, and scipy."""
    both = ~(np.isnan(a) | np.isnan(b))
    a, b = a[both], b[both]
    if len(a) < 2 or len(set(a)) == 1 or len(set(b)) == 1:
        return np.nan
    return SCIPY[function](a, b).statistic


def test_by_hand():
    a, b = np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.array([2.0, 1.0, 4.0, 3.0, 50.0])
    assert spearman_correlation(a, b).item() == pytest.approx(1 - 6 * 4 / (5 * 24))
    assert pearson_correlation(a, b).item() == pytest.approx(98 / np.sqrt(10 * 1810))
    tied = spearman_correlation(np.array([1.0, 1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0, 3.0]))
    assert tied.item() == pytest.approx((1.5 + 0.5 + 0.5 + 1.5) / 4.5)
    assert kendall_correlation(a, b).item() == pytest.approx((8 - 2) / 10)
    tied = kendall_correlation(np.array([1.0, 1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0, 3.0]))
    assert tied.item() == pytest.approx(4 / 5)  # four pairs agree, one is tied on each side: 4 / sqrt(5 * 5)


@pytest.mark.parametrize("function", SCIPY)
@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=12))
def test_ties_and_missing_values_are_scipys(function, entries):
    a, b = np.array(entries).T
    assert function(a, b).item() == pytest.approx(slow(function, a, b), abs=1e-12, nan_ok=True)


def test_many_values_are_sorted_and_few_are_compared_in_blocks(monkeypatch):
    rng = np.random.default_rng(5)
    a, b = rng.integers(0, 9, (2, 7, 30)).astype(float)
    a[2, 3:], b[4, :29] = np.nan, np.nan
    found = kendall_correlation(a, b)
    for name, value in (("MANY", 10), ("PAIRS", 900 * 2)):
        with monkeypatch.context() as patch:
            patch.setattr(correlation, name, value)
            np.testing.assert_allclose(kendall_correlation(a, b), found, atol=1e-12)


@pytest.mark.parametrize("function", SCIPY)
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_every_row_by_itself_along_any_axis(function, axis):
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((4, 5, 6)), rng.standard_normal((4, 5, 6))
    a[rng.random(a.shape) < 0.2], b[rng.random(b.shape) < 0.2] = np.nan, np.nan
    a[1, 2], b[:, 1, 1] = np.nan, 7.0
    found, rows = function(a, b, axis=axis), [np.moveaxis(x, axis, -1) for x in (a, b)]
    expected = [slow(function, x, y) for x, y in zip(*(row.reshape(-1, row.shape[-1]) for row in rows), strict=True)]
    assert found.shape == rows[0].shape[:-1]
    np.testing.assert_allclose(found.ravel(), expected, atol=1e-12)
    assert np.isnan(found).any() == (axis != 1)


@pytest.mark.parametrize("function", SCIPY)
def test_nothing_where_nothing_varies_or_too_little_is_left(function):
    line = np.arange(4.0)
    rows = np.array([[0.1, 0.1, 0.1, 0.1], [np.nan, 5.0, np.nan, np.nan], [np.nan] * 4, [0.1, 0.1, 0.1, np.nan], [1e-300, 0.0, 0.0, 0.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = function(rows, np.tile(line, (5, 1)))
        assert np.isnan(found).tolist() == [True, True, True, True, False]
        assert np.isnan(function(np.zeros((3, 0)), np.zeros((3, 0)))).tolist() == [True] * 3
        assert function(np.zeros((0, 3)), np.zeros((0, 3))).shape == (0,)


def test_place_and_scale_do_not_matter_and_infinity_has_a_rank():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 7, 20))
    for scale in (1e-200, 1.0, 1e200):
        np.testing.assert_allclose(pearson_correlation(scale * a, 3 * b - 1), pearson_correlation(a, b), rtol=1e-12)
    np.testing.assert_allclose(pearson_correlation(a + 1e9, b), pearson_correlation(a, b), rtol=1e-5)
    np.testing.assert_allclose(spearman_correlation(np.exp(a), -(b**3)), -spearman_correlation(a, b))
    for ranked in (spearman_correlation, kendall_correlation):
        assert ranked([1.0, 2.0, np.inf], [1.0, 2.0, 3.0]).item() == 1.0
    assert np.isnan(pearson_correlation([1.0, 2.0, np.inf], [1.0, 2.0, 3.0]))


def test_arguments_come_back_as_they_were_and_mistakes_are_named():
    a = np.array([3.0, np.nan, 1.0])
    spearman_correlation(a, a)
    assert a.tolist() == pytest.approx([3.0, np.nan, 1.0], nan_ok=True)
    with pytest.raises(InputError, match=r"two arrays of the same shape with at least one axis, not \(3,\) and \(4,\)"):
        pearson_correlation(np.zeros(3), np.zeros(4))
    with pytest.raises(InputError, match="at least one axis"):
        spearman_correlation(1.0, 2.0)


def pair(n, r, seed=0):
    rng = np.random.default_rng(seed)
    a, noise = rng.standard_normal(n), rng.standard_normal(n)
    return a, r * a + np.sqrt(1 - r**2) * noise


@pytest.mark.parametrize(("n", "r"), [(4, 0.0), (10, -0.6), (1000, 0.99)])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_fishers_interval_is_scipys(n, r, confidence):
    a, b = pair(n, r)
    found, expected = pearson_interval(a, b, confidence), stats.pearsonr(a, b)
    ends = expected.confidence_interval(confidence)
    assert (found.value, found.low, found.high) == pytest.approx((expected.statistic, ends.low, ends.high), abs=1e-12)
    assert found.n == n


def test_the_interval_leaves_out_samples_without_a_value():
    a, b = pair(20, 0.5)
    holes_a, holes_b = np.append(a, [np.nan, 7.0, np.inf]), np.append(b, [1.0, np.nan, 2.0])
    assert pearson_interval(holes_a, holes_b) == pearson_interval(a, b)


def test_the_interval_does_not_depend_on_location_and_scale():
    a, b = pair(30, -0.4)
    found, moved = pearson_interval(a, b), pearson_interval(1e-200 * a, 5.0 - 1e100 * b)
    assert (moved.value, moved.low, moved.high) == pytest.approx((-found.value, -found.high, -found.low), abs=1e-9)


def test_the_interval_of_a_line_has_no_width_and_constants_have_none():
    a = np.arange(5.0)
    line = pearson_interval(a, 2 - 3 * a)
    assert (line.value, line.low, line.high) == pytest.approx((-1, -1, -1), abs=1e-6)
    assert np.isnan(pearson_interval(a, np.full(5, 0.1)).value)
    assert np.isnan(pearson_interval(a[:1], a[:1]).value)
    assert pearson_interval(np.zeros(0), np.zeros(0)).n == 0
    three = pearson_interval(np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0]))
    assert three.value == pytest.approx(0.5)
    assert np.isnan([three.low, three.high]).all()


def test_the_interval_covers_r():
    """95 % of 600 intervals for normal pairs with r = -.6, within three standard errors."""
    rows = [pearson_interval(*pair(25, -0.6, seed)) for seed in range(600)]
    covered = np.mean([row.low <= -0.6 <= row.high for row in rows])
    assert abs(covered - 0.95) < 3 * np.sqrt(0.95 * 0.05 / 600)


def test_the_interval_names_mistakes():
    with pytest.raises(InputError, match=r"same samples, each of shape \(samples,\), not \(3,\) and \(4,\)"):
        pearson_interval(np.zeros(3), np.zeros(4))
    with pytest.raises(SpecError, match=r"^The confidence must lie between 0 and 1"):
        pearson_interval(np.zeros(3), np.zeros(3), confidence=95)
