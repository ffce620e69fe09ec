"""Fidelity, characterisation and unfaithfulness: PyG's own functions on the same masks, numbers by hand, and the rules for scores."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from veracity import Audit, EdgeInputs, NodeInputs
from veracity.core.errors import InputError
from veracity.core.scores import Measured, Pair, Reading, Reads, Score
from veracity.core.targets import Outputs
from veracity.perturb.parts import KEPT, REMOVED, ExplainedPart
from veracity.scores import Characterisation, FidelityMinus, FidelityPlus, Unfaithfulness
from veracity.scores.fidelity import is_target
from veracity.testing import ScoreConformance

pytest.importorskip("torch_geometric")

from torch_geometric.data import Data
from torch_geometric.explain import DummyExplainer, Explanation
from torch_geometric.explain.metric import characterization_score, fidelity, unfaithfulness
from torch_geometric.nn import SimpleConv

from graph_nets import GraphNet, explainer, graphs

SIZES = (4, 6, 5, 3, 7, 4, 5, 6)
LABELS = torch.arange(len(SIZES)) % 2
FOUR = ["fidelity_plus", "fidelity_minus", "characterisation", "unfaithfulness"]


def net() -> nn.Module:
    """A network that changes its mind on some of the graphs."""
    found = GraphNet(seed=4).eval()
    with torch.no_grad():
        outputs = EdgeInputs.of(graphs(SIZES)).take(torch.arange(len(SIZES))).through(EdgeInputs.of(graphs(SIZES)).adapt(found))
        found.head.bias -= outputs.mean(0)
    return found


def random_masks(inputs: Any, seed: int) -> Tensor:
    return torch.rand(inputs.present.shape, generator=torch.Generator().manual_seed(seed)) * inputs.present


def theirs(model: nn.Module, masks: Tensor, target: Tensor, nodes: bool) -> dict[str, list[float]]:
    """PyG's numbers, one graph at a time."""
    kind = "node_mask_type" if nodes else "edge_mask_type"
    made = explainer(model, DummyExplainer(), **{kind: "object"})
    found: dict[str, list[float]] = {"fidelity_plus": [], "fidelity_minus": [], "unfaithfulness": []}
    for row, graph in enumerate(graphs(SIZES)):
        batch, count = torch.zeros(len(graph.x), dtype=torch.long), len(graph.x) if nodes else graph.num_edges
        mask = {"node_mask": masks[row, :count, None]} if nodes else {"edge_mask": masks[row, :count]}
        one = Explanation(x=graph.x, edge_index=graph.edge_index, target=target[row : row + 1], batch=batch, **mask)
        one._model_args = ["batch"]
        plus, minus = fidelity(made, one)
        found["fidelity_plus"].append(plus)
        found["fidelity_minus"].append(minus)
        found["unfaithfulness"].append(unfaithfulness(made, one))
    return found


@pytest.mark.parametrize("kind", [EdgeInputs, NodeInputs])
@pytest.mark.parametrize("target", ["predicted", "label"])
def test_the_numbers_are_pygs(kind: Any, target: str, tmp_path: Path) -> None:
    model, inputs = net(), kind.of(graphs(SIZES))
    masks = random_masks(inputs, 1)
    scores = {name: {"name": name, "top": None} for name in FOUR}
    given: dict[str, Any] = {"models": model, "inputs": inputs, "targets": LABELS, "target": target, "explainers": {"given": masks}}
    result = Audit(**given, scores=scores, outputs="logits", controls=False, companions=False).run(tmp_path, progress=False)
    with torch.no_grad():
        predicted = inputs.take(torch.arange(len(SIZES))).through(inputs.adapt(model)).argmax(1)
    expected = theirs(model, masks, predicted if target == "predicted" else LABELS, kind is NodeInputs)
    for name, values in expected.items():
        found = result.samples(name).sort_values("sample")["value"].to_numpy(float)
        np.testing.assert_allclose(found, values, atol=1e-6, err_msg=name)
    plus, minus = (float(np.mean(expected[name])) for name in ("fidelity_plus", "fidelity_minus"))
    assert 0 < plus < 1 or 0 < minus < 1, "the masks change no prediction, so that nothing is compared"
    whole = float(characterization_score(torch.tensor(plus), torch.tensor(minus)))
    assert result.table().set_index("score")["value"]["characterisation"] == pytest.approx(whole, abs=1e-6)


