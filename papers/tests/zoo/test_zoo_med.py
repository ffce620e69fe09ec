from __future__ import annotations

from importlib.resources import files as package

import pytest
import torch
from torch import nn
from torch.nn.functional import batch_norm, conv2d, linear, max_pool2d

from veracity.trainers.training import accuracy
from veracity_papers.data import files
from veracity_papers.data.pneumonia import REBUILT, pneumonia_mnist
from veracity_papers.zoo import storage
from veracity_papers.zoo.med import LAYER, PNEUMONIA, med_cnn


def test_the_network_has_the_papers_size() -> None:
    assert sum(p.numel() for p in med_cnn(channels=3, classes=7).parameters()) == 234_967
    assert sum(p.numel() for p in med_cnn(channels=3, classes=9).parameters()) == 235_225
    assert sum(p.numel() for p in med_cnn().parameters()) == 234_034
    assert sum(isinstance(module, nn.ReLU) for module in med_cnn().modules()) == 7


def test_the_shipped_network_against_its_formula() -> None:
    net, state = PNEUMONIA.pretrained(), storage.state(PNEUMONIA.weights)
    assert not net.training
    x = torch.rand(3, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    slow = x
    for number in range(1, 6):
        slow = conv2d(slow, state[f"conv{number}.weight"], state[f"conv{number}.bias"], padding=int(number == 5))
        mean, variance, weight, bias = (state[f"norm{number}.{part}"] for part in ("running_mean", "running_var", "weight", "bias"))
        slow = batch_norm(slow, mean, variance, weight, bias).relu()
        slow = max_pool2d(slow, 2) if number in (2, 5) else slow
    assert slow.shape == (3, 64, 4, 4)
    kept: list[torch.Tensor] = []
    net.get_submodule(LAYER).register_forward_hook(lambda module, given, output: kept.append(output))
    output = net(x)
    assert torch.allclose(kept[0], slow, atol=1e-4)
    slow = slow.flatten(1)
    for number in (1, 2):
        slow = linear(slow, state[f"linear{number}.weight"], state[f"linear{number}.bias"]).relu()
    assert torch.allclose(output, linear(slow, state["linear3.weight"], state["linear3.bias"]), atol=1e-4)


def test_the_buffers_are_learnt_and_the_file_is_small() -> None:
    state = storage.state(PNEUMONIA.weights)
    assert not torch.equal(state["norm1.running_mean"], torch.zeros(16))
    assert int(state["norm1.num_batches_tracked"]) == 8 * 37
    assert len((package("veracity_papers.zoo") / "weights" / f"{PNEUMONIA.weights}.safetensors").read_bytes()) < 1_000_000
    assert storage.facts(PNEUMONIA.weights)["test_accuracy"] == "0.8542"


@pytest.mark.skipif(files.locate(REBUILT) is None, reason="needs PneumoniaMNIST")
def test_it_scores_as_measured() -> None:
    assert accuracy(PNEUMONIA.pretrained(), *pneumonia_mnist()) == pytest.approx(0.8542, abs=4e-3)
