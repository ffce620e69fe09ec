"""Gaussian noise for (row, item) pairs that depends on the sample, the draw and the item, never on the chunk.

SmoothGrad with noise that belongs to the sample, not to the batch.

GradientSHAP (Expected Gradients) with random numbers that belong to the sample, not to the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Size, Tensor, nn

from veracity.core.errors import SpecError
from veracity.core.explainers import BARE, Context, Cost
from veracity.core.randomness import Draws
from veracity.core.registry import EXPLAINERS
from veracity.core.settings import Count, NonNegative
from veracity.explain.gradients import GradientBased
from veracity.explain.passes import Terms, mean_gradient

BLOCK = 2**14  # numbers a row that are drawn together


def noise_of(draws: Draws, like: Tensor, items: int, stream: str) -> Callable[[Tensor, Tensor], Tensor]:
    """A function from pairs, in the order of `pairs`, to standard normal noise of `like`'s shape, (R, ...).

    Small items are drawn in blocks, each a stream of its own, of which one at a time is kept; large ones one by one.
    """
    shape = like.shape[1:]
    together = min(items, max(1, BLOCK // shape.numel()))

    @lru_cache(maxsize=1)
    def block(number: int) -> Tensor:
        return draws.normal(together, *shape, stream=f"{stream}.{number}")

    def one(number: int, row: Tensor, item: Tensor) -> Tensor:
        inside = item // together == number
        if together == 1:
            return draws[row[inside]].normal(*shape, stream=f"{stream}.{number}")
        return block(number)[row[inside], item[inside] % together]

    def noise(row: Tensor, item: Tensor) -> Tensor:
        row, item = row.cpu(), item.cpu()
        blocks = range(int(item[0]) // together, int(item[-1]) // together + 1)
        return torch.cat([one(number, row, item) for number in blocks]).to(like)

    return noise


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
