"""Graphs whose class is a motif, made on the spot: random trees with a house or a ring of five nodes, in the way of BA-2motifs."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from veracity.core.graphs import GraphInputs
from veracity_papers.data.labelled import Labelled

RING = ((0, 1), (1, 2), (2, 3), (3, 4), (4, 0))
HOUSE = (*RING, (1, 4))
MOTIFS = (HOUSE, RING)
"""The motif of each class."""
CORNERS = 5


def motif_graphs(count: int, seed: int = 0, tree: int = 8) -> tuple[Labelled, Tensor]:
    """Graphs of class 0 (house) and 1 (ring) in turn, and which of their edges, in both directions, belong to the motif, (N, E).

    Each graph is a random tree with one motif, bound to a random node. Every node has the same feature, 1, so that only edges tell the
    classes apart.

    >>> data, truth = motif_graphs(2)
    >>> data.inputs.shape, data.labels.tolist(), truth.sum(dim=1).tolist()
    (torch.Size([13, 1]), [0, 1], [12, 10])
    """
    generator = np.random.default_rng(seed)
    width = 2 * (tree - 1 + 1 + len(HOUSE))
    edges, truth = torch.full((count, width, 2), -1), torch.zeros(count, width, dtype=torch.bool)
    for number in range(count):
        branches = [(node, int(generator.integers(node))) for node in range(1, tree)]
        motif = [(tree + one, tree + other) for one, other in MOTIFS[number % 2]]
        listed = torch.tensor([*branches, (int(generator.integers(tree)), tree + int(generator.integers(CORNERS))), *motif])
        both = torch.cat((listed, listed.flip(1)))
        edges[number, : len(both)] = both
        truth[number, : len(both)] = (both >= tree).all(dim=1)
    nodes = tree + CORNERS
    graphs = GraphInputs(torch.ones(count, nodes, 1), torch.ones(count, nodes, dtype=torch.bool), edges)
    return Labelled(graphs, torch.arange(count) % 2), truth
