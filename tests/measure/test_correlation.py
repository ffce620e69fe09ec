"""Correlations along an axis: by hand, against scipy row by row, and where there is none."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from veracity.core.errors import InputError
from veracity.statistics.correlation import pearson, spearman

SCIPY = {pearson: stats.pearsonr, spearman: stats.spearmanr}
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
    assert spearman(a, b).item() == pytest.approx(1 - 6 * 4 / (5 * 24))
    assert pearson(a, b).item() == pytest.approx(98 / np.sqrt(10 * 1810))
    tied = spearman(np.array([1.0, 1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0, 3.0]))
    assert tied.item() == pytest.approx((1.5 + 0.5 + 0.5 + 1.5) / 4.5)


@pytest.mark.parametrize("function", SCIPY)
@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=12))
def test_ties_and_missing_values_are_scipys(function, entries):
    a, b = np.array(entries).T
    assert function(a, b).item() == pytest.approx(slow(function, a, b), abs=1e-12, nan_ok=True)


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
        np.testing.assert_allclose(pearson(scale * a, 3 * b - 1), pearson(a, b), rtol=1e-12)
    np.testing.assert_allclose(pearson(a + 1e9, b), pearson(a, b), rtol=1e-5)
    np.testing.assert_allclose(spearman(np.exp(a), -(b**3)), -spearman(a, b))
    assert spearman([1.0, 2.0, np.inf], [1.0, 2.0, 3.0]).item() == 1.0
    assert np.isnan(pearson([1.0, 2.0, np.inf], [1.0, 2.0, 3.0]))


def test_arguments_come_back_as_they_were_and_mistakes_are_named():
    a = np.array([3.0, np.nan, 1.0])
    spearman(a, a)
    assert a.tolist() == pytest.approx([3.0, np.nan, 1.0], nan_ok=True)
    with pytest.raises(InputError, match=r"two arrays of one shape with at least one axis, not \(3,\) and \(4,\)"):
        pearson(np.zeros(3), np.zeros(4))
    with pytest.raises(InputError, match="at least one axis"):
        spearman(1.0, 2.0)
