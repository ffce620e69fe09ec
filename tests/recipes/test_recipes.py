from __future__ import annotations

import json
from pathlib import Path

import pytest

from veracity.cli import main
from veracity.core.errors import InputError
from veracity.data.fashion import fashion_mnist
from veracity.recipes import Scale, run_recipe


def test_the_demo_recipe_finds_what_the_theory_says(tmp_path: Path) -> None:
    result = run_recipe("symmetry-digits", tmp_path, Scale.SMOKE, progress=False)
    table = result.table().set_index(["model", "explainer"])["value"]
    assert table["invariant", ""] > 0.9999
    assert table["invariant", "gradient"] > 0.9999
    assert table["invariant", ""] > table["augmented", ""] > table["standard", ""]
    assert table["invariant", "gradient"] > table["augmented", "gradient"] > table["standard", "gradient"]
    assert min(result.manifest["spec"]["test_accuracy"].values()) >= 0.95
    assert (tmp_path / "report.html").stat().st_size > 10_000
    weights = {path: path.stat().st_mtime_ns for path in tmp_path.glob("models/*")}
    run_recipe("symmetry-digits", tmp_path, Scale.SMOKE, progress=False)
    assert len(weights) == 3
    assert all(path.stat().st_mtime_ns == time for path, time in weights.items())


def test_the_fashion_recipe_runs_where_its_data_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["recipe", "symmetry-fashion-mnist", "--scale", "smoke", "--out", str(tmp_path / "run"), "--workers", "1"]
    try:
        fashion_mnist("test")
    except InputError:
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 2
        assert "VERACITY_DATA" in capsys.readouterr().err
        return
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 0
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["show", str(tmp_path / "run"), "--format", "json"])
    rows = {(row["model"], row["explainer"]): row["value"] for row in map(json.loads, capsys.readouterr().out.splitlines())}
    assert rows["all-cnn", ""] > 0.9999
    assert rows["all-cnn", "gradient"] > 0.9999
    assert rows["standard-cnn", "gradient"] < rows["augmented-cnn", "gradient"] < 0.9


def test_an_unknown_recipe_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["recipe", "symmetry-digit"])
    assert caught.value.code == 2
    assert "Did you mean 'symmetry-digits'" in capsys.readouterr().err
