"""What the interval over draws must know about how the draws came about."""

from __future__ import annotations

import numpy as np

from veracity.core.walks import Sampling
from veracity.statistics.means import estimate

REPEATS = 2000


def coverage(covered: list[bool]) -> float:
    return float(np.mean(covered))


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
    assert 0.93 <= coverage(honest) <= 0.99
    assert coverage(naive) < 0.7


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
    assert 0.93 <= coverage(shared) <= 0.975
    assert coverage(nested) < 0.5
