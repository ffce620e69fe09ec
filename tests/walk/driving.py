"""The engine by hand: a search is driven with a merit that is a plain function, and its trace is summed up."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from scipy import special
from torch import Size, Tensor

from veracity.core.spaces import Space
from veracity.core.walks import Ask, Search, Searcher, Trace
from veracity.perturb import Ball

CPU = torch.device("cpu")
Merit = Callable[[Ask], Tensor]
"""From what was asked to its merits (R,)."""


def drive(searcher: Searcher, merit: Merit) -> int:
    """Ask and tell to the end; how many rows were asked. What is seen is the merit and the first entry of the element."""
    rows = 0
    while (ask := searcher.ask()) is not None:
        found = merit(ask).double()
        searcher.tell(found, torch.stack((found, ask.element[:, 0].double()), dim=1))
        rows += len(ask)
    return rows


def search_of(walk: Search, space: Space, merit: Merit, *, target: float = 0.0, samples: Tensor | int = 1, seed: int = 0) -> Searcher:
    """A finished search over samples, or over the first so many of them."""
    numbers = torch.arange(samples) if isinstance(samples, int) else samples
    searcher = walk.searcher(space, numbers, seed, target, CPU)
    drive(searcher, merit)
    return searcher


def last(trace: Trace, name: str) -> Tensor:
    """A quantity at each sample's last line, (samples,)."""
    found = torch.full((int(trace.row.max()) + 1,), torch.nan, dtype=torch.float64)
    for row, value in zip(trace.row.tolist(), trace.quantities[name].tolist(), strict=True):
        found[row] = value
    return found


def ln_p(trace: Trace) -> tuple[Tensor, Tensor]:
    """ln P of each sample and its standard error, by equations (21) and (28)."""
    samples = int(trace.row.max()) + 1
    value, square = (torch.zeros(samples, dtype=torch.float64) for _ in range(2))
    value.index_add_(0, trace.row, trace.quantities["probability"].log())
    square.index_add_(0, trace.row, trace.quantities["variance"])
    return value, square.sqrt()


def unit_box(size: int) -> Ball:
    """The cube of side 1 around zero."""
    return Ball(radius=0.5).fit(Size([size]))


def linear_event(slopes: Tensor, probability: float) -> tuple[Merit, float]:
    """The merit -sum a_i (1 - x_i) on the unit box, x = z + .5, and the target that it reaches with a small probability.

    P(sum a_i (1 - x_i) <= t) = t^d / (d! prod a_i) for t <= min a_i.
    """
    size = len(slopes)
    t = (probability * math.factorial(size) * float(slopes.prod())) ** (1 / size)
    assert t <= float(slopes.min())
    return lambda ask: -((0.5 - ask.element.double()) * slopes).sum(dim=1), -t


def cap_event(size: int, probability: float) -> tuple[Merit, float]:
    """The merit z_1 on the unit l2 ball, and the height of the cap of this probability.

    P(z_1 >= c) = I_{1 - c^2}((d + 1) / 2, 1 / 2) / 2, the regularised incomplete beta function.
    """
    height = math.sqrt(1.0 - special.betaincinv((size + 1) / 2, 0.5, 2 * probability))
    return lambda ask: ask.element[:, 0].double(), height
