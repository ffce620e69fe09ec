"""Graphs of different sizes in one batch: padded node features, a mask of the slots that are nodes, and edges between slots.

Every graph has as many slots as the largest graph of the data set has nodes. Permuting the slots of features, mask and edges
together permutes the nodes. What is explained are node features (`GraphInputs`), or gates: one per edge (`EdgeInputs`) or one per node
(`NodeInputs`). A gate g multiplies the messages along its edge, or the features of its node, so that 1 is the graph as it was, and with 0
the edge or node says nothing. An explanation over gates is an edge mask or a node mask.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import torch
from torch import Size, Tensor, nn

from veracity.core import fingerprint
from veracity.core.errors import InputError, missing_extra
from veracity.core.inputs import Signals, check_finite
from veracity.core.models import View

OF_NODES, OF_EDGES = ("pos",), ("edge_attr", "edge_weight")
"""Further fields of PyG's graphs, one row per node or per edge, that models get under these names."""


@dataclass(frozen=True)
class GraphInputs:
    """Padded graphs: node features (N, V, F), a mask of the slots that are nodes (N, V), and edges (N, E, 2), padded with -1.

    `carried` are further fields by name: pos (N, V, ...), edge_attr and edge_weight (N, E, ...), padded with 0. They are structure, as mask
    and edges are: those of nodes come before the mask, and those of edges after the edges.
    """

    values: Tensor
    mask: Tensor
    edges: Tensor
    carried: Mapping[str, Tensor] = field(default_factory=dict)

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
        for name, part in self.carried.items():
            rows = {**dict.fromkeys(OF_NODES, self.mask), **dict.fromkeys(OF_EDGES, self.edges)}.get(name)
            if rows is None or part.shape[:2] != rows.shape[:2]:
                raise InputError(
                    f"Graphs carry pos (N, V, ...), edge_attr and edge_weight (N, E, ...), not {name} of shape {tuple(part.shape)}."
                )

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
        names = [name for name in (*OF_NODES, *OF_EDGES) if any(isinstance(getattr(graph, name, None), Tensor) for graph in listed)]
        carried = {name: padded_field(name, listed, most_nodes if name in OF_NODES else most_edges) for name in names}
        return cls(values, mask, edges, carried)

    @property
    def shape(self) -> Size:
        """(V, F): slots and features."""
        return self.values.shape[1:]

    def size(self) -> int:
        """The number of graphs."""
        return len(self.values)

    def take(self, index: Tensor) -> Signals:
        """Graphs by index, padded to the slots of the whole data set."""
        return Signals(self.values[index.to(self.values.device)], self.structure(index))

    def structure(self, index: Tensor) -> tuple[Tensor, ...]:
        """Fields of nodes, mask, edges and fields of edges of some graphs."""
        rows = index.to(self.values.device)
        parts = (*(self.carried[name] for name in self.of_nodes), self.mask, self.edges, *(self.carried[name] for name in self.of_edges))
        return tuple(part[rows] for part in parts)

    @property
    def of_nodes(self) -> tuple[str, ...]:
        """The names of the carried fields with one row per node."""
        return tuple(name for name in OF_NODES if name in self.carried)

    @property
    def of_edges(self) -> tuple[str, ...]:
        """The names of the carried fields with one row per edge."""
        return tuple(name for name in OF_EDGES if name in self.carried)

    def fingerprint(self) -> str:
        """A hash of the content."""
        more = [[name, fingerprint.of_tensor(self.carried[name])] for name in (*self.of_nodes, *self.of_edges)]
        parts = (fingerprint.of_tensor(part) for part in (self.values, self.mask, self.edges))
        return fingerprint.of_json(["graphs", *parts, *more])

    def adapt(self, model: nn.Module) -> nn.Module:
        """A PyG network as a module that takes padded graphs."""
        return model if takes_padded(model) else OnGraphs(model, self.of_nodes, self.of_edges)


@dataclass(frozen=True)
class PackedGraphs:
    """Graphs in PyG's format: node features (n, F), edge_index (2, e), the graph of each node (n,), carried fields by name, and the gates
    of edges (e,), if there are any."""

    x: Tensor
    edge_index: Tensor
    batch: Tensor
    named: Mapping[str, Tensor] = field(default_factory=dict)
    gates: Tensor | None = None


