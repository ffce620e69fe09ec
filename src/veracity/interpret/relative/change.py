"""How much a tensor changed in relation to what it was."""

from __future__ import annotations

import torch
from torch import Tensor

from veracity.measure.rows import rows

FLOOR = 0.01
"""The smallest entry that counts by its own size, as a share of the root mean square of its sample."""

EPS_MIN = 1e-6
"""The smallest change that anything is divided by."""


def relative_change(before: Tensor, after: Tensor, *, floor: float = FLOOR, eps_min: float = EPS_MIN) -> Tensor:
    """The Euclidean norm of every entry's change as a share of that entry, |(a' - a) / a|, from (N, ...) and (N, ...) to (N,).

    An entry below `floor` times the root mean square of its sample counts as large as that, so that entries which happen to
    be next to nothing do not decide the whole. The number is free of the sample's scale, and undefined (NaN) where all of the
    sample is zero. With floor=0 every entry counts by itself, and `eps_min` stands for those that are exactly zero: the
    definition of Quantus 0.6.0.

    >>> before, after = torch.tensor([[3.0, 4.0, 0.0]]), torch.tensor([[3.3, 4.0, 0.001]])
    >>> relative_change(before, after), relative_change(before, after, floor=0.0)
    (tensor([0.1058], dtype=torch.float64), tensor([1000.0001], dtype=torch.float64))
    """
    a, b = rows(before, after)
    unit = a.abs()
    if floor > 0:
        unit = torch.maximum(unit, floor * a.square().mean(dim=1, keepdim=True).sqrt())
    share = (b - a) / unit.masked_fill(unit == 0, torch.nan if floor > 0 else eps_min)
    return share.square().sum(dim=1).sqrt()


def over(change: Tensor, other: Tensor, eps_min: float = EPS_MIN) -> Tensor:
    """One change (N,) as a multiple of another (N,), which counts as at least `eps_min`.

    >>> over(torch.tensor([2.0, 2.0]), torch.tensor([4.0, 0.0]), eps_min=0.5)
    tensor([0.5000, 4.0000])
    """
    return change / other.clamp(min=eps_min)
