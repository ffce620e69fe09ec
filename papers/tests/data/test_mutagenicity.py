from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from veracity.core.errors import InputError
from veracity_papers.data import files
from veracity_papers.data.mutagenicity import ATOMS, Graphs, members, mutagenicity, mutagenicity_motifs, read, toxicophores

NAME = "mutagenicity/Mutagenicity.zip"
real = pytest.mark.skipif(files.locate(NAME) is None, reason="needs the molecules")

# Four molecules as (atoms, bonds with their order): nitroso, nitro, azo with a chlorine, and carbon monoxide.
MOLECULES = [
    (["C", "N", "O"], [(0, 1, 1), (1, 2, 2)]),
    (["C", "N", "O", "O", "H"], [(0, 1, 1), (1, 2, 2), (1, 3, 1)]),
    (["N", "Cl", "N"], [(0, 1, 1), (0, 2, 2)]),
    (["C", "O"], [(0, 1, 3)]),
]


def collection(molecules: list[tuple[list[str], list[tuple[int, int, int]]]]) -> Graphs:
    first = np.cumsum([0] + [len(atoms) for atoms, _ in molecules])
    edges = [
        (first[g] + ends[k], first[g] + ends[1 - k], order - 1)
        for g, (_, bonds) in enumerate(molecules)
        for *ends, order in bonds
        for k in (0, 1)
    ]
    return Graphs(
        graph_of_node=np.repeat(np.arange(len(molecules)), [len(atoms) for atoms, _ in molecules]),
        node_labels=np.array([ATOMS.index(atom) for atoms, _ in molecules for atom in atoms]),
        edges=np.array([edge[:2] for edge in edges]),
        edge_labels=np.array([edge[2] for edge in edges]),
        labels=np.arange(len(molecules)) % 2,
    )


def test_toxicophores_by_hand() -> None:
    found = {name: mask.tolist() for name, mask in toxicophores(collection(MOLECULES)).items()}
    assert found == {
        "nitroso": [True, True, False, False],
        "aliphatic halide": [False, False, True, False],
        "azo": [False, False, True, False],
        "nitro": [False, True, False, False],
    }


def test_padding_against_one_graph_at_a_time() -> None:
    padded = collection(MOLECULES).padded(np.array([2, 1]), len(ATOMS))
    assert padded.values.shape == (2, 5, 14)
    for row, number in enumerate((2, 1)):
        atoms, bonds = MOLECULES[number]
        assert padded.mask[row].tolist() == [slot < len(atoms) for slot in range(5)]
        assert padded.values[row, : len(atoms)].argmax(dim=1).tolist() == [ATOMS.index(atom) for atom in atoms]
        assert padded.values[row].sum() == len(atoms)
        ends = [tuple(edge) for edge in padded.edges[row].tolist() if edge[0] >= 0]
        assert sorted(ends) == sorted([(a, b) for a, b, _ in bonds] + [(b, a) for a, b, _ in bonds])


def test_the_format_is_read_and_another_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = collection(MOLECULES)
    path = tmp_path / "mutagenicity" / "Mutagenicity.zip"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        parts = {"graph_indicator": graphs.graph_of_node + 1, "node_labels": graphs.node_labels, "A": graphs.edges + 1}
        for name, part in {**parts, "edge_labels": graphs.edge_labels, "graph_labels": graphs.labels}.items():
            lines = [", ".join(map(str, np.atleast_1d(row))) for row in part]
            archive.writestr(f"Mutagenicity_{name}.txt", "\n".join(lines))
    again = read(path, "Mutagenicity")
    for name in ("graph_of_node", "node_labels", "edges", "edge_labels", "labels"):
        assert np.array_equal(getattr(again, name), getattr(graphs, name))
    with pytest.raises(InputError, match=r"holds no MUTAG_graph_indicator\.txt, so it is not the collection 'MUTAG'"):
        read(path, "MUTAG")
    monkeypatch.setenv("VERACITY_DATA", str(tmp_path / "empty"))
    with pytest.raises(InputError, match=r"Looked for .*Mutagenicity.zip .* found nothing"):
        mutagenicity("test")
    with pytest.raises(InputError, match="choose train or validation or test"):
        mutagenicity("dev")


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


def total(values: NDArray[np.uint64], group: NDArray[np.int64], groups: int) -> NDArray[np.uint64]:
    """The sum of each group's values, modulo 2^64."""
    sums = np.zeros(groups, np.uint64)
    np.add.at(sums, group, values)
    return sums


def mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """64-bit words scrambled one to one (splitmix64)."""
    golden, first, second = (np.uint64(word) for word in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
    words = words + golden
    words = (words ^ (words >> np.uint64(30))) * first
    words = (words ^ (words >> np.uint64(27))) * second
    return words ^ (words >> np.uint64(31))


def test_signatures_ignore_the_order_of_nodes_and_edges_and_nothing_else() -> None:
    atoms, bonds = ["C", "N", "O", "O", "C"], [(0, 1, 1), (1, 2, 2), (1, 3, 1), (0, 4, 1)]
    generator = np.random.default_rng(0)
    same = []
    for _ in range(4):
        order = generator.permutation(5)
        renamed = [(int(order[a]), int(order[b]), bond) for a, b, bond in generator.permutation(bonds)]
        same.append(([atoms[int(np.argwhere(order == slot)[0, 0])] for slot in range(5)], renamed))
    other_atom = (["C", "N", "O", "S", "C"], bonds)
    other_bond = (atoms, [*bonds[:2], (1, 3, 2), bonds[3]])
    other_place = (atoms, [*bonds[:3], (2, 4, 1)])
    found = signatures(collection([(atoms, bonds), *same, other_atom, other_bond, other_place]))
    assert len(set(found[:5].tolist())) == 1
    assert len(set(found[4:].tolist())) == 4


def test_the_splits_are_a_partition_that_follows_from_the_seed() -> None:
    parts = members(4337, seed=0)
    assert np.array_equal(np.sort(np.concatenate(list(parts.values()))), np.arange(4337))
    assert np.array_equal(parts["test"], members(4337, seed=0)["test"])
    assert not np.array_equal(parts["test"], members(4337, seed=1)["test"])


@real
def test_no_test_graph_is_in_the_training_set_by_number_or_by_content() -> None:
    path = files.locate(NAME)
    assert path is not None
    graphs = read(path, "Mutagenicity")
    parts, hashes = members(len(graphs)), signatures(graphs)
    for held_out in ("test", "validation"):
        assert not np.intersect1d(parts[held_out], parts["train"]).size
        assert not np.intersect1d(hashes[parts[held_out]], hashes[parts["train"]]).size
    # Bond orders are hidden from models: molecules are different without them too.
    assert len(np.unique(signatures(replace(graphs, edge_labels=np.zeros_like(graphs.edge_labels))))) == len(graphs)


@real
def test_the_molecules_that_are_loaded_are_those_of_the_split() -> None:
    path = files.locate(NAME)
    assert path is not None
    graphs, test = read(path, "Mutagenicity"), mutagenicity("test")
    index = members(len(graphs))["test"]
    assert len(test) == 433
    assert test.labels.tolist() == graphs.labels[index].tolist()
    signals = test.inputs.take(torch.arange(433))
    assert signals.structure[0].sum(dim=1).tolist() == np.bincount(graphs.graph_of_node)[index].tolist()
    assert torch.equal(signals.values.sum(dim=2), signals.structure[0].float())
    assert {name: int(mask.sum()) for name, mask in test.concepts.items()} == {
        "nitroso": 81,
        "aliphatic halide": 88,
        "azo": 10,
        "nitro": 72,
    }


def test_marked_edges_are_padded_as_the_graphs_are() -> None:
    graphs = collection(MOLECULES)
    marked = np.arange(len(graphs.edges)) % 2 == 0
    padded, found = graphs.padded(np.array([2, 1]), len(ATOMS)), graphs.padded_edges(np.array([2, 1]), marked)
    assert found.shape == padded.edges.shape[:2]
    for row, number in enumerate((2, 1)):
        of_graph = marked[graphs.graph_of_node[graphs.edges[:, 0]] == number]
        assert found[row, : len(of_graph)].tolist() == of_graph.tolist()
        assert not found[row, len(of_graph) :].any()


@real
def test_motifs_are_bonds_of_nitrogen_with_oxygen_or_hydrogen_in_both_directions() -> None:
    data, truth = mutagenicity_motifs()
    assert len(data) == 199
    assert bool((data.labels == 0).all())
    assert int(truth.sum()) == 1148
    kinds = data.inputs.take(torch.arange(199)).values.argmax(-1)
    _, edges = data.inputs.take(torch.arange(199)).structure
    for row in range(199):
        ends = edges[row, truth[row]]
        pairs = {tuple(pair) for pair in ends.tolist()}
        assert pairs == {(b, a) for a, b in pairs}
        assert {frozenset(ATOMS[int(kinds[row, end])] for end in pair) for pair in pairs} <= {frozenset("NO"), frozenset("NH")}
    together, alone = mutagenicity_motifs(("test",))[0], members(4337)
    assert len(together) < len(data)
    assert not set(alone["test"]) & set(alone["train"])
