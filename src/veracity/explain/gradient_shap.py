"""GradientSHAP (Expected Gradients) with random numbers that belong to the sample, not to the batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Size, Tensor, nn

from veracity.core.errors import SpecError
from veracity.core.explainers import BARE, Context, Cost
from veracity.core.registry import EXPLAINERS
from veracity.core.settings import Count, NonNegative
from veracity.explain.gradient_based import GradientBased
from veracity.explain.noise import noise_of
from veracity.explain.passes import Terms, mean_gradient


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class GradientShap(GradientBased):
    """Gradients at random points between the input and random baselines: e(x) = E[(x̃ - b) ⊙ ∇f(b + a(x̃ - b))].

    a is uniform on (0, 1), b is a random row of `baselines` (B, ...), or zero if there are none, and x̃ is x plus
    Gaussian noise of standard deviation `noise`. With the zero baseline its mean over many draws is Integrated
    Gradients; baselines that the symmetry moves break equivariance (Proposition D.6).
    """

    name = "gradient_shap"
    reference = "Lundberg and Lee 2017, arXiv:1705.07874; Erion et al. 2021, arXiv:1906.10670"
    stochastic = True
    structured = True
    draws: Count = 5
    noise: NonNegative = 0.0
    baselines: Tensor | None = None

    def cost(self, shape: Size) -> Cost:
        """One pass each way for each draw."""
        return Cost(forward=self.draws, backward=self.draws)

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise on settings that do not fit or a model without gradients."""
        if self.baselines is not None and self.baselines.shape[1:] != inputs.shape[1:]:
            raise SpecError(
                f"The baselines of gradient_shap have shape {tuple(self.baselines.shape)}, but must be inputs of shape "
                f"{tuple(inputs.shape[1:])} stacked along a first axis."
            )
        return super().check(model, inputs, targets, context)

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Attributions of the inputs' shape."""
        x = inputs.detach()
        return mean_gradient(model, x, targets, self.terms(x, context), self.draws, context.batch, context.structure)

    def terms(self, x: Tensor, context: Context) -> Terms:
        """Points between baselines and inputs, weighted by their difference."""
        baselines = torch.zeros_like(x[:1]) if self.baselines is None else self.baselines.to(x)
        share = context.draws.uniform(self.draws, stream="gradient_shap.share").to(x)
        chosen = context.draws.integers(len(baselines), self.draws, stream="gradient_shap.baseline").to(x.device)
        noise = noise_of(context.draws, x, self.draws, "gradient_shap.noise")

        def terms(row: Tensor, item: Tensor) -> tuple[Tensor, Tensor]:
            baseline = baselines[chosen[row, item]]
            difference = x[row] - baseline
            if self.noise:
                difference = difference + self.noise * noise(row, item)
            along = share[row, item].reshape(-1, *[1] * (x.ndim - 1))
            return baseline + along * difference, difference

        return terms
