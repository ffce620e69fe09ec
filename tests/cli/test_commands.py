from __future__ import annotations

import json
import pickle
import shutil
import signal
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
import torch
from commands import code
from safetensors.torch import save_file

from small import small_net
from veracity.cli.baseline import judged
from veracity.cli.gate import undecided
from veracity.cli.main import no_interruption_lost
from veracity.engine.forecast import Forecast
from veracity.engine.store.records import sealed, unsealed
from veracity.engine.store.state import State

FILE = """
title = "Series <b>bold</b>"
data = "small:labelled_series"
explainers = ["gradient", {name = "gradient_shap", draws = 3}, "small:shifted_mean"]
scores = ["equivariance", "model_invariance"]
symmetry = {name = "cyclic_shift", axes = [-1]}
walk = {name = "monte_carlo", draws = 4}

[models.net]
build = "small:small_net"
weights = "net.safetensors"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    save_file(small_net(seed=4).state_dict(), tmp_path / "net.safetensors")
    path = tmp_path / "series.toml"
    path.write_text(FILE)
    return path


def edit(path: Path, before: str, after: str) -> Path:
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))
    return path


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("measured")
    save_file(small_net(seed=4).state_dict(), folder / "net.safetensors")
    (folder / "series.toml").write_text(FILE)
    assert code("audit", folder / "series.toml", "--out", folder / "run", "--workers", 1) == 0
    return folder / "run"


@pytest.fixture
def run(measured: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(measured, tmp_path / "run"))


def test_audit_prints_a_table_and_writes_a_report(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code("audit", file, "--workers", 1) == 0
    out = capsys.readouterr().out
    assert "net: equivariance" in out
    assert "shifted_mean" in out
    report = (tmp_path / "runs" / "series" / "report.html").read_text()
    assert "<b>bold</b>" not in report
    assert "&lt;b&gt;bold&lt;/b&gt;" in report


def test_a_dry_run_says_what_it_would_cost(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code("audit", file, "--dry-run", "--workers", 1) == 0
    out = capsys.readouterr().out
    assert "cells, 0 of them finished" in out
    assert "forward and" in out
    assert "MiB" in out
    assert "before the first cell" not in out
    assert not (tmp_path / "runs").exists()


def test_a_forecast_says_what_comes_first() -> None:
    said = Forecast(53, 43, 1000, 10, 61.0, 2**20, calibrations=2, lessons=1, folds=5).lines()
    assert said[0] == "53 cells, 43 of them finished"
    assert said[1] == "before the first cell: calibration of 2 paths; learning by 1 explainer; training of 5 folds, which is not counted"
    assert said[2].startswith("at least 1,000 forward and 10 backward passes")


def test_show_prints_one_object_a_line(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code("show", run, "--format", "json") == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["explainer"] for row in rows} >= {"gradient", "gradient_shap", "shifted_mean", "random_uniform", ""}
    first = next(row for row in rows if row["explainer"] == "gradient")
    assert first["value"] > 0.9999
    assert first["random_control"] is not None
    assert code("show", run, "--format", "csv") == 0
    assert capsys.readouterr().out.startswith(
        "model,explainer,score,value,low,high,n,undefined,samples_failed,self_agreement,random_control"
    )
    assert code("show", run) == 0
    assert "Equivariance is necessary, but not sufficient" in capsys.readouterr().out


def test_the_gate_judges_the_worse_end_and_leaves_controls_out(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code("gate", run, "--require", "equivariance>=0.99", "--explainer", "gradient") == 0
    assert "held: equivariance>=0.99 (1 judged)" in capsys.readouterr().out
    assert code("gate", run, "--require", "equivariance>=0.99") == 1
    err = capsys.readouterr().err
    assert "not held: equivariance>=0.99 for net / shifted_mean: low end" in err
    assert "random" not in err
    assert "gradient:" not in err
    assert code("gate", run, "--require", "model_invariance>=0.999", "--require", "equivariance<=1.01") == 0
    assert code("gate", run, "--require", "model_invariance>=1", "--require", "equivariance>=1", "--explainer", "gradient") == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--require", "equivariance=0.9"], "A requirement is written like equivariance>=0.9"),
        (["--require", "equivarianc>=0.9"], "Did you mean 'equivariance'"),
        (["--require", "equivariance>=0.9", "--explainer", "gradint"], "Did you mean 'gradient'"),
    ],
)
def test_a_bad_gate_is_one_sentence(run: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str) -> None:
    assert code("gate", run, *arguments) == 2
    assert sentence in capsys.readouterr().err


def test_diff_compares_two_runs(run: Path, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(file, "draws = 3", "draws = 30")
    assert code("audit", file, "--out", tmp_path / "other", "--workers", 1) == 0
    capsys.readouterr()
    assert code("diff", run, tmp_path / "other") == 0
    shap = next(line.split() for line in capsys.readouterr().out.splitlines() if "gradient_shap" in line)
    before, after, difference = (float(word) for word in shap[1:4])
    assert difference == pytest.approx(after - before, abs=2e-3)
    assert shap[-1] == "yes"


def test_ls_lists_every_kind(capsys: pytest.CaptureFixture[str]) -> None:
    assert code("ls") == 0
    out = capsys.readouterr().out
    for name in ("integrated_gradients", "cyclic_shift", "cosine", "equivariance", "adaptive", "symmetry-digits"):
        assert name in out
    assert code("ls", "explainrs") == 2
    assert "Did you mean 'explainers'" in capsys.readouterr().err


class Interrupted:
    def __del__(self) -> None:
        raise KeyboardInterrupt


def test_an_interruption_that_a_destructor_swallows_comes_again(capfd: pytest.CaptureFixture[str]) -> None:
    before = sys.unraisablehook
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests were started in the background
    try:
        with no_interruption_lost():
            Interrupted()
            with pytest.raises(KeyboardInterrupt):
                time.sleep(5)
    finally:
        signal.signal(signal.SIGINT, handler)
    assert sys.unraisablehook is before
    assert "Traceback" not in capfd.readouterr().err


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert code("--version") == 0
    assert "veracity 0." in capsys.readouterr().out
    assert code("--help") == 0


BAD = [
    ('"gradient",', '"gradent",', "Unknown explainer 'gradent'. Did you mean 'gradient'"),
    ('"small:small_net"', '"small:NaNs"', "returns NaN"),
    ('"small:small_net"', '"small:two_channels"', "cannot take inputs of shape (1, 1, 12)"),
    ('"small:small_net"', '"small:with_dropout"', "in train mode and has Dropout"),
    ('"small:labelled_series"', '"small:labels_out_of_range"', "The target of sample 2 is 7, but model 'net' has 3 classes"),
    ("axes = [-1]", "axes = [-2, -1, -3]", "axes"),
    ("axes = [-1]", "axis = [-1]", "Did you mean 'axes'"),
    ("explainers =", "explainer =", "Did you mean 'explainers'"),
    ("walk =", "walk", "is not valid TOML"),
    ('["equivariance", "model_invariance"]', "3", "'scores' must be a list"),
    ('"small:small_net"', '"small:smal_net"', "Did you mean 'small_net'"),
    ('"small:small_net"', '"smal:small_net"', "Cannot import 'smal'"),
    ('"net.safetensors"', '"none.safetensors"', "There is no weights file"),
]


@pytest.mark.parametrize(("before", "after", "sentence"), BAD, ids=[case[2][:40] for case in BAD])
def test_bad_input_is_one_sentence_and_exit_code_2(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], before: str, after: str, sentence: str
) -> None:
    edit(file, before, after)
    if "NaNs" in after or "dropout" in after or "two_channels" in after:
        edit(file, 'weights = "net.safetensors"', "")
    assert code("audit", file, "--out", tmp_path / "run", "--workers", 1) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert sentence in err
    assert err.count("\n") == 1
    assert "Traceback" not in err


def test_pickled_weights_are_refused(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(file, "net.safetensors", "net.pt")
    torch.save(small_net(), tmp_path / "net.pt")
    assert code("audit", file) == 2
    assert "holds pickled Python objects, which could run code" in capsys.readouterr().err
    (tmp_path / "net.pt").write_bytes(pickle.dumps({"a": 1}))
    assert code("audit", file) == 2
    assert "net.pt" in capsys.readouterr().err
    torch.save(small_net().state_dict(), tmp_path / "net.pt")
    assert code("audit", file, "--workers", 1) == 0


def test_broken_and_newer_run_folders_are_refused(run: Path, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = run / "manifest.json"
    text = manifest.read_text()
    known = (run / "run.json").read_bytes()
    (run / "run.json").write_bytes(sealed({**unsealed(known), "schema": 99}))
    for arguments in (["show", run], ["report", run], ["audit", file, "--out", run, "--workers", 1]):
        assert code(*arguments) == 2
        assert "has schema 99 and this veracity reads up to 3: upgrade veracity" in capsys.readouterr().err
    (run / "run.json").write_bytes(sealed({**unsealed(known), "schema": 1}))
    assert code("show", run) == 2
    assert "was written by an older veracity (schema 1; this one reads 3)" in capsys.readouterr().err
    (run / "run.json").write_bytes(known)
    manifest.write_text(text[:100])
    assert code("show", run) == 2
    assert "is damaged: manifest.json cannot be read" in capsys.readouterr().err
    manifest.write_text(text)
    next(run.glob("cells/*.parquet")).write_bytes(b"junk")
    assert code("show", run) == 2
    assert "is damaged: run the same command again, which makes it anew" in capsys.readouterr().err
    assert code("show", run / "nowhere") == 2
    assert "is not a run folder" in capsys.readouterr().err


def test_a_table_survives_a_round_trip(run: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert code("show", run, "--format", "csv") == 0
    (tmp_path / "table.csv").write_text(capsys.readouterr().out)
    frame = pd.read_csv(tmp_path / "table.csv", keep_default_na=False, na_values=["nan"])
    assert len(frame) == 8


def test_what_is_not_measured_to_the_end_is_open_and_not_broken() -> None:
    row = {"state": State.PENDING, "failed": 0, "low": 0.1, "high": 0.2}
    assert undecided(row, "low", ">=", 0.5)
    assert not undecided({**row, "state": State.DONE}, "low", ">=", 0.5)
    lost = {"score": "depends", "model": "net", "explainer": "saliency", "why": "holds before, cannot tell yet now"}
    assert judged({**lost, "open": True}, 0.02, None).open
    assert not judged(lost, 0.02, None).open
