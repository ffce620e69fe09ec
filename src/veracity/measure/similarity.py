"""Similarities between explanations, of which larger is more similar: by entries, by the largest entries, by windows."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from veracity.core.errors import InputError
from veracity.core.measures import Direction, measure
from veracity.core.settings import Fraction, Positive
from veracity.measure.rows import as_maps, centred, cosine_of_rows, rows, unit_scale

ROUNDING = 1e-6  # of bits
C1, C2 = 0.01**2, 0.03**2  # of ssim, in units of the squared range


@measure("cosine", direction=Direction.HIGHER, range=(-1.0, 1.0), reference="Crabbé and van der Schaar 2023, section 2.2")
def cosine(a: Tensor, b: Tensor) -> Tensor:
    """The cosine of the angle between two explanations.

    cos(a, b) = <a, b> / (|a| |b|), from (N, ...) and (N, ...) to (N,). It does not depend on the scale: nothing is added to
    the vectors, sums are in float64, and float64 rows are brought to unit size before they are squared. A zero vector has
    no direction: NaN.

    >>> cosine(torch.tensor([[3.0, 4.0], [1e-30, 0.0]]), torch.tensor([[4.0, 3.0], [1e-30, 1e-30]]))
    tensor([0.9600, 0.7071], dtype=torch.float64)
    """
    wide = torch.float64 in (a.dtype, b.dtype)
    a, b = rows(a, b)
    return cosine_of_rows(unit_scale(a), unit_scale(b)) if wide else cosine_of_rows(a, b)


@measure("pearson", direction=Direction.HIGHER, range=(-1.0, 1.0), reference="Pearson 1895")
def pearson(a: Tensor, b: Tensor) -> Tensor:
    """The linear correlation of two explanations over their entries.

    r(a, b) = cos(a - mean a, b - mean b), from (N, ...) and (N, ...) to (N,). A constant explanation does not vary: NaN.

    >>> pearson(torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[2.0, 1.0, 6.0]]))
    tensor([0.7559], dtype=torch.float64)
    """
    a, b = rows(a, b)
    return cosine_of_rows(centred(a), centred(b))


@measure("categorical_agreement", direction=Direction.HIGHER, range=(0.0, 1.0), reference="Crabbé and van der Schaar 2023, section 2.2")
def categorical_agreement(a: Tensor, b: Tensor) -> Tensor:
    """The share of equal bits of two categorical explanations; fractions of bits work too.

    1 - mean |a - b|, from (N, ...) and (N, ...) with entries in [0, 1] to (N,). Entries outside [0, 1] are not bits: NaN.

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
    (N, ...) to (N,). Entries tied at the border share the remaining seats: with r seats for t tied entries, each is a
    member to the degree r / t, and |A & B| sums the smaller degree. So the number never depends on the order of entries,
    and it is the plain overlap without ties.

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


@measure("ssim", direction=Direction.HIGHER, range=(-1.0, 1.0), reference="Wang, Bovik, Sheikh and Simoncelli 2004, eq. (13)")
def ssim(
    a: Tensor,
    b: Tensor,
    window: Literal["gaussian", "uniform"] = "gaussian",
    size: int = 11,
    sigma: Positive = 1.5,
    data_range: Positive | None = None,
) -> Tensor:
    """The structural similarity index of two maps: brightness, contrast and pattern, averaged over windows and channels.

    (2 mu_a mu_b + c1)(2 s_ab + c2) / ((mu_a^2 + mu_b^2 + c1)(s_a^2 + s_b^2 + c2)) in every window that lies inside the map,
    c1 = (0.01 L)^2 and c2 = (0.03 L)^2; from (N, C, H, W) or (N, C, T), twice, to (N,). L is `data_range`, or the distance
    from the smallest to the largest value of the pair; a pair without any range is undefined: NaN. The `window` is
    "gaussian" (of width `sigma`, cut to `size` entries per axis) or "uniform".

    >>> a = torch.arange(49.0).reshape(1, 1, 7, 7)
    >>> ssim.using(window="uniform", size=7)(a, a.flip(2))
    tensor([-0.9499], dtype=torch.float64)
    """
    a, b = as_maps(a, b, "ssim")
    if size < 3 or size % 2 == 0 or size > min(a.shape[2:]):
        extent = " x ".join(str(length) for length in a.shape[2:])
        raise InputError(f"The window of 'ssim' must have an odd size from 3 up to the map's {extent}, not {size}: set size=...")
    span: Tensor | float
    if data_range is None:
        low, high = torch.aminmax(torch.cat((a, b), dim=1).flatten(1), dim=1)
        span = (high - low).where(high > low, float("nan")).reshape(-1, *(1,) * (a.ndim - 1))
    else:
        span = data_range
    a, b = a / span, b / span
    offset = torch.arange(size, dtype=torch.float64, device=a.device) - size // 2
    taps = torch.exp(-0.5 * (offset / sigma) ** 2) if window == "gaussian" else torch.ones_like(offset)
    moments = window_means(torch.stack((a, b, a * a, b * b, a * b)), taps / taps.sum())
    mean_a, mean_b, square_a, square_b, product = moments.unbind()
    var_a, var_b, covariance = square_a - mean_a**2, square_b - mean_b**2, product - mean_a * mean_b
    likeness = (2.0 * mean_a * mean_b + C1) * (2.0 * covariance + C2)
    index = likeness / ((mean_a**2 + mean_b**2 + C1) * (var_a + var_b + C2))
    return index.mean(dim=1).clamp(-1.0, 1.0)


def window_means(maps: Tensor, taps: Tensor) -> Tensor:
    """Weighted means of maps (5, N, C, H, W) or series (5, N, C, T), in every window that lies inside."""
    planes = maps.reshape(-1, 1, *((1,) if maps.ndim == 4 else ()), *maps.shape[3:])
    planes = functional.conv2d(planes, taps.reshape(1, 1, 1, -1))
    if maps.ndim == 5:
        planes = functional.conv2d(planes, taps.reshape(1, 1, -1, 1))
    return planes.reshape(*maps.shape[:3], *planes.shape[2:]).flatten(2)
