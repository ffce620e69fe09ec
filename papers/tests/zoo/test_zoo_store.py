from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from veracity.core.errors import InputError
from veracity.core.graphs import GraphInputs
from veracity.core.inputs import TensorInputs
from veracity.trainers import training
from veracity.trainers.training import accuracy, initialised, random_shift
from veracity_papers.data.labelled import Labelled
from veracity_papers.zoo import storage, train


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in the place of the package's weights."""
    (tmp_path / storage.SHIPPED).mkdir()
    monkeypatch.setattr(storage.resources, "files", lambda package: tmp_path)
    return tmp_path / storage.SHIPPED


def blobs(count: int = 60) -> Labelled:
    labels = torch.arange(count) % 2
    noise = torch.randn(count, 2, generator=torch.Generator().manual_seed(0))
    return Labelled(TensorInputs(noise + 6.0 * labels[:, None] - 3.0), labels)


def test_weights_come_back_with_their_facts(shipped: Path) -> None:
    net = initialised(lambda: nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)), seed=0)
    storage.save(net.state_dict(), shipped / "net.safetensors", epochs=3, test_accuracy=0.5)
    again = storage.load_shipped(initialised(lambda: nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)), seed=1), "net")
    assert not again.training
    assert all(torch.equal(a, b) for a, b in zip(net.state_dict().values(), again.state_dict().values(), strict=True))
    assert storage.facts("net") == {"epochs": "3", "test_accuracy": "0.5"}


def test_half_precision_comes_back_as_float32(shipped: Path) -> None:
    storage.save({"a": torch.tensor([1.0, 0.1]), "n": torch.tensor(3)}, shipped / "net.safetensors", half=True)
    back = storage.state("net")
    assert back["a"].dtype == torch.float32
    assert torch.allclose(back["a"], torch.tensor([1.0, 0.1]), atol=1e-4)
    assert not torch.equal(back["a"], torch.tensor([1.0, 0.1]))
    assert back["n"].dtype == torch.int64


def test_checkpoints_come_in_their_order(shipped: Path) -> None:
    for number in (10, 2, 0):
        storage.save({"a": torch.tensor(float(number))}, shipped / f"net.{number}.safetensors", rate=number / 10, epochs=number)
    storage.save({"a": torch.tensor(99.0)}, shipped / "net.safetensors")
    storage.save({"a": torch.tensor(99.0)}, shipped / "net-other.1.safetensors", rate=1)
    found = storage.Shipped("net", nn.Identity).checkpoints()
    assert [(float(one.state["a"]), one.rate) for one in found] == [(0.0, 0.0), (2.0, 0.2), (10.0, 1.0)]
    assert storage.Shipped("nothing", nn.Identity).checkpoints() == ()


def test_missing_weights_are_one_sentence() -> None:
    with pytest.raises(InputError, match="ships no weights named 'nothing'"):
        storage.state("nothing")


def test_a_script_writes_weights_checkpoints_and_a_line(tmp_path: Path, shipped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = blobs()
    moments = train.evenly(10, 5)
    net = train.fit("blobs", shipped, lambda: nn.Sequential(nn.Linear(2, 2)), data, data, epochs=10, moments=moments, batch=16, rate=0.1)
    assert '"test_accuracy": 1.0' in capsys.readouterr().out
    assert storage.facts("blobs")["test_accuracy"] == "1.0"
    found = storage.Shipped("blobs", nn.Identity).checkpoints()
    assert [storage.facts(name)["epochs"] for name in storage.checkpoint_names("blobs")] == ["2", "4", "6", "8", "10"]
    assert all(torch.equal(found[-1].state[key], value) for key, value in net.state_dict().items())


def test_the_command_line_names_a_training_a_folder_and_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Path, int]] = []
    monkeypatch.setattr(train, "TRAININGS", {**train.TRAININGS, "ecg": (lambda out, epochs: calls.append((out, epochs)), 12)})
    train.main(["ecg", "out"])
    train.main(["ecg", "out", "3"])
    assert calls == [(Path("out"), 12), (Path("out"), 3)]
    for wrong in ([], ["ecg"], ["egc", "out"]):
        with pytest.raises(SystemExit, match=r"Usage: .* NAME one of ecg, fashion, imdb"):
            train.main(wrong)


def test_training_hears_moments_decays_and_leaves_the_random_state() -> None:
    data = blobs()
    nets = []
    for decay in (0.0, 0.5):
        net = initialised(lambda: nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.5), nn.Linear(8, 2)), seed=0)
        heard: list[tuple[int, float]] = []
        state = torch.get_rng_state()

        def checkpoint(done: int, rate: float, heard: list[tuple[int, float]] = heard) -> None:
            heard.append((done, rate))

        training.train(net, data.inputs, data.labels, epochs=3, batch=16, rate=0.05, decay=decay, checkpoint=checkpoint)
        assert torch.equal(torch.get_rng_state(), state)
        assert [done for done, _ in heard] == [0, 1, 2, 3]
        assert heard[0][1] == pytest.approx(0.05 / 25)
        assert heard[1][1] > heard[3][1]
        nets.append(net)
    norms = [sum(float(p.detach().norm()) for p in net.parameters()) for net in nets]
    assert norms[1] < norms[0]


def test_training_takes_graphs() -> None:
    class Total(nn.Module):
        """A network over packed graphs that sees the sum of node features."""

        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(1, 2)

        def forward(self, x: torch.Tensor, edge_index: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
            sums = x.new_zeros(int(batch[-1]) + 1, 1).index_add(0, batch, x)
            out: torch.Tensor = self.linear(sums)
            return out

    labels = torch.arange(40) % 2
    mask = torch.ones(40, 3, dtype=torch.bool)
    mask[::3, 2] = False
    values = (2.0 * labels[:, None] - 1.0)[:, :, None].expand(40, 3, 1) * mask[..., None]
    graphs = GraphInputs(values, mask, torch.zeros(40, 1, 2, dtype=torch.int64))
    net = initialised(Total, seed=0)
    assert training.train(net, graphs, labels, epochs=20, batch=8, rate=0.1) is net
    assert accuracy(net, graphs, labels) == 1.0


def test_a_series_is_shifted_along_its_axis_alone() -> None:
    x = torch.arange(5.0).expand(100, 2, 5)
    moved = random_shift(2, axes=(-1,))(x, torch.Generator().manual_seed(0))
    assert torch.equal(moved[:, 0], moved[:, 1])
    assert {tuple(row.tolist()) for row in moved[:, 0]} == {tuple(x[0, 0].roll(shift).tolist()) for shift in range(-2, 3)}
