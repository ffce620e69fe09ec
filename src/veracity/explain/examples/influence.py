"""Conjugate gradients for many right-hand sides at once, with their residuals.

Solves with the curvature of the training loss in a layer's parameters, H = l2 I + (1/n) Σ_n J_nᵀ (diag(p_n) - p_n p_nᵀ) J_n.

J_n is the Jacobian of example n's scores. H is the generalised Gauss-Newton matrix: where the scores are affine in the
parameters, as for a last linear layer, it is the Hessian itself; elsewhere it is the part of the Hessian that cannot be
indefinite. With B the rows r_nkᵀ J_n of all examples (see losses), H = l2 I + Bᵀ B / n, so that one Cholesky
factor as small as the smaller side of B solves it exactly, in float64.

Influence functions: what an input's loss would be without a training example, to first order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from veracity.core.errors import InputError
from veracity.core.explainers import Context
from veracity.core.models import device_of, evaluating
from veracity.core.registry import EXPLAINERS
from veracity.core.settings import Count, Inside, Positive
from veracity.explain.examples.base import LossBased, examples, in_parts, learnt, loss_gradient, training_of
from veracity.explain.examples.layer_gradients import Factors, Place, residual, roots


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


LARGEST = 5000
"""The largest system that is solved by a factor."""

KEPT = 1 << 26
"""How many numbers of rows of curvature are kept rather than made again."""


def loss_and_curvature(scores: Tensor, labels: Tensor) -> Tensor:
    """Cotangents (..., 1 + K, K): the loss's gradient, then the roots of its Hessian."""
    return torch.cat((residual(scores, labels).unsqueeze(-2), roots(scores)), dim=-2)


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class InfluenceFunctions(LossBased):
    """The influence of each training example on the input's loss, e_n(x) = ∇l(x_n, y_n)ᵀ H⁻¹ ∇l(x, y) (Remark D.10).

    Gradients are in the parameters of one `layer` (None: the last with parameters). H is the curvature of the mean training loss
    plus `l2` I: in a last linear layer the Hessian of an objective mean(l) + l2/2 |θ|², bias included, and its Gauss-Newton
    part elsewhere. Positive: without the example the loss of x would rise, by e_n / n to first order. Solved in float64 by a Cholesky
    factor up to 5,000 parameters (of a last layer, without those of one class), or rows (examples times classes), and beyond
    by conjugate gradients to a relative residual of `tolerance`.
    """

    name = "influence_functions"
    reference = "Koh and Liang 2017, arXiv:1703.04730; Crabbé and van der Schaar 2023, Proposition D.9 and Remark D.10"
    l2: Positive = 0.01
    tolerance: Inside = 1e-8
    iterations: Count = 1000

    def learn(self, model: nn.Module, context: Context) -> Mapping[str, Tensor]:
        """H⁻¹ ∇l(x_n, y_n) of every training example, `directions` (n, P) in float64."""
        with evaluating(model):
            place, classes = self.placed(model, context)
            blocks = training_blocks(self.name, place, classes, context)
            gradients = torch.cat([block.some(slice(1)).flat().squeeze(1) for block in blocks])
            return {"directions": self.solved(Rest(blocks), gradients, len(gradients) * classes, context.batch), "place": place.found}

    def solved(self, blocks: Iterable[Factors], gradients: Tensor, rows: int, batch: int) -> Tensor:
        """H⁻¹ of each gradient (n, P), with so many rows of curvature in all."""
        count, size = gradients.shape
        if min(size, rows) > LARGEST:
            return solve_iteratively(blocks, gradients, count, self.l2, batch=batch, tolerance=self.tolerance, iterations=self.iterations)
        return (solve_parameters if size <= rows else solve_examples)(blocks, gradients, count, self.l2)

    def facts(self, learnt: Mapping[str, Tensor], context: Context) -> list[dict[str, Any]]:
        """How many examples there are, how many parameters the layer has, and what was added to the curvature's diagonal."""
        return [{"examples": len(learnt["directions"]), "parameters": int(learnt["place"][2]), "l2": self.l2}]

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Influences (N, n) of the n training examples, in float64."""
        place, directions = self.kept(model, context), learnt(self.name, context)["directions"].to(inputs.device)
        parts = in_parts(inputs, targets, context, context.batch)
        found = (place.factors(signals, labels, loss_gradient).flat().squeeze(1) for signals, labels in parts)
        return torch.cat([gradients.double() @ directions.T for gradients in found])


def training_blocks(name: str, place: Place, classes: int, context: Context) -> Iterable[Factors]:
    """All training examples' gradients and rows of curvature in float64, kept if they fit, at most `batch` of them at a time."""
    training, device, each = training_of(name, context), device_of(place.model), 1 + classes

    def block(part: Tensor) -> Factors:
        found = place.factors(*examples(training, part, device), loss_and_curvature)
        return Factors(found.left.double(), found.right.double())

    count = training.inputs.size()
    blocks = Remade(torch.arange(count).split(context.batch if place.affine else max(1, context.batch // each)), block)
    return list(blocks) if place.affine or count * each * place.size <= KEPT else blocks
