from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.functional import conv2d, linear, max_pool2d

from veracity.core.errors import InputError, SpecError
from veracity.trainers.training import accuracy, initialised
from veracity_papers.data import files
from veracity_papers.data.mnist import fashion_mnist, mnist
from veracity_papers.zoo.lenet import FILES, LAYER, NAMES, lenet, pretrained

REAL = all(files.locate(f"weights/{file}") is not None for file in FILES.values())
DATA = all(files.locate(f"{folder}/t10k-images-idx3-ubyte.gz") is not None for folder in ("mnist", "fashion_mnist"))
real = pytest.mark.skipif(not (REAL and DATA), reason="needs the authors' weights and MNIST and FashionMNIST")


def test_the_network_has_the_papers_size_and_is_made_of_modules() -> None:
    net = lenet()
    assert sum(parameter.numel() for parameter in net.parameters()) == 61_706
    assert sum(isinstance(module, nn.ReLU) for module in net.modules()) == 4
    seen: list[torch.Tensor] = []
    net.get_submodule(LAYER).register_forward_hook(lambda module, given, output: seen.append(output))
    assert net(torch.zeros(2, 1, 28, 28)).shape == (2, 10)
    assert seen[0].shape == (2, 16, 10, 10)


def written(net: nn.Module, folder: Path) -> dict[str, torch.Tensor]:
    """A network's weights in the authors' place and under their names."""
    state = {key.replace("linear", "fc"): value for key, value in net.state_dict().items()}
    for file in FILES.values():
        (folder / "weights" / file).parent.mkdir(parents=True, exist_ok=True)
        torch.save(state, folder / "weights" / file)
    return state


@pytest.mark.parametrize("name", NAMES)
def test_weights_come_from_the_data_folder(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = written(initialised(lenet, seed=3), tmp_path)
    monkeypatch.setenv("VERACITY_DATA", str(tmp_path))
    net = pretrained(name)
    assert not net.training
    x = torch.rand(4, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    slow = max_pool2d(conv2d(x, state["conv1.weight"], state["conv1.bias"], padding=2).relu(), 2)
    slow = max_pool2d(conv2d(slow, state["conv2.weight"], state["conv2.bias"]).relu(), 2).flatten(1)
    slow = linear(slow, state["fc1.weight"], state["fc1.bias"]).relu()
    slow = linear(linear(slow, state["fc2.weight"], state["fc2.bias"]).relu(), state["fc3.weight"], state["fc3.bias"])
    assert torch.allclose(net(x), slow, atol=1e-6)


def test_what_is_missing_or_wrong_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERACITY_DATA", str(tmp_path))
    sentence = r"Looked for .*weights/gef/mnist_lenet \(VERACITY_DATA\) and found nothing: get it from github.com/annahedstroem/GEF"
    with pytest.raises(InputError, match=sentence):
        pretrained("mnist")
    with pytest.raises(SpecError, match=r"Unknown LeNet 'fashion'. Did you mean 'fashion-mnist'\?"):
        pretrained("fashion")
    written(lenet(classes=7), tmp_path)
    with pytest.raises(
        InputError, match=r"gef/mnist_lenet holds 10 tensors, .* is \[7, 84\], but the network has 10, .* another network's file"
    ):
        pretrained("mnist")


@real
def test_the_authors_weights_score_as_measured() -> None:
    # Over all 10,000 images 9,877 and 8,849 are right, as measured when the files were first loaded; here over every fifth.
    data = {"mnist": mnist(), "fashion-mnist": fashion_mnist(padding=0)}
    right = {name: round(2000 * accuracy(pretrained(name), x[::5], y[::5])) for name, (x, y) in data.items()}
    assert right == {"mnist": 1976, "fashion-mnist": 1766}
