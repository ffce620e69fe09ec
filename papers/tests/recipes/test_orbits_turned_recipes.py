from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from veracity.core.registry import RECIPES
from veracity.orbits import OrbitResult
from veracity.orbits.layouts import DiskOrbit, RotationOrbit
from veracity.orbits.tasks.classification import Classification
from veracity.recipe import Scale, run_recipe
from veracity_papers.data import files
from veracity_papers.recipes.orbits_digits import explainers, quarter_turns
from veracity_papers.zoo import pointnet

pytestmark = pytest.mark.filterwarnings("ignore::veracity.core.errors.Note")
FILES = {"modelnet": "modelnet/modelnet10_voxels32_chair_monitor.npz", "mnist": "mnist/t10k-images-idx3-ubyte.gz"}
DISKS = {"orbits-points": "xy", "orbits-points-xz": "xz", "orbits-points-yz": "yz"}


def at_hand(name: str) -> None:
    if files.locate(FILES[name]) is None:
        pytest.skip(f"{FILES[name]} is not at hand")


def assembled(name: str, folder: Path, scale: Scale) -> Any:
    return RECIPES[name].assemble(folder, scale)


@pytest.fixture(scope="module", autouse=True)
def short() -> Iterator[None]:
    """Smaller networks, less training and fewer digits than the demo has, and shapes that are read once."""
    with pytest.MonkeyPatch.context() as patch:
        digits, points = (import_module(f"veracity_papers.recipes.orbits_{name}") for name in ("digits", "points"))
        for name, value in {"EPOCHS": 3, "WIDTH": 6, "TINY": 40}.items():
            patch.setattr(digits, name, value)
        patch.setattr(points, "modelnet", cache(points.modelnet))
        yield


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run folder of the demo."""
    folder = tmp_path_factory.mktemp("demo") / "run"
    assembled("orbits-digits", folder, Scale.SMOKE).run(folder, progress=False)
    return folder


def test_the_demo_orders_the_three_networks(demo: Path) -> None:
    result = OrbitResult(demo)
    assert result.models == ("plain", "augmented", "averaged")
    gaps = result.gap().set_index("model")
    assert gaps.loc["plain", "low"] > gaps.loc["augmented", "high"]
    assert gaps.loc["augmented", "low"] > gaps.loc["averaged", "high"]
    upright = result.values("plain", "accuracy")[:, result.identity]
    assert upright.mean() > 0.9
    assert result.values("plain", "accuracy").mean() < 0.6


def test_the_averaged_network_is_flat_over_quarter_turns(demo: Path) -> None:
    values = OrbitResult(demo).values("averaged", "confidence")
    assert values.shape == (40, 36)
    assert abs(values[:, ::9] - values[:, :1]).max() < 1e-5
    assert abs(values - values[:, :1]).max() > 1e-3


def test_the_demo_can_be_put_together_again_from_its_manifest_without_training(demo: Path) -> None:
    about = json.loads((demo / "manifest.json").read_text())["about"]
    assert set(about["test_accuracy"]) == {"plain", "augmented", "averaged"}
    weights = {path: path.stat().st_mtime_ns for path in demo.glob("models/*")}
    again = assembled(about["recipe"], demo, Scale(about["scale"]))
    assert len(weights) == 3
    assert all(path.stat().st_mtime_ns == time for path, time in weights.items())
    assert again.about == about
    assert again.orbit == RotationOrbit(step=10.0)


def test_maps_along_the_orbit_are_the_audits_equivariance(demo: Path, tmp_path: Path) -> None:
    shutil.copytree(demo / "models", tmp_path / "run" / "models")
    shutil.copy(demo / "run.json", tmp_path / "run" / "run.json")
    evaluation = assembled("orbits-symmetry", tmp_path / "run", Scale.SMOKE)
    result: OrbitResult = evaluation.run(tmp_path / "run", progress=False)
    audited = quarter_turns(evaluation).run(tmp_path / "audit", progress=False).table().set_index(["model", "explainer"])["value"]
    for model in result.models:
        for name in explainers():
            along = result.values(model, f"equivariance: {name}")
            assert along.mean() == pytest.approx(audited[model, name], abs=2e-4), (model, name)
    assert audited["averaged", "gradient"] == pytest.approx(1.0, abs=1e-4)
    assert audited["plain", "gradient"] < 0.7


@pytest.mark.parametrize("name", DISKS)
def test_shapes_turn_about_the_axes_of_a_plane(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("veracity_papers.recipes.orbits_points"), "EPOCHS", 1)
    evaluation = assembled(name, tmp_path, Scale.SMOKE)
    assert evaluation.orbit == DiskOrbit(plane=DISKS[name], step=45.0)
    assert evaluation.task == Classification(classes=("bench", "chair", "monitor"))
    assert evaluation.about == {"recipe": name, "scale": "smoke"}


def test_turning_shapes_disturbs_the_plain_network_alone(tmp_path: Path) -> None:
    result: Any = run_recipe("orbits-points", tmp_path / "run", Scale.SMOKE, progress=False)
    gaps = result.gap().set_index("model")
    assert result.values("plain", "accuracy").shape == (12, 29)
    assert result.values("plain", "accuracy")[:, result.identity].mean() > 0.9
    assert gaps.loc["plain", "low"] > gaps.loc["augmented", "high"]
    assert result.picture_kind == "cloud"
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000


@pytest.mark.parametrize("scale", [Scale.SMALL, Scale.PAPER])
def test_larger_scales_look_at_the_shipped_networks(scale: Scale, tmp_path: Path) -> None:
    at_hand("mnist")
    digits, symmetry = (assembled(name, tmp_path, scale) for name in ("orbits-digits", "orbits-symmetry"))
    assert len(digits.inputs) == len(digits.targets) == (1000 if scale is Scale.SMALL else 10_000)
    assert digits.orbit == RotationOrbit(step=5.0)
    assert min(digits.about["test_accuracy"].values()) > 0.9
    assert len(symmetry.inputs) == (100 if scale is Scale.SMALL else 1000)
    assert symmetry.explainers.keys() == explainers().keys()
    at_hand("modelnet")
    points = assembled("orbits-points", tmp_path, scale)
    public = files.locate(f"weights/{pointnet.FILE}") is not None
    assert list(points.models) == ["plain", "augmented", *(["public"] if public else [])]
    assert points.inputs.size() == (60 if scale is Scale.SMALL else 295)
    assert torch.equal(points.targets.bincount() > 0, torch.ones(3, dtype=torch.bool))
    assert not list(tmp_path.iterdir())
