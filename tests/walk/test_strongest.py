from __future__ import annotations

import pytest
import torch
from driving import CPU, drive, search_of, unit_box
from torch import Tensor

from veracity.core.errors import SpecError
from veracity.core.registry import WALKS
from veracity.core.walks import Ask
from veracity.walk import Genetic, GradientSearch, MonteCarlo, SimpleMonteCarlo, Strongest

FIRST, SECOND = Genetic(population=10, generations=3, elites=2), SimpleMonteCarlo(draws=30)


def bump(ask: Ask) -> Tensor:
    return ask.element.double().sum(dim=1)


def test_the_worse_of_both_counts_sample_by_sample() -> None:
    alone = [search_of(walk, unit_box(3), bump, samples=30).worst() for walk in (FIRST, SECOND)]
    ask, merit = search_of(Strongest(searches=(FIRST, SECOND)), unit_box(3), bump, samples=30).worst()
    assert torch.equal(merit, torch.maximum(alone[0][1], alone[1][1]))
    assert 0 < int((alone[0][1] < alone[1][1]).sum()) < 30
    better = torch.where((alone[0][1] >= alone[1][1])[:, None], alone[0][0].element, alone[1][0].element)
    assert torch.equal(ask.element, better)
    assert ask.row.tolist() == list(range(30))


def test_each_search_is_a_draw_of_its_own() -> None:
    searcher = search_of(Strongest(searches=(FIRST, SECOND)), unit_box(3), bump, samples=2)
    trace = searcher.trace()
    first, second = search_of(FIRST, unit_box(3), bump, samples=2).trace(), search_of(SECOND, unit_box(3), bump, samples=2).trace()
    assert torch.equal(trace.quantities["merit"], torch.cat((first.quantities["merit"], second.quantities["merit"])))
    assert torch.equal(trace.draw, torch.cat((torch.zeros_like(first.row), torch.ones_like(second.row))))
    assert trace.quantities["probability"][trace.draw == 0].isnan().all()
    assert torch.equal(trace.quantities["probability"][trace.draw == 1], second.quantities["probability"])


def test_evaluations_add_up() -> None:
    walk = Strongest(searches=(FIRST, SECOND))
    assert walk.length(unit_box(3)) == 10 + 3 * 8 + 30
    assert drive(walk.searcher(unit_box(3), torch.arange(4), 0, 0.0, CPU), bump) == 4 * 64
    assert walk.points == 30
    assert Strongest().length(unit_box(3)) == 100 + 60 * 90 + 10 * 50


def test_a_sample_that_one_search_found_nothing_for() -> None:
    def picky(ask: Ask) -> Tensor:
        return torch.where((ask.row == 1) | (len(ask) < 30), torch.nan, bump(ask))

    ask, merit = search_of(Strongest(searches=(FIRST, SECOND)), unit_box(3), picky, samples=3).worst()
    assert ask.row.tolist() == [0, 2]
    assert merit.isfinite().all()


def test_without_slopes_the_others_are_left() -> None:
    both = Strongest(searches=(FIRST, GradientSearch()))
    assert both.follows_slopes
    left = both.without_slopes()
    assert left == Strongest(searches=(FIRST,))
    assert not left.follows_slopes
    assert Strongest(searches=(GradientSearch(),)).without_slopes() is None


def test_slopes_are_wanted_by_the_search_under_way() -> None:
    searcher = Strongest(searches=(FIRST, GradientSearch(population=2, steps=2))).searcher(unit_box(2), torch.arange(1), 0, 0.0, CPU)
    wanted = []
    while (ask := searcher.ask()) is not None:
        wanted.append(searcher.slopes)
        searcher.tell(bump(ask), ask.element, torch.ones_like(ask.element) if searcher.slopes else None)
    assert wanted == [False] * 4 + [True] * 2


@pytest.mark.parametrize("searches", [(), (MonteCarlo(),), ("monte_carlo",)])
def test_only_searches(searches: tuple[object, ...]) -> None:
    with pytest.raises(SpecError, match=r"needs at least one search|must be a list of Search objects"):
        Strongest(searches=searches).searcher(unit_box(2), torch.arange(1), 0, 0.0, CPU)


def test_it_comes_back_from_its_spec_and_takes_names() -> None:
    walk = Strongest(searches=(FIRST, SECOND))
    again = WALKS.build(walk.spec())
    assert again.parts() == [FIRST, SECOND]
    assert Strongest(searches=("genetic", "gradient")).parts() == [Genetic(), GradientSearch()]
