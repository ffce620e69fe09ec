"""PyG's explainers of edges and nodes: the same masks as PyG's own calls, and PGExplainer, which learns first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from veracity import Audit, EdgeInputs, GraphInputs, NodeInputs
from veracity.core.errors import InputError, VeracityError
from veracity.core.explainers import Context, Explainer, Need
from veracity.core.randomness import Draws
from veracity.core.training import Training
from veracity.explain import Gradient, IntegratedGradients, Saliency, TrainedGraphExplainer, as_explainer
from veracity.testing.explainers import ExplainerConformance, no_trace

pytest.importorskip("torch_geometric")

from torch_geometric.explain import CaptumExplainer, GNNExplainer, PGExplainer

from graph_nets import GraphNet, Weighed, Whole, explainer, graphs

TARGETS = torch.tensor([1, 0, 1, 0])


def context(inputs: Any, draw: int = 0, rows: slice = slice(None), **more: Any) -> Context:
    index = torch.arange(inputs.size())[rows]
    taken = inputs.take(index)
    return Context(Draws.of(3, index, draw), 64, taken.structure, present=taken.present, **more)


def masks(made: Any, net: nn.Module, inputs: Any) -> Tensor:
    signals = inputs.take(torch.arange(4))
    found: Tensor = as_explainer(made).explain(inputs.adapt(net), signals.values, TARGETS, context(inputs))
    return found


@pytest.mark.parametrize(("method", "ours"), [("Saliency", Saliency()), ("IntegratedGradients", IntegratedGradients(steps=50))])
def test_captum_on_edges_is_ours_on_gates(method: str, ours: Explainer) -> None:
    net, inputs = GraphNet().eval(), EdgeInputs.of(graphs())
    found = masks(explainer(net, CaptumExplainer(method)), net, inputs)
    torch.testing.assert_close(found, masks(ours, net, inputs), atol=1e-5, rtol=1e-3)
    assert bool((found[~inputs.present] == 0).all())


def test_captum_is_pyg_called_by_hand() -> None:
    net, inputs = GraphNet().eval(), EdgeInputs.of(graphs())
    made = explainer(net, CaptumExplainer("Saliency"))
    found = masks(made, net, inputs)
    for row, graph in enumerate(graphs()):
        alone = made(graph.x, graph.edge_index, target=TARGETS[row : row + 1], batch=torch.zeros(len(graph.x), dtype=torch.long))
        torch.testing.assert_close(found[row, : graph.num_edges], alone.edge_mask)


@pytest.mark.parametrize("made", [Weighed, Whole])
def test_fields_reach_the_explained_network(made: type[nn.Module]) -> None:
    net, inputs = made().eval(), EdgeInputs.of(graphs(edge_attr=1, pos=3))
    found = masks(explainer(net, CaptumExplainer("Saliency")), net, inputs)
    torch.testing.assert_close(found, masks(Saliency(), net, inputs), atol=1e-5, rtol=1e-3)


def test_masks_of_nodes() -> None:
    net, inputs = GraphNet().eval(), NodeInputs.of(graphs())
    found = masks(explainer(net, CaptumExplainer("InputXGradient"), node_mask_type="attributes"), net, inputs)
    torch.testing.assert_close(found, masks(Gradient(), net, inputs))  # d y / d g = sum over features of x dy/dx
    per_node = masks(explainer(net, GNNExplainer(epochs=3), node_mask_type="object"), net, inputs)
    assert bool(((per_node[inputs.present] > 0) & (per_node[inputs.present] < 1)).all())
    assert bool((per_node[~inputs.present] == 0).all())


def test_closed_gates_are_closed_for_pyg() -> None:
    """Removed edges stay removed while the rest is explained, with the degrees that the whole graph has."""
    net, inputs = GraphNet().eval(), EdgeInputs.of(graphs())
    signals = inputs.take(torch.arange(4))
    gates = signals.values * (torch.arange(signals.values.shape[1]) % 2)
    made = as_explainer(explainer(net, CaptumExplainer("Saliency")))
    found = made.explain(inputs.adapt(net), gates, TARGETS, context(inputs))
    slope = Gradient().explain(inputs.adapt(net), gates, TARGETS, context(inputs))
    torch.testing.assert_close(found[gates > 0], slope.abs()[gates > 0])
    assert not torch.allclose(found, masks(explainer(net, CaptumExplainer("Saliency")), net, inputs))


class GraphBattery(ExplainerConformance):
    """The battery on graphs: explainers of PyG call networks by their own means, so passes are not counted."""

    test_cost_is_counted = test_calls_are_full_and_fit = test_leaves_no_trace_after_an_error = None  # type: ignore[assignment]

    @property
    def data(self) -> EdgeInputs:
        return EdgeInputs.of(graphs())

    def model(self) -> nn.Module:
        return self.data.adapt(GraphNet()).eval()

    def inputs(self) -> Tensor:
        return self.data.take(torch.arange(4)).values

    def targets(self) -> Tensor:
        return TARGETS

    def learnt(self) -> dict[str, Any]:
        return {}

    def explain(self, rows: slice = slice(None), batch: int = 1000, draw: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
        about, x = context(self.data, draw, rows, **self.learnt()), self.inputs().to(dtype)[rows]
        structure = tuple(part.to(dtype) if part.is_floating_point() else part for part in about.structure)
        own = Context(about.draws, batch, structure, about.learnt, about.training)
        return self.bind().explain(self.model().to(dtype), x, self.targets()[rows], own)

    def test_leaves_no_trace(self) -> None:
        made, model, inputs = self.bind(), self.model(), self.inputs()  # PGExplainer itself draws its first weights
        about = context(self.data, **self.learnt())
        for enabled in (True, False):
            with no_trace(model, inputs), torch.set_grad_enabled(enabled):
                made.explain(model, inputs, TARGETS, about)
        with no_trace(model, inputs):
            made.check(model, inputs, TARGETS, about)


class TestGNNExplainer(GraphBattery):
    def explainer(self) -> Explainer:
        return as_explainer(explainer(GraphNet(), GNNExplainer(epochs=3)))


class TestCaptumExplainer(GraphBattery):
    def explainer(self) -> Explainer:
        found = as_explainer(explainer(GraphNet(), CaptumExplainer("Saliency")))
        return found.specialise(self.model(), self.inputs(), TARGETS, context(self.data))


class TestPGExplainer(GraphBattery):
    def explainer(self) -> Explainer:
        made = as_explainer(explainer(GraphNet(), PGExplainer(epochs=2)))
        return made.specialise(self.model(), self.inputs(), TARGETS, context(self.data))

    def learnt(self) -> dict[str, Any]:
        about = Context(Draws.of(3, torch.arange(0)), 64, training=training())
        made = self.explainer()
        assert isinstance(made, TrainedGraphExplainer)
        return {"learnt": made.learn(self.model(), about), "training": training()}

    def test_learning_leaves_no_trace_and_follows_the_seed(self) -> None:
        made, model = self.explainer(), self.model()
        assert isinstance(made, TrainedGraphExplainer)
        found = []
        for seed in (1, 1, 2):
            torch.rand(1)  # whatever the global state is
            with no_trace(model, self.inputs()):
                found.append(made.learn(model, Context(Draws.of(seed, torch.arange(0)), 64, training=training())))
        assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])
        assert not any(torch.equal(found[0][name], found[2][name]) for name in found[0])


def test_a_network_in_double_precision_is_learnt_in_it() -> None:
    listed = graphs()
    for one in listed:
        one.x = one.x.double()
    inputs, net = EdgeInputs.of(listed), GraphNet().double().eval()
    made = as_explainer(explainer(net, PGExplainer(epochs=1)))
    assert isinstance(made, TrainedGraphExplainer)
    about = Context(Draws.of(0, torch.arange(0)), 64, training=Training(inputs, torch.zeros(4)))
    found = made.learn(inputs.adapt(net), about)
    assert {value.dtype for value in found.values()} == {torch.float64}


def training() -> Training:
    return Training(EdgeInputs.of(graphs((5, 4, 6), seed=1)), torch.tensor([0, 1, 0]))


def test_pg_explainer_is_pyg_trained_by_hand() -> None:
    """The slow way: PyG's own training loop with the same seed, order and classes."""
    from veracity.core.randomness import seeded

    net, data = GraphNet().eval(), graphs((5, 4, 6), seed=1)
    made = as_explainer(explainer(net, PGExplainer(epochs=2)))
    assert isinstance(made, TrainedGraphExplainer)
    assert made.needs == {Need.TRAINING}
    inputs = EdgeInputs.of(graphs())
    found = made.learn(inputs.adapt(net), Context(Draws.of(7, torch.arange(0)), 64, training=training()))
    high, low = Draws.of(7, torch.arange(1)).words(2, stream="graph explainer")[0].tolist()
    with seeded(high ^ low):
        theirs = explainer(net, PGExplainer(epochs=2))
        for epoch in range(2):
            order = Draws.of(7, torch.arange(3), epoch).uniform(1, stream="graph explainer order")[:, 0].argsort()
            for row in order.tolist():
                one, batch = data[row], torch.zeros(len(data[row].x), dtype=torch.long)
                with torch.no_grad():
                    target = net(one.x, one.edge_index, batch).argmax(1)
                theirs.algorithm.train(epoch, net, one.x, one.edge_index, target=target, batch=batch)
    for name, value in theirs.algorithm.mlp.state_dict().items():
        torch.testing.assert_close(found[name], value)
    signals = inputs.take(torch.arange(4))
    maps = made.explain(inputs.adapt(net), signals.values, TARGETS, context(inputs, learnt=found))
    for row, graph in enumerate(graphs()):
        alone = theirs(graph.x, graph.edge_index, target=TARGETS[row : row + 1], batch=torch.zeros(len(graph.x), dtype=torch.long))
        torch.testing.assert_close(maps[row, : graph.num_edges], alone.edge_mask.detach())


