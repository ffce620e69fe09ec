from __future__ import annotations

import pytest
import torch
from torch import nn

from veracity.core.errors import InputError
from veracity.trainers.certified import bound, certified_constant, symbol_norm
from veracity.trainers.training import initialised


def operator_norm(model: nn.Module, *shape: int) -> float:
    """The largest singular value of an affine layer as a matrix, found the slow way."""
    model = model.double()
    zero = torch.zeros(1, *shape, dtype=torch.float64)
    units = torch.eye(zero.numel(), dtype=torch.float64).reshape(-1, *shape)
    return float(torch.linalg.matrix_norm((model(units) - model(zero)).flatten(1).detach(), ord=2))


def test_hand_computed_constants() -> None:
    linear = nn.Linear(2, 2)
    linear.weight.data = torch.tensor([[0.0, 3.0], [4.0, 0.0]])
    assert certified_constant(linear) == pytest.approx(4.0, abs=1e-12)
    conv = nn.Conv2d(2, 2, 1)
    conv.weight.data = torch.tensor([[1.0, 1.0], [1.0, 1.0]])[..., None, None]
    assert certified_constant(conv) == pytest.approx(2.0, abs=1e-12)
    assert certified_constant(nn.Sequential(conv, nn.Flatten(), linear)) == pytest.approx(8.0, abs=1e-12)
    assert certified_constant(nn.PReLU(init=-3.0)) == 3.0
    assert certified_constant(nn.LeakyReLU(0.1)) == 1.0
    assert certified_constant(nn.AvgPool2d(2)) == 0.5
    assert certified_constant(nn.AvgPool2d(2, divisor_override=2)) == 1.0
    assert certified_constant(nn.MaxPool2d(3, stride=2)) == 2.0
    norm = nn.BatchNorm2d(2, eps=0.0).eval()
    norm.running_var, norm.weight.data = torch.tensor([4.0, 0.25]), torch.tensor([6.0, -1.0])
    assert certified_constant(norm) == 3.0
    difference = torch.tensor([[[[1.0, -1.0]]]])
    assert symbol_norm(difference) == pytest.approx(2.0, rel=0.02)  # |1 - exp(i w)| at w = pi


@pytest.mark.parametrize(
    "settings",
    [
        {"padding": 1},
        {"padding": 0},
        {"padding": 1, "padding_mode": "circular"},
        {"padding": 1, "stride": 2},
        {"padding": 2, "dilation": 2},
        {"padding": 1, "groups": 3},
    ],
)
def test_a_convolutions_bound_is_above_its_matrix_and_near_it(settings: dict[str, object]) -> None:
    conv = initialised(lambda: nn.Conv2d(3, 6, 3, **settings), 0)  # type: ignore[arg-type]
    exact = operator_norm(conv, 3, 9, 9)
    assert exact <= certified_constant(conv) * (1 + 1e-9)
    assert certified_constant(conv) < 1.6 * exact


def test_the_symbols_grid_never_misses() -> None:
    for seed in range(10):
        sides = (1 + seed % 5, 2 + seed % 4)
        weight = torch.randn(2, 3, *sides, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        fine = float(torch.linalg.svdvals(torch.fft.fft2(weight, s=(97, 101)).permute(2, 3, 0, 1)).max())
        assert fine <= symbol_norm(weight)
        assert symbol_norm(weight) < 1.07 * fine


@pytest.mark.parametrize("pool", [nn.AvgPool2d(3, 2), nn.AvgPool2d(2, padding=1), nn.AvgPool2d((1, 3), (1, 2))])
def test_a_means_bound_is_above_its_matrix(pool: nn.AvgPool2d) -> None:
    exact = operator_norm(pool, 1, 9, 9)
    assert exact <= certified_constant(pool) * (1 + 1e-12)


def test_layers_without_a_bound_are_named() -> None:
    with pytest.raises(InputError, match="GELU"):
        certified_constant(nn.Sequential(nn.Linear(2, 2), nn.GELU()))
    with pytest.raises(InputError, match="reflect"):
        certified_constant(nn.Conv2d(1, 1, 3, padding=1, padding_mode="reflect"))
    with pytest.raises(InputError, match="ceil_mode"):
        certified_constant(nn.AvgPool2d(2, ceil_mode=True))

    class Twice(nn.Module):
        pass

    bound.register(Twice, lambda layer: 2.0)
    assert certified_constant(nn.Sequential(Twice(), Twice())) == 4.0
