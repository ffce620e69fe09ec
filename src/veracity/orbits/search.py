"""The worst place of one orbit: a search that starts at the worst measured elements and goes on between them."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from veracity.orbits.grids import Orbit

STARTS = 3
"""From so many of the worst measured elements a search sets out."""
ROUNDS = 8
"""How often the steps of a search are halved."""


@dataclass(frozen=True, kw_only=True)
class WorstPlace:
    """Where a search found the largest loss of an orbit: its coordinates (axes,), the loss there, and how many places it looked at."""

    at: Tensor
    loss: float
    evaluations: int


def worst_place(orbit: Orbit, losses: Tensor) -> Generator[Tensor, Tensor, WorstPlace]:
    """A compass search for the largest loss: half a step of the grid each way along every axis, then half of that, and so on.

    `losses` (K,) are those of the grid. The search yields coordinates (n, axes), wants their losses (n,) sent back, and returns the worst
    place. Places whose transform the grid has already are not looked at again, so the search of a group with nothing in between ends at
    the worst measured element.
    """
    grid, known = orbit.coordinates(), orbit.elements
    axes = orbit.axes
    losses = losses.double().nan_to_num(-torch.inf)
    starts = losses.argsort(descending=True, stable=True)[: min(STARTS, len(grid))]
    places, best = grid[starts].clone(), losses[starts].clone()
    step = torch.tensor([axis.step / 2 for axis in axes], dtype=torch.float64)
    ways = torch.tensor([way for way in product((-1, 0, 1), repeat=len(axes)) if any(way)], dtype=torch.float64)
    evaluations = 0
    for _ in range(ROUNDS):
        tried = (places[:, None] + ways * step).reshape(-1, len(axes))
        for number, axis in enumerate(axes):
            column = tried[:, number]
            tried[:, number] = column.clamp(axis.low, axis.high) if axis.period is None else (column - axis.low) % axis.period + axis.low
        new = ~(orbit.locate(tried)[:, None] == known).all(dim=2).any(dim=1)
        if not new.any():
            break
        found = torch.full((len(tried),), -torch.inf, dtype=torch.float64)
        asked = yield tried[new]
        found[new] = asked.double().nan_to_num(-torch.inf)
        evaluations += int(new.sum())
        top, which = found.reshape(len(places), -1).max(dim=1)
        better = top > best
        places[better] = tried.reshape(len(places), -1, len(axes))[better, which[better]]
        best = torch.where(better, top, best)
        step = step / 2
    first = int(best.argmax())
    return WorstPlace(at=places[first], loss=float(best[first]), evaluations=evaluations)