class OnGraphs(View):
    """Calls a PyG network on padded graphs, as model(x, edge_index, batch), or as model(data) if it takes one argument.

    Carried fields, the names of which are `of_nodes` and `of_edges`, are passed under their names if the network has such arguments.
    `explained` is the mask of PyG's that has one number for each explained value.
    """

    explained: ClassVar[str] = "node_mask"

    def __init__(self, model: nn.Module, of_nodes: Sequence[str] = (), of_edges: Sequence[str] = ()) -> None:
        super().__init__(model)
        self.of_nodes, self.of_edges = tuple(of_nodes), tuple(of_edges)
        known = inspect.signature(model.forward).parameters
        needed = [part for part in known.values() if part.default is part.empty and part.kind is not part.VAR_KEYWORD]
        self.takes_data = len(needed) == 1 and not isinstance(model, nn.Sequential)
        self.takes = tuple(name for name in (*self.of_nodes, *self.of_edges) if name in known)
        self.takes_batch = "batch" in known
        missing = [part.name for part in needed if part.name in (*OF_NODES, *OF_EDGES) and part.name not in self.takes]
        if missing:
            raise InputError(f"The model takes {' and '.join(missing)}, which the graphs do not have: give every Data this field.")

    def forward(self, values: Tensor, *structure: Tensor) -> Tensor:
        """Outputs (N, ...) for N padded graphs."""
        return self.call(self.pack(values, *structure))

    def pack(self, values: Tensor, *structure: Tensor) -> PackedGraphs:
        """Padded graphs in PyG's format, from values and structure."""
        first = len(self.of_nodes)
        if len(structure) != first + 2 + len(self.of_edges):
            raise InputError(
                f"The model was adapted to graphs with {first + 2 + len(self.of_edges)} parts, but these graphs have {len(structure)}: "
                "give all graphs, those of the training set too, the same fields."
            )
        mask, edges = structure[first : first + 2]
        x, edge_index, batch = pack_graphs(values, mask, edges)
        there = edges[..., 0] >= 0
        nodes = {name: part[mask] for name, part in zip(self.of_nodes, structure, strict=False)}
        of_edges = {name: part[there] for name, part in zip(self.of_edges, structure[first + 2 :], strict=True)}
        return PackedGraphs(x, edge_index, batch, {**nodes, **of_edges})

    def spread(self, found: Tensor, values: Tensor, *structure: Tensor) -> Tensor:
        """A mask of PyG's over nodes, (n, F), (n, 1) or (1, F), as a map of the shape of the values."""
        mask = structure[len(self.of_nodes)]
        packed = found.to(values).expand(int(mask.sum()), values.shape[2])
        return torch.zeros_like(values).masked_scatter(mask[..., None], packed)

    def call(self, graphs: PackedGraphs) -> Tensor:
        """Outputs (N, ...) of the network."""
        x, edge_index, batch = graphs.x, graphs.edge_index, graphs.batch
        named = {name: graphs.named[name] for name in self.takes}
        if self.takes_data:
            output: Tensor = self.model(as_batch(x, edge_index, batch, graphs.named))
        elif self.takes_batch:
            output = self.model(x, edge_index, batch=batch, **named)
        else:
            output = self.model(x, edge_index, batch, **named)
        return output


