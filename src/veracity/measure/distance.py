"""Distances between explanations, of which smaller is more similar.

The first six compare entry by entry; the Wasserstein distances ask how far values, or the mass of a map, must travel.
`as_distance` turns any measure into a distance, and `normalised` brings explanations to one scale.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from veracity.core.errors import SpecError
from veracity.core.measures import Direction, Measure, measure
from veracity.core.settings import Count
from veracity.measure.rows import as_maps, rows, unit_scale

Distance = Callable[[Tensor, Tensor], Tensor]


@measure("l1", direction=Direction.LOWER, range=(0.0, math.inf))
def l1(a: Tensor, b: Tensor) -> Tensor:
    """The sum of absolute differences.

    sum |a - b|, from (N, ...) and (N, ...) to (N,).

    >>> l1(torch.tensor([[1.0, 2.0]]), torch.tensor([[4.0, -2.0]]))
    tensor([7.], dtype=torch.float64)
    """
    a, b = rows(a, b)
    return (a - b).abs().sum(dim=1)


@measure("l2", direction=Direction.LOWER, range=(0.0, math.inf))
def l2(a: Tensor, b: Tensor) -> Tensor:
    """The Euclidean distance.

    sqrt(sum (a - b)^2), from (N, ...) and (N, ...) to (N,).

    >>> l2(torch.tensor([[1.0, 2.0]]), torch.tensor([[4.0, -2.0]]))
    tensor([5.], dtype=torch.float64)
    """
    a, b = rows(a, b)
    return (a - b).square().sum(dim=1).sqrt()


@measure("angle", direction=Direction.LOWER, range=(0.0, math.pi))
def angle(a: Tensor, b: Tensor) -> Tensor:
    """The angle between two explanations, in radians: their distance on the unit sphere.

    2 atan2(|u - v|, |u + v|) with u = a / |a| and v = b / |b|, from (N, ...) and (N, ...) to (N,): exactly zero for equal
    ones. Undefined if only one of the two is zero; zero if both are.

    >>> angle(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 2.0]])) / math.pi
    tensor([0.5000], dtype=torch.float64)
    """
    a, b = rows(a, b)
    length_a, length_b = (x.norm(dim=1, keepdim=True) for x in (a, b))
    u, v = a / length_a, b / length_b
    radians = 2.0 * torch.atan2((u - v).norm(dim=1), (u + v).norm(dim=1))
    return torch.where(((length_a == 0) & (length_b == 0))[:, 0], 0.0, radians)


@measure("cosine_distance", direction=Direction.LOWER, range=(0.0, 2.0), reference="Hedström et al. 2025 (TMLR), section 6.4")
def cosine_distance(a: Tensor, b: Tensor) -> Tensor:
    """One minus the cosine of the angle between two explanations.

    1 - <a, b> / (|a| |b|) = |u - v|^2 / 2 with u = a / |a| and v = b / |b|, from (N, ...) and (N, ...) to (N,): exactly zero for
    equal ones. Undefined if both are zero. If only one is zero, they have no feature in common, and the distance is 1, as of
    orthogonal vectors: the largest distance between features that are not negative.

    >>> cosine_distance(torch.tensor([[3.0, 4.0], [0.0, 0.0]]), torch.tensor([[4.0, 3.0], [1.0, 1.0]]))
    tensor([0.0400, 1.0000], dtype=torch.float64)
    """
    a, b = (unit_scale(x) for x in rows(a, b))
    length_a, length_b = (x.norm(dim=1, keepdim=True) for x in (a, b))
    apart = ((a / length_a - b / length_b).square().sum(dim=1) / 2.0).clamp(max=2.0)
    return torch.where(((length_a == 0) != (length_b == 0))[:, 0], 1.0, apart)


@measure("mse", direction=Direction.LOWER, range=(0.0, math.inf))
def mse(a: Tensor, b: Tensor) -> Tensor:
    """The mean squared difference.

    mean (a - b)^2, from (N, ...) and (N, ...) to (N,).

    >>> mse(torch.tensor([[1.0, 2.0]]), torch.tensor([[4.0, -2.0]]))
    tensor([12.5000], dtype=torch.float64)
    """
    a, b = rows(a, b)
    return (a - b).square().mean(dim=1)


@measure("wasserstein", direction=Direction.LOWER, range=(0.0, math.inf), reference="Vaserstein 1969; Ramdas et al. 2017")
def wasserstein(a: Tensor, b: Tensor) -> Tensor:
    """The 1-Wasserstein distance between the values of two explanations, regardless of their positions.

    mean |sort a - sort b|, the smallest mean change that turns one set of values into the other; from (N, ...) and (N, ...)
    to (N,). It is zero for explanations that are rearrangements of each other.

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
    """The distance in pixels that one map's mass must travel to become the other's, averaged over projections on lines.

    mean over u of integral |F_a,u(t) - F_b,u(t)| dt, where F_e,u(t) is the share of |e|, summed over channels, at
    positions p with <p, u> <= t; u are `directions` unit vectors evenly spread over half a turn. From (N, C, H, W) or
    (N, C, T), twice, to (N,). On each line it is the exact 1-Wasserstein distance. Projection shortens distances, so it is
    at most the exact distance between the maps; equal to it for series, which have one line, and 2 / pi of it (to .4 % with
    16 lines) for a map that is moved as a whole. Signs do not count. A zero map has no mass: NaN.

    >>> a = torch.zeros(1, 1, 32, 32)
    >>> a[0, 0, 4, 4] = 1.0
    >>> sliced_wasserstein(a, a.roll((3, 4), (2, 3))) * math.pi / 2
    tensor([5.0033], dtype=torch.float64)
    """
    a, b = as_maps(a, b, "sliced_wasserstein")
    surplus = mass_shares(a) - mass_shares(b)
    lines = projections(a.shape[2:], directions, a.device)
    total = torch.zeros(len(a), dtype=torch.float64, device=a.device)
    for line in lines:
        place, order = line.sort(stable=True)
        carried = surplus.index_select(1, order).cumsum(dim=1)[:, :-1]
        total += torch.linalg.vecdot(carried.abs_(), place.diff().expand_as(carried))
    return total / len(lines)


