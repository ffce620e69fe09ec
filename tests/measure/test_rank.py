from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from veracity.core.measures import Direction
from veracity.core.randomness import Draws
from veracity.measure import average_ranks, rank, rank_distance, root_rank_distance, signed_rank_distance, spearman

rows = st.integers(1, 30).flatmap(
    lambda width: st.lists(st.lists(st.integers(-3, 3), min_size=width, max_size=width), min_size=1, max_size=4)
)


def test_ranks_by_hand() -> None:
    x = torch.tensor([[3.0, 1.0, 3.0, 2.0], [5.0, 5.0, 5.0, 5.0], [-0.0, 0.0, -1.0, 1.0]])
    assert average_ranks(x).tolist() == [[3.5, 1.0, 3.5, 2.0], [2.5, 2.5, 2.5, 2.5], [2.5, 2.5, 1.0, 4.0]]


@settings(max_examples=50, deadline=None)
@given(rows)
def test_ranks_with_ties_are_scipys(x: list[list[int]]) -> None:
    assert average_ranks(torch.tensor(x)).tolist() == stats.rankdata(x, axis=1).tolist()


def test_spearman_by_hand() -> None:
    a = torch.tensor([[1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 1.0, 2.0, 3.0, 3.0]])
    b = torch.tensor([[2.0, 1.0, 4.0, 3.0, 5.0], [1.0, 2.0, 2.0, 2.0, 9.0]])
    by_differences = 1 - 6 * 4 / (5 * 24)
    by_ranks = np.corrcoef([1.5, 1.5, 3.0, 4.5, 4.5], [1.0, 3.0, 3.0, 3.0, 5.0])[0, 1]
    assert spearman(a, b).tolist() == pytest.approx([by_differences, by_ranks])


@pytest.mark.filterwarnings("ignore::scipy.stats.ConstantInputWarning")
@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-2, 2)), min_size=2, max_size=40))
def test_spearman_with_ties_is_scipys(entries: list[tuple[int, int]]) -> None:
    a, b = ([float(pair[side]) for pair in entries] for side in (0, 1))
    found = spearman(torch.tensor([a]), torch.tensor([b])).item()
    assert found == pytest.approx(stats.spearmanr(a, b).statistic, abs=1e-12, nan_ok=True)


def test_spearman_on_saturated_maps_needs_exact_ties() -> None:
    a = Draws.of(0, torch.arange(20)).normal(1, 14, 14, stream="a").clamp(min=0.0)
    b = (a + 0.3 * Draws.of(0, torch.arange(20)).normal(1, 14, 14, stream="b")).clamp(min=0.0)
    right = [stats.spearmanr(x.flatten(), y.flatten()).statistic for x, y in zip(a, b, strict=True)]
    assert spearman(a, b).tolist() == pytest.approx(right, abs=1e-12)
    hasty = [np.corrcoef(*(z.flatten().argsort().argsort().numpy() for z in (x, y)))[0, 1] for x, y in zip(a, b, strict=True)]
    assert np.abs(np.subtract(hasty, right)).max() > 0.01


def test_spearman_ignores_growing_functions_and_turns_with_falling_ones() -> None:
    a, b = (Draws.of(0, torch.arange(6)).normal(25, stream=name) for name in "ab")
    torch.testing.assert_close(spearman(a.exp(), b**3), spearman(a, b))
    torch.testing.assert_close(spearman(-a, b), -spearman(a, b))


def test_spearman_of_a_constant_is_undefined() -> None:
    assert spearman(torch.full((1, 9), 0.1), torch.arange(9.0)[None]).isnan().all()


@settings(max_examples=30, deadline=None)
@given(rows)
def test_short_and_long_floats_have_the_same_ranks(x: list[list[int]]) -> None:
    whole = torch.tensor(x)
    ranks = [average_ranks(whole.to(kind) / 4).tolist() for kind in (torch.float16, torch.bfloat16, torch.float32, torch.float64)]
    assert ranks == 4 * [stats.rankdata(x, axis=1).tolist()]


def test_extreme_floats_keep_their_order_and_both_zeros_tie() -> None:
    x = torch.tensor([[float("inf"), 0.0, -0.0, -1e-45, 1e-45, -3.4e38, float("-inf"), 3.4e38, -1.0]])
    assert average_ranks(x).tolist() == [[9.0, 5.5, 5.5, 4.0, 7.0, 2.0, 1.0, 8.0, 3.0]]


def test_spearman_is_the_same_to_the_last_digit_in_every_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = (Draws.of(3, torch.arange(40)).normal(1, 7, 9, stream=name).float().clamp(min=-0.5) for name in "ab")
    whole = spearman(a, b)
    alone = torch.cat([spearman(a[[row]], b[[row]]) for row in range(40)])
    monkeypatch.setattr(rank, "CPU_ENTRIES", 3 * 63)
    assert torch.equal(whole, alone)
    assert torch.equal(whole, spearman(a, b))
    assert torch.equal(whole, spearman(a.double(), b.double()))
    assert spearman(a, a).tolist() == [1.0] * 40


def test_spearman_leaves_what_it_is_given_and_asks_for_no_gradient() -> None:
    a = Draws.of(0, torch.arange(3)).normal(8, stream="a").float().requires_grad_()
    assert not spearman(a, a.detach().flip(1)).requires_grad
    assert a.grad is None


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


def test_maps_that_are_compared_with_many_others_are_ranked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ranked: list[int] = []
    doubled = rank.doubled_ranks
    monkeypatch.setattr(rank, "doubled_ranks", lambda x: ranked.append(len(x)) or doubled(x))
    base, others = torch.rand(3, 5), [torch.rand(3, 5) for _ in range(4)]
    base[1, 2] = torch.nan
    with rank.ranked_once(base):
        found = [spearman(one, base) for one in others]
    assert sum(ranked) == 4 * 3 + 3
    for one, other in zip(found, others, strict=True):
        assert torch.equal(one.nan_to_num(9.0), spearman(other, base).nan_to_num(9.0))
        assert one.isnan().tolist() == [False, True, False]


def test_nothing_is_remembered_after_the_block() -> None:
    base = torch.rand(1, 5)
    with rank.ranked_once(base):
        spearman(base.clone(), base)
    base.data.neg_()
    assert spearman(base.clone(), base) == 1.0
    assert rank.FIXED.get() is None


def test_too_large_maps_are_ranked_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank, "MOST_BYTES", 8)
    base, other = torch.rand(2, 4), torch.rand(2, 4)
    with rank.ranked_once(base):
        assert torch.equal(spearman(other, base), spearman(other.clone(), base.clone()))
