"""Planted graphs: twelve nodes of four kinds, written as one-hot features, and networks that look for neighbours of two kinds.

The networks are written in plain torch as model(x, edge_index, batch), so that no library of graphs is needed. Explanations are maps over
the features of nodes.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, nn

from veracity.core.graphs import GraphInputs
from veracity.core.randomness import Draws
from veracity.planted.task import SATURATION, SLOPE, Clip, Planted, PlantedTask, set_weights
from veracity.trainers.training import accuracy, initialised, train

NODES, KINDS = 12, 4
ALPHA, BETA = 0, 1
"""The kinds of nodes that rules know; the others are 2 and 3."""
CHORDS = 6
"""Random edges beside the ring that connects all nodes."""
ALONE = ((8, 10),)
"""Places on the ring of an alpha and a beta that are no neighbours."""
BOTH_ALONE = (*ALONE, (0, 4))
"""The same for graphs without a motif, which have as many of each as those with one."""
HIDDEN = 16


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


class MotifFinder(nn.Module):
    """An untrained network of one layer of messages: hinges of each node and of the sum of its neighbours, added up over the graph."""

    def __init__(self) -> None:
        super().__init__()
        self.own, self.near = nn.Linear(KINDS, HIDDEN), nn.Linear(KINDS, HIDDEN, bias=False)
        self.relu, self.head = nn.ReLU(), nn.Linear(HIDDEN, 2)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        """Graphs in PyG's format to two numbers each, (N, 2)."""
        own = self.own(x)
        found = self.relu(own + torch.zeros_like(own).index_add(0, edge_index[1], self.near(x)[edge_index[0]]))
        outputs: Tensor = self.head(found.new_zeros(int(batch.max()) + 1, HIDDEN).index_add(0, batch, found))
        return outputs


def graphs(
    samples: int, seed: int, motifs: int, alone: tuple[tuple[int, int], ...] = ALONE, chords_of_betas: bool = False
) -> tuple[GraphInputs, Tensor]:
    """Rings with chords, in which `motifs` alpha nodes have one beta neighbour each, and masks of the features of both.

    More alphas and betas, at the places `alone`, have no such neighbour. Of a ring, nodes 0 and 1 (and 4 and 5) are the pairs, and then all
    nodes are permuted. Written rules count a node once per beta, so no node is near two of them; with `chords_of_betas` some are.
    """
    source = Draws.of(seed, torch.arange(samples))
    kinds = 2 + source.integers(2, NODES, stream="planted kinds")
    pairs = [(4 * number, 4 * number + 1) for number in range(motifs)]
    truth = torch.zeros(samples, NODES, KINDS, dtype=torch.bool)
    for alpha, beta in (*pairs, *alone):
        kinds[:, alpha], kinds[:, beta] = ALPHA, BETA
    for alpha, beta in pairs:
        truth[:, alpha, ALPHA] = truth[:, beta, BETA] = True
    values = nn.functional.one_hot(kinds, KINDS).float()
    ring = torch.stack((torch.arange(NODES), (torch.arange(NODES) + 1) % NODES), dim=1).expand(samples, -1, -1)
    plain = torch.tensor([node for node in range(NODES) if node not in sum((*pairs, *alone), ())])
    betas = [] if chords_of_betas else [beta for _, beta in (*pairs, *alone)]
    free = torch.tensor([node for node in range(NODES) if node not in betas])
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


def learnt(samples: int, seed: int) -> Planted:
    """A network that learnt whether an alpha has a beta neighbour; all graphs have two of each."""
    model, share = network(seed)
    made, truth = graphs(samples, seed + 1, motifs=1, chords_of_betas=True)
    return Planted(model=model, inputs=made, truth=truth, targets=torch.ones(samples).long(), accuracy=share)


@cache
def network(seed: int) -> tuple[nn.Module, float]:
    """The trained network, and its accuracy on 200 other graphs."""
    count = 1200
    labels = (Draws.of(seed, torch.arange(count)).uniform(stream="planted label") < 0.5).long()
    near, apart = (
        graphs(count, seed, motifs=1, chords_of_betas=True)[0],
        graphs(count, seed, motifs=0, alone=BOTH_ALONE, chords_of_betas=True)[0],
    )
    chosen = labels[:, None, None] == 1
    values, edges = torch.where(chosen, near.values, apart.values), torch.where(chosen, near.edges, apart.edges)
    seen, other = (GraphInputs(values[part], near.mask[part], edges[part]) for part in (slice(1000), slice(1000, count)))
    model = initialised(MotifFinder, seed)
    train(model, seen, labels[:1000], epochs=30, batch=50, rate=2e-2, decay=0.1, seed=seed)
    return model, accuracy(model, other, labels[1000:])


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
        name="learnt motif",
        rule="a network that learnt whether an alpha has a beta neighbour; all graphs have two of each.",
        build=learnt,
        learnt=True,
    ),
    PlantedTask(
        name="repeat",
        rule="the model of 'motif', explained twice: both maps should be the same.",
        build=motif,
        score="self_agreement",
        magnitude=False,
    ),
)
