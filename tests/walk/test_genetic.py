from __future__ import annotations

import math

import pytest
import torch
from driving import CPU, drive, last, search_of, unit_box
from torch import Tensor
from walk_fakes import Line, Ring

from veracity.core.errors import SpecError
from veracity.core.randomness import Draws
from veracity.core.registry import WALKS
from veracity.core.walks import Ask
from veracity.perturb import Rotation
from veracity.walk import Genetic, SimpleMonteCarlo
from veracity.walk.genetic import LARGEST, coins, mutations, parent_ranks

SMALL = Genetic(population=20, generations=8, elites=4)


def corner(ask: Ask) -> Tensor:
    return (ask.element.double() * torch.cos(torch.arange(ask.element.shape[1])).sign()).sum(dim=1)


@pytest.mark.parametrize("size", [1, 20])
def test_it_comes_closer_to_a_corner_than_as_many_random_points(size: int) -> None:
    walk = Genetic(population=40, generations=30, elites=8)
    found = search_of(walk, unit_box(size), corner, samples=5).worst()[1]
    random = search_of(SimpleMonteCarlo(draws=walk.length(unit_box(size))), unit_box(size), corner, target=9.0, samples=5).worst()[1]
    assert (found >= random - (1e-4 if size == 1 else 0.0)).all()
    if size == 20:
        assert (found > random + 1.5).all()
        assert (found > 0.8 * 10).all()


def test_a_peak_inside() -> None:
    found = search_of(Genetic(), unit_box(10), lambda ask: -(ask.element - 0.2).double().square().sum(dim=1)).worst()[0]
    assert float((found.element - 0.2).abs().max()) < 0.1


def test_an_angle() -> None:
    searcher = search_of(SMALL, Rotation(), lambda ask: -(ask.element[:, 0] - 2.0).abs(), samples=6)
    ask, _ = searcher.worst()
    assert float((ask.element[:, 0] - 2.0).abs().max()) < 0.06
    countable = search_of(SMALL, Ring(size=7), lambda ask: -(ask.element[:, 0] - 500).double().abs())
    assert countable.worst()[0].element.item() == 500


def test_points_that_keep_the_constraint_beat_all_others() -> None:
    # Allowed (merit at least 0) only where the first entry is high, by however little the objective gains there.
    def constrained(ask: Ask) -> Tensor:
        first, second = ask.element[:, 0].double(), ask.element[:, 1].double()
        return torch.where(first >= 0.45, 0.001 * (second + 0.5), first - 0.45)

    searcher = search_of(Genetic(population=30, generations=15, elites=5), unit_box(6), constrained, samples=4)
    ask, merit = searcher.worst()
    assert (ask.element[:, 0] >= 0.45 - 1e-6).all()
    assert (merit > 0.0009).all()


def test_the_best_so_far_never_gets_worse_and_is_what_was_met() -> None:
    asked: list[Ask] = []

    def watched(ask: Ask) -> Tensor:
        asked.append(ask)
        return corner(ask)

    searcher = search_of(SMALL, unit_box(5), watched, samples=3)
    trace = searcher.trace()
    table = torch.full((3, 9), torch.nan, dtype=torch.float64)
    table[trace.row, trace.level] = trace.quantities["merit"]
    assert (table.diff(dim=1) >= 0).all()
    assert (table[:, -1] > table[:, 0]).all()
    assert torch.equal(trace.quantities["merit"], trace.quantities["seen0"])
    merits, rows = torch.cat([corner(ask) for ask in asked]), torch.cat([ask.row for ask in asked])
    assert torch.equal(table[:, -1], torch.stack([merits[rows == row].max() for row in range(3)]))
    ask, merit = searcher.worst()
    assert torch.equal(corner(ask), merit)


def test_elites_survive_and_every_rank_is_kept() -> None:
    searcher = SMALL.searcher(Line(width=3), torch.arange(1), 0, 0.0, CPU)
    ask = searcher.ask()
    assert ask is not None
    searcher.tell(ask.element.sum(dim=1), ask.element)
    before = searcher.latent[0, :4].clone()
    assert searcher.ask() is not None
    searcher.tell(torch.full((16,), -99.0), torch.zeros(16, 3))
    assert torch.equal(searcher.latent[0, :4], before)


def test_children_mix_their_parents_and_mutate_within_limits() -> None:
    walk = Genetic(population=200, generations=1, elites=2, step=0.5, rate=0.25)
    searcher = walk.searcher(Line(width=64), torch.arange(1), 0, 0.0, CPU)
    first = searcher.ask()
    assert first is not None
    searcher.tell(torch.arange(200, 0, -1).double(), torch.zeros(200, 1))
    children = searcher.ask()
    assert children is not None
    inherited = (children.element[:, None, :] == first.element[None, :, :]).any(dim=1)
    assert abs(float(inherited.double().mean()) - 0.75) < 0.02
    assert children.element.abs().max() <= LARGEST
    # Two parents each: the entries that were inherited come from at most two of the first generation.
    owners = (children.element[0][None] == first.element).any(dim=1).sum()
    assert owners <= 2


