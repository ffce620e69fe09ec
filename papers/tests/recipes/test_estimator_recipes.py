"""Recipes of models as people have them: trees, pipelines, ONNX files and networks with two inputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import veracity
from report_runs import Observed, stored
from veracity.explain import KernelShap, Lime
from veracity.recipe import Scale, run_recipe
from veracity.scores import FaithfulnessCorrelation, Sparseness
from veracity_papers.data import files
from veracity_papers.data.tabular import UCI_FILES, adult_frame
from veracity_papers.recipes.exported import onnx_bytes
from veracity_papers.recipes.several_inputs import finding, two_inputs
from veracity_papers.recipes.tables import level_numbers, tables_adult, tables_adult_pipeline

pytestmark = pytest.mark.filterwarnings("ignore::veracity.core.errors.Note")
needs_adult = pytest.mark.skipif(files.locate(UCI_FILES["test"]) is None, reason="needs the Adult census")


@needs_adult
def test_trees_are_audited_with_shaps_own_values(tmp_path: Path) -> None:
    shap = pytest.importorskip("shap")
    audit = tables_adult.assemble(tmp_path, Scale.SMOKE)
    result = audit.run(tmp_path / "run", progress=False)
    table = result.table()
    assert result.failures().empty
    assert {"random_forest", "xgboost", "lightgbm"} == set(table["model"])
    assert {"tree_shap", "kernel_shap", "lime", "permutation_importance"} < set(table["explainer"])
    model, inputs = audit.models["lightgbm"], audit.inputs
    theirs = shap.TreeExplainer(model).shap_values(inputs.frame)
    sign = np.where(model.predict(inputs.frame) == 1, 1, -1)[:, None]
    np.testing.assert_allclose(result.explanations("lightgbm", "tree_shap"), theirs * sign, atol=1e-6)


@needs_adult
def test_a_pipeline_is_audited_on_the_table_as_published(tmp_path: Path) -> None:
    result = tables_adult_pipeline.assemble(tmp_path, Scale.SMOKE).run(tmp_path / "run", progress=False)
    assert result.failures().empty
    found = result.attributions()
    assert {"age", "occupation", "native-country"} < set(found["feature"])
    assert len(set(found["feature"])) == 12


@needs_adult
def test_the_census_as_published() -> None:
    frame, labels = adult_frame("test")
    assert frame.shape == (16_281, 12)
    assert labels.bincount().tolist() == [12_435, 3_846]
    numbers = level_numbers(frame[:3], {"sex": ["Female", "Male"]})
    assert numbers["sex"].tolist() == [1, 1, 1]
    assert numbers["age"].tolist() == frame["age"][:3].tolist()


def test_one_function_has_one_set_of_scores_as_module_function_and_onnx_file(tmp_path: Path) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 3)).double().eval()
        x = torch.rand(4, 1, 4, 4, dtype=torch.float64)
    file = tmp_path / "network.onnx"
    file.write_bytes(onnx_bytes(network, x[:1]))

    def function(values: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return network(torch.as_tensor(values)).numpy()

    audit = veracity.Audit(
        models={"module": network, "function": function, "file": str(file)},
        inputs=x,
        outputs="logits",
        explainers=[KernelShap(samples=60, patch=1), Lime(samples=60, patch=1)],
        scores=[FaithfulnessCorrelation(subset_size=4, nr_runs=20), "deletion", "max_sensitivity"],
    )
    table = audit.run(tmp_path / "run", progress=False).table().pivot(index=["explainer", "score"], columns="model", values="value")
    assert table.loc["kernel_shap"].notna().all(axis=None)
    for name in ("function", "file"):
        np.testing.assert_allclose(table[name], table["module"], rtol=0, atol=1e-6)


def test_the_image_alone_and_with_its_table(tmp_path: Path) -> None:
    result = run_recipe(two_inputs.name, tmp_path, Scale.SMOKE, progress=False)
    assert result.failures().empty
    shapes = {name: tuple(one.explanations("network", "kernel_shap").shape) for name, one in result.results.items()}
    assert shapes == {"image": (4, 1, 8, 8), "both": (4, 66)}
    noise, limit = (result.results["both"].explanations("network", "integrated_gradients")[:, at].abs().mean() for at in (65, 64))
    assert noise < limit / 2
    said = result.summary.set_index(["explained", "score"])["finding"]
    assert len(said) == 6
    assert "cannot be told apart" in said["image", "fast_gef"]


def test_a_finding_is_read_off_the_samples_that_both_explainers_have(tmp_path: Path) -> None:
    """`lost` has the larger mean only because it is undefined on the samples on which `kept` is low."""
    noise = np.random.default_rng(0).normal(0.0, 0.01, (2, 20))
    values = {"kept": np.concatenate([0.9 + noise[0], noise[1]]), "lost": np.concatenate([0.8 - noise[0], np.full(20, np.nan)])}
    observed = [Observed(model="net", explainer=name, score="sparseness", values=column) for name, column in values.items()]
    result = stored(tmp_path, {"sparseness": Sparseness()}, observed)
    assert finding(result, "sparseness") == "kept is ahead of every other explainer."
