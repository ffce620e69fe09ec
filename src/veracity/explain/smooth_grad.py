"""SmoothGrad and GradientSHAP (Expected Gradients). Their random numbers belong to the sample, not to the batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
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

BLOCK = 2**14  # numbers per row that are drawn together


@dataclass(frozen=True, kw_only=True)
class MeanGradient(GradientBased, ABC):
    """A mean of weighted gradients at random points: e(x) = mean_i w_i ⊙ ∇f(p_i)."""

    stochastic = True
    structured = True
    draws: Count

    @abstractmethod
    def terms(self, x: Tensor, context: Context) -> Terms:
        """The points p_i and the weights w_i."""

    def cost(self, shape: Size) -> Cost:
        return Cost(forward=self.draws, backward=self.draws)

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        x = inputs.detach()
        return mean_gradient(model, x, targets, self.terms(x, context), self.draws, context.batch, context.structure)


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class SmoothGrad(MeanGradient):
    """The mean gradient around the input: e(x) = E[∇f(x + σ ε)], ε standard normal.

    σ is `noise` times the sample's own range, max(x) - min(x), or `sigma` for all samples if it is given.
    """

    name = "smooth_grad"
    reference = "Smilkov et al. 2017, arXiv:1706.03825"
    draws: Count = 25
    noise: NonNegative = 0.15
    sigma: NonNegative | None = None

    def terms(self, x: Tensor, context: Context) -> Terms:
        spread, noise, one = self.spread(x), item_noise(context.draws, x, self.draws, "smooth_grad"), x.new_ones(())
        return lambda row, item: (x[row] + spread[row] * noise(row, item), one)

    def spread(self, x: Tensor) -> Tensor:
        """σ per sample, (N, 1, ...)."""
        axes = tuple(range(1, x.ndim))
        if self.sigma is not None:
            return x.new_full((len(x), *[1] * len(axes)), self.sigma)
        return self.noise * (x.amax(axes, keepdim=True) - x.amin(axes, keepdim=True))


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class GradientShap(MeanGradient):
    """Gradients at random points between the input and random baselines: e(x) = E[(x̃ - b) ⊙ ∇f(b + a(x̃ - b))].

    a is uniform on (0, 1), b is a random row of `baselines` (B, ...), or zero if there are none, and x̃ is x plus
    Gaussian noise of standard deviation `noise`. With the zero baseline, the mean over many draws is Integrated
    Gradients; baselines that the symmetry moves break equivariance (Proposition D.6).
    """

    name = "gradient_shap"
    reference = "Lundberg and Lee 2017, arXiv:1705.07874; Erion et al. 2021, arXiv:1906.10670"
    draws: Count = 5
    noise: NonNegative = 0.0
    baselines: Tensor | None = None

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        if self.baselines is not None and self.baselines.shape[1:] != inputs.shape[1:]:
            raise SpecError(
                f"The baselines of gradient_shap have shape {tuple(self.baselines.shape)}, but must be inputs of shape "
                f"{tuple(inputs.shape[1:])} stacked along a first axis."
            )
        return super().check(model, inputs, targets, context)

    def terms(self, x: Tensor, context: Context) -> Terms:
        baselines = torch.zeros_like(x[:1]) if self.baselines is None else self.baselines.to(x)
        share = context.draws.uniform(self.draws, stream="gradient_shap.share").to(x)
        choice = context.draws.integers(len(baselines), self.draws, stream="gradient_shap.baseline").to(x.device)
        noise = item_noise(context.draws, x, self.draws, "gradient_shap.noise")

        def terms(row: Tensor, item: Tensor) -> tuple[Tensor, Tensor]:
            baseline = baselines[choice[row, item]]
            difference = x[row] - baseline
            if self.noise:
                difference = difference + self.noise * noise(row, item)
            return baseline + share[row, item].reshape(-1, *[1] * (x.ndim - 1)) * difference, difference

        return terms


def item_noise(draws: Draws, like: Tensor, items: int, stream: str) -> Callable[[Tensor, Tensor], Tensor]:
    """A function from (row, item) pairs, in the order of `pairs`, to standard normal noise of `like`'s shape, (R, ...).

    The noise depends on the sample, the draw and the item, never on the batch. Small items are drawn in blocks, each from a
    stream of its own, and one block at a time is cached; large items are drawn one by one.
    """
    shape = like.shape[1:]
    size = min(items, max(1, BLOCK // shape.numel()))

    @lru_cache(maxsize=1)
    def block(number: int) -> Tensor:
        return draws.normal(size, *shape, stream=f"{stream}.{number}")

    def noise_in_block(number: int, row: Tensor, item: Tensor) -> Tensor:
        inside = item // size == number
        if size == 1:
            return draws[row[inside]].normal(*shape, stream=f"{stream}.{number}")
        return block(number)[row[inside], item[inside] % size]

    def noise(row: Tensor, item: Tensor) -> Tensor:
        row, item = row.cpu(), item.cpu()
        blocks = range(int(item[0]) // size, int(item[-1]) // size + 1)
        return torch.cat([noise_in_block(number, row, item) for number in blocks]).to(like)

    return noise
