from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import log_softmax

from veracity.core.errors import InputError, SpecError
from veracity.perturb import Rotation
from veracity.trainers.training import initialised
from veracity_papers.zoo.orbit_digits import RotationAveraged, digit_cnn, rotations


def images(side: int = 8, count: int = 3, channels: int = 1) -> Tensor:
    return torch.rand(count, channels, side, side, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def net(side: int = 8) -> nn.Module:
    return initialised(lambda: digit_cnn(side, width=4, classes=5), seed=1).double().eval()


@pytest.mark.parametrize("turns", [1, 4, 8, 5])
def test_copies_are_turned_as_rotations_turn_them(turns: int) -> None:
    x = torch.rand(3, 2, 6, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    copies = rotations(x, turns)
    assert copies.shape == (3, turns, 2, 6, 9)
    for number in range(turns):
        angle = torch.full((3, 1), 2 * math.pi * number / turns, dtype=torch.float64)
        assert torch.allclose(copies[:, number], Rotation().act(angle, x), atol=1e-12)


def test_the_mean_is_over_log_probabilities() -> None:
    x, inner = images(), net()
    found = RotationAveraged(inner, turns=8)(x)
    said = []
    for number in range(8):
        angle = torch.full((1, 1), math.pi * number / 4, dtype=torch.float64)
        said.append(torch.cat([log_softmax(inner(Rotation().act(angle, one[None])), dim=1) for one in x]))
    assert torch.allclose(found, sum(said) / 8, atol=1e-10)  # type: ignore[arg-type]
    assert torch.allclose(RotationAveraged(inner, turns=1)(x), log_softmax(inner(x), dim=1), atol=1e-10)


@pytest.mark.parametrize("turns", [4, 8])
def test_quarter_turns_change_nothing(turns: int) -> None:
    x, inner = images(), net()
    averaged = RotationAveraged(inner, turns)
    for quarter in (1, 2, 3):
        moved = x.rot90(quarter, (-2, -1))
        assert torch.allclose(averaged(moved), averaged(x), atol=1e-9)
        assert not torch.allclose(inner(moved), inner(x), atol=1e-2)


def test_gradients_of_the_mean_turn_along() -> None:
    averaged = RotationAveraged(net())

    def gradient(x: Tensor) -> Tensor:
        leaf = x.clone().requires_grad_()
        return torch.autograd.grad(averaged(leaf)[:, 2].sum(), leaf)[0]

    x = images()
    assert torch.allclose(gradient(x.rot90(1, (-2, -1))), gradient(x).rot90(1, (-2, -1)), atol=1e-9)
    assert gradient(x).abs().max() > 1e-3


def test_what_is_wrong_is_one_sentence() -> None:
    with pytest.raises(SpecError, match="needs a whole number of turns, 1 or more, not 0"):
        RotationAveraged(net(), turns=0)
    with pytest.raises(InputError, match=r"needs \(samples, channels, height, width\), not a tensor of shape \(3, 8, 8\)"):
        RotationAveraged(net())(images()[:, 0])
