"""Planted series of 64 values: motifs of nine values in weak noise, and networks that look for one of them by a matched filter."""

from __future__ import annotations

from collections import OrderedDict
from functools import cache

import torch
from torch import Tensor, nn

from veracity.core.randomness import Draws
from veracity.planted.task import SATURATION, Clip, Planted, PlantedTask, grown, set_weights, share_right
from veracity.trainers.training import initialised, train

LENGTH, WIDTH = 64, 9
MARGIN = 2
"""Maps may be this many values wider than what is planted."""
NOISE = 0.05
WAVE = (0.0, 1.0, 2.0, 1.0, 0.0, -1.0, -2.0, -1.0, 0.0)
BUMP = (0.5, 1.0, 1.5, 2.0, 2.0, 2.0, 1.5, 1.0, 0.5)
MATCH = 0.7
"""A filter answers above this share of a full match."""


class WaveCounter(nn.Module):
    """The number of waves, (N, 1), each weighed by how well it matches; with `clipped`, at most 1."""

    def __init__(self, clipped: bool = False) -> None:
        super().__init__()
        filters = nn.Conv1d(1, 2, WIDTH, padding=WIDTH // 2)
        self.first, self.last = nn.Sequential(filters, nn.ReLU()), nn.Conv1d(2, 1, WIDTH, padding=WIDTH // 2)
        self.pool, self.head, self.end = nn.AdaptiveAvgPool1d(1), nn.Linear(1, 1), Clip() if clipped else nn.Identity()
        shapes = torch.tensor([WAVE, BUMP])
        gain = 1.0 / (1.0 - MATCH)
        set_weights(filters, gain * shapes / shapes.square().sum(1, keepdim=True), -MATCH * gain)
        set_weights(self.last, torch.stack((torch.ones(WIDTH), torch.zeros(WIDTH))))
        set_weights(self.head, torch.tensor([LENGTH / WIDTH]))

    def forward(self, x: Tensor) -> Tensor:
        """Series (N, 1, 64) to one number (N, 1)."""
        count: Tensor = self.end(self.head(self.pool(self.last(self.first(x))).flatten(1)))
        return count


def noise(samples: int, seed: int) -> Tensor:
    """Weak noise (samples, 1, 64)."""
    return NOISE * Draws.of(seed, torch.arange(samples)).normal(1, LENGTH, stream="planted noise").float()


def insert(x: Tensor, motif: tuple[float, ...], quarters: Tensor, seed: int, stream: str) -> Tensor:
    """Add a motif to one quarter (N,) of each series (N, 1, 64), in place, and return where: masks (N, 64)."""
    quarter = LENGTH // 4
    start = quarters * quarter + 2 + Draws.of(seed, torch.arange(len(x))).integers(quarter - WIDTH - 3, stream=stream)
    places = start[:, None] + torch.arange(WIDTH)
    x[:, 0] = x[:, 0].scatter_add(1, places, torch.tensor(motif).expand(len(x), WIDTH))
    return torch.zeros(len(x), LENGTH, dtype=torch.bool).scatter(1, places, True)


def motif(samples: int, seed: int) -> Planted:
    """One wave, and one bump that is found and not used."""
    x, where = noise(samples, seed), Draws.of(seed, torch.arange(samples)).choice(4, 2, stream="planted quarters")
    mask = insert(x, WAVE, where[:, 0], seed, "planted wave")
    insert(x, BUMP, where[:, 1], seed, "planted bump")
    return Planted(model=WaveCounter().eval(), inputs=x, truth=grown(mask, MARGIN))


def redundant(samples: int, seed: int) -> Planted:
    """Two waves, of which one is enough."""
    x, where = noise(samples, seed), Draws.of(seed, torch.arange(samples)).choice(4, 2, stream="planted quarters")
    mask = insert(x, WAVE, where[:, 0], seed, "planted wave") | insert(x, WAVE, where[:, 1], seed, "planted second wave")
    model = WaveCounter(clipped=True)
    set_weights(model.head, torch.tensor([1.5 * LENGTH / WIDTH]))
    return Planted(model=model.eval(), inputs=x, truth=grown(mask, MARGIN))


def learnt(samples: int, seed: int) -> Planted:
    """A network that learnt to find a wave; half of all series have a bump, which tells nothing."""
    model, accuracy = network(seed)
    made = motif(samples, seed + 1)
    return Planted(model=model, inputs=made.inputs, truth=made.truth, targets=torch.ones(samples).long(), accuracy=accuracy)


def finder() -> nn.Module:
    """An untrained network of two convolutions and the largest value of each channel."""
    layers: dict[str, nn.Module] = {"first": nn.Sequential(nn.Conv1d(1, 8, WIDTH, padding=4), nn.ReLU())}
    layers |= {"last": nn.Conv1d(8, 8, WIDTH, padding=4), "relu_last": nn.ReLU(), "pool": nn.AdaptiveMaxPool1d(1), "flat": nn.Flatten()}
    return nn.Sequential(OrderedDict(layers | {"head": nn.Linear(8, 2)}))


@cache
def network(seed: int) -> tuple[nn.Module, float]:
    """The trained network, and its accuracy on 200 other series."""
    count = 1000
    source, x = Draws.of(seed, torch.arange(count)), noise(count, seed)
    where = source.choice(4, 2, stream="planted quarters")
    present = source.uniform(2, stream="planted present") < 0.5
    for column, (shape, name) in enumerate(((WAVE, "wave"), (BUMP, "bump"))):
        added = torch.zeros_like(x)
        insert(added, shape, where[:, column], seed, f"planted {name}")
        x += added * present[:, column, None, None]
    labels = present[:, 0].long()
    model = initialised(finder, seed)
    train(model, x[:800], labels[:800], epochs=8, batch=32, rate=1e-2, seed=seed)
    return model, share_right(model, x[800:], labels[800:])


MASS = "relevance_mass_accuracy"
ONE_LEFT = "without one of the two waves, the other one is still enough"
TASKS = (
    PlantedTask(
        name="motif",
        rule="the number of waves, by a matched filter; a bump is found and not used.",
        build=motif,
        score=MASS,
        bar=0.5,
    ),
    PlantedTask(
        name="redundant",
        rule="the number of waves, at most 1, in series with two.",
        build=redundant,
        score=MASS,
        bar=0.5,
        why={**SATURATION, **dict.fromkeys(("occlusion", "occlusion(window=1)", "feature_ablation"), ONE_LEFT)},
    ),
    PlantedTask(
        name="learnt motif", rule="a network that learnt to find a wave beside bumps.", build=learnt, score=MASS, bar=0.5, learnt=True
    ),
    PlantedTask(
        name="repeat",
        rule="the model of 'motif', explained twice: both maps should be the same.",
        build=motif,
        score="self_agreement",
        magnitude=False,
    ),
)
