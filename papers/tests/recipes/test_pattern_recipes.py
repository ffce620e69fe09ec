from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from veracity.cli import main
from veracity.core.registry import RECIPES
from veracity.recipe import Scale, run_recipe
from veracity.studies.meta import MetaEvaluation
from veracity_papers.data import files
from veracity_papers.recipes.distortions import outcome_quadrants
from veracity_papers.recipes.meta_evaluation import PUBLISHED, SCORES

NAMES = ("alignment-patterns", "assumptions", "meta-evaluation-mnist", "meta-evaluation-mnist-saliency")
LENET = ("mnist/t10k-images-idx3-ubyte.gz", "weights/gef/mnist_lenet")


def ran(name: str, folder: Path, *more: str) -> Any:
    for file in (*LENET, *more):
        if files.locate(file) is None:
            pytest.skip(f"{file} is not at hand")
    return run_recipe(name, folder, Scale.SMOKE, progress=False)


def test_alignment_under_three_kinds_of_perturbation(tmp_path: Path) -> None:
    result = ran("alignment-patterns", tmp_path, "avila/avila-ts.txt")
    table = result.table().set_index(["audit", "explainer", "score"])
    assert set(table.index.get_level_values("score")) == {"input_alignment", "fast_gef", "gef"}
    for audit in ("mnist", "avila"):
        assert table.loc[(audit, "gradient", "gef"), "value"] > 0.4
        samples = 4 if audit == "mnist" else 8
        responses = [table.loc[(audit, "edge_filter", score), "no_response"] for score in ("input_alignment", "fast_gef", "gef")]
        assert responses == [0, samples, samples]
        levels = {one.score: one.measured["model"].shape[2] for one in result.results[audit].series if one.score != "self_agreement"}
        assert levels == {"input_alignment": 10, "fast_gef": 5, "gef": 25}
    assert (tmp_path / "report.html").exists()


def test_four_outcomes_are_counted_with_their_controls(tmp_path: Path) -> None:
    result = ran(outcome_quadrants.name, tmp_path)
    counts = result.summary.set_index(["explainer", "outcome"])["count"]
    for explainer in ("gradient", "saliency", "edge_filter"):
        assert counts[explainer].sum() == 4 * 2 * 5
    assert counts["edge_filter", "both changed"] == counts["edge_filter", "explanation changed alone"] == 0
    assert counts["edge_filter", "both kept"] == counts["random_uniform", "explanation changed alone"]
    assert counts["gradient", "both kept"] > 0 < counts["gradient", "both changed"]


def test_assumptions_need_no_explainer(tmp_path: Path) -> None:
    table = ran("assumptions", tmp_path).table().set_index("score")
    assert (table["explainer"] == "").all()
    assert table["value"].between(0, 1).all()
    assert table.loc["robust, noise 0.001", "value"] == 1
    assert table.loc["robust, noise 0.001", "value"] > table.loc["robust, noise 0.5", "value"]
    assert table.loc["sensitive, at once", "value"] == 1
    assert table.loc["faithful, patch 4, black", "value"] < 1
    assert {name.split(",")[0] for name in table.index} == {"robust", "sensitive", "growing", "faithful"}


def test_scores_are_meta_evaluated_beside_the_published_numbers(tmp_path: Path) -> None:
    table = ran("meta-evaluation-mnist", tmp_path).table().set_index(["score", "test"])
    assert table.loc[("pixel_flipping", "both"), "published"] == 0.61
    assert np.isnan(table.loc[("pixel_flipping", "ipt"), "published"])
    assert table["mc"].between(0, 1).all()
    assert (tmp_path / "report.html").exists()


@pytest.mark.parametrize(("name", "pair"), [(NAMES[2], ["gradient", "grad_cam"]), (NAMES[3], ["saliency", "gradient_shap"])])
def test_the_paper_is_assembled_as_published(name: str, pair: list[str], tmp_path: Path) -> None:
    for file in LENET:
        if files.locate(file) is None:
            pytest.skip(f"{file} is not at hand")
    found = RECIPES[name].assemble(tmp_path, Scale.PAPER)
    assert isinstance(found, MetaEvaluation)
    assert list(found.explainers) == pair
    assert (found.iterations, found.perturbations, len(found.inputs)) == (3, 5, 250)
    assert set(found.scores) == set(SCORES) == set(PUBLISHED)
    assert len(RECIPES[name].assemble(tmp_path, Scale.SMALL).scores) == 9
    found.check()


@pytest.mark.parametrize("name", NAMES)
def test_without_its_data_a_recipe_says_which_file_it_looked_for(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VERACITY_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(SystemExit) as caught:
        main(["recipe", name, "--scale", "smoke", "--out", str(tmp_path / "run")])
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert "mnist" in said
    assert "VERACITY_DATA" in said
