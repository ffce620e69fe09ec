from __future__ import annotations

import torch
from torch import Size

from veracity.core.randomness import Draws
from veracity.perturb import CyclicShift, Permutations, Rotation


def test_samples_are_uniform_and_belong_to_their_draws() -> None:
    shifts = CyclicShift(axes=(-1,)).fit(Size((1, 5)))
    draws = Draws.of(0, torch.arange(5000))
    elements = shifts.sample(draws)
    assert torch.equal(elements[7:9], shifts.sample(draws[7:9]))
    assert (elements[:, 0].bincount(minlength=5) - 1000).abs().max() < 120
    assert Rotation().sample(draws[:3]).shape == (3, 1)
    assert Permutations(axis=-1).fit(Size((1, 40))).sample(draws[:2]).sort().values.tolist() == [list(range(40))] * 2
