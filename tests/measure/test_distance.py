from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from veracity.core.measures import Direction
from veracity.core.randomness import Draws
from veracity.measure import angle, l1, l2, mse, wasserstein

DISTANCES = [l1, l2, mse, wasserstein]


def maps(count: int, size: int, stream: str) -> Tensor:
    return Draws.of(1, torch.arange(count)).normal(size, stream=stream)


def test_distances_by_hand() -> None:
    a, b = torch.tensor([[[1.0, 5.0], [2.0, 0.0]]]), torch.tensor([[[4.0, 1.0], [2.0, 12.0]]])
    assert l1(a, b).item() == 19.0
    assert l2(a, b).item() == 13.0
    assert mse(a, b).item() == 42.25
    assert wasserstein(a, b).item() == (1 + 1 + 2 + 7) / 4


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3)), min_size=1, max_size=30))
def test_wasserstein_is_scipys(entries: list[tuple[float, float]]) -> None:
    a, b = ([pair[side] for pair in entries] for side in (0, 1))
    found = wasserstein(torch.tensor([a], dtype=torch.float64), torch.tensor([b], dtype=torch.float64)).item()
    assert found == pytest.approx(stats.wasserstein_distance(a, b), abs=1e-9)


def test_wasserstein_of_a_rearrangement_is_zero() -> None:
    a = maps(4, 30, "a")
    assert wasserstein(a, a.flip(1)).tolist() == [0.0] * 4
    assert (l1(a, a.flip(1)) > 1.0).all()


@pytest.mark.parametrize("distance", [l1, l2, wasserstein], ids=lambda distance: distance.name)
def test_triangle(distance: object) -> None:
    a, b, c = (maps(50, 12, name) for name in "abc")
    assert (distance(a, c) <= distance(a, b) + distance(b, c) + 1e-12).all()


@pytest.mark.parametrize("distance", DISTANCES, ids=lambda distance: distance.name)
def test_lower_is_more_alike_and_there_is_no_end_to_it(distance: object) -> None:
    assert distance.direction is Direction.LOWER
    assert distance.range == (0.0, math.inf)


def test_tiny_differences_are_kept() -> None:
    a = torch.full((1, 100), 1e-30)
    assert mse(a, 2 * a).item() == pytest.approx(1e-60, rel=1e-5)
    assert l2(a, 2 * a).item() == pytest.approx(1e-29, rel=1e-5)


def test_angle_by_hand_and_where_it_is_undefined() -> None:
    a = torch.tensor([[1.0, 0.0], [3.0, 4.0], [0.0, 0.0], [0.0, 0.0], [2.0, 0.0]])
    b = torch.tensor([[1.0, 1.0], [3.0, 4.0], [1.0, 0.0], [0.0, 0.0], [-1.0, 0.0]])
    found = angle(a, b)
    assert found[[0, 1, 3, 4]].tolist() == pytest.approx([math.pi / 4, 0.0, 0.0, math.pi])
    assert found[1] == 0
    assert found[2].isnan()


def test_angles_add_up_along_a_straight_line() -> None:
    start, end = torch.randn(2, 5, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    points = [start + share * (end - start) for share in torch.linspace(0, 1, 6)]
    whole = angle(points[0], points[-1])
    assert torch.allclose(sum(angle(*pair) for pair in pairwise(points)), whole)
