"""A certified upper bound of a network's Lipschitz constant, from its layers.

|f(x) - f(y)| <= L |x - y| in the Euclidean norm, with L the product of the layers' own constants:

- a linear layer's is its largest singular value;
- a convolution's is at most the largest singular value of its symbol, sum_k W_k exp(i w.k), over all frequencies w: its matrix is
  a part of the convolution's over the infinite plane, for any image size, stride and zero padding. It is computed on a grid
  of N frequencies per axis and multiplied by 1 / cos(pi n / N) per axis, n half the kernel, which covers the frequencies
  between them (Pfister and Bresler 2018: .97 % for 3x3 kernels at N = 32);
- means and maxima over windows, normalisations in evaluation mode and activations have closed forms.

All in float64. The bound is never too low, and exact up to rounding if the grid hits the maximum.
"""

from __future__ import annotations

import math
from functools import singledispatch

import torch
from torch import Tensor, nn

from veracity.core.errors import InputError

FREQUENCIES = 32


@torch.no_grad()
def certified_constant(model: nn.Module) -> float:
    """An upper bound of the Lipschitz constant, in the Euclidean norm, of the map from an input to all logits in evaluation mode.

    >>> layer = nn.Linear(2, 2)
    >>> _ = layer.weight.data.copy_(torch.tensor([[3.0, 0.0], [4.0, 0.0]]))
    >>> round(certified_constant(nn.Sequential(layer, nn.ReLU())), 12)
    5.0
    """
    return bound(model)


@singledispatch
def bound(layer: nn.Module) -> float:
    """The bound of one layer. Register other kinds of layers with `bound.register`."""
    raise InputError(
        f"No Lipschitz bound is known for the layer {type(layer).__name__}: register one with "
        "veracity.trainers.certified.bound.register, a function of the layer to a number."
    )


@bound.register(nn.Sequential)
def _(layer: nn.Sequential) -> float:
    return math.prod(bound(part) for part in layer)


@bound.register(nn.Identity)
@bound.register(nn.Flatten)
@bound.register(nn.Dropout)
@bound.register(nn.ReLU)
@bound.register(nn.Tanh)
@bound.register(nn.Softplus)
def _(layer: nn.Module) -> float:
    return 1.0


@bound.register(nn.LeakyReLU)
def _(layer: nn.LeakyReLU) -> float:
    return max(1.0, abs(layer.negative_slope))


@bound.register(nn.PReLU)
def _(layer: nn.PReLU) -> float:
    return max(1.0, float(layer.weight.abs().max()))


@bound.register(nn.Linear)
def _(layer: nn.Linear) -> float:
    return float(torch.linalg.matrix_norm(layer.weight.detach().double(), ord=2))


@bound.register(nn.BatchNorm2d)
def _(layer: nn.BatchNorm2d) -> float:
    if layer.running_var is None:
        raise InputError("A batch normalisation without running statistics has no Lipschitz bound: build it with track_running_stats=True.")
    scale = 1.0 / (layer.running_var.double() + layer.eps).sqrt()
    return float((scale if layer.weight is None else scale * layer.weight.double()).abs().max())


@bound.register(nn.MaxPool2d)
def _(layer: nn.MaxPool2d) -> float:
    if pair(layer.dilation) != (1, 1):
        raise InputError(f"No Lipschitz bound is known for maxima over windows with a dilation of {layer.dilation}: use 1.")
    return math.sqrt(overlap(pair(layer.kernel_size), pair(layer.stride)))


@bound.register(nn.AvgPool2d)
def _(layer: nn.AvgPool2d) -> float:
    sides = pair(layer.kernel_size)
    if layer.ceil_mode or (pair(layer.padding) != (0, 0) and not layer.count_include_pad):
        raise InputError("No Lipschitz bound is known for means over windows that are cut at the border: leave ceil_mode and padding out.")
    divisor = layer.divisor_override or math.prod(sides)
    return math.sqrt(math.prod(sides) * overlap(sides, pair(layer.stride))) / abs(divisor)


@bound.register(nn.Conv2d)
def _(layer: nn.Conv2d) -> float:
    if layer.padding_mode not in ("zeros", "circular"):
        raise InputError(f"No Lipschitz bound is known for a convolution padded by '{layer.padding_mode}': use zeros or circular.")
    if layer.padding_mode == "circular" and layer.stride != (1, 1):
        raise InputError("No Lipschitz bound is known for a circular convolution with a stride: use a stride of 1.")
    return max(symbol_norm(part) for part in layer.weight.detach().double().chunk(layer.groups))


def symbol_norm(weight: Tensor, frequencies: int = FREQUENCIES) -> float:
    """An upper bound of the largest singular value of sum_k W_k exp(i w.k) over all w, for a kernel (O, C, h, w); 1 % tight for 3x3.

    >>> round(symbol_norm(torch.ones(1, 1, 1, 1)), 12), 9 <= symbol_norm(torch.ones(1, 1, 3, 3)) < 9.09
    (1.0, True)
    """
    sides = weight.shape[-2:]
    grid = [max(frequencies, 8 * side) if side > 1 else 1 for side in sides]
    symbol = torch.fft.rfft2(weight, s=grid).permute(2, 3, 0, 1)  # real kernels: the other half has the same values
    narrow = symbol.mT.conj() @ symbol if symbol.shape[-2] >= symbol.shape[-1] else symbol @ symbol.mT.conj()
    largest = math.sqrt(max(0.0, float(torch.linalg.eigvalsh(narrow)[..., -1].max())))
    return largest / math.prod(math.cos(math.pi * (side // 2) / count) for side, count in zip(sides, grid, strict=True))


def overlap(sides: tuple[int, int], strides: tuple[int, int]) -> int:
    """The largest number of windows that contain a pixel.

    >>> overlap((2, 2), (2, 2)), overlap((3, 3), (2, 2))
    (1, 4)
    """
    return math.prod(-(-side // stride) for side, stride in zip(sides, strides, strict=True))


def pair(value: int | tuple[int, ...]) -> tuple[int, int]:
    """A setting for both axes."""
    return (value, value) if isinstance(value, int) else (value[0], value[1])
