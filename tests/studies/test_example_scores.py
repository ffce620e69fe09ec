"""Scores of attributions to training examples: numbers by hand, slow oracles, properties, coverage of the intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr
from sklearn.metrics import average_precision_score, roc_auc_score

from veracity.studies.example_scores import (
    Outcome,
    average_precision,
    correlation_outcome,
    detection,
    label_at_top,
    linear_datamodelling,
    margins,
    per_sample,
)


def numbers(*shape: int, seed: int = 0, ties: bool = False) -> np.ndarray:
    made = np.random.default_rng(seed).normal(size=shape)
    return made.round(0) if ties else made


def halves(count: int, size: int, seed: int = 0) -> np.ndarray:
    order = np.random.default_rng(seed).random((count, size)).argsort(axis=1)
    return order < size // 2


def test_margins_are_the_log_odds() -> None:
    scores = torch.tensor([[2.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    p = scores.double().softmax(1)[[0, 1], [1, 2]]
    torch.testing.assert_close(margins(scores, torch.tensor([1, 2])), (p / (1 - p)).log())
    assert margins(torch.tensor([[0.0, 0.0, 0.0]]), torch.tensor([0])).item() == pytest.approx(-math.log(2))
    certain = torch.tensor([[200.0, 0.0]])
    assert margins(certain, torch.tensor([0])).item() == 200.0  # log p / (1 - p) itself would be infinite


def test_a_datamodelling_score_by_hand() -> None:
    attributions = np.array([[1.0, 2.0, 4.0, 8.0]])
    subsets = np.array([[1, 1, 0, 0], [1, 0, 1, 0], [0, 1, 1, 0], [0, 0, 1, 1]], dtype=bool)  # sums 3, 5, 6, 12
    outputs = np.array([[0.1, 0.4, 0.3, 0.9]])  # ranks 1, 3, 2, 4: rho = 1 - 6 (1 + 1) / (4 * 15)
    assert linear_datamodelling(attributions, subsets, outputs).values == pytest.approx([0.8])


def test_the_datamodelling_score_agrees_with_loops() -> None:
    attributions, subsets, outputs = numbers(5, 12), halves(9, 12), numbers(5, 9, seed=1)
    found = linear_datamodelling(attributions, subsets, outputs)

    def slow(kept: list[int]) -> list[float]:
        rows = []
        for sample in range(5):
            predicted = [sum(attributions[sample, n] for n in range(12) if subsets[s, n]) for s in kept]
            rows.append(float(spearmanr(predicted, [outputs[sample, s] for s in kept]).statistic))
        return rows

    whole = slow(list(range(9)))
    np.testing.assert_allclose(found.values, whole, atol=1e-12)
    left = [np.mean(slow([s for s in range(9) if s != out])) for out in range(9)]
    np.testing.assert_allclose(found.shared, [9 * np.mean(whole) - 8 * one for one in left])


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 1000), st.floats(0.1, 10), st.floats(-5, 5))
def test_the_datamodelling_score_knows_neither_units_nor_order_of_examples(seed: int, scale: float, shift: float) -> None:
    attributions, subsets, outputs = numbers(4, 10, seed=seed), halves(8, 10, seed), numbers(4, 8, seed=seed + 1)
    whole = linear_datamodelling(attributions, subsets, outputs).values
    np.testing.assert_allclose(linear_datamodelling(scale * attributions + shift, subsets, outputs).values, whole, atol=1e-9)  # equal sizes
    np.testing.assert_allclose(linear_datamodelling(-attributions, subsets, outputs).values, -whole, atol=1e-9)
    order = np.random.default_rng(seed).permutation(10)
    np.testing.assert_allclose(linear_datamodelling(attributions[:, order], subsets[:, order], outputs).values, whole, atol=1e-9)


def test_a_sample_without_attributions_or_with_constant_ones_has_no_datamodelling_score() -> None:
    attributions = numbers(3, 10)
    attributions[0], attributions[1, 3] = 0.0, np.nan
    found = linear_datamodelling(attributions, halves(8, 10), numbers(3, 8, seed=1))
    assert np.isnan(found.values).tolist() == [True, True, False]
    assert np.isfinite(found.shared).all()
    nothing = linear_datamodelling(np.zeros((2, 10)), halves(8, 10), numbers(2, 8))
    assert np.isnan(nothing.values).all()
    assert np.isnan(nothing.interval().value)


@pytest.mark.parametrize("ties", [False, True])
def test_detection_is_the_area_under_the_curve(ties: bool) -> None:
    suspicion, marked = numbers(40, ties=ties), np.arange(40) % 5 == 0
    found = detection(suspicion, marked)
    slow = [[1.0 if a > b else 0.5 if a == b else 0.0 for b in suspicion[~marked]] for a in suspicion[marked]]
    np.testing.assert_allclose(found.values, np.mean(slow, axis=1))
    np.testing.assert_allclose(found.shared, np.mean(slow, axis=0))
    assert found.values.mean() == pytest.approx(roc_auc_score(marked, suspicion))
    assert found.shared.mean() == pytest.approx(found.values.mean())
    np.testing.assert_allclose(detection(-suspicion, marked).values, 1 - found.values)


def test_detection_by_hand_and_without_numbers() -> None:
    assert detection(np.array([9.0, 1.0, 5.0]), np.array([True, False, False])).values.tolist() == [1.0]
    assert detection(np.zeros(4), np.array([True, True, False, False])).values.tolist() == [0.5, 0.5]
    assert np.isnan(detection(np.array([np.nan, 1.0]), np.array([True, False])).values).all()


def test_the_variance_of_an_area_is_delongs() -> None:
    """Against the placements formula written out with loops."""
    suspicion, marked = numbers(60) + (np.arange(60) % 4 == 0), np.arange(60) % 4 == 0
    bad, good = suspicion[marked], suspicion[~marked]
    first = np.array([np.mean([b > g for g in good]) for b in bad])
    second = np.array([np.mean([b > g for b in bad]) for g in good])
    variance = first.var(ddof=1) / len(bad) + second.var(ddof=1) / len(good)
    found = detection(suspicion, marked).interval(0.6827)
    widest = max(found.value - found.low, found.high - found.value)
    nearest = min(found.value - found.low, found.high - found.value)
    assert nearest == pytest.approx(math.sqrt(variance), rel=0.05)  # about one standard error, and more on the side of the longer tail
    assert widest < 2 * nearest


@pytest.mark.parametrize("ties", [False, True])
def test_average_precision_is_that_of_scikit_learn(ties: bool) -> None:
    attributions, marked = numbers(6, 30, ties=ties), np.arange(30) % 4 == 0
    found = average_precision(attributions, marked)
    np.testing.assert_allclose(found, [average_precision_score(marked, row) for row in attributions])
    attributions[2, 4] = np.nan
    assert np.isnan(average_precision(attributions, marked)).tolist() == [False, False, True, False, False, False]


def test_average_precision_by_hand() -> None:
    marked = np.array([True, False, True, False])
    assert average_precision(np.array([[4.0, 3.0, 2.0, 1.0]]), marked) == pytest.approx([(1 / 1 + 2 / 3) / 2])
    assert average_precision(np.array([[4.0, 1.0, 3.0, 2.0]]), marked) == pytest.approx([1.0])


def test_the_label_at_the_top_agrees_with_loops() -> None:
    attributions, labels, wanted = numbers(30, 8, ties=True), np.arange(8) % 3, np.arange(30) % 3
    slow = []
    for row, want in zip(attributions, wanted, strict=True):
        top = [labels[n] for n in range(8) if row[n] == max(row)]
        slow.append(sum(one == want for one in top) / len(top))
    np.testing.assert_allclose(label_at_top(attributions, labels, wanted), slow)
    assert np.isnan(label_at_top(np.array([[1.0, np.nan]]), np.array([0, 1]), np.array([0]))).all()


def test_differences_of_outcomes_are_paired() -> None:
    values = numbers(20)
    found = per_sample(values + 0.5).minus(per_sample(values)).interval()
    assert (found.value, found.low, found.high) == pytest.approx((0.5, 0.5, 0.5))
    assert per_sample(values).times(-1.0).interval().value == pytest.approx(-values.mean())
    assert math.isnan(Outcome(np.array([0.3]), np.array([0.3, 0.2])).interval().low)


def test_the_interval_of_a_datamodelling_score_covers_zero_for_random_attributions() -> None:
    """All samples share the subsets. If their outputs move together, an interval over samples alone would miss zero most of the time."""
    covered, alone = 0, 0
    for seed in range(60):
        made = np.random.default_rng(seed)
        subsets, common = halves(50, 30, seed), made.normal(size=(1, 50))
        shared_by_all = made.normal(size=(1, 30)) + 0.3 * made.normal(size=(25, 30))  # attributions that hardly depend on the sample
        found = linear_datamodelling(shared_by_all, subsets, common + 0.3 * made.normal(size=(25, 50)))
        interval, naive = found.interval(), per_sample(found.values).interval()
        covered += interval.low <= 0 <= interval.high
        alone += naive.low <= 0 <= naive.high
    assert covered >= 54
    assert alone < 36


def test_an_outcome_of_correlations_needs_no_attributions() -> None:
    outputs = numbers(4, 12)
    assert correlation_outcome(outputs, outputs).values.tolist() == pytest.approx([1.0] * 4)
