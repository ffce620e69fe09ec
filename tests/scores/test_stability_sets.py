from __future__ import annotations

import numpy as np
import pytest

from veracity.core.errors import InputError, SpecError
from veracity.scores.distance_sets import membership

RIGHT = np.array([[1.0, 1.0, 0.0, 0.0, 1.0, np.nan]])
OTHER = np.array([[1.0, 0.0, 1.0, 0.0, 1.0, 1.0]])
SAME = np.array([[1.0, 0.0, 0.0, 1.0, 1.0, np.nan]])
DISTANCE = np.array([[0.1, 0.2, 0.3, 0.4, np.nan, 0.6]])


def test_both_right_exactly_one_and_neither() -> None:
    assert membership(DISTANCE, RIGHT, OTHER, SAME).tolist() == [[0, 1, 1, -1, -1, -1]]


def test_the_same_prediction_counts_two_that_are_wrong_in_the_same_way() -> None:
    assert membership(DISTANCE, RIGHT, OTHER, SAME, "same_prediction").tolist() == [[0, 1, 1, 0, -1, -1]]


def test_mistakes_are_named() -> None:
    with pytest.raises(SpecError, match="Did you mean 'both_right'"):
        membership(DISTANCE, RIGHT, OTHER, SAME, "both_rigth")
    with pytest.raises(InputError, match="one shape"):
        membership(DISTANCE, RIGHT[:, :2], OTHER, SAME)
    with pytest.raises(InputError, match="samples, pairs"):
        membership(DISTANCE[0], RIGHT[0], OTHER[0], SAME[0])
