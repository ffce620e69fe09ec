from __future__ import annotations

import pytest
import torch
from torch import nn

from veracity.core.models import LayerScores
from veracity.trainers.training import initialised
from veracity_papers.zoo.storage import Shipped
from veracity_papers.zoo.symmetry import BAG, DEEP_SETS, ECG, FASHION, GNN, PADDING
from veracity_papers.zoo.train import standardising_network

X = torch.rand(2, 1, 180, generator=torch.Generator().manual_seed(0))


def drift(net: nn.Module, dtype: torch.dtype) -> float:
    """The largest change of the outputs over all 180 shifts."""
    x = X.to(dtype)
    with torch.no_grad():
        turned = torch.cat([x.roll(shift, -1) for shift in range(180)])
        return float((net.to(dtype)(turned).reshape(180, 2, 2) - net(x)).abs().max())


@pytest.mark.parametrize("trained", [False, True])
def test_the_all_cnn_is_exactly_invariant_and_the_others_are_not(trained: bool) -> None:
    for name in ECG:
        net = ECG[name].pretrained() if trained else initialised(lambda name=name: standardising_network(name, 0.3, 0.25), seed=0).eval()
        if name == "all-cnn":
            assert drift(net, torch.float32) < 2e-5
            assert drift(net, torch.float64) < 1e-10
        else:
            assert drift(net, torch.float32) > 1e-2


def test_the_networks_have_the_papers_layers() -> None:
    sizes = {name: sum(p.numel() for p in ECG[name].build().parameters()) for name in ECG}
    convolutions = (3 * 16 + 16) + (3 * 16 * 64 + 64) + (3 * 64 * 128 + 128)
    dense = (32 * 32 + 32) + (2 * 32 + 2)
    assert sizes["all-cnn"] == convolutions + (128 * 32 + 32) + dense
    assert sizes["standard-cnn"] == sizes["augmented-cnn"] == convolutions + (128 * 22 * 32 + 32) + dense
    scores = LayerScores(ECG["all-cnn"].pretrained(), "conv3")
    assert scores(X).shape == (2, 128 * 180)


def test_the_start_takes_mean_and_deviation_out() -> None:
    net = initialised(lambda: standardising_network("all-cnn", 0.3, 0.25), seed=0)
    plain = initialised(lambda: standardising_network("all-cnn", 0.0, 1.0), seed=0)
    assert torch.allclose(net(X), plain((X - 0.3) / 0.25), atol=1e-5)


@pytest.mark.parametrize("name", FASHION)
def test_the_fashion_networks_have_the_papers_sizes_and_load(name: str) -> None:
    net = FASHION[name].pretrained()
    assert not net.training
    assert sum(parameter.numel() for parameter in net.parameters()) == (88_810 if name == "all-cnn" else 232_170)
    assert net(torch.zeros(1, 1, 28 + 2 * PADDING, 28 + 2 * PADDING)).shape == (1, 10)


@pytest.mark.parametrize("network", [BAG, DEEP_SETS, GNN, ECG["all-cnn"]], ids=lambda network: network.weights)
def test_the_checkpoints_end_in_the_trained_network(network: Shipped[nn.Module]) -> None:
    found, final = network.checkpoints(), network.pretrained().state_dict()
    assert len(found) == 5
    assert all(one.rate > 0 for one in found[:-1])
    assert all(torch.equal(found[-1].state[key], value) for key, value in final.items())
    assert any(not torch.equal(found[0].state[key], value) for key, value in final.items())


def test_networks_that_flatten_have_two_checkpoints() -> None:
    assert [len(ECG[name].checkpoints()) for name in ("augmented-cnn", "standard-cnn")] == [2, 2]
