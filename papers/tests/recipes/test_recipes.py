from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from veracity.cli import main
from veracity.recipe import Scale, run_recipe
from veracity_papers.data import files

KINDS = {
    "symmetry-ecg": ("all-cnn", "ecg_mitbih/mitdb_mlii_beats180_test_full21018.npz"),
    "symmetry-fashion-mnist": ("all-cnn", "fashion_mnist/t10k-images-idx3-ubyte.gz"),
    "symmetry-mutagenicity": ("gnn", "mutagenicity/Mutagenicity.zip"),
    "symmetry-modelnet": ("deep-sets", "modelnet/modelnet40_bench_193x2048x6_f16.npz"),
    "symmetry-imdb": ("bag-of-words", "imdb/imdb_test_5000.jsonl.gz"),
    "symmetry-cifar": ("d4", "cifar10/test.safetensors"),
}


def at_hand(file: str) -> None:
    if files.locate(file) is None:
        pytest.skip(f"{file} is not at hand")


@pytest.mark.filterwarnings("ignore::veracity.core.errors.Note")
@pytest.mark.parametrize("name", KINDS)
def test_all_three_kinds_of_explanation_of_an_invariant_network(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, file = KINDS[name]
    at_hand(file)
    reading = import_module("veracity_papers.data.imdb")
    monkeypatch.setattr(reading, "reviews", cache(reading.reviews))  # both splits ask for the training reviews
    result = run_recipe(name, tmp_path, Scale.SMOKE, progress=False)
    table = result.table().set_index(["model", "explainer"])["value"]
    for explainer in ("", "gradient", "influence_functions", "tracin", "simplex-inv", "similarity-inv", "cav-inv", "car-inv"):
        assert table[model, explainer] == pytest.approx(1.0, abs=1e-3), explainer
    if (model, "similarity-equiv") in table.index:
        assert table[model, "similarity-equiv"] < 0.9999
        assert table[model, "simplex-equiv"] < 0.99
    assert result.failures().empty
    assert {"training set", "concepts", "input"} <= set(result.table()["frame"])
    assert "influence_functions" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.filterwarnings("ignore::veracity.core.errors.Note")
def test_an_enforced_symmetry_is_exact_over_the_whole_group(tmp_path: Path) -> None:
    at_hand(KINDS["symmetry-ecg"][1])
    table = run_recipe("symmetry-enforced", tmp_path, Scale.SMOKE, progress=False).table().set_index("explainer")["value"]
    assert table["cav, whole group"] == pytest.approx(1.0, abs=1e-5)
    assert table["cav"] < 1.0


def test_sensitivity_stands_beside_equivariance(tmp_path: Path) -> None:
    at_hand(KINDS["symmetry-ecg"][1])
    table = run_recipe("symmetry-sensitivity", tmp_path, Scale.SMOKE, progress=False).table().set_index(["explainer", "score"])
    assert table.loc[("gradient", "max_sensitivity"), "value"] > 0
    assert table.loc[("gradient", "max_sensitivity"), "direction"] == "lower"
    assert table.loc[("constant_map", "max_sensitivity"), "value"] == 0


def test_training_breaks_a_symmetry(tmp_path: Path) -> None:
    at_hand(KINDS["symmetry-cifar"][1])
    result = run_recipe("symmetry-training", tmp_path, Scale.SMOKE, progress=False)
    table = result.table().set_index(["model", "explainer"])["value"]
    assert result.manifest["spec"]["steps"] == {"epoch 0": 0, "epoch 5": 5}
    assert table["epoch 0", ""] == pytest.approx(1.0, abs=1e-4)
    assert table["epoch 0", "gradient"] == pytest.approx(1.0, abs=1e-3)
    assert table["epoch 5", "gradient"] < 0.9


def test_a_recipe_without_its_data_says_which_file_it_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VERACITY_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(SystemExit) as caught:
        main(["recipe", "symmetry-imdb", "--scale", "smoke", "--out", str(tmp_path / "run")])
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert "imdb" in said
    assert "VERACITY_DATA" in said
    assert not (tmp_path / "run" / "manifest.json").exists()


def test_an_unknown_recipe_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["recipe", "symmetry-digit"])
    assert caught.value.code == 2
    assert "Did you mean 'symmetry-digits'" in capsys.readouterr().err
