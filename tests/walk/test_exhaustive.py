from __future__ import annotations

import pytest
import torch
from walk_fakes import Line, Ring, play

from veracity.core.errors import SpecError
from veracity.core.registry import WALKS
from veracity.core.walks import Sampling
from veracity.walk import Exhaustive

BOUNDS = (-1.0, 1.0)


def test_every_sample_meets_every_element_once() -> None:
    asked = play(Exhaustive().start(Ring(size=5), torch.tensor([8, 3]), 0, BOUNDS))
    assert asked.row.tolist() == [0] * 5 + [1] * 5
    assert asked.draw.tolist() == [0, 1, 2, 3, 4] * 2
    assert asked.element.flatten().tolist() == [0, 100, 200, 300, 400] * 2


def test_asks_stay_small_whatever_the_order() -> None:
    walker = Exhaustive().start(Ring(size=1_000_000), torch.arange(3), 0, BOUNDS)
    first, second = walker.ask(), walker.ask()
    assert first is not None
    assert second is not None
    assert len(first) == len(second) == 4096
    assert second.draw[0] == 4096
    assert second.element[0].item() == 409_600


def test_blocks_cross_from_sample_to_sample() -> None:
    asked = play(Exhaustive().start(Ring(size=3000), torch.arange(3), 0, BOUNDS))
    assert torch.equal(asked.row, torch.arange(3).repeat_interleave(3000))
    assert torch.equal(asked.draw, torch.arange(3000).repeat(3))


def test_it_says_what_it_does() -> None:
    assert Exhaustive().sampling(Ring(size=7)) == Sampling(exhaustive=True, population=7)
    assert Exhaustive().length(Ring(size=7)) == 7
    assert Exhaustive().spec() == {"name": "exhaustive"}
    assert WALKS.build("exhaustive") == Exhaustive()


@pytest.mark.parametrize("method", ["sampling", "length"])
def test_endless_and_huge_spaces_are_refused(method: str) -> None:
    with pytest.raises(SpecError, match="'line' is infinite: use the walk 'monte_carlo'"):
        getattr(Exhaustive(), method)(Line())
    with pytest.raises(SpecError, match="at most 1,000,000 elements, but 'ring' has 1,000,001: use the walk 'monte_carlo'"):
        getattr(Exhaustive(), method)(Ring(size=1_000_001))
    with pytest.raises(SpecError, match="is infinite"):
        Exhaustive().start(Line(), torch.arange(2), 0, BOUNDS)