def test_an_audit_of_edges(tmp_path: Path) -> None:
    net = GraphNet().eval()
    explainers = {
        "gnn": explainer(net, GNNExplainer(epochs=2)),
        "pg": explainer(net, PGExplainer(epochs=1)),
        "saliency": explainer(net, CaptumExplainer("Saliency")),
        "ours": "saliency",
    }
    given: dict[str, Any] = {"models": net, "inputs": EdgeInputs.of(graphs()), "explainers": explainers, "controls": False}
    audit = Audit(**given, training=(graphs((3,)), torch.zeros(1)), scores=["sparseness", "deletion"], companions=False)
    with pytest.warns(match="global random state"):
        result = audit.run(tmp_path, progress=False)
    assert result.failures().empty
    table = result.table().set_index(["explainer", "score"])["value"]
    assert np.isfinite(table).all()
    for score in ("sparseness", "deletion"):
        assert table["saliency", score] == pytest.approx(table["ours", score], rel=1e-5)


def test_pg_explainer_learns_about_perturbed_copies(tmp_path: Path) -> None:
    given: dict[str, Any] = {"models": GraphNet().eval(), "inputs": EdgeInputs.of(graphs()), "training": (graphs((3,)), torch.zeros(1))}
    made = {"pg": explainer(GraphNet(), PGExplainer(epochs=1))}
    result = Audit(**given, explainers=made, scores=["mprt"], controls=False, companions=False).run(tmp_path, progress=False)
    assert result.failures().empty
    assert result.table()["value"].abs().lt(1).all()


