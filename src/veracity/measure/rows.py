"""Two batches of explanations as rows of float64 numbers, and what several measures compute from rows."""

from __future__ import annotations

from torch import Tensor

from veracity.core.errors import InputError


def check_pair(a: Tensor, b: Tensor) -> None:
    """Raise if the shapes of two batches differ, or if there is nothing to compare."""
    if a.shape != b.shape:
        raise InputError(f"A measure compares two batches of one shape, not {tuple(a.shape)} and {tuple(b.shape)}.")
    if a.ndim < 2 or a.shape[1:].numel() == 0:
        raise InputError(f"A measure compares batches of shape (samples, ...) with at least one entry per sample, not {tuple(a.shape)}.")


def as_maps(a: Tensor, b: Tensor, name: str) -> tuple[Tensor, Tensor]:
    """Two batches of maps (N, C, H, W) or series (N, C, T) as float64; raises for other shapes."""
    check_pair(a, b)
    if a.ndim not in (3, 4):
        raise InputError(f"The measure '{name}' compares maps (N, C, H, W) or series (N, C, T), not {tuple(a.shape)}.")
    return a.double(), b.double()


def rows(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Two batches (N, ...) as float64 rows (N, D)."""
    check_pair(a, b)
    return a.double().flatten(1), b.double().flatten(1)


def unit_scale(x: Tensor) -> Tensor:
    """Rows (N, D) divided by their largest magnitude; a zero row stays zero."""
    largest = x.abs().amax(dim=1, keepdim=True)
    return x / largest.where(largest != 0, 1.0)


def centred(x: Tensor) -> Tensor:
    """Rows (N, D) divided by their largest magnitude, minus their mean; exactly zero for a constant row."""
    x = unit_scale(x)
    x = x - x[:, :1]
    return x - x.mean(dim=1, keepdim=True)


def cosine_of_rows(a: Tensor, b: Tensor) -> Tensor:
    """The cosine of the angle between rows (N, D), NaN if a row is zero. Their squares must fit into float64."""
    lengths = ((a * a).sum(dim=1) * (b * b).sum(dim=1)).sqrt()
    return ((a * b).sum(dim=1) / lengths).clamp(-1.0, 1.0)
