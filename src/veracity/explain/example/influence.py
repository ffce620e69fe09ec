"""Influence functions: what an input's loss would be without a training example, to first order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from veracity.core.explainers import Context
from veracity.core.models import device_of, evaluating
from veracity.core.registry import EXPLAINERS
from veracity.core.settings import Count, Inside, Positive
from veracity.explain.example.base import LossBased, examples, in_parts, learnt, loss_gradient, training_of
from veracity.explain.example.conjugate import solve_iteratively
from veracity.explain.example.curvature import Remade, Rest, solve_examples, solve_parameters
from veracity.explain.example.gradients import Factors, Place
from veracity.explain.example.losses import residual, roots

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
