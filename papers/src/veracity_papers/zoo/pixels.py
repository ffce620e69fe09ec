"""Small networks that give every pixel a class, and one that predicts a number from a table."""

from __future__ import annotations

from typing import Literal

from torch import nn


def pixel_network(padding_mode: Literal["circular", "zeros"] = "circular", classes: int = 3) -> nn.Module:
    """Three convolutions of 5 x 5, so that a pixel sees 13 x 13; with circular padding its output moves exactly with cyclic shifts."""
    layers: list[nn.Module] = []
    for before, after in ((1, 12), (12, 12), (12, classes)):
        layers += [nn.Conv2d(before, after, 5, padding=2, padding_mode=padding_mode), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def value_network(features: int, width: int = 16) -> nn.Module:
    """Two hidden layers, and one output without a unit after it."""
    return nn.Sequential(nn.Linear(features, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))
