"""Planted graphs: twelve nodes of four kinds, written as one-hot features, and networks that look for neighbours of two kinds.

The networks are written in plain torch as model(x, edge_index, batch), so that no library of graphs is needed. Explanations are maps over
the features of nodes.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from veracity.core.graphs import GraphInputs
from veracity.core.randomness import Draws
from veracity.planted.task import SATURATION, SLOPE, Clip, Planted, PlantedTask, set_weights

NODES, KINDS = 12, 4
ALPHA, BETA = 0, 1
"""The kinds of nodes that rules know; the others are 2 and 3."""
CHORDS = 6
"""Random edges beside the ring that connects all nodes."""


class MotifCounter(nn.Module):
    """The number of alpha nodes with a beta neighbour, times `weight`; with `clipped`, at most 1. A sum over nodes without edges
    if `edges` is False: 2 alpha + beta."""

    def __init__(self, *, edges: bool = True, weight: float = 1.0, clipped: bool = False) -> None:
        super().__init__()
        self.edges, self.relu, self.end = edges, nn.ReLU(), Clip() if clipped else nn.Identity()
        self.own, self.near, self.threshold = nn.Linear(KINDS, 1, bias=False), nn.Linear(KINDS, 1, bias=False), weight
        unit = torch.eye(KINDS)
        set_weights(self.own, weight * unit[ALPHA] if edges else 2.0 * unit[ALPHA] + unit[BETA])
        set_weights(self.near, weight * unit[BETA])

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        """Graphs in PyG's format to one number each, (N, 1)."""
        found = self.own(x)
        if self.edges:
            message = self.near(x)[edge_index[0]]
            found = self.relu(found + torch.zeros_like(found).index_add(0, edge_index[1], message) - self.threshold)
        count: Tensor = self.end(found.new_zeros(int(batch.max()) + 1, 1).index_add(0, batch, found))
        return count


def graphs(samples: int, seed: int, motifs: int) -> tuple[GraphInputs, Tensor]:
    """Rings with chords, in which `motifs` alpha nodes have one beta neighbour each, and masks of the features of both.

    One more alpha and one more beta have no such neighbour. Of a ring, nodes 0 and 1 (and 4 and 5) are the pairs, 8 and 10 the others, and
    then all nodes are permuted.
    """
    source = Draws.of(seed, torch.arange(samples))
    kinds = 2 + source.integers(2, NODES, stream="planted kinds")
    pairs = [(4 * number, 4 * number + 1) for number in range(motifs)]
    truth = torch.zeros(samples, NODES, KINDS, dtype=torch.bool)
    for alpha, beta in [*pairs, (8, 10)]:
        kinds[:, alpha], kinds[:, beta] = ALPHA, BETA
    for alpha, beta in pairs:
        truth[:, alpha, ALPHA] = truth[:, beta, BETA] = True
    values = nn.functional.one_hot(kinds, KINDS).float()
    ring = torch.stack((torch.arange(NODES), (torch.arange(NODES) + 1) % NODES), dim=1).expand(samples, -1, -1)
    plain = torch.tensor([node for node in range(NODES) if node not in (8, 10, *sum(pairs, ()))])
    free = torch.tensor([node for node in range(NODES) if node not in (10, *(beta for _, beta in pairs))])  # no node is near two betas
    ends = torch.stack(
        (
            free[source.integers(len(free), CHORDS, stream="planted chord")],
            plain[source.integers(len(plain), CHORDS, stream="planted chord end")],
        ),
        dim=2,
    )
    one_way = torch.cat((ring, ends), dim=1)
    order = source.choice(NODES, NODES, stream="planted order")
    edges = order[torch.arange(samples)[:, None, None], torch.cat((one_way, one_way.flip(2)), dim=1)]
    place = order[:, :, None].expand(-1, -1, KINDS)
    moved = torch.zeros_like(values).scatter(1, place, values), torch.zeros_like(truth).scatter(1, place, truth)
    return GraphInputs(moved[0], torch.ones(samples, NODES, dtype=torch.bool), edges), moved[1]


def kinds(samples: int, seed: int) -> Planted:
    """f = 2 alpha + beta, over all nodes, whatever their neighbours are."""
    made, _ = graphs(samples, seed, motifs=1)
    truth = (made.values > 0) & (torch.arange(KINDS) < 2)
    return Planted(model=MotifCounter(edges=False).eval(), inputs=made, truth=truth)


def motif(samples: int, seed: int) -> Planted:
    """f = the number of alpha nodes with a beta neighbour: one pair, beside an alpha and a beta on their own."""
    made, truth = graphs(samples, seed, motifs=1)
    return Planted(model=MotifCounter().eval(), inputs=made, truth=truth)


def redundant(samples: int, seed: int) -> Planted:
    """f = 1.5 times that number, at most 1, in graphs with two pairs."""
    made, truth = graphs(samples, seed, motifs=2)
    return Planted(model=MotifCounter(weight=1.5, clipped=True).eval(), inputs=made, truth=truth)


NO_VALUE = "it is a slope: it marks what each node would gain by being of a kind that it is not"
ONE_LEFT = "without one of the two pairs, the other one is still enough"
TASKS = (
    PlantedTask(
        name="kinds",
        rule="2 alpha + beta over all nodes.",
        build=kinds,
        why=dict.fromkeys(SLOPE, NO_VALUE),
    ),
    PlantedTask(name="motif", rule="the number of alpha nodes with a beta neighbour.", build=motif),
    PlantedTask(
        name="redundant",
        rule="1.5 for each alpha with a beta neighbour, at most 1, in graphs with two.",
        build=redundant,
        why={**SATURATION, "feature_ablation": ONE_LEFT},
    ),
    PlantedTask(
        name="repeat",
        rule="the model of 'motif', explained twice: both maps should be the same.",
        build=motif,
        score="self_agreement",
        magnitude=False,
    ),
)
