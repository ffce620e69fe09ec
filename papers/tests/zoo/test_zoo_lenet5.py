from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.nn.functional import avg_pool2d, conv2d, linear

from veracity.core.errors import InputError
from veracity.trainers.training import accuracy, initialised
from veracity_papers.data import files
from veracity_papers.zoo import lenet5
from veracity_papers.zoo.storage import facts

REAL = files.locate(f"weights/{lenet5.FILE}") is not None and files.locate("mnist/t10k-images-idx3-ubyte.gz") is not None


def write(content: object, folder: Path) -> None:
    path = folder / "weights" / lenet5.FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(content, path)


def test_the_authors_file_is_read_under_its_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERACITY_DATA", str(tmp_path))
    state = initialised(lenet5.lenet5, seed=3).state_dict()
    write({"state": {f"part.{number}": value for number, value in enumerate(state.values())}, "epoch": 59}, tmp_path)
    net = lenet5.pretrained()
    assert not net.training
    x = torch.rand(4, 1, 32, 32, generator=torch.Generator().manual_seed(0))
    slow = avg_pool2d(conv2d(x, state["conv1.weight"], state["conv1.bias"]).tanh(), 2)
    slow = avg_pool2d(conv2d(slow, state["conv2.weight"], state["conv2.bias"]).tanh(), 2)
    slow = conv2d(slow, state["conv3.weight"], state["conv3.bias"]).tanh().flatten(1)
    slow = linear(linear(slow, state["linear1.weight"], state["linear1.bias"]).tanh(), state["linear2.weight"], state["linear2.bias"])
    assert torch.allclose(net(x), slow, atol=1e-6)
    write({"weights": state}, tmp_path)
    with pytest.raises(InputError, match=r"LeNet-mnist holds weights, but not the expected 'state': it is another file"):
        lenet5.pretrained()


def test_its_size_and_its_maps() -> None:
    net = lenet5.lenet5()
    assert sum(parameter.numel() for parameter in net.parameters()) == 61_706
    seen: list[torch.Tensor] = []
    net.get_submodule(lenet5.LAYER).register_forward_hook(lambda module, given, output: seen.append(output))
    assert net(torch.zeros(2, 1, 32, 32)).shape == (2, 10)
    assert seen[0].shape == (2, 16, 10, 10)


@pytest.mark.skipif(not REAL, reason="needs the authors' weights and MNIST")
def test_the_authors_weights_score_as_measured() -> None:
    # 9,905 of all 10,000 images are right, as measured when the file was first loaded; here every fifth.
    x, y = lenet5.digits()
    assert (float(x.min()), float(x.max())) == lenet5.RANGE
    assert round(2000 * accuracy(lenet5.pretrained(), x[::5], y[::5])) == 1981


@pytest.mark.skipif(not REAL, reason="needs MNIST")
@pytest.mark.parametrize("scheme", lenet5.ROBUST)
def test_shipped_weights_score_as_their_files_say(scheme: str) -> None:
    x, y = (part[::10] for part in lenet5.digits())
    network = lenet5.ROBUST[scheme]
    assert accuracy(network.pretrained(), x, y) == pytest.approx(float(facts(network.weights)["test_accuracy"]), abs=0.01)
