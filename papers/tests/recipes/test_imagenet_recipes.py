"""The recipes on ImageNet at smoke scale, with a tiny untrained network; and what they ask of the real one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from veracity.core.errors import SpecError
from veracity.recipe import Scale, run_recipe
from veracity.scores import MPRT
from veracity_papers.data import files
from veracity_papers.recipes import imagenet, orbits_imagenet, robustness_imagenet
from veracity_papers.recipes.published import published
from veracity_papers.zoo import efficientnet

pytestmark = pytest.mark.skipif(files.locate("imagenet_samples") is None, reason="the photographs are not at hand")


def ran(recipe: Any, folder: Path) -> Any:
    return run_recipe(recipe.name, folder, Scale.SMOKE, progress=False)


@pytest.fixture(autouse=True)
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """A smoke test needs no download."""

    def missing() -> Path:
        raise SpecError("There are no weights.")

    monkeypatch.setattr(efficientnet, "weights_file", missing)


def test_faithfulness_says_that_its_network_is_untrained(tmp_path: Path) -> None:
    result = ran(imagenet.faithfulness_imagenet, tmp_path)
    table = result.table().set_index(["audit", "explainer", "score"])
    assert set(table["model"]) == {"untrained"}
    assert table["published"].isna().all()
    assert table.loc[("fast", "gradient", "fast_gef"), "value"] > 0.2
    quadrants = result.results["fast"].quadrants().groupby("explainer")["share"].sum()
    assert quadrants["gradient"] == pytest.approx(1.0)
    assert table.loc[("exact", "edge_filter", "mprt"), "value"] == pytest.approx(1.0)
    assert table.loc[("exact", "edge_filter", "gef"), "no_response"] == 2
    assert result.failures().empty


def test_a_meta_evaluation_has_no_figures_beside_an_untrained_network(tmp_path: Path) -> None:
    table = ran(imagenet.meta_evaluation_imagenet, tmp_path).table()
    assert "published" not in table
    assert set(table["score"]) == set(imagenet.CHEAP)
    assert np.isfinite(table[table["test"] == "mpt"]["mc"]).all()


@pytest.mark.filterwarnings("ignore:.*is searched without gradients", "ignore:.*The terms of full_grad miss")
def test_five_methods_are_searched(tmp_path: Path) -> None:
    result = ran(robustness_imagenet.robustness_imagenet, tmp_path)
    table = result.table()
    assert len(table) == 5 * 4
    assert result.failures().empty
    assert table.set_index(["explainer", "score"]).loc[("full_grad", "sol_f_hat"), "value"] < 1


def test_the_published_columns_are_whole() -> None:
    local = published("faithfulness A.5", {"imagenet": imagenet.NETWORK})
    assert len(local) == 10
    assert {entry["explainer"]: entry["value"] for entry in local}["lrp_z_plus"] == 0.91
    table = published("robustness 9")
    assert len(table) == 5 * 4
    assert {entry["explainer"] for entry in table} == set(robustness_imagenet.five_methods(5, 20))
    assert set(imagenet.PUBLISHED) == set(imagenet.meta_scores(Scale.PAPER))


def test_settings_of_appendix_a81_at_full_size() -> None:
    asked = imagenet.meta_scores(Scale.PAPER)
    assert asked["pixel_flipping"].features_in_step == 896
    assert asked["faithfulness_correlation"].subset_size == 896
    assert isinstance(asked["mprt"], MPRT)


@pytest.mark.parametrize("scale", [Scale.SMALL, Scale.PAPER])
def test_without_the_package_a_real_run_is_one_sentence(scale: Scale, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="There are no weights"):
        imagenet.meta_evaluation_imagenet.assemble(tmp_path, scale)


@pytest.mark.parametrize(("recipe", "count"), [(orbits_imagenet.orbits_imagenet, 4), (orbits_imagenet.orbits_imagenet_scale, 3)])
def test_an_untrained_network_along_an_orbit(recipe: Any, count: int, tmp_path: Path) -> None:
    result = ran(recipe, tmp_path)
    values = result.values("untrained", "accuracy")
    assert values.shape == (6, count)
    assert (values[:, result.identity] == 1).all()
    assert values.mean() < 1
    assert result.failures().empty
    assert (tmp_path / "report.html").stat().st_size > 10_000
