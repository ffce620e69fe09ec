"""Graphs of different sizes in one batch: padded node features, a mask of the slots that are nodes, and edges between slots.

Every graph has as many slots as the largest graph of the data set has nodes. Permuting the slots of features, mask and edges
together permutes the nodes.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Size, Tensor, nn

from veracity.core import fingerprint
from veracity.core.errors import InputError, missing_extra
from veracity.core.inputs import Signals, check_finite
from veracity.core.models import View

DROPPED_FIELDS = ("edge_attr", "edge_weight", "pos")
"""Fields of PyG's graphs that are not passed on to models."""


@dataclass(frozen=True)
class GraphInputs:
    """Padded graphs: node features (N, V, F), a mask of the slots that are nodes (N, V), and edges (N, E, 2), padded with -1.

    `unseen` names further fields of the graphs, which are not passed on to models.
    """

    values: Tensor
    mask: Tensor
    edges: Tensor
    unseen: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        shapes = (self.values.ndim, self.mask.shape, self.edges.ndim)
        if shapes != (3, self.values.shape[:2], 3) or self.edges.shape[::2] != (len(self.values), 2) or not len(self.values):
            found = ", ".join(str(tuple(part.shape)) for part in (self.values, self.mask, self.edges))
            raise InputError(f"Graphs need values (N, V, F), a mask (N, V) and edges (N, E, 2) with N of at least 1, not {found}.")
        if self.mask.dtype is not torch.bool or self.edges.dtype is not torch.int64 or not self.values.is_floating_point():
            found = ", ".join(str(part.dtype) for part in (self.values, self.mask, self.edges))
            raise InputError(f"Graphs need floating point values, a Boolean mask and int64 edges, not {found}.")
        check_finite(self.values)
        real = (self.edges >= 0).all(dim=2)
        at = self.mask.gather(1, self.edges.clamp(0, self.mask.shape[1] - 1).flatten(1)).reshape(self.edges.shape).all(dim=2)
        wrong = (real & ~at) | (self.edges >= self.mask.shape[1]).any(dim=2) | (~real & (self.edges != -1).any(dim=2))
        if wrong.any():
            number = int(wrong.any(dim=1).nonzero()[0])
            raise InputError(f"Graph {number} has an edge to a slot without a node. Pad edges with (-1, -1).")

    @classmethod
    def of(cls, graphs: Any) -> GraphInputs:
        """From a PyG `Batch` or a list of `Data`, each with node features `x` and an `edge_index`."""
        listed: Sequence[Any] = graphs.to_data_list() if hasattr(graphs, "to_data_list") else list(graphs)
        if not listed:
            raise InputError("There are no graphs: pass a list with at least one Data.")
        for number, graph in enumerate(listed):
            check_graph(number, graph, listed[0])
        most_nodes = max(len(graph.x) for graph in listed)
        most_edges = max(graph.edge_index.shape[1] for graph in listed)
        values = torch.zeros(len(listed), most_nodes, listed[0].x.shape[1], dtype=listed[0].x.dtype)
        mask = torch.zeros(len(listed), most_nodes, dtype=torch.bool)
        edges = torch.full((len(listed), most_edges, 2), -1)
        for number, graph in enumerate(listed):
            values[number, : len(graph.x)], mask[number, : len(graph.x)] = graph.x.detach().cpu(), True
            edges[number, : graph.edge_index.shape[1]] = graph.edge_index.T.cpu()
        unseen = tuple(name for name in DROPPED_FIELDS if any(getattr(graph, name, None) is not None for graph in listed))
        return cls(values, mask, edges, unseen)

    @property
    def shape(self) -> Size:
        """(V, F): slots and features."""
        return self.values.shape[1:]

    def size(self) -> int:
        """The number of graphs."""
        return len(self.values)

    def take(self, index: Tensor) -> Signals:
        """Graphs by index, padded to the slots of the whole data set."""
        rows = index.to(self.values.device)
        return Signals(self.values[rows], (self.mask[rows], self.edges[rows]))

    def fingerprint(self) -> str:
        """A hash of the content."""
        return fingerprint.of_json(["graphs", *(fingerprint.of_tensor(part) for part in (self.values, self.mask, self.edges))])

    def adapt(self, model: nn.Module) -> nn.Module:
        """A PyG network as a module that takes padded graphs."""
        if takes_padded(model):
            return model
        packed = OnGraphs(model)
        if packed.takes_data and self.unseen:
            raise InputError(
                f"A model that takes a Data may read its {' and '.join(self.unseen)}, which is not passed on: delete it from the graphs if "
                "the model does not use it, or let the model take (x, edge_index, batch)."
            )
        return packed


