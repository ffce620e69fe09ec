"""Maps that do not look at the model: what a score of an explanation must be compared with."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Size, Tensor, nn

from veracity.core.errors import SpecError
from veracity.core.explainers import BARE, Context, Cost, Explainer
from veracity.core.registry import EXPLAINERS
from veracity.core.settings import Count
from veracity.explain.patches import space_of


@dataclass(frozen=True, kw_only=True)
class Control(Explainer, ABC):
    """An explainer that costs nothing because it says nothing about the model."""

    control = True

    def cost(self, shape: Size) -> Cost:
        """No model pass."""
        return Cost()


@dataclass(frozen=True, kw_only=True)
class Unsigned(Control, ABC):
    """A control whose maps are at least zero."""

    @property
    def signed(self) -> bool:
        """At least zero."""
        return False


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class RandomUniform(Unsigned):
    """Independent numbers, uniform on (0, 1): the null of unsigned maps (two of them have a cosine near 3/4)."""

    name = "random_uniform"
    structured = True
    stochastic = True

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Maps of the inputs' shape."""
        return context.draws.uniform(*inputs.shape[1:], stream=self.name).to(inputs)


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class RandomGaussian(Control):
    """Independent standard normal numbers: the null of signed maps (two of them have a cosine near 0)."""

    name = "random_gaussian"
    structured = True
    stochastic = True

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Maps of the inputs' shape."""
        return context.draws.normal(*inputs.shape[1:], stream=self.name).to(inputs)


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class Constant(Unsigned):
    """Ones everywhere: exactly equivariant and without content."""

    name = "constant_map"
    structured = True

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Maps of the inputs' shape."""
        return torch.ones_like(inputs)


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class EdgeFilter(Unsigned):
    """The input's edges, around the border: Sobel's magnitude over two axes, the central difference's over one.

    Exactly equivariant under cyclic shifts, and ignorant of the model.
    """

    name = "edge_filter"

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Maps of the inputs' shape, channel by channel."""
        x = inputs.detach()
        if len(space_of(x.shape[1:])) == 1:
            return difference(x, -1).abs()
        return torch.hypot(difference(smooth(x, -2), -1), difference(smooth(x, -1), -2))


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class RandomTopK(Unsigned):
    """`k` numbers of the input, drawn at random, are one and the others zero: the null of maps that name the k most important.

    No audit adds it by itself, since it is the null of such maps alone.
    """

    name = "random_top_k"
    reference = "Hedström et al., Evaluating Interpretable Methods via Geometric Alignment of Functional Distortions (TMLR 2025), 5.1"
    structured = True
    stochastic = True
    k: Count = 10

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise unless the input has as many numbers."""
        if self.k > inputs.shape[1:].numel():
            raise SpecError(f"k of random_top_k is {self.k}, but an input has {inputs.shape[1:].numel()} numbers: use a smaller k.")
        return ()

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Maps of the inputs' shape."""
        flat = torch.zeros_like(inputs).flatten(1)
        chosen = context.draws.choice(flat.shape[1], self.k, stream=self.name).to(inputs.device)
        return flat.scatter(1, chosen, 1.0).reshape(inputs.shape)


MAPS: tuple[type[Control], ...] = (RandomUniform, RandomGaussian, Constant, EdgeFilter)


def difference(x: Tensor, axis: int) -> Tensor:
    """The circular central difference, (x[i + 1] - x[i - 1]) / 2.

    >>> difference(torch.tensor([0.0, 1.0, 4.0, 9.0]), -1)
    tensor([-4.,  2.,  4., -2.])
    """
    return (x.roll(-1, axis) - x.roll(1, axis)) / 2


def smooth(x: Tensor, axis: int) -> Tensor:
    """The circular mean with weights 1/4, 1/2, 1/4.

    >>> smooth(torch.tensor([0.0, 4.0, 0.0, 0.0]), -1)
    tensor([1., 2., 1., 0.])
    """
    return (x.roll(-1, axis) + 2 * x + x.roll(1, axis)) / 4
