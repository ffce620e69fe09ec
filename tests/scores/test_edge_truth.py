"""Ground truth over edges, nodes and words: one True or False for each, however many a sample has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from text_models import TEXTS, text_model, tokenizer
from veracity import Audit, EdgeInputs, NodeInputs
from veracity.core.errors import InputError
from veracity.engine.resolve import of_own_lengths
from veracity.inputs import TextInputs

pytest.importorskip("torch_geometric")

from graph_nets import GraphNet, graphs

EDGES = (8, 12, 10, 6)


def motifs() -> list[Any]:
    """Every third edge; the third graph has no truth."""
    found: list[Any] = [torch.arange(count) % 3 == 0 for count in EDGES]
    found[2] = None
    return found


def slow_auc(relevance: np.ndarray[Any, Any], inside: np.ndarray[Any, Any]) -> float:
    """The share of pairs of an edge inside and one outside in which the one inside has more; equal ones count half."""
    pairs = [(a > b) + 0.5 * (a == b) for a in relevance[inside] for b in relevance[~inside]]
    return float(np.mean(pairs))


def run(folder: Path, **settings: Any) -> Any:
    given = {"models": GraphNet().eval(), "inputs": EdgeInputs.of(graphs()), "controls": False, "companions": False}
    return Audit(**{**given, **settings}).run(folder, progress=False)


def test_motif_auc_counts_the_edges_of_each_graph_alone(tmp_path: Path) -> None:
    inputs = EdgeInputs.of(graphs())
    maps = torch.randn(inputs.present.shape, generator=torch.Generator().manual_seed(5)).round(decimals=1) * inputs.present
    result = run(tmp_path, truth=motifs(), explainers={"given": maps}, scores=["auc", "relevance_rank_accuracy"])
    found = result.samples("auc").sort_values("sample")["value"].to_numpy(float)
    for row, count in enumerate(EDGES):
        expected = np.nan if row == 2 else slow_auc(maps[row, :count].numpy(), (np.arange(count) % 3) == 0)
        np.testing.assert_allclose(found[row], expected, atol=1e-12)
    table = result.table().set_index("score")
    assert table.loc["auc", ["n", "undefined"]].tolist() == [3, 1]
    assert table.loc["relevance_rank_accuracy", ["n", "undefined"]].tolist() == [3, 1]


def test_an_explanation_that_is_the_truth_is_perfect(tmp_path: Path) -> None:
    inputs = EdgeInputs.of(graphs())
    maps = of_own_lengths(motifs(), inputs)
    result = run(tmp_path, truth=motifs(), explainers={"truth": maps, "opposite": -maps}, scores=["auc"])
    assert result.table().set_index("explainer")["value"].to_dict() == {"truth": 1.0, "opposite": 0.0}


@pytest.mark.parametrize("form", ["lists", "arrays", "padded"])
def test_forms_of_a_truth(form: str) -> None:
    inputs, marks = EdgeInputs.of(graphs()), [torch.arange(count) % 3 == 0 for count in EDGES]
    given: Any = {"lists": [one.tolist() for one in marks], "arrays": [one.int().numpy() for one in marks]}.get(form)
    given = torch.nn.utils.rnn.pad_sequence(marks, batch_first=True) if given is None else given
    found = of_own_lengths(given, inputs)
    assert found.shape == (4, 12)
    assert [found[row, :count].bool().tolist() for row, count in enumerate(EDGES)] == [one.tolist() for one in marks]


def test_truth_of_nodes_and_of_words(tmp_path: Path) -> None:
    nodes = [torch.arange(count) == 0 for count in (4, 6, 5, 3)]
    table = run(tmp_path / "nodes", inputs=NodeInputs.of(graphs()), truth=nodes, explainers=["saliency"], scores=["auc"]).table()
    assert table["n"].tolist() == [4]
    texts = TextInputs(TEXTS[:3], tokenizer())
    words = [[number == 0 for number in range(count)] for count in texts.counts.tolist()]
    given: dict[str, Any] = {
        "models": text_model(),
        "inputs": texts,
        "truth": words,
        "explainers": ["saliency"],
        "scores": ["pointing_game"],
    }
    assert run(tmp_path / "words", **given).table()["n"].tolist() == [3]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {1: torch.ones(11, dtype=torch.bool)},
            "The truth of sample 1 has 11 numbers, but the sample has 12 edges: give True or False for each",
        ),
        ({0: torch.ones(2, 8, dtype=torch.bool)}, "The truth of sample 0 has 2 numbers, but the sample has 8 edges"),
        ({0: torch.full((8,), 0.5)}, "must hold True and False, or 1 and 0, but it holds 0.5"),
        ({0: None, 1: None, 3: None}, "Every mask of the truth is empty"),
        ({0: torch.ones(12, dtype=torch.bool)}, "The truth of sample 0 has 12 numbers, but the sample has 8 edges"),
    ],
)
def test_truths_that_do_not_fit(change: dict[int, Any], message: str, tmp_path: Path) -> None:
    truth = [change.get(row, one) if row in change else one for row, one in enumerate(motifs())]
    with pytest.raises(InputError, match=message):
        run(tmp_path, truth=truth, explainers=["saliency"], scores=["auc"])


@pytest.mark.parametrize(
    ("truth", "message"),
    [
        (motifs()[:3], "The truth has 3 masks for 4 inputs"),
        (torch.zeros(3, 12, dtype=torch.bool), "The truth has 3 masks for 4 inputs"),
    ],
)
def test_another_number_of_graphs(truth: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        run(tmp_path, truth=truth, explainers=["saliency"], scores=["auc"])
