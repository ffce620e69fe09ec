"""Generated images of one circle or one square on a noisy background, with the class of every pixel.

The shapes have the same range of areas, so that counting bright pixels does not tell them apart. They wrap around at the borders, as
the images of a cyclic shift do. Every random number comes from one generator.
"""

from __future__ import annotations

import torch
from torch import Tensor

SIDE = 20
CLASSES = ("background", "circle", "square")
NOISE = 0.1


def shapes(count: int, seed: int = 0, side: int = SIDE) -> tuple[Tensor, Tensor]:
    """Images (N, 1, side, side), about 0 outside of a shape and .6 to 1 inside, and the class of every pixel (N, side, side).

    >>> images, classes = shapes(4)
    >>> images.shape, sorted(classes.unique().tolist())
    (torch.Size([4, 1, 20, 20]), [0, 1, 2])
    """
    generator = torch.Generator().manual_seed(seed)

    def uniform(low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand(count, generator=generator)

    kind = torch.arange(count) % 2 + 1
    radius, bright, column, row = uniform(3.0, 5.0), uniform(0.6, 1.0), uniform(0.0, side), uniform(0.0, side)
    along = torch.arange(side, dtype=torch.float32)
    across, down = (wrapped(along[None] - middle[:, None], side) for middle in (column, row))
    x, y = across[:, None, :], down[:, :, None]
    circle = x**2 + y**2 <= (radius**2)[:, None, None]
    half = (radius * torch.pi**0.5 / 2.0)[:, None, None]
    square = (x.abs() <= half) & (y.abs() <= half)
    inside = torch.where((kind == 1)[:, None, None], circle, square)
    images = inside * bright[:, None, None] + NOISE * torch.randn(count, side, side, generator=generator)
    return images[:, None], inside * kind[:, None, None]


def wrapped(offset: Tensor, side: int) -> Tensor:
    """Signed distances on a circle of length `side`, between -side / 2 and side / 2.

    >>> wrapped(torch.tensor([9.0, -9.0, 2.0]), 10)
    tensor([-1.,  1.,  2.])
    """
    return (offset + side / 2.0).remainder(side) - side / 2.0
