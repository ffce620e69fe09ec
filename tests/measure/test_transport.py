from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats
from scipy.spatial.distance import cdist
from torch import Tensor

from veracity.core.errors import InputError, SpecError
from veracity.core.randomness import Draws
from veracity.measure import sliced_wasserstein, wasserstein
from veracity.measure.distance import mass_shares, projections


def maps(count: int, *shape: int, stream: str) -> Tensor:
    return Draws.of(2, torch.arange(count)).normal(*shape, stream=stream)


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
    a, b = maps(3, 2, 5, 7, stream="a"), maps(3, 2, 5, 7, stream="b")
    lines = projections(torch.Size((5, 7)), 4, torch.device("cpu")).numpy()
    angles = [0.0, math.pi / 4, math.pi / 2, 3 * math.pi / 4]
    assert np.allclose(lines, [positions(5, 7) @ [math.sin(angle), math.cos(angle)] for angle in angles])
    u, v = (x.abs().sum(dim=1).flatten(1).numpy() for x in (a, b))
    slow = [np.mean([stats.wasserstein_distance(line, line, p, q) for line in lines]) for p, q in zip(u, v, strict=True)]
    assert sliced_wasserstein.using(directions=4)(a, b).tolist() == pytest.approx(slow, abs=1e-12)


def test_it_is_at_most_the_exact_distance_and_close_for_a_map_that_moves() -> None:
    a, b = maps(6, 1, 4, 4, stream="a"), maps(6, 1, 4, 4, stream="b")
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
    a, b, c = (maps(20, 1, 6, 6, stream=name) for name in "abc")
    ab, bc, ac = sliced_wasserstein(a, b), sliced_wasserstein(b, c), sliced_wasserstein(a, c)
    assert (ac <= ab + bc + 1e-12).all()
    torch.testing.assert_close(sliced_wasserstein(-7.0 * a, 1e-200 * b), ab)


def test_a_zero_map_has_no_mass() -> None:
    a = maps(2, 1, 6, 6, stream="a")
    empty = a.clone()
    empty[1] = 0.0
    assert sliced_wasserstein(a, empty).isnan().tolist() == [False, True]
    assert sliced_wasserstein(empty, empty).isnan().tolist() == [False, True]


def test_what_has_no_positions_is_refused() -> None:
    with pytest.raises(InputError, match=r"maps \(N, C, H, W\) or series \(N, C, T\), not \(2, 5\)"):
        sliced_wasserstein(torch.ones(2, 5), torch.ones(2, 5))
    with pytest.raises(SpecError, match="whole number of at least 1, not 0"):
        sliced_wasserstein.using(directions=0)
