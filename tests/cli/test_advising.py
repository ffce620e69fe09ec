from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from commands import code
from safetensors.torch import save_file
from torch import nn

from small import small_net
from stored import edit_manifest
from veracity.cli import audit_file
from veracity.results import Result

READ = audit_file.read

FILE = """
data = "small:labelled_series"
training = "small:training_series"
explainers = ["gradient", {name = "cav", layer = "2", per_side = 20}]
scores = ["symmetry", "model_invariance"]
symmetry = {name = "cyclic_shift", axes = [-1]}
walk = {name = "monte_carlo", draws = 3}

[concepts]
left = [0]
high = "small:high_first"

[models.net]
build = "small:small_net"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "series.toml"
    path.write_text(FILE)
    return path


def test_a_run_of_a_file_is_advised_mended_and_reported(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code("audit", file, "--workers", 1) == 0
    folder = tmp_path / "runs" / "series"
    facts = Result(folder).facts()
    assert set(facts["concept"]) == {"left", "high"}
    capsys.readouterr()
    assert code("advise", folder, "--workers", 1) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "net / gradient (feature importance, guideline 1): robust" in out
    assert "net / cav (concept-based, guideline 3): the layer is not invariant" in out
    assert "change: Read the layer '4'" in out
    assert "-> 1.000" in out
    assert "the layer is not invariant" in (folder / "report.html").read_text(encoding="utf-8")


def test_advice_without_measuring(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code("audit", file, "--workers", 1) == 0
    capsys.readouterr()
    assert code("advise", tmp_path / "runs" / "series", "--no-measure") == 0
    assert "after it: not measured." in capsys.readouterr().out


def test_a_scan_of_a_file_and_of_options(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code("scan", file, "--samples", 4) == 0
    lines = capsys.readouterr().out.splitlines()
    first = next(line for line in lines if "kept" in line and "best" not in line)
    assert "CyclicShift" in first
    save_file(small_net(seed=4).state_dict(), tmp_path / "net.safetensors")
    options = ("--model", "small:small_net", "--data", "small:labelled_series", "--weights", tmp_path / "net.safetensors")
    assert code("scan", *options, "--out", tmp_path / "scan") == 0
    assert "no kept symmetry has more" in " ".join(capsys.readouterr().out.split())
    assert list((tmp_path / "scan" / "model").glob("*cyclic_shift/manifest.json"))


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('layer = "2"', 'layer = "22"', "The model has no layer '22'. Did you mean '2'?"),
        ("left = [0]", "left = [7]", "No training example shows the concept 'left'"),
        ("left = [0]", 'left = "0"', "'0' must have the form module:name"),
        ("left = [0]", "left = 0", "The concept 'left' must be a list of labels"),
        ('training = "small:training_series"\n', "", "Concepts need examples to learn them from"),
        ('{name = "cav", layer = "2", per_side = 20}', '"tracin"', "tracin needs the model's checkpoints"),
        ('{name = "cav", layer = "2", per_side = 20}', '"influence_function"', "Did you mean 'influence_functions'?"),
    ],
)
def test_mistakes_are_one_sentence(file: Path, capsys: pytest.CaptureFixture[str], before: str, after: str, message: str) -> None:
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))
    assert code("audit", file, "--workers", 1) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert message in said
    assert "Traceback" not in said
    assert not (file.parent / "runs").exists()


def test_a_single_class_and_a_checkpoint_of_another_architecture(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = file.read_text().replace('{name = "cav", layer = "2", per_side = 20}', '"influence_functions"').replace("left = [0]\n", "")
    file.write_text(text.replace('high = "small:high_first"', "").replace("small:training_series", "small:one_class"))
    assert code("audit", file, "--workers", 1) == 2
    assert "All 10 training examples have class 0" in " ".join(capsys.readouterr().err.split())
    torch.save(nn.Linear(2, 2).state_dict(), tmp_path / "other.pt")
    file.write_text(FILE.replace('{name = "cav", layer = "2", per_side = 20}', '"tracin"') + '\n[checkpoints]\nnet = ["other.pt"]\n')
    assert code("audit", file, "--workers", 1) == 2
    assert "has another architecture" in " ".join(capsys.readouterr().err.split())


def test_commands_that_lack_something(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code("scan") == 2
    assert "A scan needs an audit file, or --model" in capsys.readouterr().err
    assert code("advise", tmp_path) == 2
    assert "is not a run folder" in capsys.readouterr().err


def test_a_folder_from_elsewhere_is_advised_by_a_file_that_is_named_alone(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert code("audit", file, "--workers", 1) == 0
    shutil.copytree(tmp_path / "runs" / "series", tmp_path / "copied" / "series")
    assert json.loads((tmp_path / "copied" / "series" / "manifest.json").read_text())["spec"]["file"] == "series.toml"
    capsys.readouterr()
    read = []
    monkeypatch.setattr(audit_file, "read", lambda path: read.append(path) or READ(path))
    assert code("advise", tmp_path / "copied" / "series", "--no-measure") == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "was not written by a run of yours, or has changed since, so that no code is run for it" in said
    assert "--audit FILE" in said
    assert not read
    assert code("advise", tmp_path / "copied" / "series", "--no-measure", "--audit", file) == 0
    assert read == [file]


def test_a_manifest_that_was_changed_is_not_trusted(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code("audit", file, "--workers", 1) == 0
    edit_manifest(tmp_path / "runs" / "series", lambda manifest: manifest.update(title="changed"))
    assert code("advise", tmp_path / "runs" / "series", "--no-measure") == 2
    assert "or has changed since" in " ".join(capsys.readouterr().err.split())
