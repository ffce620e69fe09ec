from __future__ import annotations

import math

import pytest
import torch
from driving import CPU, drive, last, linear_event, ln_p, search_of, unit_box
from torch import Tensor

from veracity.core.errors import SpecError
from veracity.core.randomness import Draws
from veracity.core.walks import Ask
from veracity.walk import SimpleMonteCarlo

SLOPES = torch.tensor([1.0, 2.0], dtype=torch.float64)


def test_it_counts_the_points_in_the_event() -> None:
    walk, space = SimpleMonteCarlo(draws=2500, population=1000), unit_box(3)
    trace = search_of(walk, space, lambda ask: ask.element[:, 0], target=0.3, samples=torch.tensor([4, 1])).trace()
    for row, sample in enumerate((4, 1)):
        own = Draws(0, torch.full((2500,), sample), torch.arange(2500)).normal(3, stream="simple")
        share = float((space.decode(own)[:, 0] >= 0.3).double().mean())
        assert trace.quantities["probability"][row].item() == share
        assert trace.quantities["variance"][row].item() == pytest.approx((1 - share) / (share * 2500))
    assert trace.quantities["state"].tolist() == [1.0, 1.0]


def test_its_interval_covers() -> None:
    merit, target = linear_event(SLOPES, 0.02)
    value, error = ln_p(search_of(SimpleMonteCarlo(draws=3000), unit_box(2), merit, target=target, samples=100).trace())
    assert ((value - math.log(0.02)).abs() <= 1.96 * error).double().mean() >= 0.9
    assert abs(float(value.std() / error.mean()) - 1) < 0.25


def test_without_a_hit_it_is_censored_at_three_hits() -> None:
    searcher = search_of(SimpleMonteCarlo(draws=50), unit_box(2), lambda ask: ask.element[:, 0], target=9.0)
    trace = searcher.trace()
    assert trace.quantities["probability"].tolist() == [3 / 50]
    assert trace.quantities["variance"].isnan().all()
    assert trace.quantities["state"].tolist() == [3.0]
    assert 0.4 < searcher.worst()[1].item() < 0.5


def test_undefined_points_count_as_drawn_and_not_as_hits() -> None:
    def holes(ask: Ask) -> Tensor:
        return torch.where(ask.element[:, 1] < 0, torch.nan, 1.0)

    trace = search_of(SimpleMonteCarlo(draws=4000), unit_box(2), holes, target=0.5).trace()
    assert abs(trace.quantities["probability"].item() - 0.5) < 0.04
    assert trace.quantities["undefined"].item() == pytest.approx(4000 * (1 - trace.quantities["probability"].item()))


@pytest.mark.parametrize("population", [1, 7, 1000])
def test_evaluations_are_exact_whatever_goes_at_once(population: int) -> None:
    walk = SimpleMonteCarlo(draws=20, population=population)
    searcher = walk.searcher(unit_box(2), torch.arange(3), 0, 0.1, CPU)
    assert drive(searcher, lambda ask: ask.element[:, 0]) == 3 * 20 == 3 * walk.length(unit_box(2))
    assert last(searcher.trace(), "evaluations").tolist() == [20.0] * 3
    whole = search_of(SimpleMonteCarlo(draws=20), unit_box(2), lambda ask: ask.element[:, 0], target=0.1, samples=3)
    assert torch.equal(searcher.trace().quantities["probability"], whole.trace().quantities["probability"])
    assert walk.points == min(population, 20)


@pytest.mark.parametrize("setting", ["draws", "population"])
def test_nothing_to_draw(setting: str) -> None:
    with pytest.raises(SpecError, match="whole number of at least 1"):
        SimpleMonteCarlo(**{setting: 0})
