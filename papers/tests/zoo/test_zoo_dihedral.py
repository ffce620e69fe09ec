from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from veracity.core.models import LayerScores
from veracity.perturb.groups.dihedral import Dihedral
from veracity.trainers.training import initialised
from veracity_papers.zoo import d4, train_cifar
from veracity_papers.zoo.d4 import GroupConv, Lift, d4_resnet, ordinary_resnet, random_d4, relaxed_resnet
from veracity_papers.zoo.storage import state

GROUP = Dihedral()
X = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def moved(x: Tensor) -> list[Tensor]:
    """All eight images of x, by torch's own turns and flips."""
    return [face.rot90(turns, (-2, -1)) for face in (x, x.flip(-1)) for turns in range(4)]


def lived_in(net: nn.Module) -> nn.Module:
    """A network whose normalisations are not the identity."""
    generator = torch.Generator().manual_seed(1)
    for layer in net.modules():
        if isinstance(layer, nn.BatchNorm2d | nn.BatchNorm3d):
            for buffer, low in (("running_mean", -0.5), ("running_var", 0.5), ("weight", 0.5), ("bias", -0.5)):
                getattr(layer, buffer).data.copy_(low + torch.rand(layer.num_features, generator=generator))
    return net.eval()


@torch.no_grad()
def drift(net: nn.Module, x: Tensor) -> float:
    """The largest change of the outputs over all eight elements, as a share of the largest output."""
    outputs = net(torch.stack(moved(x)).flatten(0, 1)).reshape(8, len(x), -1)
    return float((outputs - outputs[0]).abs().max() / outputs.abs().max())


def test_the_bank_against_turning_filters_one_by_one() -> None:
    conv = initialised(lambda: GroupConv(2, 3, 3), seed=0)
    bank = conv.bank().detach().reshape(3, 8, 2, 8, 3, 3)
    for g in range(8):
        for h in range(8):
            before = int(GROUP.compose(GROUP.inverse(torch.tensor([[g]])), torch.tensor([[h]])))
            for out in range(3):
                for into in range(2):
                    expected = moved(conv.weight.detach()[out, into, before])[g]
                    assert torch.equal(bank[out, g, into, h], expected)


@pytest.mark.parametrize("side", [7, 8])
def test_moving_the_image_moves_the_maps_and_permutes_them(side: int) -> None:
    x = torch.rand(1, 3, side, side, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    net = initialised(lambda: nn.Sequential(Lift(3, 2), nn.ReLU(), GroupConv(2, 4)), seed=0).double()
    maps = net(x)
    for g, image in enumerate(moved(x)):
        order = [int(GROUP.compose(GROUP.inverse(torch.tensor([[g]])), torch.tensor([[h]]))) for h in range(8)]
        expected = moved(maps[:, :, order])[g]
        assert torch.allclose(net(image), expected, atol=1e-12)


@pytest.mark.parametrize("build", [d4_resnet, relaxed_resnet])
def test_it_is_invariant_when_it_is_made(build: object) -> None:
    net = lived_in(initialised(lambda: build(10, (2, 3, 4)), seed=0))
    assert drift(net, X) < 1e-5
    assert drift(net.double(), X.double()) < 1e-10
    assert net(X.double()).std() > 1e-3


def test_on_sides_that_cannot_be_halved_it_is_not() -> None:
    net = lived_in(initialised(lambda: d4_resnet(10, (2, 3, 4)), seed=0)).double()
    odd = torch.rand(2, 3, 20, 20, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert drift(net, odd) > 1e-4


def test_the_relaxed_head_can_break_the_symmetry_and_the_exact_one_cannot() -> None:
    nets = [lived_in(initialised(lambda build=build: build(10, (2, 3, 4)), seed=0)) for build in (d4_resnet, relaxed_resnet)]
    for net in nets:
        with torch.no_grad():
            weight = net.get_submodule("linear").weight
            weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(2)))
    exact, relaxed = (drift(net, X) for net in nets)
    assert exact < 1e-5
    assert relaxed > 1e-2


def test_the_ordinary_network_is_not_invariant() -> None:
    assert drift(lived_in(initialised(lambda: ordinary_resnet(10), seed=0)), X) > 1e-3


def test_the_layers_are_what_they_are_called() -> None:
    net = lived_in(initialised(d4.NETWORKS["d4"].build, seed=0))
    x = torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    turned = x.rot90(1, (-2, -1))
    pooled, lifted = (LayerScores(net, layer) for layer in ("pool", "lift"))
    with torch.no_grad():
        assert torch.allclose(pooled(turned), pooled(x), atol=1e-5)
        a, b = lifted(x), lifted(turned)
    assert a.shape == (1, 8 * 8 * 32 * 32)
    assert not torch.allclose(a, b, atol=1e-2)
    assert torch.allclose(a.sort().values, b.sort().values, atol=1e-5)


def test_the_networks_are_small_and_alike() -> None:
    sizes = {name: sum(p.numel() for p in network.build().parameters()) for name, network in d4.NETWORKS.items()}
    assert sizes == {"d4": 147_682, "relaxed": 149_362, "augmented": 167_506, "standard": 167_506}


def test_the_augmentation_moves_images_by_all_eight_elements() -> None:
    x = torch.arange(9.0).reshape(1, 1, 3, 3).expand(200, 1, 3, 3)
    seen = {tuple(image.flatten().tolist()) for image in random_d4(x, torch.Generator().manual_seed(0))}
    assert seen == {tuple(image.flatten().tolist()) for image in moved(x[:1])}


@pytest.mark.parametrize("name", d4.NETWORKS)
def test_the_trained_networks(name: str) -> None:
    net = d4.NETWORKS[name].pretrained()
    assert not net.training
    x = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    broken = drift(net, x)
    assert broken < 1e-5 if name == "d4" else broken > 1e-2
    if name == "d4":
        assert drift(net.double(), x.double()) < 1e-10


def test_the_relaxed_networks_checkpoints_lose_the_symmetry() -> None:
    x = torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    net = d4.NETWORKS["relaxed"].build().eval()
    names = d4.evolution("relaxed")
    assert list(names.values()) == [0, 1, 2, 3, 5, 8, 13, 21]
    drifts = []
    for name in (next(iter(names)), list(names)[1], list(names)[-1]):
        net.load_state_dict(state(name))
        drifts.append(drift(net, x))
    assert drifts[0] < 1e-5
    assert drifts[1] > 1e-3
    assert drifts[2] > 1e-2


def test_the_script_writes_weights_and_moments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    data = (torch.rand(8, 3, 32, 32, generator=generator), torch.arange(8) % 10)
    monkeypatch.setattr(train_cifar, "cifar10", lambda split: data)
    monkeypatch.setattr("sys.argv", ["x", "--out", str(tmp_path), "--epochs", "2", "--networks", "augmented"])
    train_cifar.main()
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "cifar-augmented.0.safetensors",
        "cifar-augmented.1.safetensors",
        "cifar-augmented.2.safetensors",
        "cifar-augmented.safetensors",
    ]
    first, last = (load_file(tmp_path / f"cifar-augmented{part}.safetensors") for part in (".0", ""))
    assert first["linear.weight"].dtype == torch.float16
    assert not torch.equal(first["linear.weight"].float(), last["linear.weight"])
