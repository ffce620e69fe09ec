"""Mutagenicity (Kazius et al. 2005): 4,337 molecules as graphs of atoms, mutagen (0) or not (1).

It is read from the TU collection's format (Morris et al. 2020): text files of edges, graph numbers and labels, in one archive.
The 433 test and 433 validation molecules are drawn from a seed; the other 3,471 are for training. No two molecules are
isomorphic, so none is on both sides. 121 of them have atoms without bonds (ions, and hydrogens that the file leaves unbound),
which is why the largest has 417 atoms.
"""

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
from veracity_papers.data import files
from veracity_papers.data.labelled import Labelled, check_split

Numbers = NDArray[np.int64]


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

    def holding(self, edges: NDArray[np.bool_]) -> Tensor:
        """Which graphs hold at least one of the marked edges, (N,)."""
        return torch.from_numpy(np.bincount(self.graph_of_node[self.edges[edges, 0]], minlength=len(self)) > 0)

    def padded(self, index: Numbers, kinds: int) -> GraphInputs:
        """Some of the graphs with one-hot node labels, padded to the largest of them."""
        row = np.full(len(self), -1)
        row[index] = np.arange(len(index))
        graph_of_edge = self.graph_of_node[self.edges[:, 0]]
        slot, place = place_in_group(self.graph_of_node), place_in_group(graph_of_edge)
        nodes, edges = row[self.graph_of_node] >= 0, row[graph_of_edge] >= 0
        at = tuple(torch.from_numpy(part) for part in (row[self.graph_of_node[nodes]], slot[nodes]))
        values = torch.zeros(len(index), int(slot[nodes].max()) + 1, kinds)
        values[(*at, torch.from_numpy(self.node_labels[nodes]))] = 1.0
        ends = torch.full((len(index), int(place[edges].max()) + 1, 2), -1)
        ends[row[graph_of_edge[edges]], place[edges]] = torch.from_numpy(slot[self.edges[edges]])
        mask = torch.zeros(values.shape[:2], dtype=torch.bool)
        mask[at] = True
        return GraphInputs(values, mask, ends)

    def padded_edges(self, index: Numbers, marked: NDArray[np.bool_]) -> Tensor:
        """Which edges of some of the graphs are marked, in the order and with the padding of `padded`: (n, E)."""
        row = np.full(len(self), -1)
        row[index] = np.arange(len(index))
        graph = self.graph_of_node[self.edges[:, 0]]
        place, here = place_in_group(graph), row[graph] >= 0
        found = torch.zeros(len(index), int(place[here].max()) + 1, dtype=torch.bool)
        found[row[graph[here]], place[here]] = torch.from_numpy(marked[here])
        return found


def read(path: Path, name: str) -> Graphs:
    """The archive's collection of this name."""
    return Graphs(
        graph_of_node=numbers(path, name, "graph_indicator") - 1,
        node_labels=numbers(path, name, "node_labels"),
        edges=numbers(path, name, "A").reshape(-1, 2) - 1,
        edge_labels=numbers(path, name, "edge_labels"),
        labels=numbers(path, name, "graph_labels"),
    )


def numbers(path: Path, name: str, part: str) -> Numbers:
    """The numbers of one text file of a collection, in one row."""
    with zipfile.ZipFile(path) as archive:
        try:
            text = archive.read(f"{name}_{part}.txt")
        except KeyError as error:
            raise InputError(f"{path} holds no {name}_{part}.txt, so it is not the collection '{name}' in the TU format.") from error
    return np.array(text.replace(b",", b" ").split(), dtype=np.int64)


ORIGIN = "chrsmrrs.github.io/datasets (TU collection, Mutagenicity.zip)"
CLASSES = ("mutagen", "nonmutagen")
ATOMS = ("C", "O", "Cl", "H", "N", "F", "Br", "S", "P", "I", "Na", "K", "Li", "Ca")
SINGLE, DOUBLE = 0, 1
HELD_OUT = 433
SPLITS = ("train", "validation", "test")


def mutagenicity(split: str = "test", seed: int = 0) -> Labelled:
    """Molecules as padded graphs with one-hot atoms (N, V, 14) and bonds in both directions, labels, and toxicophores as concepts.

    Bond orders are read for the concepts and hidden from models, as in the symmetry paper.
    """
    check_split(split, SPLITS)
    graphs = read(files.find("mutagenicity/Mutagenicity.zip", ORIGIN), "Mutagenicity")
    index = members(len(graphs), seed)[split]
    rows = torch.from_numpy(index)
    concepts = {name: mask[rows] for name, mask in toxicophores(graphs).items()}
    return Labelled(graphs.padded(index, len(ATOMS)), torch.from_numpy(graphs.labels)[rows], concepts)


def mutagenicity_motifs(splits: tuple[str, ...] = ("validation", "test"), seed: int = 0) -> tuple[Labelled, Tensor]:
    """Mutagens of some splits with an NO2 or NH2 group, and which of their bonds belong to such a group, (N, E).

    The bonds come with the archive of Luo et al. (PGExplainer, NeurIPS 2020): N-O and N-H, in both directions. 341 molecules that are no
    mutagens have such a group, too, and are left out as in the paper.
    """
    path = files.find("mutagenicity/Mutagenicity.zip", ORIGIN)
    graphs, marked = read(path, "Mutagenicity"), numbers(path, "Mutagenicity", "edge_gt") == 1
    chosen = np.sort(np.concatenate([members(len(graphs), seed)[check_split(split, SPLITS)] for split in splits]))
    index = chosen[(graphs.labels[chosen] == CLASSES.index("mutagen")) & graphs.holding(marked).numpy()[chosen]]
    found = Labelled(graphs.padded(index, len(ATOMS)), torch.from_numpy(graphs.labels)[torch.from_numpy(index)])
    return found, graphs.padded_edges(index, marked)


def members(count: int, seed: int = 0) -> dict[str, NDArray[np.int64]]:
    """Which of the collection's graphs are in each split, in ascending order.

    >>> {name: len(index) for name, index in members(4337).items()}
    {'train': 3471, 'validation': 433, 'test': 433}
    """
    order = np.random.default_rng(seed).permutation(count)
    test, validation, train = np.split(order, [HELD_OUT, 2 * HELD_OUT])
    return {"train": np.sort(train), "validation": np.sort(validation), "test": np.sort(test)}


def toxicophores(graphs: Graphs) -> dict[str, Tensor]:
    """Which molecules hold a group known to make mutagens, (N,) each: the four concepts of the symmetry paper.

    As there, nitroso is any N=O, that of a nitro group too, and a halide any Cl, Br or I.
    """
    source, target = graphs.node_labels[graphs.edges].T
    oxygen, nitrogen = ATOMS.index("O"), ATOMS.index("N")
    single, double = graphs.edge_labels == SINGLE, graphs.edge_labels == DOUBLE
    no = (source == nitrogen) & (target == oxygen)
    once, twice = (np.bincount(graphs.edges[no & bond, 0], minlength=len(graphs.node_labels)) > 0 for bond in (single, double))
    halide = np.isin(source, [ATOMS.index(atom) for atom in ("Cl", "Br", "I")])
    return {
        "nitroso": graphs.holding(no & double),
        "aliphatic halide": graphs.holding(halide),
        "azo": graphs.holding((source == nitrogen) & (target == nitrogen) & double),
        "nitro": graphs.holding((once & twice)[graphs.edges[:, 0]]),
    }
