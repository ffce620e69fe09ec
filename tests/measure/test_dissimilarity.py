from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from veracity.core.errors import SpecError
from veracity.core.measures import Direction, Measure
from veracity.core.randomness import Draws
from veracity.core.registry import MEASURES
from veracity.measure import as_distance, cosine, l1, sorensen_dice


def test_a_similarity_is_taken_from_its_upper_end() -> None:
    a, b = torch.tensor([[3.0, 4.0], [0.0, 0.0]]), torch.tensor([[4.0, 3.0], [1.0, 0.0]])
    found = as_distance(cosine)(a, b)
    assert found[0].item() == pytest.approx(0.04)
    assert found[1].isnan()
    a, b = torch.tensor([[4.0, 3.0, 2.0, 1.0]]), torch.tensor([[4.0, 1.0, 2.0, 3.0]])
    assert as_distance(sorensen_dice.using(fraction=0.5))(a, b).item() == 0.5


def test_distances_and_plain_functions_stay_what_they_are() -> None:
    def mine(a: Tensor, b: Tensor) -> Tensor:
        return (a - b).flatten(1).sum(dim=1)

    assert as_distance(l1) is l1
    assert as_distance(mine) is mine


@pytest.mark.parametrize("name", sorted(MEASURES))
def test_every_registered_measure_is_zero_for_equals_and_no_less_for_others(name: str) -> None:
    draws = Draws.of(0, torch.arange(4))
    a, b = (draws.normal(1, 12, 12, stream=stream).sigmoid() for stream in "ab")
    distance = as_distance(MEASURES[name])
    assert distance(a, a).tolist() == pytest.approx([0.0] * 4, abs=1e-9)
    assert (distance(a, b) > 1e-3).all()


def test_a_similarity_without_an_upper_end_is_refused() -> None:
    endless = Measure(name="dot", function=lambda a, b: (a * b).sum(dim=1), direction=Direction.HIGHER, range=(-math.inf, math.inf))
    with pytest.raises(SpecError, match="'dot' has no upper bound"):
        as_distance(endless)
