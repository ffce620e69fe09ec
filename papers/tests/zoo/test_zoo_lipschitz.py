from __future__ import annotations

import sys

import pytest
import torch
from torch import Size, Tensor, nn

from veracity.core.errors import SpecError
from veracity.core.registry import TRAINERS
from veracity.trainers.certified import certified_constant
from veracity.trainers.training import initialised
from veracity_papers.zoo.lipschitz import Lipschitz, constrain, plain_network, to_plain_layers
from veracity_papers.zoo.resnet18 import resnet18

SMALL = {"name": "lipschitz", "widths": (4, 6, 6), "epochs": 2, "batch": 16, "rate": 5e-3}


def largest_slope(model: nn.Module, inputs: Tensor) -> float:
    """The largest spectral norm of the Jacobian at some inputs."""
    leaf = inputs.clone().requires_grad_()
    rows = [torch.autograd.grad(output.sum(), leaf, retain_graph=True)[0].flatten(1) for output in model(leaf).unbind(1)]
    return float(torch.linalg.matrix_norm(torch.stack(rows, dim=1), ord=2).max())


def test_the_bound_holds_where_the_network_is_steepest() -> None:
    inputs = torch.rand(16, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    ordinary = initialised(lambda: plain_network(Size((1, 8, 8)), 4, (4, 6, 6)), 0).eval()
    for layer in ordinary.children():
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            layer.weight.data *= 4
    assert 1 < largest_slope(ordinary, inputs) <= certified_constant(ordinary)
    residual = initialised(lambda: resnet18(Size((1, 8, 8)), 4, width=2), 0).eval()
    assert largest_slope(residual, inputs) <= certified_constant(residual)


def test_a_missing_library_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deel.torchlip", None)
    with pytest.raises(SpecError, match=r"pip install 'veracity-papers\[lipschitz\]'"):
        Lipschitz().untrained(torch.rand(4, 1, 8, 8), torch.arange(4), 0)


def test_table_4() -> None:
    net = plain_network(Size((3, 32, 32)), 10)
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
    net = initialised(lambda: constrain(plain_network(Size((1, 8, 8)), 3, (4, 6, 6))), 0)
    inputs = torch.randn(5, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    net.train()(inputs)
    net.eval()
    theirs = (
        lip.Sequential(*(lip.ScaledAvgPool2d(2) if isinstance(layer, nn.AvgPool2d) else layer for layer in net)).vanilla_export().eval()
    )
    torch.testing.assert_close(to_plain_layers(net)(inputs), theirs(inputs))
    torch.testing.assert_close(to_plain_layers(net)(inputs), net(inputs))
