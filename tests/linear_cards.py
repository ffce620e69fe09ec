"""A linear model, its data, and explainers about which the right answers are known."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

import veracity

FEATURES, CLASSES = 16, 4


def linear_model(seed: int = 0) -> nn.Module:
    generator = torch.Generator().manual_seed(seed)
    model = nn.Linear(FEATURES, CLASSES)
    with torch.no_grad():
        model.weight.copy_(torch.randn(CLASSES, FEATURES, generator=generator) * 0.6)
        model.bias.zero_()
    return model.eval()


def samples(count: int, seed: int = 1) -> Tensor:
    return torch.randn(count, FEATURES, generator=torch.Generator().manual_seed(seed))


def labelled(count: int) -> tuple[Tensor, Tensor]:
    x = samples(count)
    return x, linear_model()(x).argmax(1)


def weights_of(model: nn.Module) -> Tensor:
    return next(one for one in model.modules() if isinstance(one, nn.Linear)).weight.detach()


def contributions(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """w x with a baseline of zero: the exact contributions."""
    return weights_of(model)[targets] * inputs


def sum_of_logits(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """The contributions to the sum of all logits: the same for every class."""
    return weights_of(model).sum(0) * inputs


def noisy(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """The exact contributions plus noise of half of their size."""
    exact = contributions(model, inputs, targets)
    return exact + 0.5 * exact.std() * torch.randn_like(inputs)


def random_map(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    return torch.randn_like(inputs)


def edges(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    return (inputs.roll(1, -1) - inputs.roll(-1, -1)).abs()


def switched(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """The exact contributions, but those of the reversed input on thin stripes of the input space: an adversarial switch."""
    exact = contributions(model, inputs, targets)
    hidden = (torch.sin(200.0 * inputs[:, :1]) > 0.6).to(inputs)
    return hidden * exact.flip(-1) + (1.0 - hidden) * exact


def some() -> tuple[Tensor, Tensor]:
    return labelled(12)


def known_card(folder: Path) -> veracity.Card:
    """A linear model and explainers of which each is right or wrong by construction: a race that is over after 64 of 80 samples."""
    x, y = labelled(160)
    named = {"exact": contributions, "summed": sum_of_logits, "noisy": noisy, "random": random_map, "edges": edges}
    return veracity.card(linear_model(), x, y, explainers=named, samples=80, folder=folder, budget="1s", progress=False)
