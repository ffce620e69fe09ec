from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats
from scipy.spatial.distance import cdist
from torch import Tensor

from veracity.core.errors import InputError, SpecError
from veracity.core.measures import Direction, Measure
from veracity.core.randomness import Draws
from veracity.core.registry import MEASURES
from veracity.measure import angle, as_distance, cosine, l1, l2, mse, sliced_wasserstein, sorensen_dice, wasserstein
from veracity.measure.distance import mass_shares, normalised, projections

DISTANCES = [l1, l2, mse, wasserstein]


def maps(count: int, size: int, stream: str) -> Tensor:
    return Draws.of(1, torch.arange(count)).normal(size, stream=stream).double()


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


def transport_maps(count: int, *shape: int, stream: str) -> Tensor:
    return Draws.of(2, torch.arange(count)).normal(*shape, stream=stream).double()


def positions(height: int, width: int) -> np.ndarray:
    return np.stack(np.meshgrid(np.arange(height), np.arange(width), indexing="ij"), axis=-1).reshape(-1, 2).astype(float)


def exact(a: np.ndarray, b: np.ndarray, places: np.ndarray) -> float:
    """The 1-Wasserstein distance of two distributions over the same places, as a linear programme."""
    n = len(places)
    leaves, arrives = np.kron(np.eye(n), np.ones(n)), np.kron(np.ones(n), np.eye(n))
    found = optimize.linprog(cdist(places, places).ravel(), A_eq=np.vstack([leaves, arrives]), b_eq=np.concatenate([a, b]))
    return float(found.fun)


def test_a_series_by_hand() -> None:
    a, b = torch.tensor([[[1.0, 0.0, 0.0, -1.0]]]), torch.tensor([[[0.0, 3.0, 3.0, 0.0]]])
    assert sliced_wasserstein(a, b).item() == 1.0


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.floats(0.0, 9.0), st.floats(0.0, 9.0)), min_size=2, max_size=20))
def test_of_a_series_it_is_scipys(entries: list[tuple[float, float]]) -> None:
    a, b = (np.array([pair[side] for pair in entries]) for side in (0, 1))
    found = sliced_wasserstein(*(torch.from_numpy(x)[None, None] for x in (a, b))).item()
    if not a.any() or not b.any():
        assert math.isnan(found)
        return
    place = np.arange(len(entries))
    assert found == pytest.approx(stats.wasserstein_distance(place, place, a / a.max(), b / b.max()), abs=1e-9)


def test_of_maps_it_is_the_mean_over_lines_of_scipys() -> None:
    a, b = transport_maps(3, 2, 5, 7, stream="a"), transport_maps(3, 2, 5, 7, stream="b")
    lines = projections(torch.Size((5, 7)), 4, torch.device("cpu")).numpy()
    angles = [0.0, math.pi / 4, math.pi / 2, 3 * math.pi / 4]
    assert np.allclose(lines, [positions(5, 7) @ [math.sin(angle), math.cos(angle)] for angle in angles])
    u, v = (x.abs().sum(dim=1).flatten(1).numpy() for x in (a, b))
    slow = [np.mean([stats.wasserstein_distance(line, line, p, q) for line in lines]) for p, q in zip(u, v, strict=True)]
    assert sliced_wasserstein.using(directions=4)(a, b).tolist() == pytest.approx(slow, abs=1e-12)


def test_it_is_at_most_the_exact_distance_and_close_for_a_map_that_moves() -> None:
    a, b = transport_maps(6, 1, 4, 4, stream="a"), transport_maps(6, 1, 4, 4, stream="b")
    whole = [exact(p, q, positions(4, 4)) for p, q in zip(mass_shares(a).numpy(), mass_shares(b).numpy(), strict=True)]
    found = sliced_wasserstein.using(directions=64)(a, b).numpy()
    assert (found <= np.array(whole) + 1e-9).all()
    assert (found > 0.4 * np.array(whole)).all()


@pytest.mark.parametrize(("down", "right"), [(0, 5), (7, 0), (3, 4), (8, -6)])
def test_a_moving_spot_has_two_over_pi_of_its_way(down: int, right: int) -> None:
    spot = torch.zeros(1, 1, 32, 32)
    spot[0, 0, 10:13, 12:15] = torch.rand(3, 3, generator=torch.Generator().manual_seed(0))
    moved = spot.roll((down, right), (2, 3))
    assert sliced_wasserstein(spot, moved).item() == pytest.approx(2 / math.pi * math.hypot(down, right), rel=0.004)
    assert wasserstein(spot, moved).item() == 0.0


def test_it_is_a_distance_that_knows_no_scale_and_no_sign() -> None:
    a, b, c = (transport_maps(20, 1, 6, 6, stream=name) for name in "abc")
    ab, bc, ac = sliced_wasserstein(a, b), sliced_wasserstein(b, c), sliced_wasserstein(a, c)
    assert (ac <= ab + bc + 1e-12).all()
    torch.testing.assert_close(sliced_wasserstein(-7.0 * a, 1e-200 * b), ab)


def test_a_zero_map_has_no_mass() -> None:
    a = transport_maps(2, 1, 6, 6, stream="a")
    empty = a.clone()
    empty[1] = 0.0
    assert sliced_wasserstein(a, empty).isnan().tolist() == [False, True]
    assert sliced_wasserstein(empty, empty).isnan().tolist() == [False, True]


def test_what_has_no_positions_is_refused() -> None:
    with pytest.raises(InputError, match=r"maps \(N, C, H, W\) or series \(N, C, T\), not \(2, 5\)"):
        sliced_wasserstein(torch.ones(2, 5), torch.ones(2, 5))
    with pytest.raises(SpecError, match="whole number of at least 1, not 0"):
        sliced_wasserstein.using(directions=0)


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


def normalised_maps(dtype=torch.float64):
    return Draws.of(5, torch.arange(5)).normal(3, 4, 6, stream="e").to(dtype)


def test_by_hand():
    e = torch.tensor([[[1.0, 7.0]], [[0.0, 0.0]], [[-2.0, 2.0]]])
    assert normalised(e).flatten().tolist() == pytest.approx([0.2, 1.4, 0.0, 0.0, -1.0, 1.0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_mean_square_is_one_and_the_direction_stays(dtype):
    e = normalised_maps(dtype)
    found = normalised(e)
    assert found.dtype == dtype
    assert found.shape == e.shape
    torch.testing.assert_close(found.square().mean(dim=(1, 2, 3)), torch.ones(5, dtype=dtype))
    torch.testing.assert_close(torch.cosine_similarity(found.flatten(1), e.flatten(1)), torch.ones(5, dtype=dtype))
    torch.testing.assert_close(normalised(found), found)


def test_scale_and_batch_mates_do_not_matter():
    e = normalised_maps(torch.float32)
    scale = torch.tensor([1e-30, 1e-4, 1.0, 1e4, 1e30]).reshape(-1, 1, 1, 1)
    torch.testing.assert_close(normalised(scale * e), normalised(e))
    assert torch.equal(torch.cat([normalised(row[None]) for row in e]), normalised(e))


def test_undefined_stays_in_its_row_and_nothing_is_changed_in_place():
    e = normalised_maps()
    e[1, 0, 0, 0] = float("nan")
    before = e.clone()
    found = normalised(e)
    assert found.isnan().flatten(1).all(dim=1).tolist() == [False, True, False, False, False]
    assert torch.equal(e.nan_to_num(9.0), before.nan_to_num(9.0))
    assert normalised(torch.zeros(2, 0)).shape == (2, 0)