class OnGraphs(View):
    """Calls a PyG network on padded graphs, as model(x, edge_index, batch), or as model(data) if it takes one argument."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        needed = [part for part in inspect.signature(model.forward).parameters.values() if part.default is part.empty]
        self.takes_data = len([part for part in needed if part.kind is not part.VAR_KEYWORD]) == 1 and not isinstance(model, nn.Sequential)

    def forward(self, values: Tensor, mask: Tensor, edges: Tensor) -> Tensor:
        """Outputs (N, ...) for N padded graphs."""
        x, edge_index, batch = pack_graphs(values, mask, edges)
        output: Tensor = self.model(as_batch(x, edge_index, batch)) if self.takes_data else self.model(x, edge_index, batch)
        return output


def takes_padded(model: nn.Module) -> bool:
    """Whether a model, or a model inside its views, already takes padded graphs."""
    while isinstance(model, View) and not isinstance(model, OnGraphs):
        model = model.model
    return isinstance(model, OnGraphs)


def pack_graphs(values: Tensor, mask: Tensor, edges: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Padded graphs in PyG's format: node features (n, F), edge_index (2, e), and the graph of each node (n,).

    >>> values = torch.tensor([[[1.0], [0.0]], [[2.0], [3.0]]])
    >>> mask = torch.tensor([[True, False], [True, True]])
    >>> pack_graphs(values, mask, torch.tensor([[[0, 0]], [[1, 0]]]))
    (tensor([[1.],
            [2.],
            [3.]]), tensor([[0, 2],
            [0, 1]]), tensor([0, 1, 1]))
    """
    count, slots = mask.shape
    graph = torch.arange(count, device=mask.device)
    number = mask.flatten().cumsum(0) - 1
    flat = (edges + slots * graph[:, None, None])[edges[..., 0] >= 0]
    return values[mask], number[flat].T, graph[:, None].expand_as(mask)[mask]


def as_batch(x: Tensor, edge_index: Tensor, batch: Tensor) -> Any:
    """Packed graphs as a PyG `Batch`."""
    try:
        from torch_geometric.data import Batch
    except ImportError as error:
        raise missing_extra("torch_geometric", "graphs") from error
    sizes = torch.bincount(batch)
    return Batch(x=x, edge_index=edge_index, batch=batch, ptr=torch.cat((sizes.new_zeros(1), sizes.cumsum(0))))


def check_graph(number: int, graph: Any, first: Any) -> None:
    """Raise unless a graph has valid edges and as many features as the first one."""
    x, edges = getattr(graph, "x", None), getattr(graph, "edge_index", None)
    if not isinstance(x, Tensor) or x.ndim != 2 or len(x) == 0 or not x.is_floating_point():
        raise InputError(f"Graph {number} needs node features x of shape (nodes, features) in floating point.")
    if x.shape[1] != first.x.shape[1]:
        raise InputError(
            f"Graph {number} has {x.shape[1]} features per node, but the first has {first.x.shape[1]}: all graphs need the same number."
        )
    if not isinstance(edges, Tensor) or edges.ndim != 2 or edges.shape[0] != 2 or edges.shape[1] == 0:
        raise InputError(
            f"Graph {number} has {len(x)} nodes and no edges. A graph needs an edge_index of shape (2, edges): leave the graph out, "
            "or give its nodes self-loops."
        )
    if int(edges.min()) < 0 or int(edges.max()) >= len(x):
        raise InputError(f"Graph {number} has an edge to node {int(edges.max())}, but only {len(x)} nodes.")