class Counted(nn.Module):
    """Class 1 if more than two messages arrive, in logits."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.scale = SimpleConv(aggr="sum"), nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        sums = torch.zeros(int(batch.max()) + 1, 1).index_add(0, batch, self.conv(x, edge_index))
        return torch.cat((torch.zeros_like(sums), self.scale * (sums - 2.5)), dim=1)


def counted(edges: int) -> Data:
    """Two nodes with features 1 and 0, and so many edges from the first to the second, each of which brings 1."""
    return Data(x=torch.tensor([[1.0], [0.0]]), edge_index=torch.tensor([[0] * edges, [1] * edges]))


def test_numbers_by_hand(tmp_path: Path) -> None:
    """Graphs of 4, 6 and 2 edges; two edges of each are marked. Removed: 2, 4 and 0 are left. Kept: 2, 2 and 2."""
    inputs = EdgeInputs.of([counted(4), counted(6), counted(2)])
    maps = torch.arange(6.0).expand(3, 6) * inputs.present
    scores = {name: {"name": name, "top": 2} for name in FOUR}
    given: dict[str, Any] = {"models": Counted(), "inputs": inputs, "explainers": {"given": maps}, "scores": scores, "outputs": "logits"}
    result = Audit(**given, controls=False, companions=False).run(tmp_path, progress=False)
    values = {name: result.samples(name).sort_values("sample")["value"].tolist() for name in FOUR}
    assert values["fidelity_plus"] == [1.0, 0.0, 0.0]
    assert values["fidelity_minus"] == [1.0, 1.0, 0.0]
    table = result.table().set_index("score")["value"]
    assert table["characterisation"] == pytest.approx(1 / (0.5 / (1 / 3) + 0.5 / (1 / 3)))
    q, p = (1 / (1 + np.exp(2.5 - edges)) for edges in (4, 2))
    divergence = p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
    assert values["unfaithfulness"][0] == pytest.approx(1 - np.exp(-divergence), abs=1e-6)
    assert values["unfaithfulness"][2] == pytest.approx(0.0, abs=1e-6)


SHORT = (torch.bfloat16, torch.float16)


def half_pair(kind: torch.dtype, outputs: Outputs, *scores: Tensor) -> Pair:
    """What a model in half precision gives for the whole samples and for their parts."""
    short = [one.to(kind) for one in scores]
    read = [Reading(torch.zeros(len(one), dtype=torch.long), {Reads.SCORES: one, Reads.OUTPUT: outputs.read(one)}) for one in short]
    return Pair(*read, torch.zeros(len(scores[0]), 1), lambda maps: maps, lambda maps: maps)


@pytest.mark.parametrize("kind", SHORT)
@pytest.mark.parametrize("classes", [1, 2, 5, 40])
def test_unfaithfulness_of_a_model_in_half_precision_is_that_of_its_logits_in_full(kind: torch.dtype, classes: int) -> None:
    before, after = (2 * torch.randn(60, classes, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))
    found = Unfaithfulness().observe(half_pair(kind, Outputs.LOGITS, before, after))
    wide = [one.to(kind).double() for one in (before, after)]
    p, q = (torch.cat((one, torch.zeros_like(one)), 1).softmax(1) if classes == 1 else one.softmax(1) for one in wide)
    slow = [1 - math.exp(-sum(b * math.log(b / a) for a, b in zip(*row, strict=True))) for row in zip(p.tolist(), q.tolist(), strict=True)]
    np.testing.assert_allclose(found.numpy(), slow, atol=1e-5)


@pytest.mark.parametrize("kind", SHORT)
def test_probabilities_in_half_precision_are_divided_by_their_sum(kind: torch.dtype) -> None:
    exact = [torch.tensor([[0.51, 0.49], [0.2, 0.8]]), torch.tensor([[0.4, 0.6], [0.2, 0.8]])]
    found = Unfaithfulness().observe(half_pair(kind, Outputs.PROBABILITIES, *exact))
    divergence = 0.4 * math.log(0.4 / 0.51) + 0.6 * math.log(0.6 / 0.49)
    assert found.tolist() == pytest.approx([1 - math.exp(-divergence), 0.0], abs=2e-3)


def test_outputs_in_half_precision_that_are_no_probabilities_are_undefined() -> None:
    labels = [torch.tensor([[3.0, 3.0, -1.0]]), torch.tensor([[2.0, 3.0, -1.0]])]
    assert Unfaithfulness().observe(half_pair(torch.bfloat16, Outputs.MULTILABEL, *labels)).isnan().all()
    unknown = [torch.tensor([[1.0, torch.nan]]), torch.tensor([[1.0, 0.0]])]
    assert Unfaithfulness().observe(half_pair(torch.bfloat16, Outputs.LOGITS, *unknown)).isnan().all()


def test_a_share_counts_the_edges_of_each_graph() -> None:
    part = ExplainedPart(top=0.5)
    gates = torch.tensor([[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]])
    guide = part.guide(gates, torch.tensor([[0.1, 0.4, 0.3, 0.2], [-2.0, -1.0, 0.0, 0.0], [-5.0, 0.0, 0.0, 0.0]]))
    assert guide.tolist() == [[0, 1, 1, 0], [0, 1, 0, 0], [1, 0, 0, 0]]
    kept, removed = (part.act(part.steer(torch.full((3, 1), level), guide), gates) for level in (KEPT, REMOVED))
    assert torch.equal(kept + removed, gates)
    assert part.guide(gates, torch.zeros(3, 4)).tolist() == [[1, 1, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]]
    with pytest.raises(InputError, match="one number for each gate"):
        part.guide(gates, torch.zeros(3, 2))


def test_masks_beyond_0_and_1_are_undefined_and_counted(tmp_path: Path) -> None:
    inputs = EdgeInputs.of(graphs(SIZES))
    maps = random_masks(inputs, 2)
    maps[1, 0], maps[2, 1] = 1.5, -0.1
    scores = [{"name": name, "top": None} for name in FOUR]
    given: dict[str, Any] = {"models": net(), "inputs": inputs, "explainers": {"given": maps}, "scores": scores, "outputs": "logits"}
    result = Audit(**given, controls=False, companions=False).run(tmp_path, progress=False)
    assert result.failures().empty
    table = result.table().set_index("score")
    assert table["undefined"].to_dict() == dict.fromkeys(FOUR, 2)
    assert table["n"].to_dict() == dict.fromkeys(FOUR, 6)
    result.save_report(tmp_path / "report.html")
    assert "|S=|" not in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("score", [FidelityPlus(), FidelityMinus(), Characterisation(), Unfaithfulness()])
def test_a_map_times_100_scores_the_same(score: Score, tmp_path: Path) -> None:
    inputs = EdgeInputs.of(graphs(SIZES))
    masks = random_masks(inputs, 3)
    maps = {"plain": masks, "hundredfold": 100.0 * masks}
    audit = Audit(models=net(), inputs=inputs, explainers=maps, scores={"own": score}, controls=False, companions=False, outputs="logits")
    rows = audit.run(tmp_path, progress=False).table().set_index("explainer")["value"]
    assert rows["plain"] == pytest.approx(rows["hundredfold"], abs=1e-12)
    assert np.isfinite(rows["plain"])
    assert not score.in_map_units


def test_characterisation_at_the_ends() -> None:
    def measured(plus: list[float], minus: list[float]) -> Measured:
        after = 1.0 - np.stack((np.array(plus), np.array(minus)), axis=1)[:, None, :]
        return Measured({"right_before": np.ones_like(after), "right_after": after})

    ones, score = np.ones((1, 4)), Characterisation(weight=0.25)
    assert score.pool(measured([0, 0, 0, 0], [0, 0, 0, 0]), ones).tolist() == [0.0]
    assert score.pool(measured([1, 1, 1, 1], [1, 1, 1, 1]), ones).tolist() == [0.0]
    assert score.pool(measured([1, 1, 1, 1], [0, 0, 0, 0]), ones).tolist() == [1.0]
    assert score.pool(measured([1, 0, np.nan, 1], [0, 1, 0, 0]), ones)[0] == pytest.approx(2 / 3)
    assert np.isnan(score.pool(measured([np.nan] * 4, [0] * 4), ones)).all()
    assert not score.enough(measured([1, 0, 1, 1], [0, 1, 0, 0]))
    low, high = score.interval(measured([1, 0] * 3, [0, 1] * 3), 0.5, np.linspace(0.3, 0.7, 99), 0.95)
    assert low < 0.3 < 0.7 < high


def test_an_output_without_classes_is_undefined() -> None:
    assert is_target(torch.tensor([[2.0]]), torch.tensor([0])).isnan().all()
    assert is_target(torch.tensor([[torch.nan, 1.0]]), torch.tensor([0])).isnan().all()


@pytest.mark.parametrize("name", FOUR)
def test_values_that_cannot_be_removed_are_refused(name: str, tmp_path: Path) -> None:
    flat = nn.Sequential(nn.Flatten(), nn.Linear(4, 2)).eval()
    for inputs, model in ((torch.rand(3, 4), flat), (graphs(), GraphNet().eval())):
        with pytest.raises(InputError, match=f"'{name}' removes edges, nodes or words"):
            Audit(models=model, inputs=inputs, explainers=["saliency"], scores=[name]).run(tmp_path, progress=False)


class PartBattery(ScoreConformance):
    settings = {"outputs": "logits"}  # noqa: RUF012

    def model(self) -> nn.Module:
        return net()

    def inputs(self) -> Any:
        return EdgeInputs.of(graphs(SIZES))


class TestFidelityPlus(PartBattery):
    def score(self) -> Score:
        return FidelityPlus()


class TestFidelityMinus(PartBattery):
    def score(self) -> Score:
        return FidelityMinus(top=3)


class TestCharacterisation(PartBattery):
    def score(self) -> Score:
        return Characterisation(top=3)


class TestUnfaithfulness(PartBattery):
    def score(self) -> Score:
        return Unfaithfulness()
