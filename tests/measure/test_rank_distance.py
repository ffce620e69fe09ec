from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from veracity.core.measures import Direction
from veracity.core.randomness import Draws
from veracity.measure import rank_distance, root_rank_distance, signed_rank_distance

ALL = [rank_distance, signed_rank_distance, root_rank_distance]


def test_rank_distances_by_hand() -> None:
    a = torch.tensor([[1.0, 2.0, 3.0, 4.0, 5.0]])
    b = torch.tensor([[2.0, 1.0, 4.0, 3.0, 5.0]])
    assert rank_distance(a, b).item() == pytest.approx(0.2)
    assert signed_rank_distance(a, -b).item() == pytest.approx(1.8)
    assert root_rank_distance(a, b).item() == pytest.approx(math.sqrt(0.2))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-2, 2)), min_size=3, max_size=30))
def test_rank_distances_are_of_scipys_correlation(entries: list[tuple[int, int]]) -> None:
    a, b = ([float(pair[side]) for pair in entries] for side in (0, 1))
    if len(set(a)) == 1 or len(set(b)) == 1:
        assert all(distance(torch.tensor([a]), torch.tensor([b])).isnan().all() for distance in ALL)
        return
    rho = stats.spearmanr(a, b).statistic
    found = [distance(torch.tensor([a]), torch.tensor([b])).item() for distance in ALL]
    assert found[:2] == pytest.approx([1 - abs(rho), 1 - rho], abs=1e-12)
    assert found[2] ** 2 == pytest.approx(1 - abs(rho), abs=1e-12)


def test_an_inverted_map_is_equal_but_for_the_signed_distance() -> None:
    a = Draws.of(0, torch.arange(5)).normal(1, 6, 6, stream="a")
    assert rank_distance(a, -a).tolist() == [0.0] * 5
    assert root_rank_distance(a, -a).tolist() == [0.0] * 5
    assert signed_rank_distance(a, -a).tolist() == [2.0] * 5


@pytest.mark.parametrize("distance", ALL, ids=lambda distance: distance.name)
def test_constant_maps_have_no_rank_distance_and_spoil_no_other(distance: object) -> None:
    assert distance.direction is Direction.LOWER
    a = Draws.of(0, torch.arange(3)).normal(1, 6, 6, stream="a")
    flat = a.clone()
    flat[1] = 0.3
    for found in (distance(flat, a), distance(a, flat)):
        assert found.isnan().tolist() == [False, True, False]
    assert distance(flat, flat).isnan().tolist() == [False, True, False]
