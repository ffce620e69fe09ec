from __future__ import annotations

import pytest
import torch
from scipy import stats
from walk_fakes import Line, Ring, SharedRing, by_draw, play

from veracity.core.errors import SpecError
from veracity.core.randomness import Draws
from veracity.core.registry import WALKS
from veracity.core.spaces import Space
from veracity.core.walks import Sampling
from veracity.walk import MonteCarlo, sampling

BOUNDS = (-1.0, 1.0)
SAMPLES = torch.tensor([12, 5, 40, 7])


def drawn(walk: MonteCarlo, space: Space, samples: torch.Tensor = SAMPLES, seed: int = 0) -> dict[tuple[int, int], list[float]]:
    return by_draw(samples, play(walk.start(space, samples, seed, BOUNDS)))


def test_small_spaces_are_drawn_without_replacement() -> None:
    found = drawn(MonteCarlo(draws=20), Ring(size=30))
    for sample in SAMPLES.tolist():
        numbers = [found[sample, draw][0] for draw in range(20)]
        assert len(set(numbers)) == 20
        assert all(0 <= number < 3000 for number in numbers)
    assert len(found) == 80
    assert MonteCarlo(draws=20).sampling(Ring(size=30)) == Sampling(population=30)


def test_enough_draws_are_the_whole_space() -> None:
    walk = MonteCarlo(draws=50)
    assert walk.sampling(Ring(size=50)) == Sampling(exhaustive=True, population=50)
    assert walk.length(Ring(size=30)) == 30
    asked = play(walk.start(Ring(size=30), SAMPLES, 0, BOUNDS))
    assert torch.equal(asked.element[:, 0], 100 * torch.arange(30).repeat(4))


def test_large_and_endless_spaces_are_drawn_independently() -> None:
    assert MonteCarlo().sampling(Ring(size=100_000)) == Sampling(population=100_000)
    for space in (Ring(size=100_001), Line()):
        assert MonteCarlo(draws=9).sampling(space) == Sampling()
        assert MonteCarlo(draws=9).length(space) == 9
    found = drawn(MonteCarlo(draws=9), Line())
    draws = Draws(0, torch.tensor([40]), torch.tensor([6])).normal(2, stream="walk")
    assert found[40, 6] == draws[0].tolist()


def test_replacement_on_request() -> None:
    walk = MonteCarlo(draws=40, replace=True)
    assert walk.sampling(Ring(size=5)) == Sampling()
    asked = play(walk.start(Ring(size=5), torch.arange(500), 3, BOUNDS))
    counts = torch.bincount(asked.element[:, 0] // 100, minlength=5)
    assert stats.chisquare(counts.numpy()).pvalue > 0.01


def test_distinct_draws_are_uniform_at_every_place() -> None:
    asked = play(MonteCarlo(draws=3).start(Ring(size=6), torch.arange(3000), 3, BOUNDS))
    for draw in range(3):
        counts = torch.bincount(asked.element[asked.draw == draw, 0] // 100, minlength=6)
        assert stats.chisquare(counts.numpy()).pvalue > 0.01


@pytest.mark.parametrize("space", [Ring(size=40), Ring(size=200_000), Line(width=3)], ids=["distinct", "large", "endless"])
def test_a_draw_is_the_same_element_in_every_block(space: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    together = drawn(MonteCarlo(draws=12), space)
    apart = {key: value for sample in SAMPLES for key, value in drawn(MonteCarlo(draws=12), space, sample[None]).items()}
    assert together == apart
    fewer = drawn(MonteCarlo(draws=5), space)
    assert fewer == {key: value for key, value in together.items() if key[1] < 5}
    monkeypatch.setattr(sampling, "SHUFFLED", 80)
    assert drawn(MonteCarlo(draws=12), space) == together


def test_seeds_and_samples_differ() -> None:
    first, second = (drawn(MonteCarlo(draws=12), Ring(size=4000), seed=seed) for seed in (0, 1))
    assert first != second
    assert [first[12, draw] for draw in range(12)] != [first[5, draw] for draw in range(12)]


def test_crossed_spaces_share_their_draws() -> None:
    for walk in (MonteCarlo(draws=12), MonteCarlo(draws=12, replace=True)):
        found = drawn(walk, SharedRing(size=4000))
        assert [found[12, draw] for draw in range(12)] == [found[5, draw] for draw in range(12)]


def test_a_space_without_numbers_still_has_draws() -> None:
    asked = play(MonteCarlo(draws=8).start(Line(width=0), SAMPLES, 0, BOUNDS))
    assert asked.element.shape == (32, 0)
    assert asked.draw.tolist() == list(range(8)) * 4


def test_asks_stay_small() -> None:
    walker = MonteCarlo(draws=10_000_000).start(Line(), SAMPLES, 0, BOUNDS)
    assert [len(walker.ask() or ()) for _ in range(2)] == [4096, 4096]


@pytest.mark.parametrize("draws", [0, -3, 2.5, True])
def test_draws_must_be_a_positive_whole_number(draws: object) -> None:
    with pytest.raises(SpecError, match="'draws' of walk 'monte_carlo' must be a whole number of at least 1"):
        MonteCarlo(draws=draws)


def test_it_can_be_written_down() -> None:
    walk = MonteCarlo(draws=7, replace=True)
    assert walk.spec() == {"name": "monte_carlo", "draws": 7, "replace": True}
    assert WALKS.build(walk.spec()) == walk
