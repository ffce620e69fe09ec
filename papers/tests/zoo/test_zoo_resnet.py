from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm, conv2d, linear

from veracity.core.errors import InputError
from veracity.trainers.training import accuracy, initialised
from veracity_papers.data import files
from veracity_papers.data.cifar import cifar10
from veracity_papers.zoo import resnet
from veracity_papers.zoo.storage import COUNTER

WEIGHTS = all(files.locate(f"weights/{name}") is not None for name in resnet.FILES.values())
IMAGES = files.locate("cifar10/test.safetensors") is not None


def literal(state: dict[str, Tensor], x: Tensor) -> Tensor:
    """The network of twenty layers from a public file's names, in evaluation mode."""

    def conv(features: Tensor, conv: str, norm: str, stride: int = 1) -> Tensor:
        features = conv2d(features, state[f"{conv}.weight"], stride=stride, padding=1)
        kept = (state[f"{norm}.{part}"] for part in ("running_mean", "running_var", "weight", "bias"))
        return batch_norm(features, *kept)

    mean, deviation = (torch.tensor(given)[:, None, None] for given in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    x = conv((x - mean) / deviation, "module.conv1", "module.bn1").relu()
    for layer, width in ((1, 16), (2, 32), (3, 64)):
        for block in range(3):
            name, halved = f"module.layer{layer}.{block}", layer > 1 and block == 0
            inner = conv(x, f"{name}.conv1", f"{name}.bn1", 2 if halved else 1).relu()
            inner = conv(inner, f"{name}.conv2", f"{name}.bn2")
            if halved:
                zeros = torch.zeros(len(x), width // 4, *inner.shape[2:])
                x = torch.cat([zeros, x[:, :, ::2, ::2], zeros], dim=1)
            x = (inner + x).relu()
    return linear(x.mean(dim=(2, 3)), state["module.linear.weight"], state["module.linear.bias"])


def public(depth: int) -> dict[str, Tensor]:
    """Random weights under the public file's names, without counters of batches."""
    net = initialised(lambda: resnet.resnet(depth), seed=2)
    generator = torch.Generator().manual_seed(1)
    state = {key: torch.rand(value.shape, generator=generator) * 0.5 + 0.1 for key, value in net.state_dict().items() if COUNTER not in key}
    state = {key: value - 0.35 if "conv" in key else value for key, value in state.items()}
    renamed = {key.replace("stage", "layer").replace("norm", "bn"): value for key, value in state.items()}
    renamed = {key.replace("conv.", "conv1.").replace("bn.", "bn1."): value for key, value in renamed.items()}
    return {f"module.{key}": value for key, value in renamed.items()}


def test_the_public_file_is_read_and_computes_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERACITY_DATA", str(tmp_path))
    state = public(20)
    path = tmp_path / "weights" / resnet.FILES[20]
    path.parent.mkdir(parents=True)
    torch.save({"state_dict": state, "best_prec1": 91.7}, path)
    net = resnet.pretrained(20)
    x = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(net(x), literal(state, x), rtol=1e-4, atol=1e-4)
    assert not net.training


@pytest.mark.parametrize(("depth", "count"), [(20, 269_722), (32, 464_154)])
def test_sizes_and_modules(depth: int, count: int) -> None:
    net = resnet.resnet(depth)
    assert sum(parameter.numel() for parameter in net.parameters()) == count
    used: list[nn.Module] = []
    for module in net.modules():
        if isinstance(module, nn.ReLU):
            module.register_forward_hook(lambda module, given, output: used.append(module))
    seen: list[Tensor] = []
    net.get_submodule(resnet.LAYER).register_forward_hook(lambda module, given, output: seen.append(output))
    assert net.eval()(torch.zeros(1, 3, 32, 32)).shape == (1, 10)
    assert seen[0].shape == (1, 64, 8, 8)
    assert len(used) == len(set(used)) == depth - 1  # one after every convolution, each used once


def test_what_is_wrong_is_one_sentence() -> None:
    with pytest.raises(InputError, match=r"has 6n \+ 2 layers, such as 20 or 32, not 21"):
        resnet.resnet(21)
    with pytest.raises(InputError, match="There are public weights of 20 and 32 layers, not of 44"):
        resnet.pretrained(44)


@pytest.mark.skipif(not (WEIGHTS and IMAGES), reason="needs the public weights and CIFAR-10")
def test_the_public_weights_score_as_measured() -> None:
    # 9,173 and 9,263 of all 10,000 images are right; here every hundredth.
    x, y = (part[::100] for part in cifar10())
    assert [round(100 * accuracy(resnet.pretrained(depth), x, y)) for depth in resnet.DEPTHS] == [87, 93]
