from __future__ import annotations

import json
from pathlib import Path

import pytest
from safetensors import safe_open

from veracity_papers.data.scenes import SOURCES, scenes
from veracity_papers.zoo import train_detector, train_flow


def header(path: Path) -> dict[str, str]:
    with safe_open(path, "pt") as file:
        return dict(file.metadata())


def test_a_detector_is_trained_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(train_detector, "mnist", SOURCES["digits"])
    monkeypatch.setattr(train_detector, "scenes", lambda count: scenes(1, source="digits"))
    monkeypatch.setattr("sys.argv", ["x", str(tmp_path), "--only", "detector-digits-25", "--steps", "1", "--batch", "2", "--device", "cpu"])
    train_detector.main()
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    known = header(tmp_path / "detector-digits-25.safetensors")
    assert (known["jitter"], known["steps"], known["judged_on"]) == ("25", "1", "test")
    assert said["model"] == "detector-digits-25"
    assert 0 <= float(known["iou_shifted"]) == said["iou_shifted"] <= 1
    assert (tmp_path / "detector-digits-25.safetensors").stat().st_size < 200_000


def test_the_flow_network_is_trained_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(train_flow, "evaluate", lambda model, device: {"epe_generated": 0.5})
    monkeypatch.setattr("sys.argv", ["x", str(tmp_path), "--steps", "1", "--batch", "1", "--device", "cpu"])
    train_flow.main()
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["epe_generated"] == 0.5
    assert header(tmp_path / "flow-net.safetensors")["epe_generated"] == "0.5"
    assert (tmp_path / "flow-net.safetensors").stat().st_size < 400_000
