"""The rank correlation of metrics with the planted truth."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from benchmarks.metric_truth import Ranked, bootstrap, correlations

TRUTH = np.array([[0.9, 0.7], [0.5, 0.3], [0.1, 0.1], [0.0, 0.0]])


def test_by_hand() -> None:
    assert correlations(TRUTH * 3 + 1, TRUTH) == (pytest.approx(1.0), pytest.approx(1.0), 4)
    assert correlations(-TRUTH, TRUTH)[:2] == (pytest.approx(-1.0), pytest.approx(-1.0))
    swapped = TRUTH[[1, 0, 2, 3]]
    assert correlations(swapped, TRUTH)[0] == pytest.approx(1 - 6 * 2 / (4 * 15))  # 1 - 6 sum d^2 / (n (n^2 - 1))


def test_kendall_the_slow_way() -> None:
    values = np.random.default_rng(0).normal(size=(6, 5))
    truth = np.random.default_rng(1).normal(size=(6, 5))
    a, b = values.mean(1), truth.mean(1)
    signs = [np.sign((a[i] - a[j]) * (b[i] - b[j])) for i, j in itertools.combinations(range(6), 2)]
    assert correlations(values, truth)[1] == pytest.approx(np.mean(signs))


def test_rounding_errors_do_not_break_ties() -> None:
    values = np.array([[0.93055556], [0.93055557], [0.2]])
    assert correlations(values, np.array([[1.0], [1.0], [0.4]]))[0] == pytest.approx(1.0)


def test_what_is_undefined_is_left_out() -> None:
    values = TRUTH.copy()
    values[1] = np.nan
    assert correlations(values, TRUTH) == (pytest.approx(1.0), pytest.approx(1.0), 3)
    assert np.isnan(correlations(np.ones_like(TRUTH), TRUTH)[0])
    assert np.isnan(correlations(values[:2], TRUTH[:2])[0])


def test_the_interval_holds_the_value_and_has_no_width_without_noise() -> None:
    clear = Ranked("m", "t", TRUTH, np.repeat(TRUTH.mean(1, keepdims=True), 2, axis=1))
    assert bootstrap([clear]) == (pytest.approx(1.0), pytest.approx(1.0))
    noise = np.random.default_rng(2)
    rows = [Ranked("m", str(task), noise.normal(size=(8, 6)), noise.normal(size=(8, 6))) for task in range(4)]
    low, high = bootstrap(rows)
    assert low < np.mean([correlations(one.values, one.truth)[0] for one in rows]) < high
    assert (low, high) == bootstrap(rows)
