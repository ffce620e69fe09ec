"""The nulls of example importance: numbers that know nothing of the examples."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass

from torch import Size, Tensor, nn

from veracity.core.explainers import Context, Cost
from veracity.core.registry import EXPLAINERS
from veracity.explain.examples.base import ExampleBased, training_of


@dataclass(frozen=True, kw_only=True)
class ExampleControl(ExampleBased, ABC):
    """A random number for each training example."""

    control = True
    stochastic = True

    def cost(self, shape: Size) -> Cost:
        """No model pass."""
        return Cost()


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class RandomExamples(ExampleControl):
    """Independent standard normal numbers, one for each training example: two draws have a cosine near 0."""

    name = "random_examples"

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Numbers (N, n)."""
        return context.draws.normal(training_of(self.name, context).inputs.size(), stream=self.name).to(inputs)


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class RandomMixture(ExampleControl):
    """A mixture of the training examples, uniform on the simplex: the null of mixtures (two draws have a cosine near 1/2).

    w_n = E_n / Σ E with independent exponential E, so that w_n >= 0 and Σ w = 1.
    """

    name = "random_mixture"

    @property
    def signed(self) -> bool:
        """Weights are at least zero."""
        return False

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Weights (N, n), each row of sum 1."""
        waits = -context.draws.uniform(training_of(self.name, context).inputs.size(), stream=self.name).log()
        return (waits / waits.sum(1, keepdim=True)).to(inputs)
