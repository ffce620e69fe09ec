from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from veracity.core.errors import InputError
from veracity.core.graphs import GraphInputs, OnGraphs, pack_graphs
from veracity.core.models import LayerScores, layer_of


@dataclass
class Graph:
    x: Tensor
    edge_index: Tensor | None


def graphs(sizes: tuple[int, ...] = (3, 5, 2)) -> list[Graph]:
    generator = torch.Generator().manual_seed(0)
    return [Graph(torch.randn(size, 4, generator=generator), torch.randint(0, size, (2, 2 * size), generator=generator)) for size in sizes]


class Passing(nn.Module):
    """Sums of neighbours, then sums over graphs: a graph network by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 2)
        with torch.no_grad():
            for number, weight in enumerate(self.parameters()):
                weight.copy_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(number)))

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        hidden = torch.relu(self.first(x + torch.zeros_like(x).index_add(0, edge_index[1], x[edge_index[0]])))
        pooled = hidden.new_zeros(int(batch.max()) + 1, 6).index_add(0, batch, hidden)
        scores: Tensor = self.last(pooled)
        return scores


def one_by_one(net: nn.Module, listed: list[Graph]) -> Tensor:
    return torch.cat([net(graph.x, graph.edge_index, torch.zeros(len(graph.x), dtype=torch.long)) for graph in listed])


def test_a_batch_of_different_sizes_gives_what_each_graph_gives_alone() -> None:
    net, listed = Passing(), graphs()
    inputs = GraphInputs.of(listed)
    assert (inputs.size(), tuple(inputs.shape), tuple(inputs.edges.shape)) == (3, (5, 4), (3, 10, 2))
    found = inputs.take(torch.arange(3)).through(inputs.adapt(net))
    torch.testing.assert_close(found, one_by_one(net, listed))
    some = inputs.take(torch.tensor([2, 0])).through(inputs.adapt(net))
    torch.testing.assert_close(some, one_by_one(net, [listed[2], listed[0]]))


def test_nodes_may_sit_in_any_slot() -> None:
    net, listed = Passing(), graphs()
    values, mask, edges = (part for part in (GraphInputs.of(listed).values, GraphInputs.of(listed).mask, GraphInputs.of(listed).edges))
    order = torch.tensor([4, 2, 0, 3, 1])
    moved = torch.where(edges >= 0, order.argsort()[edges.clamp(min=0)], edges)
    torch.testing.assert_close(OnGraphs(net)(values[:, order], mask[:, order], moved), one_by_one(net, listed))


def test_packing_by_hand() -> None:
    values = torch.tensor([[[0.0], [5.0]], [[6.0], [7.0]]])
    mask = torch.tensor([[False, True], [True, True]])
    edges = torch.tensor([[[1, 1], [-1, -1]], [[0, 1], [1, 0]]])
    x, edge_index, batch = pack_graphs(values, mask, edges)
    assert x.tolist() == [[5.0], [6.0], [7.0]]
    assert edge_index.tolist() == [[0, 1, 2], [0, 2, 1]]
    assert batch.tolist() == [0, 1, 1]


def test_layers_keep_their_names_and_a_layer_of_nodes_belongs_to_no_graph() -> None:
    net, listed = Passing(), graphs()
    inputs = GraphInputs.of(listed)
    model, signals = inputs.adapt(net), inputs.take(torch.arange(3))
    assert layer_of(model, "last") is net.last
    assert signals.through(LayerScores(model, "last")).shape == (3, 2)
    with pytest.raises(InputError, match="returns 10 rows for 3 inputs"):
        signals.through(LayerScores(model, "first"))
    with pytest.raises(InputError, match="Did you mean 'last'"):
        LayerScores(model, "lats")


def test_a_network_that_takes_data_gets_data() -> None:
    pytest.importorskip("torch_geometric")

    class OfData(Passing):
        def forward(self, data: Any) -> Tensor:  # type: ignore[override]
            return super().forward(data.x, data.edge_index, data.batch)

    listed = graphs()
    inputs = GraphInputs.of(listed)
    net = OfData()
    found = inputs.take(torch.arange(3)).through(inputs.adapt(net))
    torch.testing.assert_close(found, one_by_one(Passing(), listed))


def test_pygs_own_batch_is_taken() -> None:
    data = pytest.importorskip("torch_geometric.data")
    listed = graphs()
    batch = data.Batch.from_data_list([data.Data(x=graph.x, edge_index=graph.edge_index) for graph in listed])
    assert GraphInputs.of(batch).fingerprint() == GraphInputs.of(listed).fingerprint()


def test_the_hash_follows_the_edges() -> None:
    changed = graphs()
    assert changed[0].edge_index is not None
    changed[0].edge_index = changed[0].edge_index.flip(0)
    assert GraphInputs.of(changed).fingerprint() != GraphInputs.of(graphs()).fingerprint()


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (Graph(torch.ones(3, 4), torch.zeros(2, 0, dtype=torch.long)), "Graph 1 has 3 nodes and no edges"),
        (Graph(torch.ones(3, 4), None), "Graph 1 has 3 nodes and no edges"),
        (Graph(torch.ones(3, 5), torch.zeros(2, 1, dtype=torch.long)), "5 features per node, but the first has 4"),
        (Graph(torch.ones(3, 4), torch.tensor([[0], [7]])), "edge to node 7, but only 3 nodes"),
        (Graph(torch.ones(3), torch.zeros(2, 1, dtype=torch.long)), "needs node features"),
        (Graph(torch.full((3, 4), torch.nan), torch.zeros(2, 1, dtype=torch.long)), "NaN or infinity"),
    ],
)
def test_graphs_that_are_none(graph: Graph, message: str) -> None:
    with pytest.raises(InputError, match=message):
        GraphInputs.of([graphs()[0], graph])


def test_graphs_in_tensors_are_looked_at() -> None:
    good = GraphInputs.of(graphs())
    loose = good.edges.clone()
    loose[2, 0] = torch.tensor([0, 4])
    with pytest.raises(InputError, match="Graph 2 has an edge to a slot without a node"):
        GraphInputs(good.values, good.mask, loose)
    with pytest.raises(InputError, match="a Boolean mask"):
        GraphInputs(good.values, good.mask.float(), good.edges)
    with pytest.raises(InputError, match=r"edges \(N, E, 2\)"):
        GraphInputs(good.values, good.mask, good.edges[..., 0])
