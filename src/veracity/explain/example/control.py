"""The null of example importance: numbers that know nothing of the examples."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Size, Tensor, nn

from veracity.core.explainers import Context, Cost
from veracity.core.registry import EXPLAINERS
from veracity.explain.example.base import ExampleBased, training_of


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class RandomExamples(ExampleBased):
    """Independent standard normal numbers, one for each training example: two draws have a cosine near 0."""

    name = "random_examples"
    control = True
    stochastic = True

    def cost(self, shape: Size) -> Cost:
        """No model pass."""
        return Cost()

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Numbers (N, n)."""
        return context.draws.normal(training_of(self.name, context).inputs.size(), stream=self.name).to(inputs)
