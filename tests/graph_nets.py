"""Small graphs and PyG networks for tests."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

CONFIG = {"mode": "multiclass_classification", "task_level": "graph", "return_type": "raw"}


def graphs(sizes: tuple[int, ...] = (4, 6, 5, 3), seed: int = 0, **fields: int) -> list[Any]:
    """Random graphs with three features per node, twice as many edges as nodes (some of them loops), and further fields of these widths."""
    from torch_geometric.data import Data

    generator = torch.Generator().manual_seed(seed)
    made = []
    for size in sizes:
        rows = {name: size if name == "pos" else 2 * size for name in fields}
        more = {name: torch.rand(rows[name], width, generator=generator) for name, width in fields.items()}
        edges = torch.randint(0, size, (2, 2 * size), generator=generator)
        made.append(Data(x=torch.randn(size, 3, generator=generator), edge_index=edges, **more))
    return made


class GraphNet(nn.Module):
    """A GCN layer, which adds self-loops, a layer that does not, and the sum over nodes."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        from torch_geometric.nn import GCNConv, GraphConv

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.first, self.second, self.head = GCNConv(3, 8), GraphConv(8, 8), nn.Linear(8, 2)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        """Logits (graphs, 2)."""
        hidden = self.second(self.first(x, edge_index).relu(), edge_index).relu()
        pooled = hidden.new_zeros(int(batch.max()) + 1, 8).index_add(0, batch, hidden)
        logits: Tensor = self.head(pooled)
        return logits


class Weighed(GraphNet):
    """The same, with weights of edges and positions of nodes."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor, batch: Tensor, pos: Tensor | None = None) -> Tensor:  # type: ignore[override]
        """Logits (graphs, 2)."""
        assert pos is not None
        hidden = self.second(self.first(x + pos, edge_index, edge_attr[:, 0]).relu(), edge_index).relu()
        pooled = hidden.new_zeros(int(batch.max()) + 1, 8).index_add(0, batch, hidden)
        logits: Tensor = self.head(pooled)
        return logits


class Whole(Weighed):
    """The same, from a Data."""

    def forward(self, data: Any) -> Tensor:  # type: ignore[override]
        """Logits (graphs, 2)."""
        return super().forward(data.x, data.edge_index, data.edge_attr, data.batch, data.pos)


def explainer(model: nn.Module, algorithm: Any, **masks: Any) -> Any:
    """A PyG `Explainer` of edges, unless `masks` say otherwise."""
    from torch_geometric.explain import Explainer

    return Explainer(model, algorithm, explanation_type="phenomenon", model_config=CONFIG, **(masks or {"edge_mask_type": "object"}))
