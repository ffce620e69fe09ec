"""A small problem whose networks are trained in an instant, and how often they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from veracity.core.spaces import WeightSpace

SAMPLES, CLASSES = 60, 3


def blobs() -> tuple[Tensor, Tensor]:
    labels = torch.arange(SAMPLES) % CLASSES
    noise = 0.2 * torch.randn(SAMPLES, 1, 6, generator=torch.Generator().manual_seed(3))
    return noise + torch.nn.functional.one_hot(labels, CLASSES).float().repeat_interleave(2, 1)[:, None], labels


def network() -> nn.Module:
    return nn.Sequential(nn.Conv1d(1, 3, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(18, CLASSES))


def seeded(seed: int = 0) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return network().eval()


class Fits:
    """A training function that remembers the labels that it was given."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, Tensor]] = []

    def __call__(self, inputs: Tensor, targets: Tensor, seed: int) -> nn.Module:
        self.seen.append((seed, targets.clone()))
        model = network()
        own = list(model.parameters())
        for _ in range(40):
            slopes = torch.autograd.grad(nn.functional.cross_entropy(model(inputs), targets), own)
            with torch.no_grad():
                for value, slope in zip(own, slopes, strict=True):
                    value -= 0.5 * slope
        return model.eval()

    def __iter__(self) -> Iterator[tuple[int, Tensor]]:
        return iter(self.seen)

    def spec(self) -> dict[str, str]:
        return {"name": "fits"}


@dataclass(frozen=True, kw_only=True)
class Burst(WeightSpace):
    """Weights that are not finite from the second level on."""

    name = "burst"
    steps: int = 2

    @property
    def levels(self) -> int:
        return self.steps

    def parameters(self, model: nn.Module, draw: int, level: int, seed: int) -> dict[str, Tensor]:
        value = dict(model.named_parameters())["0.weight"].detach()
        return {"0.weight": value * (torch.inf if level else 1.5)}
