"""Solves with the curvature of the training loss in a layer's parameters, H = l2 I + (1/n) Σ_n J_nᵀ (diag(p_n) - p_n p_nᵀ) J_n.

J_n is the Jacobian of example n's scores. H is the generalised Gauss-Newton matrix: where the scores are affine in the
parameters, as for a last linear layer, it is the Hessian itself; elsewhere it is the part of the Hessian that cannot be
indefinite. With B the rows r_nkᵀ J_n of all examples (see losses), H = l2 I + Bᵀ B / n, so that one Cholesky
factor as small as the smaller side of B solves it exactly, in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from veracity.explain.example.gradients import Factors

LOOPED = 128


@dataclass(frozen=True)
class Remade:
    """Blocks that are made again whenever they are asked for, since all of them at once would not fit."""

    parts: Sequence[Tensor]
    make: Callable[[Tensor], Factors]

    def __iter__(self) -> Iterator[Factors]:
        return (self.make(part) for part in self.parts)


@dataclass(frozen=True)
class Rest:
    """Blocks without the first gradient of each row."""

    blocks: Iterable[Factors]

    def __iter__(self) -> Iterator[Factors]:
        return (block.some(slice(1, None)) for block in self.blocks)


def products(block: Factors) -> Tensor:
    """Bᵀ B of one block, (P, P), a row of outputs at a time where the rows are outer products.

    >>> products(Factors(torch.tensor([[[1.0, 2.0]]]), torch.tensor([[3.0]])))
    tensor([[ 9., 18.],
            [18., 36.]])
    """
    outputs, features = block.left.shape[2], block.right.shape[1]
    if features == 1 or outputs > LOOPED:
        rows = block.flat().flatten(0, 1)
        return rows.T @ rows
    weights = torch.einsum("nmo,nmp->nop", block.left, block.left)
    found = block.right.new_zeros(outputs, features, outputs, features)
    for one in range(outputs):
        weighted = (weights[:, one, one:, None] * block.right[:, None, :]).flatten(1)
        found[one, :, one:] = (block.right.T @ weighted).unflatten(1, (outputs - one, features))
    upper = found.reshape(outputs * features, outputs * features)
    return upper.triu() + upper.triu(1).T


def along(block: Factors, vectors: Tensor) -> Tensor:
    """Inner products (v, n m) of vectors (v, P) with a block's n m rows."""
    shaped = vectors.unflatten(1, (block.left.shape[2], block.right.shape[1]))
    return torch.einsum("von,nmo->vnm", shaped @ block.right.T, block.left).flatten(1)


def back(block: Factors, weights: Tensor) -> Tensor:
    """The sums (v, P) of a block's rows by weights (v, n m)."""
    shaped = weights.unflatten(1, block.left.shape[:2])
    return (torch.einsum("vnm,nmo->von", shaped, block.left) @ block.right).flatten(1)


def gram(one: Factors, other: Factors) -> Tensor:
    """Inner products (n m, n' m) of two blocks' rows."""
    right = (one.right @ other.right.T).repeat_interleave(one.left.shape[1], 0).repeat_interleave(other.left.shape[1], 1)
    return (one.left.flatten(0, 1) @ other.left.flatten(0, 1).T) * right


def solve_parameters(blocks: Iterable[Factors], gradients: Tensor, count: int, l2: float) -> Tensor:
    """H⁻¹ of each gradient (n, P), by a Cholesky factor of H (P, P)."""
    total = gradients.new_zeros(gradients.shape[1], gradients.shape[1])
    for block in blocks:
        total += products(block)
    total.div_(count).diagonal().add_(l2)
    return torch.cholesky_solve(gradients.T, torch.linalg.cholesky(total)).T.contiguous()


def solve_examples(blocks: Iterable[Factors], gradients: Tensor, count: int, l2: float) -> Tensor:
    """The same by a factor of n l2 I + B Bᵀ: H⁻¹ g = (g - Bᵀ (n l2 I + B Bᵀ)⁻¹ B g) / l2."""
    total = torch.cat([torch.cat([gram(one, other) for other in blocks], dim=1) for one in blocks])
    total.diagonal().add_(count * l2)
    inner = torch.cat([along(block, gradients) for block in blocks], dim=1)
    weights = torch.cholesky_solve(inner.T, torch.linalg.cholesky(total)).T
    left = gradients.clone()
    for block, part in zip(blocks, weights.split([block.left.shape[:2].numel() for block in blocks], dim=1), strict=True):
        left -= back(block, part)
    return left / l2