@pytest.mark.parametrize(
    ("inputs", "made", "message"),
    [
        (
            EdgeInputs,
            lambda net: explainer(net, GNNExplainer(epochs=1), node_mask_type="object"),
            "no mask of edges: make the Explainer with",
        ),
        (NodeInputs, lambda net: explainer(net, GNNExplainer(epochs=1)), "no mask of nodes: make the Explainer with"),
        (GraphInputs, lambda net: explainer(net, CaptumExplainer("Saliency")), r"for edge masks, pass inputs=EdgeInputs.of\(graphs\)"),
        (NodeInputs, lambda net: explainer(net, PGExplainer(epochs=1)), r"pg_explainer explains edges: pass inputs=EdgeInputs"),
        (EdgeInputs, lambda net: explainer(net, PGExplainer(epochs=1)), "needs training examples: pass Audit"),
    ],
)
def test_masks_that_are_missing(inputs: Any, made: Any, message: str, tmp_path: Path) -> None:
    net = GraphNet().eval()
    more = {} if "training examples" in message else {"training": (graphs(), torch.zeros(4))}
    with pytest.raises(VeracityError, match=message):
        Audit(models=net, inputs=inputs.of(graphs()), explainers=[made(net)], scores=["sparseness"], **more).run(tmp_path, progress=False)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("node_permutations", "moves node features, but one sample has shape"),
        ({"name": "permutations", "axis": -1}, "would move the gates of a graph"),
    ],
)
def test_symmetries_of_gates_are_refused(name: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        Audit(models=GraphNet().eval(), inputs=EdgeInputs.of(graphs()), explainers=["saliency"], symmetry=name).run(
            tmp_path, progress=False
        )
