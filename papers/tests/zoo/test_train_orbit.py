from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from torch import Tensor, nn

from veracity.core.inputs import TensorInputs
from veracity_papers.data.labelled import Labelled
from veracity_papers.zoo import train_orbits
from veracity_papers.zoo.orbit_digits import random_rotation
from veracity_papers.zoo.storage import checkpoint_names, facts
from veracity_papers.zoo.train_orbits import TASKS, RotationTask, main


def halves(split: str) -> tuple[Tensor, Tensor]:
    """Images of 6x6 that are bright above or below."""
    y = torch.arange(40) % 2
    x = torch.rand(40, 1, 6, 6, generator=torch.Generator().manual_seed(len(split))) * 0.2
    x[y == 0, :, :3] += 0.8
    x[y == 1, :, 3:] += 0.8
    return x, y


def upside_down(x: Tensor, generator: torch.Generator) -> Tensor:
    return x.flip(-2)


TINY = RotationTask(
    data="halves",
    names=("plain", "augmented"),
    read=halves,
    build=lambda name: nn.Sequential(nn.Flatten(), nn.Linear(36, 2)),
    rotate=upside_down,
    epochs=30,
    batch=20,
    rate=0.05,
)


def test_weights_are_scored_upright_and_rotated_and_written_in_half_precision(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["tiny", "--out", str(tmp_path), "--only", "plain", "--device", "cpu", "--seed", "4"], {"tiny": TINY})
    (line,) = [json.loads(text) for text in capsys.readouterr().out.splitlines()]
    assert line["model"] == "orbit-halves-plain"
    assert (line["test_accuracy"], line["turned_accuracy"], line["epochs"], line["seed"]) == (1.0, 0.0, 30, 4)
    with safe_open(tmp_path / "orbit-halves-plain.safetensors", "pt") as file:
        assert file.get_tensor("1.weight").dtype == torch.float16
        assert file.metadata() == {key: str(line[key]) for key in ("epochs", "batch", "seed", "test_accuracy", "turned_accuracy")}


def test_the_augmented_network_learns_from_rotated_samples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tasks = {"tiny": replace(TINY, rotate=random_rotation)}
    main(["tiny", "--out", str(tmp_path), "--epochs", "8", "--device", "cpu", "--first", "20"], tasks)
    plain, augmented = [json.loads(text) for text in capsys.readouterr().out.splitlines()]
    assert plain["test_accuracy"] > augmented["test_accuracy"]  # turned halves cannot be told apart
    assert sorted(path.name for path in tmp_path.iterdir()) == ["orbit-halves-augmented.safetensors", "orbit-halves-plain.safetensors"]


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_every_shipped_network_has_a_task(task: RotationTask) -> None:
    for name in task.names:
        assert checkpoint_names(task.weights(name)) == []
        assert set(facts(task.weights(name))) == {"epochs", "batch", "seed", "test_accuracy", "turned_accuracy"}


def test_a_training_shape_is_seen_as_eight_clouds(monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn(split: str, seed: int) -> Labelled:
        return Labelled(TensorInputs(torch.full((3, 4, 3), float(seed))), torch.arange(3))

    monkeypatch.setattr(train_orbits, "modelnet", drawn)
    x, y = train_orbits.clouds("train")
    assert x[:, 0, 0].tolist() == [float(seed) for seed in range(8) for _ in range(3)]
    assert y.tolist() == [0, 1, 2] * 8
    assert train_orbits.clouds("test")[0].shape == (3, 4, 3)
