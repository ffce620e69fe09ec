"""Influence functions: what an input's loss would be without a training example, to first order.

They solve with the curvature of the training loss in a layer's parameters, H = l2 I + (1/n) Σ_n J_nᵀ (diag(p_n) - p_n p_nᵀ) J_n,
where J_n is the Jacobian of example n's scores. H is the generalised Gauss-Newton matrix. If the scores are affine in the
parameters, as for a last linear layer, it is the Hessian itself; otherwise it is the positive semidefinite part of the
Hessian. With the rows r_nkᵀ J_n of all examples as B (see layer_gradients), H = l2 I + Bᵀ B / n, so a Cholesky factor of the
size of B's smaller side solves it exactly, in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from veracity.core.errors import InputError
from veracity.core.explainers import Context
from veracity.core.models import device_of, evaluating
from veracity.core.registry import EXPLAINERS
from veracity.core.settings import Count, Inside, Positive
from veracity.explain.examples.base import LossBased, examples_at, input_batches, loss_gradient
from veracity.explain.examples.layer_gradients import Factors, LossLayer, hessian_roots

LARGEST_SYSTEM = 5000
"""The largest system that is solved by a Cholesky factor."""

STORED_NUMBERS = 1 << 26
"""Blocks of curvature with more numbers than this are computed anew in every loop."""

MOST_OUTPUTS = 128
"""Layers with more outputs than this have their curvature computed at once, not one output at a time."""


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class InfluenceFunctions(LossBased):
    """The influence of each training example on the input's loss, e_n(x) = ∇l(x_n, y_n)ᵀ H⁻¹ ∇l(x, y) (Remark D.10).

    Gradients are in the parameters of one `layer` (None: the last with parameters). H is the curvature of the mean training loss
    plus `l2` I: in a last linear layer the Hessian of the objective mean(l) + l2/2 |θ|², bias included, and in other layers its
    Gauss-Newton part. Positive: without the example the loss of x would rise, by e_n / n to first order. Solved in float64 by a
    Cholesky factor up to 5,000 parameters (of a last layer, without those of one class) or rows (examples times classes), and
    beyond that by conjugate gradients to a relative residual of `tolerance`.
    """

    name = "influence_functions"
    reference = "Koh and Liang 2017, arXiv:1703.04730; Crabbé and van der Schaar 2023, Proposition D.9 and Remark D.10"
    l2: Positive = 0.01
    tolerance: Inside = 1e-8
    iterations: Count = 1000

    def learn(self, model: nn.Module, context: Context) -> Mapping[str, Tensor]:
        """H⁻¹ ∇l(x_n, y_n) of every training example, `directions` (n, P) in float64."""
        with evaluating(model):
            layer, classes = self.find_layer(model, context)
            blocks = training_blocks(self.name, layer, classes, context)
            gradients = torch.cat([block.select(slice(1)).flat().squeeze(1) for block in blocks])
            curvature = Blocks(lambda: (block.select(slice(1, None)) for block in blocks))
            directions = self.solve(curvature, gradients, len(gradients) * classes, context.batch)
        return {"directions": directions, "place": layer.record}

    def solve(self, blocks: Iterable[Factors], gradients: Tensor, rows: int, batch: int) -> Tensor:
        """H⁻¹ of each gradient (n, P), for `rows` rows of curvature in all blocks."""
        count, size = gradients.shape
        if min(size, rows) > LARGEST_SYSTEM:
            return self.solve_iteratively(blocks, gradients, batch)
        return (solve_parameters if size <= rows else solve_examples)(blocks, gradients, count, self.l2)

    def solve_iteratively(self, blocks: Iterable[Factors], gradients: Tensor, batch: int) -> Tensor:
        """H⁻¹ of each gradient (n, P) by conjugate gradients, in batches; raises if a residual stays above the tolerance."""
        count, l2 = len(gradients), self.l2

        def product(rows: Tensor) -> Tensor:
            total = rows * l2
            for block in blocks:
                total = total + combine_rows(block, inner_products(block, rows)) / count
            return total

        diagonal = gradients.new_full(gradients.shape[1:], l2)
        for block in blocks:
            diagonal += torch.einsum("nmo,ni->oi", block.left.square(), block.right.square()).flatten() / count
        parts = [conjugate_gradients(product, diagonal, part, self.tolerance, self.iterations) for part in gradients.split(batch)]
        worst = max(float(residuals.max()) for _, residuals in parts)
        if not worst <= 2 * self.tolerance:
            raise InputError(
                f"Conjugate gradients left a relative residual of {worst:.1e} after {self.iterations} iterations, above the tolerance "
                f"{self.tolerance:.1e}: raise l2 (now {l2:g}) or iterations."
            )
        return torch.cat([solution for solution, _ in parts])

    def facts(self, learnt: Mapping[str, Tensor], context: Context) -> list[dict[str, Any]]:
        return [{"examples": len(learnt["directions"]), "parameters": int(learnt["place"][2]), "l2": self.l2}]

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Influences (N, n) of the n training examples, in float64."""
        layer, directions = self.learnt_layer(model, context), context.require_learnt(self.name)["directions"].to(inputs.device)
        batches = input_batches(inputs, targets, context)
        gradients = (layer.gradients(signals, labels, loss_gradient).flat().squeeze(1) for signals, labels in batches)
        return torch.cat([part.double() @ directions.T for part in gradients])