def mass_shares(e: Tensor) -> Tensor:
    """The share of a map's mass at every position, (N, positions); NaN for a zero map."""
    mass = e.abs().sum(dim=1).flatten(1)
    largest = mass.amax(dim=1, keepdim=True)
    mass = mass / largest
    return mass / mass.sum(dim=1, keepdim=True)


def projections(extent: torch.Size, directions: int, device: torch.device) -> Tensor:
    """Every position of a map or series, projected on each line, (lines, positions); a series has one line."""
    if len(extent) == 1:
        return torch.arange(extent[0], dtype=torch.float64, device=device)[None]
    angles = math.pi * torch.arange(directions, dtype=torch.float64, device=device) / directions
    down, right = (torch.arange(length, dtype=torch.float64, device=device) for length in extent)
    projected = angles.sin()[:, None, None] * down[:, None] + angles.cos()[:, None, None] * right
    return projected.flatten(1)


def as_distance(measure: Measure | Distance) -> Distance:
    """The measure as a distance (N, ...) x (N, ...) -> (N,), zero for the most similar explanations.

    d = u - s for a similarity s with the upper bound u. A distance or a plain function is returned unchanged. A similarity
    without an upper bound has no distance: SpecError.

    >>> from veracity.measure import cosine
    >>> as_distance(cosine)(torch.tensor([[3.0, 4.0]]), torch.tensor([[4.0, 3.0]]))
    tensor([0.0400], dtype=torch.float64)
    """
    if not isinstance(measure, Measure) or measure.direction is Direction.LOWER:
        return measure
    upper = measure.range[1]
    if not math.isfinite(upper):
        raise SpecError(
            f"The similarity '{measure.name}' has no upper bound, so it cannot be turned into a distance: "
            "give its range an upper bound, or use a distance."
        )
    return lambda a, b: upper - measure(a, b)


def normalised(e: Tensor) -> Tensor:
    """Each sample's explanation divided by the root of its mean square, which makes the mean square 1.

    e / sqrt(mean e^2), from (N, ...) to (N, ...); equation (21) of the GEF paper, applied per sample. A zero map stays zero.

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
