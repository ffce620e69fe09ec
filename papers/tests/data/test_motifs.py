from __future__ import annotations

import torch

from veracity_papers.data.motifs import CORNERS, HOUSE, RING, motif_graphs


def test_every_graph_is_a_tree_with_one_motif() -> None:
    data, truth = motif_graphs(10, seed=3, tree=6)
    signals = data.inputs.take(torch.arange(10))
    edges = signals.structure[1]
    for row in range(10):
        real = edges[row][edges[row, :, 0] >= 0]
        motif = HOUSE if row % 2 == 0 else RING
        assert len(real) == 2 * (5 + 1 + len(motif))
        marked = {frozenset((a - 6, b - 6)) for a, b in edges[row][truth[row]].tolist()}
        assert marked == {frozenset(pair) for pair in motif}
        seen, last = {0}, set[int]()
        while seen != last:
            last = set(seen)
            seen |= {b for a, b in real.tolist() if a in last}
        assert seen == set(range(6 + CORNERS)), "the graph is connected"
    assert data.labels.tolist() == [0, 1] * 5


def test_graphs_follow_the_seed() -> None:
    one, same, other = (motif_graphs(4, seed=seed)[0].inputs.fingerprint() for seed in (1, 1, 2))
    assert one == same != other
