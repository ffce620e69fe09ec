from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from veracity.core.errors import InputError
from veracity.core.graphs import GraphInputs
from veracity.trainers.training import initialised, random_crop, train
from veracity_papers.zoo import lenet5, train_robust
from veracity_papers.zoo.robust import PGD, HessianPenalty

NAMES = {f"robust-{data}-{scheme}" for data in ("mnist", "cifar") for scheme in lenet5.ROBUST} | {"cifar-vgg", "cifar-mobile"}


def net() -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 4), nn.BatchNorm1d(4))


def bright(split: str) -> tuple[Tensor, Tensor]:
    """Images of 8x8 that are bright in one of four quarters."""
    y = torch.arange(40) % 4
    x = torch.rand(40, 1, 8, 8, generator=torch.Generator().manual_seed(len(split))) * 0.2
    for label in range(4):
        x[y == label, :, 4 * (label // 2) : 4 * (label // 2) + 4, 4 * (label % 2) : 4 * (label % 2) + 4] += 0.7
    return x, y


@pytest.fixture
def one_job(monkeypatch: pytest.MonkeyPatch) -> None:
    job = train_robust.JOBS["robust-mnist-pgd"]
    task = replace(job.task, read=bright, rate=0.05, attack=PGD(radius=0.05, range=(0.0, 1.0)))
    scheme = PGD(radius=0.05, range=(0.0, 1.0), steps=2)
    monkeypatch.setattr(train_robust, "JOBS", {"tiny": replace(job, task=task, build=net, scheme=scheme, epochs=30)})


def test_the_script_writes_half_precision_weights_and_says_how_they_score(
    one_job: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["train_robust", str(tmp_path), "--only", "tiny", "--device", "cpu"])
    train_robust.main()
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["epoch"] for line in lines[:-1]] == list(range(1, 31))
    assert lines[-1]["scheme"] == "PGD(radius=0.05, range=(0.0, 1.0), steps=2, step=None)"
    assert lines[-1]["test_accuracy"] == lines[-1]["attacked_accuracy"] == 1.0
    state = load_file(tmp_path / "tiny.safetensors")
    assert state["1.weight"].dtype == torch.float16
    assert int(state["2.num_batches_tracked"]) == 30


def test_every_shipped_network_has_a_job() -> None:
    assert set(train_robust.JOBS) == NAMES
    for name, job in train_robust.JOBS.items():
        channels = 1 if "mnist" in name else 3
        job.scheme.check(torch.zeros(1, channels, 32, 32))
        assert job.build().eval()(torch.zeros(1, channels, 32, 32)).shape == (1, 10)


def test_a_crop_is_a_window_of_the_padded_image_and_half_are_mirrored() -> None:
    x = torch.rand(200, 2, 5, 7, generator=torch.Generator().manual_seed(0))
    cropped = random_crop(2)(x, torch.Generator().manual_seed(1))
    padded = nn.functional.pad(x, (2, 2, 2, 2))
    places = []
    for image, wide in zip(cropped, padded, strict=True):
        windows = {(i, j, flip): wide[:, i : i + 5, j : j + 7].flip(2) if flip else wide[:, i : i + 5, j : j + 7]
                   for i in range(5) for j in range(5) for flip in (False, True)}  # fmt: skip
        places.append(next(place for place, window in windows.items() if torch.equal(window, image)))
    assert 70 < sum(flip for _, _, flip in places) < 130
    assert {place[:2] for place in places} == {(i, j) for i in range(5) for j in range(5)}
    assert torch.equal(random_crop(2)(x, torch.Generator().manual_seed(1)), cropped)


def test_a_loss_of_ones_own_takes_the_place_of_the_cross_entropy() -> None:
    x, y = bright("train")
    heard: list[float] = []
    train(
        initialised(net, 0), x, y, epochs=2, loss=lambda model, values, labels, generator: model(values).mean() * 0.0 + 7.0,
        report=lambda epoch, loss: heard.append(loss),
    )  # fmt: skip
    assert heard == [7.0, 7.0]


def test_a_loss_of_ones_own_sees_no_structure() -> None:
    class Graphs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(2, 2)

        def forward(self, nodes: Tensor, *structure: Tensor) -> Tensor:
            return self.linear(nodes.mean(dim=1))

    graphs = GraphInputs(torch.rand(4, 3, 2), torch.ones(4, 3, dtype=torch.bool), torch.zeros(4, 1, 2, dtype=torch.long))
    with pytest.raises(InputError, match="A loss function gets the values only"):
        train(Graphs(), graphs, torch.tensor([0, 1, 0, 1]), epochs=1, loss=lambda model, x, y, generator: model(x).sum())


def test_a_job_is_changed_where_asked() -> None:
    job = train_robust.JOBS["robust-mnist-hessian"]
    assert train_robust.with_changes(job, None, None) == job
    assert train_robust.with_changes(job, 3, 0.5) == replace(job, epochs=3, scheme=HessianPenalty(weight=0.5))
    plain = train_robust.JOBS["robust-mnist-plain"]
    assert train_robust.with_changes(plain, None, 0.5) == plain  # no penalty, no weight
