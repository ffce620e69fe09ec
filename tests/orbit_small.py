"""Small data, models and evaluations for orbits: images, scenes with one object, frame pairs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from veracity import OrbitEvaluation
from veracity.orbits import Classification, CropOrbit, Detection, Flow, FlowOrbit, GroupOrbit
from veracity.perturb import Dihedral

SIDE = 4
CLASSES = ("zero", "one", "two")
WINDOW = 8


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def images(count: int = 6, seed: int = 0) -> Tensor:
    return torch.rand(count, 1, SIDE, SIDE, generator=seeded(seed))


def labels(count: int = 6) -> Tensor:
    return torch.arange(count) % len(CLASSES)


def linear(seed: int = 0, classes: int = len(CLASSES)) -> nn.Module:
    layer = nn.Linear(SIDE * SIDE, classes)
    with torch.no_grad():
        layer.weight.copy_(torch.randn(layer.weight.shape, generator=seeded(seed)))
        layer.bias.zero_()
    return nn.Sequential(nn.Flatten(), layer).eval()


def digits_like(**settings: Any) -> OrbitEvaluation:
    """Two linear classifiers of small images under D4."""
    given: dict[str, Any] = {
        "models": {"a": linear(0), "b": linear(1)},
        "inputs": images(),
        "targets": labels(),
        "orbit": GroupOrbit(space=Dihedral()),
        "task": Classification(classes=CLASSES),
    }
    return OrbitEvaluation(**{**given, **settings})


class Brightest(nn.Module):
    """Finds the brightest pixel of a window, and claims a box of one pixel around it; the score is its brightness, the class given.

    Where it is darker than `least` there is nothing.
    """

    def __init__(self, kind: float = 1.0, least: float = 0.1) -> None:
        super().__init__()
        self.kind, self.least = kind, least

    def forward(self, x: Tensor) -> Tensor:
        score, place = x[:, 0].flatten(1).max(dim=1)
        row, column = place // x.shape[-1], place % x.shape[-1]
        corners = torch.stack((column, row, column + 1, row + 1), dim=1).float()
        found = torch.cat((corners, score[:, None], torch.full_like(score, self.kind)[:, None]), dim=1)
        return found.masked_fill((score < self.least)[:, None], float("nan"))[:, None]


def scenes(count: int = 3) -> tuple[Tensor, Tensor]:
    """Dark scenes (1, 16, 16) with one bright pixel near the middle, and its box in the central window of 8 pixels."""
    x = torch.zeros(count, 1, 16, 16)
    at = torch.arange(count) % 3 + 7
    x[torch.arange(count), 0, at, 8] = 0.9
    box = torch.stack((torch.full_like(at, 4), at - 4, torch.full_like(at, 5), at - 3, torch.ones_like(at)), dim=1)
    return x, box.float()[:, None]


def detection(**settings: Any) -> OrbitEvaluation:
    x, boxes = scenes()
    given: dict[str, Any] = {
        "models": {"brightest": Brightest()},
        "inputs": x,
        "targets": boxes,
        "orbit": CropOrbit(window=WINDOW, reach=4, step=2),
        "task": Detection(classes=("nothing", "spot"), window=WINDOW, top=2),
    }
    return OrbitEvaluation(**{**given, **settings})


class Gradient(nn.Module):
    """The gradient of the second frame less the first, by central differences around: exactly covariant under D4 and reversal."""

    def forward(self, x: Tensor) -> Tensor:
        change = x[:, 1] - x[:, 0]
        parts = [(change.roll(-1, axis) - change.roll(1, axis)) / 2 for axis in (2, 1)]
        return torch.stack(parts, dim=1)


class Still(nn.Module):
    """Sees the first frame's left half alone: not covariant at all."""

    def forward(self, x: Tensor) -> Tensor:
        field = torch.zeros_like(x)
        field[:, 0, :, : x.shape[-1] // 2] = x[:, 0, :, : x.shape[-1] // 2]
        return field


def flow(**settings: Any) -> OrbitEvaluation:
    pairs = torch.rand(3, 2, 8, 8, generator=seeded(3))
    given: dict[str, Any] = {
        "models": {"gradient": Gradient(), "still": Still()},
        "inputs": pairs,
        "targets": Gradient()(pairs) + 0.1,
        "orbit": FlowOrbit(),
        "task": Flow(),
        "labels": ["shear", "vortex", "shear"],
    }
    return OrbitEvaluation(**{**given, **settings})