@dataclass(frozen=True)
class GraphGates(ABC):
    """Graphs with one gate per edge or per node. Node features are structure here, before everything else."""

    floor: ClassVar[float] = 0.0
    unit: ClassVar[str]
    graphs: GraphInputs

    @classmethod
    def of(cls, graphs: Any) -> Self:
        """From a PyG `Batch` or a list of `Data`, each with node features `x` and an `edge_index`; or from a GraphInputs."""
        return cls(graphs if isinstance(graphs, GraphInputs) else GraphInputs.of(graphs))

    @property
    @abstractmethod
    def present(self) -> Tensor:
        """Which gates exist, (N, U)."""

    @property
    def shape(self) -> Size:
        """(U,), the number of gates of the largest graph."""
        return self.present.shape[1:]

    def size(self) -> int:
        """The number of graphs."""
        return self.graphs.size()

    def take(self, index: Tensor) -> Signals:
        """Gates of 1 for every edge or node of these graphs, and 0 beyond."""
        rows = index.to(self.present.device)
        present = self.present[rows]
        return Signals(present.to(self.graphs.values.dtype), (self.graphs.values[rows], *self.graphs.structure(index)), present)

    def fingerprint(self) -> str:
        """A hash of the content."""
        return fingerprint.of_json([self.unit, self.graphs.fingerprint()])

    def adapt(self, model: nn.Module) -> nn.Module:
        """A PyG network as a map from gates and graphs to scores."""
        return model if takes_padded(model) else self.gated(model)

    @abstractmethod
    def gated(self, model: nn.Module) -> nn.Module:
        """A PyG network with gates."""


@dataclass(frozen=True)
class EdgeInputs(GraphGates):
    """Graphs with one gate per edge, in the order of their edge_index. It multiplies every message along the edge, in all layers.

    Self-loops that a layer adds have no gate. It is what PyG does with an edge mask, so explanations are edge masks (N, E).

    >>> graphs = GraphInputs(torch.ones(1, 2, 1), torch.ones(1, 2, dtype=torch.bool), torch.tensor([[[0, 1], [-1, -1]]]))
    >>> EdgeInputs(graphs).take(torch.tensor([0])).values
    tensor([[1., 0.]])
    """

    unit: ClassVar[str] = "edge"

    @cached_property
    def present(self) -> Tensor:
        """Which edges exist, (N, E)."""
        return self.graphs.edges[..., 0] >= 0

    def gated(self, model: nn.Module) -> nn.Module:
        """A PyG network whose messages are multiplied by gates; raises if it passes no messages."""
        if not message_layers(model):
            raise InputError(
                "Gates of edges act on the message passing layers of PyG, and the model has none: build it from layers of "
                "torch_geometric.nn, or explain its nodes with NodeInputs."
            )
        return OnEdges(model, self.graphs.of_nodes, self.graphs.of_edges)


@dataclass(frozen=True)
class NodeInputs(GraphGates):
    """Graphs with one gate per node, which multiplies the node's features. Explanations are node masks (N, V).

    The edges of a node with a gate of 0 stay.
    """

    unit: ClassVar[str] = "node"

    @property
    def present(self) -> Tensor:
        """Which slots are nodes, (N, V)."""
        return self.graphs.mask

    def gated(self, model: nn.Module) -> nn.Module:
        """A PyG network whose node features are multiplied by gates."""
        return OnNodes(model, self.graphs.of_nodes, self.graphs.of_edges)


class OnNodes(OnGraphs):
    """A PyG network on padded graphs, the node features of which are multiplied by gates (N, V)."""

    def pack(self, values: Tensor, *structure: Tensor) -> PackedGraphs:
        """Graphs with gated features, from gates and structure."""
        return super().pack(structure[0] * values[..., None].to(structure[0].dtype), *structure[1:])

    def spread(self, found: Tensor, values: Tensor, *structure: Tensor) -> Tensor:
        """A mask of PyG's over nodes, (n, F) or (n, 1), summed over features, as a map (N, V)."""
        return super().spread(found.sum(1, keepdim=True), values[..., None], *structure[1:]).squeeze(-1)


class OnEdges(OnGraphs):
    """A PyG network on padded graphs, the messages of which are multiplied by gates (N, E)."""

    explained: ClassVar[str] = "edge_mask"

    def pack(self, values: Tensor, *structure: Tensor) -> PackedGraphs:
        """Graphs with the gates of their edges, from gates and structure."""
        found = super().pack(*structure)
        return replace(found, gates=values[self.there(*structure)])

    def there(self, *structure: Tensor) -> Tensor:
        """Which edges exist, (N, E)."""
        return structure[len(self.of_nodes) + 2][..., 0] >= 0

    def spread(self, found: Tensor, values: Tensor, *structure: Tensor) -> Tensor:
        """A mask of PyG's over edges, (e,), as a map (N, E)."""
        return torch.zeros_like(values).masked_scatter(self.there(*structure), found.to(values))

    def call(self, graphs: PackedGraphs) -> Tensor:
        """Outputs (N, ...) of the network with gated messages."""
        if graphs.gates is None:
            return super().call(graphs)
        with gated_messages(self.model, graphs.gates, graphs.edge_index, len(graphs.x)):
            return super().call(graphs)


