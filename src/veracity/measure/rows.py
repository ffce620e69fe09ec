"""What every measure does first: see two batches as rows of float64 numbers."""

from __future__ import annotations

from torch import Tensor

from veracity.core.errors import InputError


def alike(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Two batches as they are; raises if their shapes differ or there is nothing to compare."""
    if a.shape != b.shape:
        raise InputError(f"A measure compares two batches of one shape, not {tuple(a.shape)} and {tuple(b.shape)}.")
    if a.ndim < 2 or a.shape[1:].numel() == 0:
        raise InputError(f"A measure compares batches of shape (samples, ...) with at least one entry a sample, not {tuple(a.shape)}.")
    return a, b


def paired(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Two batches of one shape as float64; raises as `alike` does."""
    a, b = alike(a, b)
    return a.double(), b.double()


def rows(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Two batches (N, ...) as float64 rows (N, D)."""
    a, b = paired(a, b)
    return a.flatten(1), b.flatten(1)


def unit_scale(x: Tensor) -> Tensor:
    """Rows (N, D) divided by their largest magnitude; a zero row stays zero."""
    largest = x.abs().amax(dim=1, keepdim=True)
    return x / largest.where(largest != 0, 1.0)


def centred(x: Tensor) -> Tensor:
    """Rows (N, D) less their mean, in units of their largest magnitude; exactly zero where a row is constant."""
    x = unit_scale(x)
    x = x - x[:, :1]
    return x - x.mean(dim=1, keepdim=True)


def cosine_of_rows(a: Tensor, b: Tensor) -> Tensor:
    """The cosine of the angle between rows (N, D), NaN where a row is zero; their squares must fit into float64."""
    lengths = ((a * a).sum(dim=1) * (b * b).sum(dim=1)).sqrt()
    return ((a * b).sum(dim=1) / lengths).clamp(-1.0, 1.0)
