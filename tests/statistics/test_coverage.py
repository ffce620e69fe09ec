"""Do the intervals hold as often as they say? Measured on a table of every similarity, with no model in sight."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from veracity.core.spaces import FiniteSpace
from veracity.core.walks import Sampling, Walk, Walker
from veracity.statistics.means import estimate
from veracity.walk import Adaptive, MonteCarlo

SAMPLES, ORDER, REPEATS, BOUNDS = 64, 441, 800, (-1.0, 1.0)


@dataclass(frozen=True, kw_only=True)
class Shifts(FiniteSpace):
    """As many elements as there are shifts by up to ten pixels."""

    name = "shifts"

    @property
    def order(self) -> int:
        return ORDER

    def unrank(self, index: Tensor) -> Tensor:
        return index[:, None]

    def act(self, elements: Tensor, x: Tensor) -> Tensor:
        return x


@pytest.fixture(scope="module")
def table() -> np.ndarray:
    """Similarities (samples, elements) as explainers have them: skewed towards 1, with some samples far worse than others."""
    return similarities(SAMPLES, 20)


def similarities(samples: int, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    centre, spread = generator.beta(5, 1.5, size=(samples, 1)), generator.uniform(3, 15, size=(samples, 1))
    return 2 * generator.beta(spread * centre, spread * (1 - centre), size=(samples, ORDER)) - 1


def play(walk: Walk, table: np.ndarray, samples: Tensor) -> tuple[Walker, np.ndarray, np.ndarray]:
    """Walk over samples whose number modulo the table's length is their row: values (samples, draws), and how many draws."""
    walker = walk.start(Shifts(), samples, 0, BOUNDS)
    values = np.full((len(samples), walk.length(Shifts())), np.nan)
    similarity = torch.from_numpy(table)
    while (ask := walker.ask()) is not None:
        told = similarity[samples[ask.row] % len(table), ask.element[:, 0]]
        values[ask.row.numpy(), ask.draw.numpy()] = told.numpy()
        walker.tell(told)
    return walker, values, np.isfinite(values).sum(axis=1)


def test_interval_over_draws_covers_the_exhaustive_mean(table: np.ndarray) -> None:
    """Fifty distinct draws of 441 a sample, 400 repeats: the 95 % interval holds in 93 to 97.5 %."""
    walk = MonteCarlo(draws=50)
    truth, sampling = table.mean(), walk.sampling(Shifts())
    assert sampling.population == ORDER
    _, values, _ = play(walk, table, torch.arange(REPEATS * SAMPLES))
    found = [estimate(part, sampling, BOUNDS) for part in values.reshape(REPEATS, SAMPLES, -1)]
    held = np.mean([one.draws_low <= truth <= one.draws_high for one in found])
    assert 0.93 <= held <= 0.975
    assert np.mean([one.draws_high - one.draws_low for one in found]) < 0.03


def test_finite_population_correction_matters(table: np.ndarray) -> None:
    """With 300 of 441 elements drawn, the interval without the correction is nearly twice too wide."""
    walk = MonteCarlo(draws=300)
    _, values, _ = play(walk, table, torch.arange(200 * SAMPLES))
    for sampling, least, most in ((walk.sampling(Shifts()), 0.92, 0.98), (MonteCarlo(replace=True).sampling(Shifts()), 0.995, 1.0)):
        found = [estimate(part, sampling, BOUNDS) for part in values.reshape(200, SAMPLES, -1)]
        assert least <= np.mean([one.draws_low <= table.mean() <= one.draws_high for one in found]) <= most


@pytest.mark.parametrize("width", [0.1, 0.3])
def test_adaptive_interval_covers_each_exhaustive_mean_though_it_stops_by_looking(table: np.ndarray, width: float) -> None:
    """800 samples, each until its own interval is narrow: at least 95 % of the intervals hold."""
    walker, _, drawn = play(Adaptive(width=width), table, torch.arange(REPEATS))
    low, high = walker.bets.interval()
    truth = np.resize(table.mean(axis=1), REPEATS)
    assert (high - low <= width).all()
    assert np.mean((low <= truth) & (truth <= high)) >= 0.95
    assert len(np.unique(drawn)) > 3
    assert drawn.mean() < 0.6 * ORDER


def test_adaptive_mean_covers_the_exhaustive_mean(table: np.ndarray) -> None:
    walk = Adaptive(width=0.3)
    repeats = 40
    _, values, drawn = play(walk, table, torch.arange(repeats * SAMPLES))
    parts, counts = values.reshape(repeats, SAMPLES, -1), drawn.reshape(repeats, SAMPLES)
    found = [estimate(part, walk.sampling(Shifts()), BOUNDS, counts=count) for part, count in zip(parts, counts, strict=True)]
    assert np.mean([one.draws_low <= table.mean() <= one.draws_high for one in found]) >= 0.95
    assert max(one.draws_high - one.draws_low for one in found) < 0.5


def test_population_interval_covers_the_mean_of_the_population() -> None:
    """A hundred samples from a population of 20,000, ten draws each, 400 repeats: 93 to 97.5 %."""
    population = similarities(20_000, 21)[:, :200]
    generator = np.random.default_rng(22)
    truth, sampling = population.mean(), MonteCarlo(draws=10).sampling(Shifts())
    held, too_sure = 0, 0
    for _ in range(REPEATS):
        rows = generator.integers(0, len(population), size=100)
        found = estimate(population[rows, :10], sampling, BOUNDS)
        held += found.low <= truth <= found.high
        too_sure += found.draws_low <= truth <= found.draws_high
    assert 0.93 <= held / REPEATS <= 0.975
    assert too_sure / REPEATS < 0.6


def test_noise_of_the_explainer_is_not_removed_by_seeing_every_element() -> None:
    """Ten of twelve elements, fresh noise in every value: the finite-population correction alone would cover 40 %."""
    generator = np.random.default_rng(0)
    table = generator.uniform(-0.2, 0.2, (8, 12))
    honest, naive = [], []
    for _ in range(REPEATS):
        order = generator.permuted(np.tile(np.arange(12), (8, 1)), axis=1)[:, :10]
        values = np.take_along_axis(table, order, axis=1) + generator.normal(0, 0.3, (8, 10))
        for found, sampling in ((honest, Sampling(population=12).noisy()), (naive, Sampling(population=12))):
            one = estimate(values, sampling, (-10.0, 10.0))
            found.append(one.draws_low <= table.mean() <= one.draws_high)
    assert 0.93 <= np.mean(honest) <= 0.99
    assert np.mean(naive) < 0.7


def test_draws_that_all_samples_share_are_few_however_many_samples_there_are() -> None:
    """Twelve weight draws seen by forty samples are twelve draws, not 480."""
    generator = np.random.default_rng(1)
    shared, nested = [], []
    for _ in range(REPEATS):
        samples, draws = generator.normal(0, 1, (40, 1)), generator.normal(0, 1, (1, 12))
        values = samples + draws + generator.normal(0, 0.5, (40, 12))
        for found, sampling in ((shared, Sampling(nested=False)), (nested, Sampling())):
            one = estimate(values, sampling, (-100.0, 100.0))
            found.append(one.draws_low <= samples.mean() <= one.draws_high)
    assert 0.93 <= np.mean(shared) <= 0.975
    assert np.mean(nested) < 0.5
