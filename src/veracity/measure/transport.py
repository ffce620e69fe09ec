"""How far the mass of one map must travel to become another's: distances that know where things stand."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from veracity.core.errors import InputError
from veracity.core.measures import Direction, measure
from veracity.core.settings import Count
from veracity.measure.rows import paired


@measure(
    "sliced_wasserstein",
    direction=Direction.LOWER,
    range=(0.0, math.inf),
    reference="Bonneel, Rabin, Peyré and Pfister 2015",
    units=False,
)
def sliced_wasserstein(a: Tensor, b: Tensor, directions: Count = 16) -> Tensor:
    """The work of moving one map's mass to where the other has its own, in pixels, as seen along straight lines.

    mean over u of integral |F_a,u(t) - F_b,u(t)| dt, where F_e,u(t) is the share of |e|, summed over channels, that stands
    at positions p with <p, u> <= t; u are `directions` unit vectors evenly spread over half a turn. From (N, C, H, W) or
    (N, C, T), twice, to (N,); along each line it is the exact 1-Wasserstein distance. Since seen along a line nothing is
    further apart than it is, it is at most the exact distance between the maps; equal to it for series, which have one line,
    and 2 / pi of it (to .4 % with 16 lines) for a map that is moved as a whole. Signs do not count. A zero map has no mass: NaN.

    >>> a = torch.zeros(1, 1, 32, 32)
    >>> a[0, 0, 4, 4] = 1.0
    >>> sliced_wasserstein(a, a.roll((3, 4), (2, 3))) * math.pi / 2
    tensor([5.0033], dtype=torch.float64)
    """
    a, b = paired(a, b)
    if a.ndim not in (3, 4):
        raise InputError(f"The measure 'sliced_wasserstein' compares maps (N, C, H, W) or series (N, C, T), not {tuple(a.shape)}.")
    surplus = shares(a) - shares(b)
    lines = projections(a.shape[2:], directions, a.device)
    total = torch.zeros(len(a), dtype=torch.float64, device=a.device)
    for line in lines:
        place, order = line.sort(stable=True)
        carried = surplus.index_select(1, order).cumsum(dim=1)[:, :-1]
        total += torch.linalg.vecdot(carried.abs_(), place.diff().expand_as(carried))
    return total / len(lines)


def shares(e: Tensor) -> Tensor:
    """The share of a map's mass at every position, (N, positions); NaN where a map has none."""
    mass = e.abs().sum(dim=1).flatten(1)
    largest = mass.amax(dim=1, keepdim=True)
    mass = mass / largest
    return mass / mass.sum(dim=1, keepdim=True)


def projections(extent: torch.Size, directions: int, device: torch.device) -> Tensor:
    """Every position of a map or series seen along each line, (lines, positions); a series has one line."""
    if len(extent) == 1:
        return torch.arange(extent[0], dtype=torch.float64, device=device)[None]
    angles = math.pi * torch.arange(directions, dtype=torch.float64, device=device) / directions
    down, right = (torch.arange(length, dtype=torch.float64, device=device) for length in extent)
    seen = angles.sin()[:, None, None] * down[:, None] + angles.cos()[:, None, None] * right
    return seen.flatten(1)
