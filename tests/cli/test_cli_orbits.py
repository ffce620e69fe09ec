from __future__ import annotations

from pathlib import Path

import pytest
from commands import code

from orbit_small import digits_like
from veracity import OrbitResult


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gated") / "run"
    digits_like(explainers=["gradient"]).run(folder, progress=False)
    return folder


def test_the_gate_judges_every_models_gap_at_its_worse_end(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gaps = OrbitResult(run).gap().set_index("model")
    assert gaps["high"].nunique() == 2
    least, most = gaps["high"].min(), gaps["high"].max()
    assert code("gate", run, "--require", f"gap<={most + 1e-6}", "--require", "gap>=0") == 0
    assert "(4 judged)" in capsys.readouterr().out
    assert code("gate", run, "--require", f"gap<={(least + most) / 2}") == 1
    worse = gaps["high"].idxmax()
    said = capsys.readouterr().err
    assert f"for {worse}: high end {most:.6g} of {gaps.loc[worse, 'value']:.6g}" in said
    assert said.count("not shown: ") == 1  # the other end is below the bound
    assert code("gate", run, "--require", f"gap<={(least + most) / 2}", "--model", gaps["high"].idxmin()) == 0


def test_metrics_are_judged_against_the_truth_unless_said_otherwise(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = OrbitResult(run).table().set_index(["model", "metric", "reference"])["low"]
    low = {reference: table["a", "confidence", reference] for reference in ("truth", "consensus")}
    between = sum(low.values()) / 2
    assert low["truth"] < between < low["consensus"]
    for name, held in (("confidence", 1), ("confidence@truth", 1), ("confidence@consensus", 0)):
        assert code("gate", run, "--require", f"{name}>={between}", "--model", "a") == held
    assert code("gate", run, "--require", "equivariance>=-1", "--explainer", "gradient") == 0
    assert "(2 judged)" in capsys.readouterr().out


def test_a_requirement_that_is_none_is_one_sentence(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code("gate", run, "--require", "confidenc>=0.9") == 2
    assert "Did you mean 'confidence'" in capsys.readouterr().err
    assert code("gate", run, "--require", "gap<=0.9", "--model", "c") == 2
    assert "Unknown model of this run 'c'" in capsys.readouterr().err


def test_a_run_that_was_stopped_is_shown_as_such(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    digits_like().run(tmp_path, progress=False)
    next((tmp_path / "orbits").iterdir()).unlink()
    assert code("show", tmp_path) == 2
    assert "1 of 2 blocks are measured" in capsys.readouterr().err
