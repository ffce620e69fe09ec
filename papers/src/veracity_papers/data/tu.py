"""The TU collection's graph format (Morris et al. 2020): text files of edges, graph numbers and labels, in one archive."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veracity.core.errors import InputError
from veracity.core.graphs import GraphInputs
from veracity.trainers.training import place_in_group

Numbers = NDArray[np.int64]
GOLDEN, FIRST, SECOND = (np.uint64(word) for word in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


@dataclass(frozen=True)
class Graphs:
    """A collection of labelled graphs in one list of n nodes and one of e directed edges, both in the graphs' order."""

    graph_of_node: Numbers
    node_labels: Numbers
    edges: Numbers
    edge_labels: Numbers
    labels: Numbers

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def graph_of_edge(self) -> Numbers:
        """Which graph each edge is in, (e,)."""
        return self.graph_of_node[self.edges[:, 0]]

    def holding(self, edges: NDArray[np.bool_]) -> Tensor:
        """Which graphs hold at least one of the marked edges, (N,)."""
        return torch.from_numpy(np.bincount(self.graph_of_edge[edges], minlength=len(self)) > 0)

    def padded(self, index: Numbers, kinds: int) -> GraphInputs:
        """Some of the graphs with one-hot node labels, padded to the largest of them."""
        row = np.full(len(self), -1)
        row[index] = np.arange(len(index))
        slot, place = place_in_group(self.graph_of_node), place_in_group(self.graph_of_edge)
        nodes, edges = row[self.graph_of_node] >= 0, row[self.graph_of_edge] >= 0
        at = tuple(torch.from_numpy(part) for part in (row[self.graph_of_node[nodes]], slot[nodes]))
        values = torch.zeros(len(index), int(slot[nodes].max()) + 1, kinds)
        values[(*at, torch.from_numpy(self.node_labels[nodes]))] = 1.0
        ends = torch.full((len(index), int(place[edges].max()) + 1, 2), -1)
        ends[row[self.graph_of_edge[edges]], place[edges]] = torch.from_numpy(slot[self.edges[edges]])
        mask = torch.zeros(values.shape[:2], dtype=torch.bool)
        mask[at] = True
        return GraphInputs(values, mask, ends)


def read(path: Path, name: str) -> Graphs:
    """The archive's collection of this name."""
    with zipfile.ZipFile(path) as archive:

        def numbers(part: str) -> Numbers:
            try:
                text = archive.read(f"{name}_{part}.txt")
            except KeyError as error:
                raise InputError(f"{path} holds no {name}_{part}.txt, so it is not the collection '{name}' in the TU format.") from error
            return np.array(text.replace(b",", b" ").split(), dtype=np.int64)

        return Graphs(
            graph_of_node=numbers("graph_indicator") - 1,
            node_labels=numbers("node_labels"),
            edges=numbers("A").reshape(-1, 2) - 1,
            edge_labels=numbers("edge_labels"),
            labels=numbers("graph_labels"),
        )


def signatures(graphs: Graphs, rounds: int = 20) -> NDArray[np.uint64]:
    """A hash of each graph's content, the same for isomorphic graphs: Weisfeiler and Leman's colours with node and edge labels.

    Colours start as node labels; each round mixes in the sum of the neighbours' colours with the bonds to them.
    """
    source, target = graphs.edges.T
    bonds = graphs.edge_labels.astype(np.uint64) + np.uint64(1)
    colours = mixed(graphs.node_labels.astype(np.uint64))
    for _ in range(rounds):
        colours = mixed(colours * np.uint64(3) + total(mixed(colours[target] * np.uint64(31) + bonds), source, len(colours)))
    return total(mixed(colours), graphs.graph_of_node, len(graphs))


def total(values: NDArray[np.uint64], group: Numbers, groups: int) -> NDArray[np.uint64]:
    """The sum of each group's values, modulo 2^64."""
    sums = np.zeros(groups, np.uint64)
    np.add.at(sums, group, values)
    return sums


def mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """64-bit words scrambled one to one (splitmix64)."""
    words = words + GOLDEN
    words = (words ^ (words >> np.uint64(30))) * FIRST
    words = (words ^ (words >> np.uint64(27))) * SECOND
    return words ^ (words >> np.uint64(31))
