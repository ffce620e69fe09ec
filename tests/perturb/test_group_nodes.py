"""Node permutations: the adjacency matrix as the oracle, the axioms for structure too, and what a graph network sees."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from veracity.core.errors import InputError
from veracity.core.graphs import GraphInputs, OnGraphs
from veracity.core.inputs import Signals
from veracity.core.randomness import Draws
from veracity.perturb import NodePermutations, Permutations
from veracity.testing import GroupConformance

SLOTS = 6


def graphs(count=8, slots=SLOTS, features=3):
    """Random graphs of 2 to 6 nodes, padded, some with edges left empty."""
    generator = torch.Generator().manual_seed(3)
    sizes = torch.randint(2, slots + 1, (count,), generator=generator)
    mask = torch.arange(slots) < sizes[:, None]
    values = torch.randn(count, slots, features, generator=generator) * mask[:, :, None]
    edges = (torch.rand(count, 9, 2, generator=generator) * sizes[:, None, None]).long()
    edges[torch.rand(count, 9, generator=generator) < 0.3] = -1
    edges[:, 0] = torch.tensor([0, 1])
    return Signals(values, (mask, edges))


def drawn(space, count, stream="test"):
    return space.decode(Draws.of(0, torch.arange(count)).normal(space.latents, stream=stream))


def adjacency(edges, slots):
    """How many edges go from u to v, counted one by one."""
    table = torch.zeros(len(edges), slots, slots)
    for number, graph in enumerate(edges.tolist()):
        for source, target in graph:
            if source >= 0:
                table[number, source, target] += 1
    return table


def same(one, other):
    return torch.equal(one.values, other.values) and all(torch.equal(a, b) for a, b in zip(one.structure, other.structure, strict=True))


class TestNodePermutations(GroupConformance):
    def space(self):
        return NodePermutations()

    def inputs(self):
        return torch.arange(8 * 15.0).reshape(8, 5, 3)


def test_a_path_by_hand():
    """Slots (a, b, c) with a -> b -> c become (c, a, b): a is now 1, b is 2, c is 0."""
    space = NodePermutations().fit(torch.Size([3, 1]))
    path = Signals(
        torch.tensor([[[10.0], [20.0], [30.0]]]), (torch.tensor([[True, True, True]]), torch.tensor([[[0, 1], [1, 2], [-1, -1]]]))
    )
    moved = space.move(torch.tensor([[2, 0, 1]]), path)
    assert moved.values.flatten().tolist() == [30.0, 10.0, 20.0]
    assert moved.structure[1].tolist() == [[[1, 2], [2, 0], [-1, -1]]]


def test_against_the_adjacency_matrix():
    """Table 4, word for word: x(u) becomes x(g^-1(u)) and a(u, v) becomes a(g^-1(u), g^-1(v))."""
    signals = graphs()
    space = NodePermutations().fit(signals.values.shape[1:])
    g = drawn(space, len(signals))
    moved = space.move(g, signals)
    before, after = adjacency(signals.structure[1], SLOTS), adjacency(moved.structure[1], SLOTS)
    for n in range(len(signals)):
        for u in range(SLOTS):
            assert torch.equal(moved.values[n, u], signals.values[n, g[n, u]])
            assert moved.structure[0][n, u] == signals.structure[0][n, g[n, u]]
            for v in range(SLOTS):
                assert after[n, u, v] == before[n, g[n, u], g[n, v]]
    assert torch.equal(moved.structure[1] < 0, signals.structure[1] < 0)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_axioms_hold_for_the_structure(number):
    signals = graphs(4)
    space = NodePermutations().fit(signals.values.shape[1:])
    g, h = drawn(space, 4, f"g {number}"), drawn(space, 4, f"h {number}")
    assert same(space.move(space.compose(g, h), signals), space.move(g, space.move(h, signals)))
    assert same(space.move(space.inverse(g), space.move(g, signals)), signals)
    assert same(space.move(space.identity(4), signals), signals)


def test_nodes_come_in_every_order():
    """With empty slots between them too: a graph of 3 nodes in 6 slots, 3,000 draws, each of 3! orders about equally often."""
    space = NodePermutations().fit(torch.Size([SLOTS, 1]))
    g = drawn(space, 3000)
    mask = (torch.arange(SLOTS) < 3).expand(3000, SLOTS)
    moved, _ = space.carry(g, (mask, torch.full((3000, 1, 2), -1)))
    orders = torch.arange(SLOTS).gather(0, g.flatten()).reshape(g.shape)[moved].reshape(3000, 3)
    _, counts = torch.unique(orders, dim=0, return_counts=True)
    assert len(counts) == 6
    assert float((counts - 500).square().sum() / 500) < 25


@pytest.mark.parametrize("pooling", ["global_add_pool", "global_mean_pool", "global_max_pool"])
def test_a_graph_network_sees_the_same_graph(pooling):
    """Outputs stay and gradients move along; without renaming the edges they do not."""
    pyg = pytest.importorskip("torch_geometric.nn")
    from torch_geometric.data import Data

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two, self.linear = pyg.GraphConv(3, 8), pyg.GraphConv(8, 8), torch.nn.Linear(8, 2)

        def forward(self, x, edge_index, batch):
            hidden = self.two(self.one(x, edge_index).relu(), edge_index).relu()
            return self.linear(getattr(pyg, pooling)(hidden, batch))

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = OnGraphs(Net().double().eval())
    raw = graphs()
    listed = [
        Data(x=x[m].double(), edge_index=e[e[:, 0] >= 0].T) for x, m, e in zip(raw.values, raw.structure[0], raw.structure[1], strict=True)
    ]
    signals = GraphInputs.of(listed).take(torch.arange(len(listed)))
    space = NodePermutations().fit(signals.values.shape[1:])
    g = drawn(space, len(signals))
    moved = space.move(g, signals)
    torch.testing.assert_close(moved.through(model), signals.through(model), rtol=0, atol=1e-12)

    def gradient(these):
        values = these.values.clone().requires_grad_()
        return torch.autograd.grad(model(values, *these.structure)[:, 0].sum(), values)[0]

    torch.testing.assert_close(gradient(moved), space.act(g, gradient(signals)), rtol=0, atol=1e-12)
    loose = Permutations(axis=-2).fit(signals.values.shape[1:]).move(g, signals)
    assert float((loose.through(model) - signals.through(model)).detach().abs().max()) > 1e-3


def test_a_structure_that_is_no_graph_is_refused():
    space = NodePermutations().fit(torch.Size([3, 1]))
    g = space.identity(2)
    assert space.carry(g, ()) == ()
    for structure in ((torch.ones(2, 3),), (torch.ones(2, 4), torch.zeros(2, 1, 2)), (torch.ones(2, 3), torch.zeros(2, 2, 1))):
        with pytest.raises(InputError, match=r"with a mask of shape \(2, 3\) and edges of shape \(2, edges, 2\), .*GraphInputs\.$"):
            space.carry(g, structure)
