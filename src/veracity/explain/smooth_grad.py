"""SmoothGrad with noise that belongs to the sample, not to the batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Size, Tensor, nn

from veracity.core.explainers import BARE, Context, Cost
from veracity.core.registry import EXPLAINERS
from veracity.core.settings import Count, NonNegative
from veracity.explain.gradient_based import GradientBased
from veracity.explain.noise import noise_of
from veracity.explain.passes import Terms, mean_gradient


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class SmoothGrad(GradientBased):
    """The mean gradient around the input: e(x) = E[∇f(x + σ ε)], ε standard normal.

    σ is `noise` times the sample's own range, max(x) - min(x), or the number `sigma` for all samples where it is given.
    """

    name = "smooth_grad"
    reference = "Smilkov et al. 2017, arXiv:1706.03825"
    stochastic = True
    structured = True
    draws: Count = 25
    noise: NonNegative = 0.15
    sigma: NonNegative | None = None

    def cost(self, shape: Size) -> Cost:
        """One pass each way for each draw."""
        return Cost(forward=self.draws, backward=self.draws)

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise on settings that do not fit or a model without gradients."""
        return super().check(model, inputs, targets, context)

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Attributions of the inputs' shape."""
        x = inputs.detach()
        return mean_gradient(model, x, targets, self.terms(x, context), self.draws, context.batch, context.structure)

    def terms(self, x: Tensor, context: Context) -> Terms:
        """Noisy inputs, all of the same weight."""
        spread, noise, one = self.spread(x), noise_of(context.draws, x, self.draws, "smooth_grad"), x.new_ones(())
        return lambda row, item: (x[row] + spread[row] * noise(row, item), one)

    def spread(self, x: Tensor) -> Tensor:
        """σ of each sample, (N, 1, ...)."""
        axes = tuple(range(1, x.ndim))
        if self.sigma is not None:
            return x.new_full((len(x), *[1] * len(axes)), self.sigma)
        return self.noise * (x.amax(axes, keepdim=True) - x.amin(axes, keepdim=True))
