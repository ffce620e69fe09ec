from __future__ import annotations

import sys

import pytest
import torch
from torch import Size, Tensor, nn

from veracity.core.errors import InputError, SpecError
from veracity.core.registry import TRAINERS
from veracity.zoo.certified import bound, certified_constant, symbol_norm
from veracity.zoo.lipschitz import Lipschitz, constrained, plain, released
from veracity.zoo.resnet18 import resnet18
from veracity.zoo.train import initialised

SMALL = {"name": "lipschitz", "widths": (4, 6, 6), "epochs": 2, "batch": 16, "rate": 5e-3}


def operator_norm(model: nn.Module, *shape: int) -> float:
    """The largest singular value of an affine layer as a matrix, found the slow way."""
    model = model.double()
    zero = torch.zeros(1, *shape, dtype=torch.float64)
    units = torch.eye(zero.numel(), dtype=torch.float64).reshape(-1, *shape)
    return float(torch.linalg.matrix_norm((model(units) - model(zero)).flatten(1).detach(), ord=2))


def largest_slope(model: nn.Module, inputs: Tensor) -> float:
    """The largest spectral norm of the Jacobian at some inputs."""
    leaf = inputs.clone().requires_grad_()
    rows = [torch.autograd.grad(output.sum(), leaf, retain_graph=True)[0].flatten(1) for output in model(leaf).unbind(1)]
    return float(torch.linalg.matrix_norm(torch.stack(rows, dim=1), ord=2).max())


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


def test_the_bound_holds_where_the_network_is_steepest() -> None:
    inputs = torch.rand(16, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    ordinary = initialised(lambda: plain(Size((1, 8, 8)), 4, (4, 6, 6)), 0).eval()
    for layer in ordinary.children():
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            layer.weight.data *= 4
    assert 1 < largest_slope(ordinary, inputs) <= certified_constant(ordinary)
    residual = initialised(lambda: resnet18(Size((1, 8, 8)), 4, width=2), 0).eval()
    assert largest_slope(residual, inputs) <= certified_constant(residual)


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


def test_a_missing_library_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deel.torchlip", None)
    with pytest.raises(SpecError, match=r"pip install 'veracity\[lipschitz\]'"):
        Lipschitz().untrained(torch.rand(4, 1, 8, 8), torch.arange(4), 0)


def test_table_4() -> None:
    net = plain(Size((3, 32, 32)), 10)
    kinds = [type(layer).__name__ for layer in net]
    first = ["Conv2d", "PReLU", "AvgPool2d", "Dropout"]
    assert kinds == [*first, *first, "Conv2d", "AvgPool2d", "Flatten", "Linear"]
    assert [layer.out_channels for layer in net if isinstance(layer, nn.Conv2d)] == [48, 96, 96]
    assert net.eval()(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


def test_a_trained_network_is_plain_and_1_lipschitz() -> None:
    pytest.importorskip("deel.torchlip")
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(96) % 3
    inputs = torch.rand(96, 1, 8, 8, generator=generator)
    inputs[torch.arange(96), 0, labels * 2] += 1.0
    trainer = TRAINERS.build({**SMALL, "epochs": 20, "rate": 1e-2})
    before = torch.get_rng_state()
    model = trainer(inputs, labels, 3)
    start = trainer.untrained(inputs, labels, 3)
    assert torch.equal(torch.get_rng_state(), before)
    assert not model.training
    assert {type(layer).__module__.partition(".")[0] for layer in model.modules()} == {"torch"}
    assert float((model(inputs).argmax(1) == labels).float().mean()) > 0.9
    constant = certified_constant(model)
    assert 0 < largest_slope(model, inputs) <= constant
    assert 0.2 < constant < 1.02
    assert certified_constant(start) < 1.02
    start.load_state_dict(model.state_dict())
    assert torch.equal(start(inputs), model(inputs))
    assert torch.equal(trainer(inputs, labels, 3)(inputs), model(inputs))


@pytest.mark.filterwarnings("ignore:Sequential model contains")  # of dropout
def test_the_plain_layers_compute_what_the_librarys_own_export_does() -> None:
    lip = pytest.importorskip("deel.torchlip")
    net = initialised(lambda: constrained(plain(Size((1, 8, 8)), 3, (4, 6, 6))), 0)
    inputs = torch.randn(5, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    net.train()(inputs)
    net.eval()
    theirs = (
        lip.Sequential(*(lip.ScaledAvgPool2d(2) if isinstance(layer, nn.AvgPool2d) else layer for layer in net)).vanilla_export().eval()
    )
    torch.testing.assert_close(released(net)(inputs), theirs(inputs))
    torch.testing.assert_close(released(net)(inputs), net(inputs))
