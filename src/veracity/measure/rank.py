"""Ranks, with ties counted exactly, and the correlation of ranks."""

from __future__ import annotations

import torch
from torch import Tensor

from veracity.core.measures import Direction, measure
from veracity.measure.rows import angle, centred, rows


def average_ranks(x: Tensor) -> Tensor:
    """The rank of every entry in its row, from 1; tied entries share the mean of the ranks that they take up together.

    From (N, D) to float64 (N, D). Rows with NaN have no ranks that mean anything.

    >>> average_ranks(torch.tensor([[0.5, 0.1, 0.5, 0.9]]))
    tensor([[2.5000, 1.0000, 2.5000, 4.0000]], dtype=torch.float64)
    """
    entries, order = x.sort(dim=1)
    place = torch.arange(x.shape[1], device=x.device).expand_as(order)
    step = entries[:, 1:] != entries[:, :-1]
    edge = step.new_ones((len(x), 1))
    first = place.where(torch.cat((edge, step), dim=1), 0).cummax(dim=1).values
    last = place.where(torch.cat((step, edge), dim=1), x.shape[1] - 1).flip(1).cummin(dim=1).values.flip(1)
    shared = (first + last).double() / 2.0 + 1.0
    return torch.empty_like(shared).scatter_(1, order, shared)


@measure("spearman", direction=Direction.HIGHER, range=(-1.0, 1.0), reference="Spearman 1904")
def spearman(a: Tensor, b: Tensor) -> Tensor:
    """The correlation of the entries' ranks, with ties counted exactly.

    rho(a, b) = r(rank a, rank b) with average ranks, from (N, ...) and (N, ...) to (N,). A constant explanation ranks
    nothing: NaN.

    >>> spearman(torch.tensor([[1.0, 2.0, 3.0, 4.0]]), torch.tensor([[1.0, 3.0, 2.0, 9.0]]))
    tensor([0.8000], dtype=torch.float64)
    """
    a, b = rows(a, b)
    undefined = a.isnan().any(dim=1) | b.isnan().any(dim=1)
    return angle(centred(average_ranks(a)), centred(average_ranks(b))).masked_fill(undefined, float("nan"))
