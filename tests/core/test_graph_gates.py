"""Gates of edges and nodes, and fields that graphs carry to the model."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from veracity import EdgeInputs, GraphInputs, NodeInputs
from veracity.core.errors import InputError
from veracity.core.graphs import OnEdges
from veracity.perturb import NodePermutations

pytest.importorskip("torch_geometric")

from graph_nets import GraphNet, Weighed, Whole, explainer, graphs


@pytest.mark.parametrize("kind", [EdgeInputs, NodeInputs])
def test_open_gates_change_nothing(kind: type[EdgeInputs] | type[NodeInputs]) -> None:
    net, inputs = GraphNet().eval(), kind.of(graphs())
    features = inputs.graphs.take(torch.arange(4))
    found = inputs.take(torch.arange(4)).through(inputs.adapt(net))
    torch.testing.assert_close(found, features.through(inputs.graphs.adapt(net)))
    assert inputs.take(torch.arange(4)).values.sum(1).tolist() == ([8, 12, 10, 6] if kind is EdgeInputs else [4, 6, 5, 3])


def test_gates_belong_to_their_graph_where_every_node_has_a_loop() -> None:
    """A batch then has as many messages with the loops of a layer as without, and in another order."""
    looped = graphs()
    for graph in looped:
        others = graph.edge_index[:, graph.edge_index[0] != graph.edge_index[1]]
        graph.edge_index = torch.cat((others, torch.arange(len(graph.x)).expand(2, -1)), dim=1)
    net, inputs = GraphNet().eval(), EdgeInputs.of(looped)
    signals = inputs.take(torch.arange(4))
    gates = torch.rand(signals.values.shape, generator=torch.Generator().manual_seed(1)) * signals.present
    together = inputs.adapt(net)(gates, *signals.structure)
    for row in range(4):
        alone = inputs.adapt(net)(gates[row : row + 1], *(part[row : row + 1] for part in signals.structure))
        torch.testing.assert_close(together[row], alone[0], rtol=1e-5, atol=1e-6)


def test_gates_of_edges_are_pygs_edge_masks() -> None:
    from torch_geometric.explain import DummyExplainer

    net, inputs = GraphNet().eval(), EdgeInputs.of(graphs())
    signals = inputs.take(torch.arange(4))
    gates = torch.rand(signals.values.shape, generator=torch.Generator().manual_seed(1)) * signals.present
    found = inputs.adapt(net)(gates, *signals.structure)
    for row, graph in enumerate(graphs()):
        batch = torch.zeros(len(graph.x), dtype=torch.long)
        theirs = explainer(net, DummyExplainer()).get_masked_prediction(
            graph.x, graph.edge_index, edge_mask=gates[row, : graph.num_edges], batch=batch
        )
        torch.testing.assert_close(found[row], theirs[0], rtol=1e-6, atol=1e-6)


def test_gates_of_nodes_multiply_features() -> None:
    net, listed = GraphNet().eval(), graphs()
    inputs = NodeInputs.of(listed)
    signals = inputs.take(torch.arange(4))
    gates = torch.rand(signals.values.shape, generator=torch.Generator().manual_seed(1))
    for row, graph in enumerate(listed):
        graph.x = graph.x * gates[row, : len(graph.x), None]
    expected = GraphInputs.of(listed).take(torch.arange(4)).through(GraphInputs.of(listed).adapt(net))
    torch.testing.assert_close(inputs.adapt(net)(gates * signals.present, *signals.structure), expected)


def test_a_gate_by_hand() -> None:
    from torch_geometric.data import Data
    from torch_geometric.nn import SimpleConv

    class Sums(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = SimpleConv(aggr="sum")

        def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
            return torch.zeros(1, 1).index_add(0, batch, self.conv(x, edge_index))

    inputs = EdgeInputs.of([Data(x=torch.tensor([[2.0], [5.0]]), edge_index=torch.tensor([[0, 1], [1, 0]]))])
    structure = inputs.take(torch.tensor([0])).structure
    assert inputs.adapt(Sums())(torch.tensor([[0.5, 1.0]]), *structure).tolist() == [[0.5 * 2 + 5]]


def test_no_hook_stays_behind() -> None:
    net, inputs = GraphNet().eval(), EdgeInputs.of(graphs())
    inputs.take(torch.arange(4)).through(inputs.adapt(net))
    assert not net.first._message_forward_hooks
    assert net.first.explain is None


@pytest.mark.parametrize("made", [Weighed, Whole])
@pytest.mark.parametrize("kind", [GraphInputs, EdgeInputs, NodeInputs])
def test_fields_reach_the_model(made: type[nn.Module], kind: type[GraphInputs] | type[EdgeInputs] | type[NodeInputs]) -> None:
    listed, net = graphs(edge_attr=1, pos=3), made().eval()
    inputs = kind.of(listed)
    found = inputs.take(torch.tensor([2, 0])).through(inputs.adapt(net))
    alone = [
        Weighed.forward(net, one.x, one.edge_index, one.edge_attr, torch.zeros(len(one.x), dtype=torch.long), one.pos)  # type: ignore[arg-type]
        for one in (listed[2], listed[0])
    ]
    torch.testing.assert_close(found, torch.cat(alone))


def test_fields_count_in_the_hash_and_move_with_their_nodes() -> None:
    inputs, net = GraphInputs.of(graphs(edge_attr=1, pos=3)), Weighed().eval()
    assert inputs.fingerprint() != GraphInputs.of(graphs(seed=0)).fingerprint()
    assert EdgeInputs(inputs).fingerprint() != NodeInputs(inputs).fingerprint()
    group = NodePermutations().fit(inputs.shape)
    signals = inputs.take(torch.arange(4))
    moved = group.move(group.decode(torch.rand(4, 6, generator=torch.Generator().manual_seed(0))), signals)
    assert not torch.equal(moved.structure[0], signals.structure[0])
    torch.testing.assert_close(moved.through(inputs.adapt(net)), signals.through(inputs.adapt(net)))


def test_fields_that_do_not_fit() -> None:
    listed = graphs(edge_attr=1, pos=3)
    del listed[1].edge_attr
    with pytest.raises(InputError, match="Graph 1 has no edge_attr, but others do"):
        GraphInputs.of(listed)
    listed = graphs(pos=3)
    listed[2].pos = torch.ones(4, 3)
    with pytest.raises(InputError, match=r"Graph 2 needs pos of type torch.float32 and shape \(5, 3\), one row per node"):
        GraphInputs.of(listed)
    listed[2].pos = torch.full((5, 3), torch.inf)
    with pytest.raises(InputError, match="NaN or infinity"):
        GraphInputs.of(listed)
    with pytest.raises(InputError, match="The model takes edge_attr, which the graphs do not have"):
        GraphInputs.of(graphs(pos=3)).adapt(Weighed())
    good = GraphInputs.of(graphs())
    with pytest.raises(InputError, match="Graphs carry pos"):
        GraphInputs(good.values, good.mask, good.edges, {"colour": good.values})
    adapted = EdgeInputs(good).adapt(GraphNet())
    with pytest.raises(InputError, match="adapted to graphs with 2 parts, but these graphs have 3"):
        EdgeInputs.of(graphs(edge_attr=1)).take(torch.arange(2)).through(adapted)


def test_networks_without_gates() -> None:
    class Plain(nn.Module):
        def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
            return x[:2, :2]

    class Pruned(GraphNet):
        def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
            return super().forward(x, edge_index[:, ::3], batch)

    with pytest.raises(InputError, match="message passing layers of PyG, and the model has none"):
        EdgeInputs.of(graphs()).adapt(Plain())
    inputs = EdgeInputs.of(graphs())
    with pytest.raises(InputError, match=r"passes \d+ messages along 8 edges, so messages do not belong to edges"):
        inputs.take(torch.tensor([0])).through(inputs.adapt(Pruned()))
    assert isinstance(inputs.adapt(inputs.adapt(GraphNet())), OnEdges)
