"""Conjugate gradients for many right-hand sides at once, with their residuals."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from veracity.core.errors import InputError
from veracity.explain.example.curvature import along, back
from veracity.explain.example.gradients import Factors


def conjugate_gradients(
    product: Callable[[Tensor], Tensor], diagonal: Tensor, right: Tensor, tolerance: float, iterations: int
) -> tuple[Tensor, Tensor]:
    """Solutions (v, P) of A x = b for rows b of `right` (v, P), and their relative residuals |A x - b| / |b| (v,).

    A is symmetric positive definite; `product` applies it to rows, and its `diagonal` (P,) scales them. Stops when every
    residual is at most the tolerance, or after so many iterations.

    >>> matrix = torch.tensor([[2.0, 1.0], [1.0, 3.0]])
    >>> conjugate_gradients(lambda rows: rows @ matrix, matrix.diagonal(), torch.tensor([[3.0, 4.0]]), 1e-6, 9)[0].round(decimals=4)
    tensor([[1., 1.]])
    """
    size = right.norm(dim=1).clamp(min=torch.finfo(right.dtype).tiny)
    found, rest = torch.zeros_like(right), right.clone()
    scaled = rest / diagonal
    step, strength = scaled, (rest * scaled).sum(1)
    for _ in range(iterations):
        if bool((rest.norm(dim=1) <= tolerance * size).all()):
            break
        bent = product(step)
        rate = (strength / (step * bent).sum(1)).nan_to_num(0.0, 0.0, 0.0).unsqueeze(1)
        found, rest = found + rate * step, rest - rate * bent
        scaled = rest / diagonal
        before, strength = strength, (rest * scaled).sum(1)
        step = scaled + (strength / before).nan_to_num(0.0, 0.0, 0.0).unsqueeze(1) * step
    return found, (product(found) - right).norm(dim=1) / size


def solve_iteratively(
    blocks: Iterable[Factors], gradients: Tensor, count: int, l2: float, *, batch: int, tolerance: float, iterations: int
) -> Tensor:
    """H⁻¹ of each gradient (n, P), some at a time; raises if a residual stays above the tolerance."""

    def product(rows: Tensor) -> Tensor:
        total = rows * l2
        for block in blocks:
            total = total + back(block, along(block, rows)) / count
        return total

    diagonal = gradients.new_full(gradients.shape[1:], l2)
    for block in blocks:
        diagonal += torch.einsum("nmo,ni->oi", block.left.square(), block.right.square()).flatten() / count
    parts = [conjugate_gradients(product, diagonal, part, tolerance, iterations) for part in gradients.split(batch)]
    worst = max(float(residuals.max()) for _, residuals in parts)
    if not worst <= 2 * tolerance:
        raise InputError(
            f"Conjugate gradients left a relative residual of {worst:.1e} after {iterations} iterations, where {tolerance:.1e} was "
            f"wanted: raise l2 (now {l2:g}) or iterations."
        )
    return torch.cat([found for found, _ in parts])
