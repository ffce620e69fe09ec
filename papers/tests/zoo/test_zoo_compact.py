from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from veracity.trainers.training import accuracy, initialised
from veracity_papers.data import files
from veracity_papers.data.cifar import cifar10
from veracity_papers.zoo import compact
from veracity_papers.zoo.storage import facts, save

IMAGES = files.locate("cifar10/test.safetensors") is not None


@pytest.mark.parametrize(("name", "count", "maps"), [("vgg", 419_242, (128, 8, 8)), ("mobile", 266_442, (256, 8, 8))])
def test_sizes_and_maps(name: str, count: int, maps: tuple[int, ...], tmp_path: Path) -> None:
    net = compact.NETWORKS[name].build().eval()
    assert sum(parameter.numel() for parameter in net.parameters()) == count <= 450_000
    save(net.state_dict(), tmp_path / "net.safetensors", half=True)
    assert (tmp_path / "net.safetensors").stat().st_size < 1_000_000
    seen: list[Tensor] = []
    net.get_submodule(compact.LAYER).register_forward_hook(lambda module, given, output: seen.append(output))
    assert net(torch.zeros(2, 3, 32, 32)).shape == (2, 10)
    assert seen[0].shape == (2, *maps)


@pytest.mark.parametrize("name", compact.NETWORKS)
def test_every_relu_is_a_module_used_once(name: str) -> None:
    net = initialised(compact.NETWORKS[name].build, seed=0).eval()
    x = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    before = net(x)
    used: list[nn.Module] = []
    for module in list(net.modules()):
        for key, part in list(module.named_children()):
            if isinstance(part, nn.ReLU):
                soft = nn.Softplus(beta=200.0)
                soft.register_forward_hook(lambda module, given, output: used.append(module))
                setattr(module, key, soft)
    after = net(x)
    assert len(used) == len(set(used)) > 5
    assert not torch.equal(before, after)
    assert torch.allclose(before, after, atol=0.05)


def test_an_inverted_residual_by_hand() -> None:
    # Widening copies the channel, the filter keeps the middle, narrowing doubles: x + 2 relu(x) where the normalisation does nothing.
    block = compact.Inverted(1, 1, 1, 1).eval()
    with torch.no_grad():
        for part, value in ((block.widen, 1.0), (block.narrow, 2.0)):
            part.get_submodule("conv").get_parameter("weight").fill_(value)
        block.filter.get_submodule("conv").get_parameter("weight").zero_()[..., 1, 1] = 1.0
    x = torch.tensor([[[[-1.0, 2.0], [0.5, 0.0]]]])
    assert torch.allclose(block(x), x + 2.0 * x.relu(), atol=1e-3)
    assert compact.Inverted(1, 1, 1, 2).eval()(x).shape == (1, 1, 1, 1)


@pytest.mark.skipif(not IMAGES, reason="needs CIFAR-10")
@pytest.mark.parametrize("name", compact.NETWORKS)
def test_shipped_weights_score_as_their_files_say(name: str) -> None:
    x, y = (part[::100] for part in cifar10())
    assert accuracy(compact.NETWORKS[name].pretrained(), x, y) == pytest.approx(float(facts(f"cifar-{name}")["test_accuracy"]), abs=0.12)
