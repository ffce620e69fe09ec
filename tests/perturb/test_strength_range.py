"""The range of a calibrated strength, and paths whose agreement levels off above 1/C."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from veracity.core.errors import InputError
from veracity.perturb.path import calibrate, crossing, strength_range


def test_a_plateau_above_chance_stands_for_it_and_is_said() -> None:
    found = calibrate(lambda sigma: 0.125 + 0.875 * math.exp(-sigma), classes=10)
    assert found.levels_off
    assert found.chance == pytest.approx(0.125)
    assert found.agreement <= 0.125 + 0.01
    assert found.sigma == pytest.approx(math.log(87.5), rel=0.03)  # where .875 exp(-sigma) = .01


def test_where_chance_is_reached_nothing_changes() -> None:
    found = calibrate(lambda sigma: 0.105 + 0.895 * math.exp(-sigma), classes=10)
    assert (found.levels_off, found.chance) == (False, 0.1)


@pytest.mark.parametrize(
    "agreement",
    [
        lambda sigma: 0.6 + 0.4 * math.exp(-sigma),  # levels off nearer to 1 than to 1/10
        lambda sigma: 1.0 - 0.1 * math.log2(2 * sigma),  # still falls at 64
        lambda sigma: 1.0,
    ],
)
def test_what_is_no_plateau_near_chance_is_refused(agreement) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match="64"):
        calibrate(agreement, classes=10)


def test_crossings_by_hand() -> None:
    assert crossing([1.0, 2.0], [0.5, 0.5], 0.6) == 1.0
    assert crossing([1.0, 2.0, 4.0, 8.0], [0.9, 0.4, 0.7, 0.1], 0.5) == pytest.approx(2**0.8)  # the first of two
    assert crossing([1.0, 2.0], [0.9, 0.8], 0.5) == math.inf


def drawn(copies: int, samples: int, seed: int) -> dict[float, Tensor]:
    """Agreement 1 / (1 + sigma), with copies and samples that are easier or harder than others."""
    generator = torch.Generator().manual_seed(seed)
    hard = (0.5 * torch.randn(copies, 1, generator=generator) + 0.3 * torch.randn(1, samples, generator=generator)).exp()
    at = torch.rand(copies, samples, generator=generator)
    return {sigma: at < 1.0 / (1.0 + sigma * hard) for sigma in (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)}


def test_the_range_covers_the_strength() -> None:
    """Of 20 data sets with copies of their own; the truth is that of one with many copies and samples."""
    many = drawn(2000, 1000, seed=10_000)
    truth = crossing(sorted(many), [float(many[sigma].double().mean()) for sigma in sorted(many)], 1 / 5 + 1 / 50)
    inside = []
    for seed in range(20):
        low, high = strength_range(drawn(60, 80, seed), 5, torch.Generator().manual_seed(seed))
        inside.append(low <= truth <= high)
    assert sum(inside) >= 16  # 19 expected; 16 or more has a probability of .997 at 95 %


def test_fewer_copies_at_some_strengths_and_a_curve_that_stays_above_chance() -> None:
    kept = drawn(60, 80, seed=1)
    kept[1.0] = kept[1.0][:40]
    low, high = strength_range(kept, 5, torch.Generator().manual_seed(0))
    assert 1.0 < low < high < 16.0
    assert strength_range(kept, 5, torch.Generator().manual_seed(0)) == (low, high)
    flat = {**kept, 32.0: kept[16.0], 64.0: kept[16.0]}  # levels off at .06, far above 1/100
    assert 4.0 < strength_range(flat, 100, torch.Generator().manual_seed(0))[1] <= 16.0
