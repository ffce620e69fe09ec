from __future__ import annotations

import torch
from torch import Size

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
