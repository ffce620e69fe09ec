"""Distances: smaller is more alike, and they keep the unit of the explanation."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from veracity.core.measures import Direction, measure
from veracity.measure.rows import rows


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
