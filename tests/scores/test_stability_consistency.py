from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from veracity.core.errors import InputError
from veracity.scores import distance_sets
from veracity.scores.distance_sets import (
    consistency_area,
    consistency_gap,
    largest_balance,
    largest_gap,
    mean_balance,
    mean_generalisability,
    relative_consistency,
    with_labels,
)

FORMS: list[Callable[..., np.ndarray]] = [mean_generalisability, relative_consistency, consistency_area, consistency_gap]


def brute(alike: list[float], unlike: list[float]) -> tuple[float, float, float, float]:
    """MeGe, ReCo, its area and its KS form, threshold by threshold."""
    every = alike + unlike
    mege = 1 / (1 + sum(alike) / len(alike)) if alike else np.nan
    curve, gaps = [], []
    for gamma in every:
        near = [d for d in every if d <= gamma]
        far = [d for d in every if d > gamma]
        if alike and unlike:
            gaps.append(sum(d <= gamma for d in alike) / len(alike) - sum(d <= gamma for d in unlike) / len(unlike))
            if far:
                tpr, tnr = sum(d <= gamma for d in alike) / len(near), sum(d > gamma for d in unlike) / len(far)
                curve.append(tpr + tnr - 1)
    if not curve:
        return mege, np.nan, np.nan, np.nan
    return mege, max(curve), sum(curve) / len(curve), max(gaps)


def listed(distance: np.ndarray, member: np.ndarray, times: np.ndarray) -> tuple[list[float], list[float]]:
    """Both sets, each distance as often as its sample counts."""
    found: tuple[list[float], list[float]] = ([], [])
    for n, p in np.ndindex(distance.shape):
        if member[n, p] >= 0:
            found[member[n, p]].extend([float(distance[n, p])] * int(times[n]))
    return found


@st.composite
def tied(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    shape = draw(st.tuples(st.integers(1, 8), st.integers(1, 4)))
    distance = draw(arrays(np.float64, shape, elements=st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.7, 1.0])))
    member = draw(arrays(np.int8, shape, elements=st.sampled_from([0, 0, 1, -1])))
    weights = draw(arrays(np.float64, (3, shape[0]), elements=st.sampled_from([0.0, 1.0, 2.0])))
    return np.where(member >= 0, distance, np.nan), member, weights


@settings(max_examples=60, deadline=None)
@given(tied())
def test_one_sort_gives_what_all_thresholds_give_with_ties_and_repeated_samples(case: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    distance, member, weights = case
    expected = np.array([brute(*listed(distance, member, times)) for times in weights])
    for column, form in enumerate(FORMS):
        np.testing.assert_allclose(form(distance, member, weights), expected[:, column], rtol=1e-12, atol=1e-12)


def test_rows_at_once_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    distance, member = generator.random((30, 4)), generator.integers(-1, 2, (30, 4)).astype(np.int8)
    weights, orders = generator.integers(0, 3, (17, 30)).astype(float), np.argsort(generator.random((17, 30)), axis=1)
    before = [form(distance, member, weights) for form in FORMS], with_labels(mean_balance, distance, member, orders)
    monkeypatch.setattr(distance_sets, "AT_ONCE", 1)
    after = [form(distance, member, weights) for form in FORMS], with_labels(mean_balance, distance, member, orders)
    np.testing.assert_array_equal(np.array(before[0]), np.array(after[0]))
    np.testing.assert_array_equal(before[1], after[1])


def test_the_ks_form_is_scipys_one_sided_statistic() -> None:
    generator = np.random.default_rng(1)
    distance, member = generator.random((40, 3)), (generator.random((40, 3)) < 0.3).astype(np.int8)
    peer = stats.ks_2samp(distance[member == 0], distance[member == 1], alternative="greater").statistic
    assert consistency_gap(distance, member)[0] == pytest.approx(peer)


def test_closed_cases() -> None:
    zeros, separated = np.zeros((3, 2)), np.array([[0.1, 0.2], [0.3, 0.8], [0.9, 0.9]])
    member = np.array([[0, 0], [0, 1], [1, 1]], dtype=np.int8)
    assert mean_generalisability(zeros, np.zeros((3, 2), dtype=np.int8)) == 1.0
    assert relative_consistency(separated, member) == 1.0
    assert consistency_gap(separated, member) == 1.0
    assert 0.0 < consistency_area(separated, member)[0] < 1.0
    assert relative_consistency(separated, 1 - member)[0] < 0.0
    assert consistency_gap(separated, 1 - member)[0] == 0.0


@pytest.mark.parametrize("form", FORMS[1:])
def test_what_cannot_be_separated_is_undefined(form: Callable[..., np.ndarray]) -> None:
    distance, half = np.array([[0.1, 0.2], [0.3, 0.4]]), np.array([[0, 0], [1, 1]], dtype=np.int8)
    for member in (half * 0, half * 0 + 1, half * 0 - 1):
        assert np.isnan(form(distance, member)).all()
    assert np.isnan(form(np.full((2, 2), 0.5), half)).all()
    assert np.isnan(form(np.full((2, 2), np.nan), half * 0 - 1)).all()
    assert np.isnan(form(distance, half, np.array([[3.0, 0.0], [0.0, 0.0], [1.0, 2.0]]))).tolist() == [True, True, False]
    assert np.isnan(mean_generalisability(distance, half, np.array([[0.0, 2.0]]))).all()


def test_weights_that_are_no_counts_are_refused() -> None:
    distance, member = np.zeros((2, 1)), np.zeros((2, 1), dtype=np.int8)
    with pytest.raises(InputError, match=r"shape \(B, 2\)"):
        relative_consistency(distance, member, np.ones((1, 3)))
    with pytest.raises(InputError, match="whole numbers"):
        mean_generalisability(distance, member, np.array([[0.5, 1.0]]))


@pytest.mark.parametrize(("unlike", "gap"), [(200, 0.045), (20, 0.135), (5, 0.25)])
def test_where_there_is_no_signal_the_ks_form_is_small(unlike: int, gap: float) -> None:
    null = shuffled(2000, unlike)
    assert null(largest_gap).mean() == pytest.approx(gap, abs=0.012)


def test_where_there_is_no_signal_the_papers_form_is_erratic_and_its_area_is_not() -> None:
    null = shuffled(2000, 200)
    found = null(largest_balance)
    assert found.mean() == pytest.approx(0.22, abs=0.03)
    assert np.quantile(found, 0.95) == pytest.approx(0.91, abs=0.01)
    assert abs(null(mean_balance).mean()) < 0.002


def shuffled(alike: int, unlike: int) -> Callable[..., np.ndarray]:
    """A statistic's null over 600 shuffles of one distance a sample."""
    generator = np.random.default_rng(3)
    label = np.repeat(np.array([0, 1], dtype=np.int8), (alike, unlike))[:, None]
    distance, orders = generator.random((alike + unlike, 1)), np.argsort(generator.random((600, alike + unlike)), axis=1)
    return lambda statistic: with_labels(statistic, distance, label, orders)
