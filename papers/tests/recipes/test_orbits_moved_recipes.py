from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from veracity.core.registry import RECIPES
from veracity.orbits.layouts import CropOrbit
from veracity.recipe import Scale, run_recipe
from veracity_papers.data import bccd, files, particles
from veracity_papers.recipes import orbits_detection


def at_hand(file: str) -> None:
    if files.locate(file) is None:
        pytest.skip(f"{file} is not at hand")


def ran(name: str, folder: Path) -> Any:
    assembled: Any = RECIPES[name].assemble(folder, Scale.SMOKE)
    return assembled.run(folder, progress=False)


def by_model(table: Any) -> dict[str, float]:
    return dict(zip(table["model"], table["value"], strict=True))


def test_small_detectors_are_trained_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orbits_detection, "STEPS", 40)
    result = ran("orbits-detection", tmp_path)
    iou = result.table().query("metric == 'iou' and reference == 'truth'").set_index("model")
    assert iou.loc["0 % jitter", "identity"] > 2 * iou.loc["0 % jitter", "value"]  # where it was trained
    assert result.manifest["about"] == {"recipe": "orbits-detection", "scale": "smoke"}
    assert "strayed from the window's centre" in str(result)
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob("models/*")}
    again: Any = RECIPES["orbits-detection"].assemble(tmp_path, Scale.SMOKE)
    assert len(kept) == 2
    assert all(path.stat().st_mtime_ns == time for path, time in kept.items())
    assert again.orbit == CropOrbit(window=32, reach=16, step=8)


def test_a_detector_trained_with_jitter_has_the_smaller_gap(tmp_path: Path) -> None:
    at_hand(bccd.FILE)
    result: Any = run_recipe("orbits-detection-cells", tmp_path, Scale.SMOKE, progress=False)
    gap = by_model(result.gap())
    assert gap["0 % jitter"] > gap["100 % jitter"] + 0.1
    assert [result.groups[number] for number in result.labels] == ["WBC", "Platelets"]
    assert (tmp_path / "report.html").stat().st_size > 10_000
    agreed = result.agreement().set_index(["model", "metric"])["aggregate"]
    assert agreed["0 % jitter", "iou_confidence"] > 0.5


def test_farneback_is_flat_on_d4_and_the_network_is_not(tmp_path: Path) -> None:
    pytest.importorskip("cv2", reason="needs OpenCV")
    result = ran("orbits-piv", tmp_path)
    assert result.distances("Farneback")[:, :8].max() < 1e-3
    assert result.distances("network")[:, 1:8].min() > 1e-3
    floors = result.manifest["about"]["reversal_floor"]
    assert list(floors) == ["uniform", "channel", "vortices", "turbulence"]
    assert floors["vortices"] > floors["uniform"]
    assert f"vortices {floors['vortices']:.2f}" in str(result)


@pytest.mark.parametrize(("name", "file", "samples", "elements"), [
    ("orbits-detection", "mnist/t10k-images-idx3-ubyte.gz", 24, 256),
    ("orbits-detection-cells", bccd.FILE, 24, 256),
    ("orbits-piv", particles.FILE, 18, 16),
])  # fmt: skip
def test_small_is_as_large_as_it_says(name: str, file: str, samples: int, elements: int, tmp_path: Path) -> None:
    at_hand(file)
    evaluation: Any = RECIPES[name].assemble(tmp_path, Scale.SMALL)
    assert len(evaluation.inputs) == len(evaluation.targets) == len(evaluation.labels) == samples
    assert len(evaluation.orbit.elements) == elements
    assert evaluation.about["scale"] == "small"
