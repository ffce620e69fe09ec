from __future__ import annotations

import pytest
import torch
from torch import Size

from veracity.core.errors import InputError
from veracity.perturb import CyclicShift, Permutations, Rotation


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_independent_draws_are_uniform_and_follow_the_generator() -> None:
    shifts = CyclicShift(axes=(-1,)).fit(Size((1, 5)))
    drawn = shifts.sample(5000, generator())
    assert torch.equal(drawn, shifts.sample(5000, generator()))
    assert (drawn[:, 0].bincount(minlength=5) - 1000).abs().max() < 120
    assert Rotation().sample(3, generator()).shape == (3, 1)
    assert Permutations(axis=-1).fit(Size((1, 40))).sample(2, generator()).sort().values.tolist() == [list(range(40))] * 2


def test_distinct_draws_are_distinct() -> None:
    shifts = CyclicShift(axes=(-2, -1)).fit(Size((1, 6, 7)))
    drawn = shifts.sample_distinct(42, generator())
    assert len(drawn.unique(dim=0)) == 42
    assert not torch.equal(drawn, shifts.enumerate())
    assert len(shifts.sample_distinct(10, generator()).unique(dim=0)) == 10
    with pytest.raises(InputError, match="cyclic_shift has 42 elements, so that 43 distinct ones cannot be drawn"):
        shifts.sample_distinct(43, generator())
