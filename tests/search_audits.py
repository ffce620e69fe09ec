"""Tiny models and data for robustness scores through whole audits, and a way to count the rows that a model sees."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook

from veracity import Audit, Result
from veracity.walk import Genetic, GradientSearch, Strongest, SubsetSimulation

LINEAR = torch.tensor([[2.0, 1.0, 1.0], [0.5, 2.0, -1.0]], dtype=torch.float64)
SEED = torch.tensor([[0.8, 0.5, 0.4]], dtype=torch.float64)
"""An input of class 0 whose scores are 2.5 and 1.0."""

AROUND = {"radius": 0.4, "range": (0.0, 1.0)}
GENETIC = Genetic(population=20, generations=5, elites=4)
SUBSET = SubsetSimulation(population=40, steps=3, floor=-12.0)
BOTH = Strongest(searches=(GENETIC, GradientSearch(population=2, steps=4)))


def linear_net() -> nn.Module:
    """Two scores, linear in three inputs, so that gradient times input is known everywhere."""
    net = nn.Sequential(nn.Linear(3, 2, bias=False)).double().eval()
    net[0].weight.data.copy_(LINEAR)
    return net


def tanh_net(seed: int = 0) -> nn.Module:
    """Three classes over 4 x 4 images."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Flatten(), nn.Linear(16, 12), nn.Tanh(), nn.Linear(12, 3)).double().eval()


def images(count: int = 5) -> Tensor:
    return torch.rand(count, 1, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def audit_of(net: nn.Module, x: Tensor, scores: Any, **settings: Any) -> Audit:
    """An audit of correctly classified inputs, without controls or companions."""
    with torch.no_grad():
        labels = net(x).argmax(dim=1)
    given = {"models": {"net": net}, "inputs": x, "targets": labels, "explainers": ["input_x_gradient"], "scores": scores}
    return Audit(**{**given, "controls": False, "companions": False, **settings})


@contextmanager
def counted(net: nn.Module) -> Iterator[list[int]]:
    """The rows of every forward pass, by a hook that is not the network's own, since those count for its key."""
    rows: list[int] = []
    handle = register_module_forward_pre_hook(lambda module, args: rows.append(len(args[0])) if module is net else None)
    try:
        yield rows
    finally:
        handle.remove()


def by_hand(weights: Tensor, x: Tensor, moved: Tensor, *, follow: bool = True) -> tuple[Tensor, Tensor]:
    """Agreement (R,) and J (R,) of a linear model with gradient times input, from the definitions."""
    label = int((weights @ x[0]).argmax())
    scores = moved @ weights.T
    chosen = scores.argmax(dim=1) if follow else torch.full((len(moved),), label)
    before, after = (weights[label] * x[0]).abs(), (weights[chosen] * moved).abs()
    before, after = before - before.mean(), after - after.mean(dim=1, keepdim=True)
    agreement = (after * before).sum(dim=1) / (after.norm(dim=1) * before.norm())
    other = scores.clone()
    other[:, label] = -torch.inf
    return agreement, other.amax(dim=1) - scores[:, label]


def grid(x: Tensor, radius: float, count: int, *, walls: bool = False) -> Tensor:
    """The midpoints of count^3 equal boxes of the cube around x cut to [0, 1], (count^3, 3): each is as likely as any other.

    With `walls` the points go from wall to wall instead, for extremes.
    """
    low, high = (x[0] - radius).clamp(min=0.0), (x[0] + radius).clamp(max=1.0)
    place = torch.linspace(0, 1, count, dtype=torch.float64) if walls else (torch.arange(count, dtype=torch.float64) + 0.5) / count
    return low + (high - low) * torch.cartesian_prod(place, place, place)


def one(result: Result, score: str) -> dict[str, float]:
    (row,) = result.table().query(f"score == '{score}'").to_dict("records")
    return row


def values(result: Result, score: str) -> list[float]:
    return result.samples(score)["value"].tolist()