def message_layers(model: nn.Module) -> list[Any]:
    """The message passing layers of a PyG network that may be explained."""
    try:
        from torch_geometric.nn import MessagePassing
    except ImportError as error:
        raise missing_extra("torch_geometric", "graphs") from error
    return [layer for layer in model.modules() if isinstance(layer, MessagePassing) and layer.explain is not False]


@contextmanager
def gated_messages(model: nn.Module, gates: Tensor, edge_index: Tensor, nodes: int) -> Iterator[None]:
    """Multiply every message of a network by the gate (e,) of its edge within the block.

    A layer that adds loops to all `nodes` puts them after the other edges, in place of those that there were; they stay as they are.
    """
    others = edge_index[0] != edge_index[1]
    loops = torch.arange(nodes, device=edge_index.device).expand(2, -1)
    with_loops, looped = torch.cat((edge_index[:, others], loops), dim=1), torch.cat((gates[others], gates.new_ones(nodes)))
    passed: dict[int, Any] = {}

    def remember(layer: Any, inputs: Any) -> None:
        passed[id(layer)] = inputs[0]

    def gate(layer: Any, inputs: Any, messages: Tensor) -> Tensor:
        axis = layer.node_dim % messages.ndim
        edges = passed[id(layer)]
        if edges is edge_index:
            own = gates
        elif isinstance(edges, Tensor) and torch.equal(edges, with_loops):  # first, since the edges of one graph may look like these
            own = looped
        elif isinstance(edges, Tensor) and torch.equal(edges, edge_index):
            own = gates
        else:
            raise InputError(
                f"The layer {type(layer).__name__} passes {messages.shape[axis]} messages along {len(gates)} edges, so messages do not "
                "belong to edges: gates of edges need layers that keep all edges, in their order."
            )
        return messages * own.to(messages.dtype).reshape([-1 if place == axis else 1 for place in range(messages.ndim)])

    with ExitStack() as stack:
        for layer in message_layers(model):
            stack.callback(layer.register_propagate_forward_pre_hook(remember).remove)
            stack.callback(layer.register_message_forward_hook(gate).remove)
        yield


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


def as_batch(x: Tensor, edge_index: Tensor, batch: Tensor, named: Mapping[str, Tensor]) -> Any:
    """Packed graphs, with further fields, as a PyG `Batch`."""
    try:
        from torch_geometric.data import Batch
    except ImportError as error:
        raise missing_extra("torch_geometric", "graphs") from error
    sizes = torch.bincount(batch)
    return Batch(x=x, edge_index=edge_index, batch=batch, ptr=torch.cat((sizes.new_zeros(1), sizes.cumsum(0))), **named)


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


def padded_field(name: str, graphs: Sequence[Any], width: int) -> Tensor:
    """A field of all graphs, one row per node or edge, padded with zeros: (N, width, ...); raises if a graph has none, or another shape."""
    first = next(part for graph in graphs if isinstance(part := getattr(graph, name, None), Tensor))
    padded = torch.zeros(len(graphs), width, *first.shape[1:], dtype=first.dtype)
    what = "node" if name in OF_NODES else "edge"
    for number, graph in enumerate(graphs):
        part, rows = getattr(graph, name, None), len(graph.x) if name in OF_NODES else graph.edge_index.shape[1]
        if not isinstance(part, Tensor):
            raise InputError(f"Graph {number} has no {name}, but others do: give it to all graphs, or to none.")
        if part.shape != (rows, *first.shape[1:]) or part.dtype != first.dtype:
            raise InputError(
                f"Graph {number} needs {name} of type {first.dtype} and shape {(rows, *first.shape[1:])}, one row per {what}, not "
                f"{part.dtype} of shape {tuple(part.shape)}."
            )
        padded[number, :rows] = part.detach().cpu()
    check_finite(padded.flatten(1))
    return padded
