from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor
from walk_fakes import Line, Ring, by_draw, play

from veracity.core.errors import SpecError
from veracity.core.randomness import Draws
from veracity.core.registry import WALKS
from veracity.core.walks import AdaptiveWalk, Ask, Sampling
from veracity.walk import Adaptive, MonteCarlo
from veracity.walk.sampling import AdaptiveWalker

BOUNDS = (-1.0, 1.0)
ORDER = 300


def table(samples: Tensor) -> Tensor:
    """A similarity for every sample and element: sample 0 is certain, the others spread more and more."""
    noise = Draws.of(5, samples).uniform(ORDER, stream="table") - 0.5
    return 0.4 + 0.02 * samples[:, None] * noise


def run(walk: Adaptive, samples: Tensor, seed: int = 0) -> tuple[Ask, AdaptiveWalker]:
    values = table(samples)
    walker = walk.start(Ring(size=ORDER), samples, seed, BOUNDS)
    assert isinstance(walker, AdaptiveWalker)
    return play(walker, lambda ask: values[ask.row, ask.element[:, 0] // 100]), walker


def test_a_sample_stops_when_its_interval_is_narrow() -> None:
    samples = torch.tensor([0, 30, 60])
    asked, walker = run(Adaptive(width=0.2, block=4), samples)
    drawn = torch.bincount(asked.row)
    low, high = walker.bets.interval()
    assert drawn[0] < drawn[1] < drawn[2] < ORDER
    assert (high - low <= 0.2).all()
    truth = table(samples).mean(dim=1).numpy()
    assert ((low <= truth) & (truth <= high)).all()
    for row in range(3):
        assert asked.draw[asked.row == row].tolist() == list(range(int(drawn[row])))


def test_one_block_less_was_not_enough() -> None:
    samples = torch.tensor([0, 20, 45])
    asked, _ = run(Adaptive(width=0.2), samples)
    for sample, drawn in zip(samples, torch.bincount(asked.row).tolist(), strict=True):
        _, cut = run(Adaptive(width=0.2, most=drawn - 16), sample[None])
        low, high = cut.bets.interval()
        assert high[0] - low[0] > 0.2


def test_exhausting_the_space_ends_it() -> None:
    asked, walker = run(Adaptive(width=1e-6), torch.tensor([45, 3]))
    assert torch.bincount(asked.row).tolist() == [ORDER, ORDER]
    low, high = walker.bets.interval()
    np.testing.assert_array_equal(low, high)
    np.testing.assert_allclose(low, table(torch.tensor([45, 3])).mean(dim=1))


def test_most_ends_it() -> None:
    asked, _ = run(Adaptive(width=1e-6, most=50), torch.tensor([45, 3]))
    assert torch.bincount(asked.row).tolist() == [50, 50]


@pytest.mark.parametrize("rows", [17, 40])
def test_a_sample_stops_at_the_same_draw_in_every_block(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = torch.arange(0, 50, 7)
    together = by_draw(samples, run(Adaptive(width=0.2), samples)[0])
    apart = {key: value for sample in samples for key, value in by_draw(sample[None], run(Adaptive(width=0.2), sample[None])[0]).items()}
    assert together == apart
    monkeypatch.setattr("veracity.walk.sampling.ROWS", rows)
    assert by_draw(samples, run(Adaptive(width=0.2), samples)[0]) == together


def test_elements_are_those_of_monte_carlo() -> None:
    samples = torch.tensor([4, 9])
    fixed = by_draw(samples, play(MonteCarlo(draws=32).start(Ring(size=ORDER), samples, 0, BOUNDS)))
    found = by_draw(samples, run(Adaptive(width=1e-6, most=32), samples)[0])
    assert found == fixed


def test_endless_spaces_work() -> None:
    walker = Adaptive(width=0.3, most=400).start(Line(), torch.arange(3), 0, BOUNDS)
    asked = play(walker, lambda ask: torch.tanh(0.2 * ask.element[:, 0]))
    assert all(0 < count < 400 for count in torch.bincount(asked.row).tolist())


def test_undefined_draws_do_not_stop_it() -> None:
    walker = Adaptive(width=0.3, most=64).start(Line(), torch.arange(2), 0, BOUNDS)
    asked = play(walker, lambda ask: torch.where(ask.row == 0, math.nan, 0.5).double())
    assert torch.bincount(asked.row)[0] == 64
    assert walker.bets.interval()[0][0] == -1.0


def test_many_samples_are_asked_for_in_turns() -> None:
    walker = Adaptive(width=0.5, most=32).start(Line(), torch.arange(1000), 0, BOUNDS)
    asked = play(walker, lambda ask: torch.zeros(len(ask)))
    assert torch.equal(torch.bincount(asked.row), torch.full((1000,), int(torch.bincount(asked.row)[0])))


def test_it_says_what_it_does() -> None:
    walk = Adaptive(confidence=0.9, most=200)
    assert isinstance(walk, AdaptiveWalk)
    assert walk.sampling(Ring(size=30)) == Sampling(population=30, anytime=0.9)
    assert walk.sampling(Line()) == Sampling(anytime=0.9)
    assert walk.length(Ring(size=30)) == 30
    assert walk.length(Line()) == 200
    assert WALKS.build(walk.spec()) == walk
    assert set(WALKS) >= {"adaptive", "exhaustive", "monte_carlo"}


def test_a_measure_without_bounds_is_refused() -> None:
    with pytest.raises(SpecError, match=r"finite bounds, not 0.0 to inf: use the walk 'monte_carlo'"):
        Adaptive().start(Line(), torch.arange(2), 0, (0.0, math.inf))


@pytest.mark.parametrize("settings", [{"width": 0.0}, {"confidence": 95}, {"most": 0}, {"block": 0}])
def test_bad_settings_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(SpecError, match=f"The setting '{next(iter(settings))}' of walk 'adaptive' must be a "):
        Adaptive(**settings)
