"""Similarities: larger is more alike."""

from __future__ import annotations

import torch
from torch import Tensor

from veracity.core.measures import Direction, measure
from veracity.core.settings import Fraction
from veracity.measure.rows import angle, centred, rows, unit_scale

ROUNDING = 1e-6


@measure("cosine", direction=Direction.HIGHER, range=(-1.0, 1.0), reference="Crabbé and van der Schaar 2023, section 2.2")
def cosine(a: Tensor, b: Tensor) -> Tensor:
    """The cosine of the angle between two explanations.

    cos(a, b) = <a, b> / (|a| |b|), from (N, ...) and (N, ...) to (N,). It is free of scale, whatever the scale: nothing is
    added to the vectors, sums are in float64, and float64 rows are brought to unit size before they are squared. A zero
    vector has no direction: NaN.

    >>> cosine(torch.tensor([[3.0, 4.0], [1e-30, 0.0]]), torch.tensor([[4.0, 3.0], [1e-30, 1e-30]]))
    tensor([0.9600, 0.7071], dtype=torch.float64)
    """
    wide = torch.float64 in (a.dtype, b.dtype)
    a, b = rows(a, b)
    return angle(unit_scale(a), unit_scale(b)) if wide else angle(a, b)


@measure("pearson", direction=Direction.HIGHER, range=(-1.0, 1.0), reference="Pearson 1895")
def pearson(a: Tensor, b: Tensor) -> Tensor:
    """The linear correlation of two explanations over their entries.

    r(a, b) = cos(a - mean a, b - mean b), from (N, ...) and (N, ...) to (N,). A constant explanation does not vary: NaN.

    >>> pearson(torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[2.0, 1.0, 6.0]]))
    tensor([0.7559], dtype=torch.float64)
    """
    a, b = rows(a, b)
    return angle(centred(a), centred(b))


@measure("categorical_agreement", direction=Direction.HIGHER, range=(0.0, 1.0), reference="Crabbé and van der Schaar 2023, section 2.2")
def categorical_agreement(a: Tensor, b: Tensor) -> Tensor:
    """The share of equal bits of two categorical explanations; fractions of bits work too.

    1 - mean |a - b|, from (N, ...) and (N, ...) with entries in [0, 1] to (N,). Entries outside [0, 1] are no bits: NaN.

    >>> categorical_agreement(torch.tensor([[1, 0, 1, 1]]), torch.tensor([[1, 1, 1, 0]]))
    tensor([0.5000], dtype=torch.float64)
    """
    a, b = rows(a, b)
    proper = ((a >= -ROUNDING) & (a <= 1.0 + ROUNDING) & (b >= -ROUNDING) & (b <= 1.0 + ROUNDING)).all(dim=1)
    agreement = (1.0 - (a - b).abs().mean(dim=1)).clamp(0.0, 1.0)
    return agreement.where(proper, agreement.new_full((), float("nan")))


@measure("sorensen_dice", direction=Direction.HIGHER, range=(0.0, 1.0), reference="Dice 1945; Sørensen 1948")
def sorensen_dice(a: Tensor, b: Tensor, fraction: Fraction = 0.1) -> Tensor:
    """The overlap of the entries that two explanations rank highest.

    2 |A & B| / (|A| + |B|), where A and B hold the k = max(1, round(fraction D)) largest of the D entries; from (N, ...) and
    (N, ...) to (N,). Entries tied at the border share the seats that are left: with r seats for t tied entries each is a
    member to the degree r / t, and |A & B| sums the smaller degree. So the number never depends on the order of entries,
    and it is the plain overlap where nothing is tied.

    >>> sorensen_dice.using(fraction=0.5)(torch.tensor([[4.0, 3.0, 2.0, 1.0]]), torch.tensor([[4.0, 1.0, 2.0, 3.0]]))
    tensor([0.5000], dtype=torch.float64)
    """
    a, b = rows(a, b)
    seats = max(1, round(fraction * a.shape[1]))
    overlap = membership(a, seats).minimum(membership(b, seats)).sum(dim=1) / seats
    undefined = a.isnan().any(dim=1) | b.isnan().any(dim=1)
    return overlap.clamp(0.0, 1.0).masked_fill(undefined, float("nan"))


def membership(x: Tensor, seats: int) -> Tensor:
    """How far each entry of a row (N, D) belongs to the row's `seats` largest, in [0, 1]; each row sums to `seats`."""
    border = x.topk(seats, dim=1).values[:, -1:]
    above, tied = x > border, x == border
    left = seats - above.sum(dim=1, keepdim=True)
    return above.double() + tied.double() * (left / tied.sum(dim=1, keepdim=True))
