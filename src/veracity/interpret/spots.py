"""Maps that part from a first one step by step: a spot that moves away, and a spot under growing noise (appendix F)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

SOFT, BROAD, DISC = 1 / 16, 1 / 8, 1 / 10
"""Widths as shares of a map's side: of a soft spot that moves, of the one under noise, and the radius of a disc."""
INSIDE = 3.0
"""How many widths a soft spot keeps from the map's edges, so that its mass stays what it is."""


@dataclass(frozen=True, kw_only=True)
class Parting:
    """A first map (1, 1, S, S) and others (levels, repeats, 1, S, S) that are ever further from it, at levels `at` (levels,)."""

    name: str
    at: Tensor
    first: Tensor
    others: Tensor


def spots(rows: Tensor, columns: Tensor, size: int, width: float) -> Tensor:
    """Gaussian spots exp(-r^2 / 2 width^2) around centres (L,) and (L,), as float64 maps (L, 1, size, size).

    >>> found = spots(torch.tensor([1.0]), torch.tensor([1.0]), 3, 1.0)[0, 0]
    >>> found[0]
    tensor([0.3679, 0.6065, 0.3679], dtype=torch.float64)
    """
    return torch.exp(-0.5 * (radius(rows, columns, size) / width) ** 2)


def discs(rows: Tensor, columns: Tensor, size: int, width: float) -> Tensor:
    """Discs of radius `width` around centres (L,) and (L,), as float64 maps (L, 1, size, size): 1 inside, 0 outside, a rim between."""
    return (width + 0.5 - radius(rows, columns, size)).clamp(0.0, 1.0)


def radius(rows: Tensor, columns: Tensor, size: int) -> Tensor:
    """How far every pixel is from each centre, (L, 1, size, size)."""
    line = torch.arange(size, dtype=torch.float64)
    down, right = line[:, None] - rows.double()[:, None, None], line - columns.double()[:, None, None]
    return torch.hypot(down, right)[:, None]


def moving(size: int = 32, steps: int = 100, *, diagonal: bool = False, disc: bool = False) -> Parting:
    """A spot in the upper left corner and its way to the upper right one, or along the diagonal to the lower right one.

    `steps` maps of `size` pixels a side, centres evenly spaced; a soft spot of width S / 16 that is nowhere exactly zero, or a
    disc of radius S / 10 with nothing around it. Spots stay whole, so that only their place changes. The level is the share
    of the way. Fel et al. 2022, appendix F.1.
    """
    width = size * (DISC if disc else SOFT)
    margin = width + 1.0 if disc else INSIDE * width
    at = torch.linspace(0.0, 1.0, steps, dtype=torch.float64)
    columns = margin + at * (size - 1 - 2 * margin)
    rows = columns if diagonal else torch.full_like(columns, margin)
    maps = (discs if disc else spots)(rows, columns, size, width)
    name = ("disc" if disc else "spot") + (", diagonal" if diagonal else "")
    return Parting(name=name, at=at, first=maps[:1], others=maps[:, None])


def noisy(size: int = 32, levels: int = 21, repeats: int = 50, *, generator: torch.Generator) -> Parting:
    """A soft spot of width S / 8 and height 1 in the middle, and copies x + e with e ~ N(0, sigma^2), sigma from 0 to 1.

    Every level is drawn `repeats` times anew from the generator. The level is sigma. Fel et al. 2022, appendix F.2.
    """
    middle = torch.tensor([(size - 1) / 2.0])
    first = spots(middle, middle, size, BROAD * size)
    at = torch.linspace(0.0, 1.0, levels, dtype=torch.float64)
    noise = torch.randn(levels, repeats, 1, size, size, generator=generator, dtype=torch.float64)
    return Parting(name="noise", at=at, first=first, others=first + at[:, None, None, None, None] * noise)


def partings(size: int = 32, steps: int = 100, repeats: int = 50, seed: int = 0) -> tuple[Parting, ...]:
    """The moving spot, along the edge and along the diagonal, the moving disc, and the noise."""
    generator = torch.Generator().manual_seed(seed)
    return (
        moving(size, steps),
        moving(size, steps, diagonal=True),
        moving(size, steps, disc=True),
        noisy(size, repeats=repeats, generator=generator),
    )
