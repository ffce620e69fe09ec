"""Distances: smaller is more alike, and they keep the unit of the explanation.

How far the mass of one map must travel to become another's: distances that know where things stand.

Every measure as a distance, so that whatever compares explanations can ask how far apart they are.

Explanations on one scale, so that distances between them can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from veracity.core.errors import InputError, SpecError
from veracity.core.measures import Direction, Measure, measure
from veracity.core.settings import Count
from veracity.measure.rows import paired, rows


@measure("l1", direction=Direction.LOWER, range=(0.0, math.inf))
def l1(a: Tensor, b: Tensor) -> Tensor:
    """The sum of absolute differences.

    sum |a - b|, from (N, ...) and (N, ...) to (N,).

    >>> import torch
    >>> l1(torch.tensor([[1.0, 2.0]]), torch.tensor([[4.0, -2.0]]))
    tensor([7.], dtype=torch.float64)
    """
    a, b = rows(a, b)
    return (a - b).abs().sum(dim=1)


@measure("l2", direction=Direction.LOWER, range=(0.0, math.inf))
def l2(a: Tensor, b: Tensor) -> Tensor:
    """The Euclidean distance.

    sqrt(sum (a - b)^2), from (N, ...) and (N, ...) to (N,).

    >>> import torch
    >>> l2(torch.tensor([[1.0, 2.0]]), torch.tensor([[4.0, -2.0]]))
    tensor([5.], dtype=torch.float64)
    """
    a, b = rows(a, b)
    return (a - b).square().sum(dim=1).sqrt()


@measure("angle", direction=Direction.LOWER, range=(0.0, math.pi))
def angle(a: Tensor, b: Tensor) -> Tensor:
    """The angle between two explanations, in radians: their distance once both are brought to the same length.

    2 atan2(|u - v|, |u + v|) with u = a / |a| and v = b / |b|, from (N, ...) and (N, ...) to (N,): zero for equal ones, to
    the last digit. Undefined where just one of the two is zero; zero where both are.

    >>> angle(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 2.0]])) / math.pi
    tensor([0.5000], dtype=torch.float64)
    """
    a, b = rows(a, b)
    long, other = (x.norm(dim=1, keepdim=True) for x in (a, b))
    u, v = a / long, b / other
    found = 2.0 * torch.atan2((u - v).norm(dim=1), (u + v).norm(dim=1))
    return torch.where(((long == 0) & (other == 0))[:, 0], 0.0, found)


@measure("mse", direction=Direction.LOWER, range=(0.0, math.inf))
def mse(a: Tensor, b: Tensor) -> Tensor:
    """The mean squared difference.

    mean (a - b)^2, from (N, ...) and (N, ...) to (N,).

    >>> import torch
    >>> mse(torch.tensor([[1.0, 2.0]]), torch.tensor([[4.0, -2.0]]))
    tensor([12.5000], dtype=torch.float64)
    """
    a, b = rows(a, b)
    return (a - b).square().mean(dim=1)


@measure("wasserstein", direction=Direction.LOWER, range=(0.0, math.inf), reference="Vaserstein 1969; Ramdas et al. 2017")
def wasserstein(a: Tensor, b: Tensor) -> Tensor:
    """The 1-Wasserstein distance between the values of two explanations, wherever in the explanation they stand.

    mean |sort a - sort b|, the least mean move that turns the one set of values into the other; from (N, ...) and (N, ...)
    to (N,). It is zero for explanations that are rearrangements of each other.

    >>> import torch
    >>> wasserstein(torch.tensor([[0.0, 1.0, 3.0]]), torch.tensor([[5.0, 6.0, 8.0]]))
    tensor([5.], dtype=torch.float64)
    """
    a, b = rows(a, b)
    return (a.sort(dim=1).values - b.sort(dim=1).values).abs().mean(dim=1)


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


Distance = Callable[[Tensor, Tensor], Tensor]


def as_distance(measure: Measure | Distance) -> Distance:
    """A distance (N, ...) x (N, ...) -> (N,) of a measure, zero where two explanations are as alike as can be.

    d = u - s for a similarity s whose range ends at u; a distance, or a plain function, stays what it is. A similarity
    without an upper end has no distance: SpecError.

    >>> import torch
    >>> from veracity.measure import cosine
    >>> as_distance(cosine)(torch.tensor([[3.0, 4.0]]), torch.tensor([[4.0, 3.0]]))
    tensor([0.0400], dtype=torch.float64)
    """
    if not isinstance(measure, Measure) or measure.direction is Direction.LOWER:
        return measure
    upper = measure.range[1]
    if not math.isfinite(upper):
        raise SpecError(
            f"The similarity '{measure.name}' has no upper end, so that nothing says how far apart two explanations are: "
            "give its range an upper end, or take a distance."
        )
    return lambda a, b: upper - measure(a, b)


def normalised(e: Tensor) -> Tensor:
    """Each sample's explanation divided by the root of its mean square, so that the mean square is 1.

    e / sqrt(mean e^2), from (N, ...) to (N, ...); equation (21) of the GEF paper, over everything that belongs to the
    sample and nothing else. A zero map stays zero.

    >>> import torch
    >>> normalised(torch.tensor([[3.0, -3.0, 0.0, 0.0]]))
    tensor([[ 1.4142, -1.4142,  0.0000,  0.0000]])

    Reference: Binder et al., Shortcomings of top-down randomization-based sanity checks for evaluations of deep neural
    network explanations (CVPR 2023), appendix.
    """
    entries = e.reshape(len(e), -1)
    if entries.shape[1] == 0:
        return e
    largest = entries.abs().amax(dim=1, keepdim=True)
    entries = entries / largest.where(largest != 0, 1.0)
    root = entries.double().square().mean(dim=1, keepdim=True).sqrt().to(entries.dtype)
    return (entries / root.where(root != 0, 1.0)).reshape(e.shape)
