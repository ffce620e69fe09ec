"""Small graph classifiers from PyG's layers, which recipes train on the spot."""

from __future__ import annotations

from importlib.util import find_spec
from itertools import pairwise
from typing import Any

from torch import Tensor, nn

from veracity.core.errors import missing_extra


class GraphClassifier(nn.Module):
    """Graph layers with ReLU, the sum over nodes, and two dense layers: model(x, edge_index, batch)."""

    def __init__(self, layers: list[Any], width: int, classes: int = 2) -> None:
        super().__init__()
        from torch_geometric.nn import SumAggregation

        self.layers, self.pool = nn.ModuleList(layers), SumAggregation()
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Dropout(0.3), nn.Linear(width, classes))

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        """Logits (graphs, classes)."""
        for layer in self.layers:
            x = layer(x, edge_index).relu()
        logits: Tensor = self.head(self.pool(x, batch))
        return logits


def gcn(features: int, width: int = 32, depth: int = 3) -> GraphClassifier:
    """Graph convolutions of Kipf and Welling (2017), with self-loops and normalised messages."""
    check_installed()
    from torch_geometric.nn import GCNConv

    return GraphClassifier([GCNConv(before, after) for before, after in pairwise((features, *[width] * depth))], width)


def gin(features: int, width: int = 32, depth: int = 3) -> GraphClassifier:
    """Graph isomorphism layers of Xu et al. (2019): a network of two dense layers on the sum of a node and its neighbours."""
    check_installed()
    from torch_geometric.nn import GINConv

    def dense(before: int) -> nn.Sequential:
        return nn.Sequential(nn.Linear(before, width), nn.ReLU(), nn.Linear(width, width))

    return GraphClassifier([GINConv(dense(before)) for before in (features, *[width] * (depth - 1))], width)


def check_installed() -> None:
    """Raise if PyG is not installed."""
    if find_spec("torch_geometric") is None:
        raise missing_extra("torch_geometric", "graphs")
