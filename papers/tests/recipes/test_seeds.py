"""Audits under several seeds, read together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from veracity.statistics.crossed import crossed_interval
from veracity_papers.recipes.seeds import over_seeds, paired_over_seeds


class Stored:
    """A result that knows the values of two explainers on three samples."""

    def __init__(self, a: list[float], b: list[float]) -> None:
        self.values = {"a": a, "b": b}

    def samples(self, _score: str, explainer: str) -> pd.DataFrame:
        """One row per sample."""
        return pd.DataFrame([{"explainer": explainer, "sample": n, "value": v} for n, v in enumerate(self.values[explainer])])


def two_seeds() -> Any:
    return [Stored([1.0, 2.0, np.nan], [0.5, 1.0, 0.0]), Stored([3.0, 2.0, 4.0], [1.0, 1.0, 1.0])]


def test_values_have_one_column_per_seed() -> None:
    np.testing.assert_array_equal(over_seeds(two_seeds(), "fast_gef", "a"), [[1.0, 3.0], [2.0, 2.0], [np.nan, 4.0]])


def test_a_difference_is_the_mean_over_samples_of_their_means_over_seeds() -> None:
    found = paired_over_seeds(two_seeds(), "fast_gef", "a", "b")
    assert found.value == pytest.approx(((0.5 + 2) / 2 + (1 + 1) / 2 + 3) / 3)  # by hand: 1.75
    by_hand = crossed_interval(np.array([[0.5, 2.0], [1.0, 1.0], [np.nan, 3.0]]))
    assert (found.low, found.high) == (by_hand.low, by_hand.high)


def test_an_interval_over_five_seeds_covers_the_true_difference() -> None:
    """Samples and seeds both vary: in 400 experiments the 95 % interval misses in at most 10 % of them."""
    draw, missed = np.random.default_rng(0), 0
    for _ in range(400):
        apart = 0.2 + 0.3 * draw.normal(size=(40, 1)) + 0.1 * draw.normal(size=(1, 5)) + 0.2 * draw.normal(size=(40, 5))
        found = crossed_interval(apart)
        missed += not found.low <= 0.2 <= found.high
    assert missed <= 40
    results: Any = [Stored(list(apart[:, seed]), [0.0] * 40) for seed in range(5)]
    assert paired_over_seeds(results, "fast_gef", "a", "b") == found