def training_blocks(name: str, layer: LossLayer, classes: int, context: Context) -> Iterable[Factors]:
    """The gradients and rows of curvature of all training examples, in float64, stored if they fit into memory."""
    training, device, rows = context.require_training(name), device_of(layer.model), 1 + classes

    def block(part: Tensor) -> Factors:
        factors = layer.gradients(*examples_at(training, part, device), loss_and_curvature)
        return Factors(factors.left.double(), factors.right.double())

    count = training.inputs.size()
    parts = torch.arange(count).split(context.batch if layer.affine else max(1, context.batch // rows))
    blocks = Blocks(lambda: map(block, parts))
    return list(blocks) if layer.affine or count * rows * layer.size <= STORED_NUMBERS else blocks


def loss_and_curvature(scores: Tensor, labels: Tensor) -> Tensor:
    """Cotangents (..., 1 + K, K): the gradient of the loss, then the roots of its Hessian."""
    return torch.cat((loss_gradient(scores, labels), hessian_roots(scores)), dim=-2)


@dataclass(frozen=True)
class Blocks:
    """Blocks that are computed anew in every loop, since all of them may not fit into memory."""

    loop: Callable[[], Iterator[Factors]]

    def __iter__(self) -> Iterator[Factors]:
        return self.loop()


def solve_parameters(blocks: Iterable[Factors], gradients: Tensor, count: int, l2: float) -> Tensor:
    """H⁻¹ of each gradient (n, P), by a Cholesky factor of H (P, P)."""
    total = gradients.new_zeros(gradients.shape[1], gradients.shape[1])
    for block in blocks:
        total += gram_of_parameters(block)
    total.div_(count).diagonal().add_(l2)
    return torch.cholesky_solve(gradients.T, torch.linalg.cholesky(total)).T.contiguous()


def solve_examples(blocks: Iterable[Factors], gradients: Tensor, count: int, l2: float) -> Tensor:
    """The same by a factor of n l2 I + B Bᵀ: H⁻¹ g = (g - Bᵀ (n l2 I + B Bᵀ)⁻¹ B g) / l2."""
    total = torch.cat([torch.cat([gram_of_rows(one, other) for other in blocks], dim=1) for one in blocks])
    total.diagonal().add_(count * l2)
    inner = torch.cat([inner_products(block, gradients) for block in blocks], dim=1)
    weights = torch.cholesky_solve(inner.T, torch.linalg.cholesky(total)).T
    remainder = gradients.clone()
    for block, part in zip(blocks, weights.split([block.left.shape[:2].numel() for block in blocks], dim=1), strict=True):
        remainder -= combine_rows(block, part)
    return remainder / l2


def conjugate_gradients(
    product: Callable[[Tensor], Tensor], diagonal: Tensor, right: Tensor, tolerance: float, iterations: int
) -> tuple[Tensor, Tensor]:
    """Solutions (v, P) of A x = b for rows b of `right` (v, P), and their relative residuals |A x - b| / |b| (v,).

    A is symmetric positive definite; `product` applies it to rows, and its `diagonal` (P,) is the preconditioner. Stops when
    every residual is at most the tolerance, or after `iterations`.

    >>> matrix = torch.tensor([[2.0, 1.0], [1.0, 3.0]])
    >>> conjugate_gradients(lambda rows: rows @ matrix, matrix.diagonal(), torch.tensor([[3.0, 4.0]]), 1e-6, 9)[0].round(decimals=4)
    tensor([[1., 1.]])
    """
    size = right.norm(dim=1).clamp(min=torch.finfo(right.dtype).tiny)
    solution, remainder = torch.zeros_like(right), right.clone()
    scaled = remainder / diagonal
    step, energy = scaled, (remainder * scaled).sum(1)
    for _ in range(iterations):
        if bool((remainder.norm(dim=1) <= tolerance * size).all()):
            break
        image = product(step)
        rate = (energy / (step * image).sum(1)).nan_to_num(0.0, 0.0, 0.0).unsqueeze(1)
        solution, remainder = solution + rate * step, remainder - rate * image
        scaled = remainder / diagonal
        before, energy = energy, (remainder * scaled).sum(1)
        step = scaled + (energy / before).nan_to_num(0.0, 0.0, 0.0).unsqueeze(1) * step
    return solution, (product(solution) - right).norm(dim=1) / size


def gram_of_parameters(block: Factors) -> Tensor:
    """Bᵀ B of one block, (P, P), one output at a time if the rows are outer products of few outputs.

    >>> gram_of_parameters(Factors(torch.tensor([[[1.0, 2.0]]]), torch.tensor([[3.0]])))
    tensor([[ 9., 18.],
            [18., 36.]])
    """
    outputs, features = block.left.shape[2], block.right.shape[1]
    if features == 1 or outputs > MOST_OUTPUTS:
        rows = block.flat().flatten(0, 1)
        return rows.T @ rows
    weights = torch.einsum("nmo,nmp->nop", block.left, block.left)
    blocks = block.right.new_zeros(outputs, features, outputs, features)
    for output in range(outputs):
        weighted = (weights[:, output, output:, None] * block.right[:, None, :]).flatten(1)
        blocks[output, :, output:] = (block.right.T @ weighted).unflatten(1, (outputs - output, features))
    upper = blocks.reshape(outputs * features, outputs * features)
    return upper.triu() + upper.triu(1).T


def inner_products(block: Factors, vectors: Tensor) -> Tensor:
    """Inner products (v, n m) of vectors (v, P) with a block's n m rows."""
    shaped = vectors.unflatten(1, (block.left.shape[2], block.right.shape[1]))
    return torch.einsum("von,nmo->vnm", shaped @ block.right.T, block.left).flatten(1)


def combine_rows(block: Factors, weights: Tensor) -> Tensor:
    """The sums (v, P) of a block's rows with weights (v, n m)."""
    shaped = weights.unflatten(1, block.left.shape[:2])
    return (torch.einsum("vnm,nmo->von", shaped, block.left) @ block.right).flatten(1)


def gram_of_rows(one: Factors, other: Factors) -> Tensor:
    """Inner products (n m, n' m) of two blocks' rows."""
    right = (one.right @ other.right.T).repeat_interleave(one.left.shape[1], 0).repeat_interleave(other.left.shape[1], 1)
    return (one.left.flatten(0, 1) @ other.left.flatten(0, 1).T) * right
