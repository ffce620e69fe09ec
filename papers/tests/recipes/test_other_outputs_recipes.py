"""Recipes of models that give every pixel a class, or a number."""

from __future__ import annotations

from pathlib import Path

import pytest

import veracity_papers.recipes.other_outputs  # noqa: F401 - registers the recipes
from veracity.recipe import Scale, run_recipe

pytestmark = pytest.mark.filterwarnings("ignore::veracity.core.errors.Note")


def test_a_circular_segmentation_network_moves_with_its_input_and_so_do_its_gradients(tmp_path: Path) -> None:
    result = run_recipe("segmentation-shapes", tmp_path, Scale.SMOKE, progress=False)
    found = result.table().set_index(["model", "explainer", "score"])["value"]
    assert result.failures().empty
    assert found["circular", "", "model_equivariance"] == pytest.approx(1.0, abs=1e-4)
    assert found["circular", "gradient", "equivariance"] == pytest.approx(1.0, abs=1e-3)
    assert found["zeros", "", "model_equivariance"] < 0.99
    assert found["zeros", "gradient", "equivariance"] < 0.99
    assert "model equivariance" in (tmp_path / "report.html").read_text(encoding="utf-8").lower()


def test_masks_of_a_regression_agree_with_input_x_gradient(tmp_path: Path) -> None:
    result = run_recipe("regression-diabetes", tmp_path, Scale.SMOKE, progress=False)
    found = result.table().set_index(["explainer", "score"])["value"]
    assert result.failures().empty
    assert result.manifest["models"]["mlp"]["outputs"] == "raw"
    assert found["input_x_gradient", "faithfulness_correlation"] > 0.8 > found["gradient", "faithfulness_correlation"]
    assert (tmp_path / "report.html").exists()
