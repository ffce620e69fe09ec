"""A graph as a drawing: nodes at the places of springs at rest, edges between them, and an explanation of either in colour."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veracity.core.graphs import EdgeInputs, GraphGates, GraphInputs
from veracity.core.scores import Array
from veracity.report.figures import images
from veracity.report.interactive.drawings import Drawing, shares

MOST = 200
"""A graph with more nodes is not drawn."""
STEPS = 200


@dataclass(frozen=True)
class Graph:
    """The edges (E, 2) between so many nodes, and what is explained: edges, nodes, or features of nodes."""

    nodes: int
    edges: NDArray[np.int64]
    by_edge: bool

    def fits(self, values: Array) -> bool:
        """Whether values, which may be padded, are one number per edge or some per node."""
        if self.nodes > MOST or values.ndim not in (1, 2):
            return False
        return len(values) >= len(self.edges) and values.ndim == 1 if self.by_edge else len(values) >= self.nodes

    @cached_property
    def places(self) -> list[list[float]]:
        """The places of the nodes in the unit square."""
        found: list[list[float]] = springs(self.nodes, self.edges).round(4).tolist()
        return found

    def one_each(self, values: Array) -> Array:
        """One number per edge or per node: of several features, their sum."""
        own = values[: len(self.edges) if self.by_edge else self.nodes]
        return own if own.ndim == 1 else np.asarray(own.sum(axis=1))

    def map(self, values: Array, scale: float | None) -> Drawing:
        """An explanation: edges or nodes as red or blue as they matter."""
        own = self.one_each(values)
        colours = shares(own, scale or images.reach(own))
        return {**self._drawn(), "links" if self.by_edge else "nodes": colours}

    def input(self, values: Array) -> Drawing:
        """The graph itself, without the edges or nodes whose gate is 0."""
        gone = np.flatnonzero(self.one_each(np.abs(values)) == 0).tolist()
        return {**self._drawn(), "gone_links" if self.by_edge else "gone_nodes": gone}

    def _drawn(self) -> Drawing:
        return {"kind": "graph", "places": self.places, "edges": self.edges.tolist()}


def graph_of(inputs: Any, sample: int) -> Graph | None:
    """The graph of a sample, if the inputs are graphs."""
    graphs = inputs.graphs if isinstance(inputs, GraphGates) else inputs
    if not isinstance(graphs, GraphInputs):
        return None
    edges = graphs.edges[sample]
    return Graph(int(graphs.mask[sample].sum()), edges[edges[:, 0] >= 0].cpu().numpy(), isinstance(inputs, EdgeInputs))


def springs(nodes: int, edges: NDArray[np.int64]) -> Array:
    """Places (nodes, 2) in the unit square: all nodes push each other away, and edges pull (Fruchterman and Reingold 1991).

    >>> springs(2, np.array([[0, 1]])).round(2).tolist()
    [[1.0, 0.5], [0.0, 0.5]]
    """
    angle = 2 * np.pi * np.arange(nodes) / max(nodes, 1)
    place, length = np.stack((np.cos(angle), np.sin(angle)), axis=1), 1.0 / np.sqrt(max(nodes, 1))
    pulls = np.zeros((nodes, nodes))
    pulls[edges[:, 0], edges[:, 1]] = pulls[edges[:, 1], edges[:, 0]] = 1.0
    np.fill_diagonal(pulls, 0.0)
    for step in range(STEPS):
        apart = place[:, None] - place[None]
        distance = np.maximum(np.linalg.norm(apart, axis=2), 1e-6)
        force = length**2 / distance**2 - pulls * distance / length
        move = (apart * force[..., None]).sum(axis=1)
        size = np.maximum(np.linalg.norm(move, axis=1, keepdims=True), 1e-9)
        place = place + move / size * np.minimum(size, 0.1 * (1.0 - step / STEPS))
    low, span = place.min(axis=0), np.ptp(place, axis=0).max(initial=0.0)
    return np.asarray((place - low - np.ptp(place, axis=0) / 2) / (span or 1.0) + 0.5)
