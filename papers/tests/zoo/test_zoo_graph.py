from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from veracity.core.errors import SpecError
from veracity.core.graphs import GraphInputs, OnGraphs
from veracity.core.inputs import Signals
from veracity.core.models import LayerScores
from veracity.trainers.training import initialised
from veracity_papers.zoo import symmetry
from veracity_papers.zoo.symmetry import GNN, GraphNet

pytest.importorskip("torch_geometric")


class Molecule:
    """Node features and edges, as PyG's Data has them."""

    def __init__(self, nodes: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.x = nn.functional.one_hot(torch.randint(0, 14, (nodes,), generator=generator), 14).float()
        ends = torch.randint(0, nodes, (2, 2 * nodes), generator=generator)
        self.edge_index = torch.cat((ends, ends.flip(0)), dim=1)


MOLECULES = [Molecule(nodes, seed) for seed, nodes in enumerate((5, 12, 9))]


def nets() -> dict[str, GraphNet]:
    return {"random": initialised(GraphNet, seed=0).eval(), "trained": GNN.pretrained()}


def permuted(signals: Signals, order: Tensor) -> Signals:
    """The same graphs with their slots in another order: slot i becomes slot order[i]."""
    mask, edges = signals.structure
    back = order.argsort()
    return Signals(signals.values[:, back], (mask[:, back], torch.where(edges >= 0, order[edges.clamp(min=0)], edges)))


@pytest.mark.parametrize("name", ["random", "trained"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_the_order_of_nodes_does_not_matter(name: str, dtype: torch.dtype, tolerance: float) -> None:
    net = OnGraphs(nets()[name].to(dtype))
    signals = GraphInputs.of(MOLECULES).take(torch.arange(3))
    signals = Signals(signals.values.to(dtype), signals.structure)
    output = signals.through(net).detach()
    for seed in range(10):
        order = torch.randperm(12, generator=torch.Generator().manual_seed(seed))
        again = permuted(signals, order).through(net).detach()
        assert float(((again - output) / output.abs().amax(dim=1, keepdim=True)).abs().max()) < tolerance
    assert output.std(dim=0).max() > 1e-3


def test_a_batch_of_sizes_gives_what_each_graph_gives() -> None:
    net = nets()["trained"]
    together = GraphInputs.of(MOLECULES).take(torch.arange(3)).through(OnGraphs(net))
    alone = [net(one.x, one.edge_index, torch.zeros(len(one.x), dtype=torch.int64)) for one in MOLECULES]
    assert torch.allclose(together, torch.cat(alone), rtol=1e-5, atol=1e-5)


def test_the_convolution_against_sums_over_neighbours() -> None:
    net, molecule = nets()["random"], MOLECULES[1]
    conv = net.get_submodule("conv1")
    given = conv(molecule.x, molecule.edge_index)
    own, others = conv.lin_root, conv.lin_rel
    for node in range(12):
        total = sum((molecule.x[a] for a, b in molecule.edge_index.T.tolist() if b == node), torch.zeros(14))
        expected = others(total) + (molecule.x[node] @ own.weight.T)
        assert torch.allclose(given[node], expected, atol=1e-5)


def test_the_network_has_the_papers_layers() -> None:
    net = nets()["trained"]
    assert not net.training
    assert sum(p.numel() for p in net.parameters()) == (2 * 14 * 32 + 32) + 4 * (2 * 32 * 32 + 32) + (32 * 32 + 32) + (2 * 32 + 2)
    signals = GraphInputs.of(MOLECULES).take(torch.arange(3))
    assert signals.through(LayerScores(OnGraphs(net), GNN.invariant)).shape == (3, 32)
    assert len({id(layer) for layer in net.modules() if isinstance(layer, nn.ReLU)}) == 6


def test_without_pyg_one_sentence_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symmetry, "find_spec", lambda name: None)
    with pytest.raises(SpecError, match=r"needs torch_geometric, which is not installed: pip install 'veracity\[graphs\]'"):
        GraphNet()
