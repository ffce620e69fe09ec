from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from veracity.recipe import Scale, run_recipe
from veracity_papers.recipes.graph_motifs import SIZES, data, first, graphs_mutagenicity

pytest.importorskip("torch_geometric")


@pytest.mark.filterwarnings("ignore")
def test_edge_masks_are_compared_with_planted_motifs(tmp_path: Path) -> None:
    result = run_recipe(graphs_mutagenicity.name, tmp_path, Scale.SMOKE, progress=False)
    assert result.failures().empty
    table = result.table().set_index(["model", "explainer", "score"])  # type: ignore[attr-defined]
    explainers = {"gnn_explainer", "pg_explainer", "saliency", "integrated_gradients", "gradient", "random_uniform", "random_gaussian"}
    assert explainers <= set(table.index.get_level_values("explainer"))
    assert np.isfinite(table["value"]).all()
    assert (table["n"] == SIZES[Scale.SMOKE].explained).all()
    assert (table.xs(("constant_map", "auc"), level=("explainer", "score"))["value"] == 0.5).all()
    for model in ("gcn", "gin"):
        assert table.loc[(model, "saliency", "auc"), "value"] != table.loc[(model, "random_uniform", "auc"), "value"]
    assert (tmp_path / "report.html").exists()


def test_smoke_needs_no_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VERACITY_DATA", str(tmp_path))
    train, (test, truth) = data(Scale.SMOKE)
    graphs, masks = first(test, truth, 6)
    assert len(train) == 60
    assert graphs.size() == len(masks) == 6
    assert torch.equal(masks.sum(dim=1), torch.full((6,), 12))
