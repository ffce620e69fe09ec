"""A small trained CNN that is exactly invariant under cyclic shifts, and digits to explain."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from veracity.core.explainers import Context, Explainer
from veracity.core.randomness import Draws


class GlobalMax(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.amax((-2, -1))


def circular(given: int, made: int) -> nn.Conv2d:
    return nn.Conv2d(given, made, 3, padding=1, padding_mode="circular")


@dataclass(frozen=True)
class Digits:
    model: nn.Module
    inputs: Tensor
    targets: Tensor
    accuracy: float


def trained_digits() -> Digits:
    data = load_digits()
    images = nn.functional.pad(torch.tensor(data.images, dtype=torch.float32)[:, None] / 16, (2, 2, 2, 2))
    labels = torch.tensor(data.target)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(
            circular(1, 8), nn.ReLU(), circular(8, 8), nn.ReLU(), circular(8, 16), nn.ReLU(), GlobalMax(), nn.Linear(16, 10)
        )
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        for _ in range(5):
            for rows in torch.randperm(1500).split(50):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(images[rows]), labels[rows]).backward()
                optimizer.step()
    model.eval()
    with torch.no_grad():
        predicted = model(images[1500:]).argmax(1)
    accuracy = float((predicted == labels[1500:]).float().mean())
    return Digits(model, images[1500:1540], predicted[:40], accuracy)


def context_of(count: int, batch: int = 512, draw: int = 0, seed: int = 0) -> Context:
    return Context(Draws.of(seed, torch.arange(count), draw), batch)


def explain(explainer: Explainer, model: nn.Module, inputs: Tensor, targets: Tensor, draw: int = 0) -> Tensor:
    return explainer.explain(model, inputs, targets, context_of(len(inputs), draw=draw))