def test_spread_and_step_scale_what_is_asked() -> None:
    walk = Genetic(population=100, generations=1, elites=1, spread=0.01, step=0.02, rate=1.0)
    searcher = walk.searcher(Line(width=50), torch.arange(1), 0, 0.0, CPU)
    first = searcher.ask()
    assert first is not None
    assert float(first.element.std()) == pytest.approx(0.01, rel=0.05)
    searcher.tell(torch.zeros(100), torch.zeros(100, 1))
    second = searcher.ask()
    assert second is not None
    assert float(second.element.std()) == pytest.approx(math.hypot(0.01, 0.02), rel=0.05)


def test_children_of_few_latents_are_no_copies() -> None:
    searcher = SMALL.searcher(Line(width=1), torch.arange(3), 0, 0.0, CPU)
    first = searcher.ask()
    assert first is not None
    searcher.tell(first.element[:, 0], first.element)
    children = searcher.ask()
    assert children is not None
    assert not torch.isin(children.element, first.element).any()


def test_ranks_fall_linearly() -> None:
    places = (torch.arange(100000).double() + 0.5) / 100000
    share = torch.bincount(parent_ranks(places, 5), minlength=5).double() / 100000
    assert torch.allclose(share, torch.tensor([5, 4, 3, 2, 1]).double() / 15, atol=1e-4)


def test_coins_and_mutations_have_their_shares() -> None:
    draws = Draws.of(0, torch.arange(400))
    tossed = coins(draws, 100, "genetic.cross", CPU)
    assert tossed.shape == (400, 100)
    assert abs(float(tossed.double().mean()) - 0.5) < 0.01
    for rate in (0.1, 0.2, 1.0):
        assert abs(float(mutations(draws, 101, rate, CPU).double().mean()) - rate) < 0.01
    assert mutations(draws, 101, 1e-9, CPU).any()


def test_evaluations_are_counted_to_the_last_one() -> None:
    searcher = SMALL.searcher(unit_box(3), torch.arange(5), 0, 0.0, CPU)
    rows = drive(searcher, corner)
    assert SMALL.length(unit_box(3)) == 20 + 8 * 16
    assert rows == 5 * SMALL.length(unit_box(3))
    assert last(searcher.trace(), "evaluations").tolist() == [148.0] * 5
    assert searcher.trace().quantities["evaluations"][searcher.trace().row == 0].tolist() == [20.0 + 16 * step for step in range(9)]


def test_undefined_points_are_counted_and_never_chosen() -> None:
    def holes(ask: Ask) -> Tensor:
        return torch.where(ask.element[:, 0] > 0.3, torch.nan, ask.element[:, 0].double())

    searcher = search_of(SMALL, unit_box(2), holes, samples=4)
    _, merit = searcher.worst()
    assert ((merit <= 0.3) & (merit > 0.2)).all()
    assert (last(searcher.trace(), "undefined") > 0).all()
    assert len(search_of(SMALL, unit_box(2), lambda ask: torch.full((len(ask),), torch.nan)).worst()[0]) == 0


def test_together_or_one_at_a_time() -> None:
    samples = torch.tensor([5, 77, 3])

    def merit(numbers: Tensor) -> object:
        return lambda ask: (ask.element.double() * torch.cos(numbers[ask.row, None] + torch.arange(4))).sum(dim=1)

    whole = search_of(SMALL, unit_box(4), merit(samples), samples=samples, seed=3)
    for number in range(3):
        one = search_of(SMALL, unit_box(4), merit(samples[[number]]), samples=samples[[number]], seed=3)
        assert torch.equal(whole.worst()[0].element[number], one.worst()[0].element[0])
        assert torch.equal(whole.trace().quantities["merit"][whole.trace().row == number], one.trace().quantities["merit"])


def test_no_generation_is_a_random_search() -> None:
    searcher = Genetic(population=10, generations=0, elites=2).searcher(unit_box(2), torch.arange(2), 0, 0.0, CPU)
    assert drive(searcher, corner) == 20


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"population": 1}, "'population'"),
        ({"generations": -1}, "'generations'"),
        ({"elites": 0}, "'elites'"),
        ({"elites": 100}, "fewer elites"),
        ({"step": 0.0}, "'step'"),
        ({"spread": True}, "'spread'"),
        ({"rate": 1.5}, "'rate'"),
    ],
)
def test_settings_that_breed_nothing(settings: dict[str, float], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        Genetic(**settings).searcher(unit_box(2), torch.arange(1), 0, 0.0, CPU)


def test_it_is_registered_and_cannot_be_walked_without_a_merit() -> None:
    assert WALKS.build(SMALL.spec()) == SMALL
    with pytest.raises(SpecError, match="'genetic' searches for the worst case of a robustness score"):
        SMALL.start(unit_box(2), torch.arange(1), 0, (0.0, 1.0))
