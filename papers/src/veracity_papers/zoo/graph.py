"""The Mutagenicity network of the symmetry paper (Table 7), exactly invariant to the order of nodes, with trained weights.

It gives logits where the paper gives their log-softmax: the same probabilities and the same loss. The Inv layer is
"linear1"; an equivariant layer of fixed size does not exist, since molecules differ in size (Table 12). On the 433 test
molecules the shipped weights scored .8291.
"""

from __future__ import annotations

from importlib.util import find_spec
from itertools import pairwise

from torch import Tensor, nn

from veracity.core.errors import missing_extra
from veracity.core.training import Checkpoint
from veracity_papers.zoo.storage import checkpoints as shipped
from veracity_papers.zoo.storage import loaded

INVARIANT = "linear1"
NAME = "mutagenicity-gnn"


class GraphNet(nn.Module):
    """Graph convolutions (Morris et al. 2019) with ReLU, the sum over nodes, and two dense layers: model(x, edge_index, batch)."""

    def __init__(self, features: int = 14, width: int = 32, depth: int = 5, classes: int = 2) -> None:
        super().__init__()
        if find_spec("torch_geometric") is None:
            raise missing_extra("torch_geometric", "graphs")
        from torch_geometric.nn import GraphConv, SumAggregation

        self.depth = depth
        for number, (before, after) in enumerate(pairwise((features, *[width] * depth)), start=1):
            self.add_module(f"conv{number}", GraphConv(before, after))
            self.add_module(f"relu{number}", nn.ReLU())
        self.pool = SumAggregation()
        self.linear1, self.relu, self.dropout = nn.Linear(width, width), nn.ReLU(), nn.Dropout(0.5)
        self.linear2 = nn.Linear(width, classes)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        """Logits (graphs, classes) from node features (n, F), edges (2, e) and the graph of each node (n,)."""
        for number in range(1, self.depth + 1):
            x = self.get_submodule(f"relu{number}")(self.get_submodule(f"conv{number}")(x, edge_index))
        logits: Tensor = self.linear2(self.dropout(self.relu(self.linear1(self.pool(x, batch)))))
        return logits


def pretrained() -> GraphNet:
    """The network with the weights that `python -m veracity_papers.zoo.train mutagenicity` made."""
    return loaded(GraphNet(), NAME)


def checkpoints() -> tuple[Checkpoint, ...]:
    """The checkpoints of its training."""
    return shipped(NAME)
