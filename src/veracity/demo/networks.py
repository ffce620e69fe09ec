"""Convolutional networks that are, or are not, invariant to shifts of their input, a series or an image.

A circular convolution of stride 1 commutes with cyclic shifts and a global pooling forgets where things were, so the
two together are exactly invariant. Local pooling and flattening break it.
"""

from __future__ import annotations

import math
from collections import OrderedDict

from torch import Size, Tensor, nn

from veracity.trainers.certified import bound


class GlobalMax(nn.Module):
    """The maximum over all positions; tied positions share its gradient, so that none is preferred."""

    def forward(self, x: Tensor) -> Tensor:
        """From (N, C, ...) to (N, C)."""
        return x.flatten(2).amax(dim=2)


class GlobalMean(nn.Module):
    """The mean over all positions."""

    def forward(self, x: Tensor) -> Tensor:
        """From (N, C, ...) to (N, C)."""
        return x.flatten(2).mean(dim=2)


@bound.register(GlobalMax)
@bound.register(GlobalMean)  # 1 / sqrt(positions), of which there is at least one
def _(layer: nn.Module) -> float:
    return 1.0


def circular(channels_in: int, channels_out: int, axes: int = 2) -> nn.Module:
    """A convolution of width 3 and stride 1 along one axis or two, which wraps around."""
    kind = nn.Conv1d if axes == 1 else nn.Conv2d
    return kind(channels_in, channels_out, kernel_size=3, padding=1, padding_mode="circular")


def all_cnn(widths: tuple[int, ...], classes: int, pool: nn.Module, hidden: int | None = None, axes: int = 2) -> nn.Sequential:
    """Circular convolutions, then a global pooling: exactly shift-invariant (Tables 5 and 9 with widths 16, 64, 128)."""
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for number, (before, after) in enumerate(zip((1, *widths), widths, strict=False), start=1):
        layers[f"conv{number}"], layers[f"relu{number}"] = circular(before, after, axes), nn.ReLU()
    layers["pool"] = pool
    layers.update(head(widths[-1], classes, hidden))
    return nn.Sequential(layers)


def flatten_cnn(widths: tuple[int, ...], classes: int, sizes: Size, hidden: int | None = None) -> nn.Sequential:
    """Circular convolutions with local pooling, then a flatten: not invariant (Tables 6 and 10 with widths 16, 64, 128)."""
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for number, (before, after) in enumerate(zip((1, *widths), widths, strict=False), start=1):
        layers[f"conv{number}"], layers[f"relu{number}"] = circular(before, after, len(sizes)), nn.ReLU()
        layers[f"pool{number}"] = nn.MaxPool1d(2) if len(sizes) == 1 else nn.MaxPool2d(2)
    layers["flatten"] = nn.Flatten()
    layers.update(head(widths[-1] * math.prod(size // 2 ** len(widths) for size in sizes), classes, hidden))
    return nn.Sequential(layers)


def head(features: int, classes: int, hidden: int | None) -> OrderedDict[str, nn.Module]:
    """One linear layer, or two hidden ones with LeakyReLU before it."""
    if hidden is None:
        return OrderedDict(linear=nn.Linear(features, classes))
    return OrderedDict(
        linear1=nn.Linear(features, hidden),
        leaky1=nn.LeakyReLU(),
        linear2=nn.Linear(hidden, hidden),
        leaky2=nn.LeakyReLU(),
        linear3=nn.Linear(hidden, classes),
    )
