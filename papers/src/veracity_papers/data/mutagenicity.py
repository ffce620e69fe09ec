"""Mutagenicity (Kazius et al. 2005): 4,337 molecules as graphs of atoms, mutagen (0) or not (1).

The 433 test and 433 validation molecules are drawn from a seed; the other 3,471 are for training. No two of the molecules are
isomorphic, so that none stands on both sides. 121 of them hold atoms without bonds (ions, and hydrogens that the file leaves
unbound), which is why the largest has 417 atoms.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veracity.core.errors import missing_extra
from veracity_papers.data import files
from veracity_papers.data.labelled import Labelled, check_split
from veracity_papers.data.tu import Graphs, read

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


def molecules(split: str = "test", seed: int = 0) -> list[Any]:
    """The same molecules one by one, as PyG's `Data` with x (atoms, 14), edge_index (2, bonds) and label y."""
    if find_spec("torch_geometric") is None:
        raise missing_extra("torch_geometric", "graphs")
    from torch_geometric.data import Data

    data = mutagenicity(split, seed)
    signals = data.inputs.take(torch.arange(len(data)))
    mask, edges = signals.structure
    return [
        Data(x=values[nodes], edge_index=ends[ends[:, 0] >= 0].T.contiguous(), y=label)
        for values, nodes, ends, label in zip(signals.values, mask, edges, data.labels, strict=True)
    ]


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
