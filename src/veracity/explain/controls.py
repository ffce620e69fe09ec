"""Controls: explanations that say nothing about the model. A score of an explanation must be compared with theirs."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Size, Tensor, nn

from veracity.core.errors import SpecError
from veracity.core.explainers import BARE, Context, Cost, Explainer, Frame, Learner
from veracity.core.randomness import Draws
from veracity.core.registry import EXPLAINERS
from veracity.core.settings import Count
from veracity.explain.masking import largest, spatial_shape


@dataclass(frozen=True, kw_only=True)
class Control(Explainer, ABC):
    """An explainer that needs no model pass."""

    control = True
    structured = True

    def cost(self, shape: Size) -> Cost:
        return Cost()


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class RandomUniform(Control):
    """Independent numbers, uniform on (0, 1): the null of unsigned maps (the cosine of two draws is near 3/4)."""

    name = "random_uniform"
    stochastic = True
    signed = False

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        return context.draws.uniform(*inputs.shape[1:], stream=self.name).to(inputs)


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class RandomGaussian(Control):
    """Independent standard normal numbers: the null of signed maps (the cosine of two draws is near 0)."""

    name = "random_gaussian"
    stochastic = True

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        if context.present is not None:  # the numbers of a short sample do not depend on the length of others
            normal: Tensor = torch.special.ndtri(context.draws.uniform(*inputs.shape[1:], stream=self.name))
            return normal.to(inputs)
        return context.draws.normal(*inputs.shape[1:], stream=self.name).to(inputs)


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class Constant(Control):
    """Ones everywhere: exactly equivariant and without content."""

    name = "constant_map"
    signed = False

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        return torch.ones_like(inputs)


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class EdgeFilter(Control):
    """The edges of the input, per channel: Sobel's magnitude over two axes, the central difference over one.

    The filter wraps around the border, so it is exactly equivariant under cyclic shifts.
    """

    name = "edge_filter"
    structured = False
    signed = False

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        x = inputs.detach()
        if len(spatial_shape(x.shape[1:])) == 1:
            return difference(x, -1).abs()
        return torch.hypot(difference(smooth(x, -2), -1), difference(smooth(x, -1), -2))


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class RandomTopK(Control):
    """One at `k` random numbers of the input and zero elsewhere: the null of maps that name the k most important numbers.

    The numbers are drawn for each sample. A sample with fewer than k numbers, as a short text, gets ones at all of them. An
    audit adds it beside `TopK` only, with the same k, since it is the null of such maps only.
    """

    name = "random_top_k"
    reference = "Hedström et al., Evaluating interpretable methods via geometric alignment of functional distortions (TMLR 2025), 5.1"
    stochastic = True
    signed = False
    k: Count = 10

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        if self.k > inputs.shape[1:].numel():
            raise SpecError(f"k of random_top_k is {self.k}, but an input has {inputs.shape[1:].numel()} numbers: use a smaller k.")
        return ()

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        flat = torch.zeros_like(inputs).flatten(1)
        if context.present is not None:
            order = context.draws.uniform(flat.shape[1], stream=self.name).to(inputs).reshape(inputs.shape)
            return largest(-order, self.k, context.present)
        chosen = context.draws.choice(flat.shape[1], self.k, stream=self.name).to(inputs.device)
        return flat.scatter(1, chosen, 1.0).reshape(inputs.shape)


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class RandomGlobal(Control):
    """Standard normal numbers, the same for every input of a class and new ones for every copy of the model: a random image per class."""

    name = "random_global"
    frame = Frame.GLOBAL
    stochastic = True

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        draws = context.draws.to(inputs.device)
        of_class = Draws(draws.seed, targets.to(inputs.device), draws.draw)
        return of_class.normal(*inputs.shape[1:], stream=self.name).to(inputs)


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class RandomExamples(Control):
    """Independent standard normal numbers, one per training example, (N, n): the cosine of two draws is near 0."""

    name = "random_examples"
    frame = Frame.TRAINING
    stochastic = True

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        return context.draws.normal(context.require_training(self.name).inputs.size(), stream=self.name).to(inputs)


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class RandomMixture(Control):
    """A mixture of the training examples, uniform on the simplex, (N, n): the cosine of two draws is near 1/2.

    w_n = E_n / Σ E with independent exponential E, so w_n >= 0 and Σ w = 1.
    """

    name = "random_mixture"
    frame = Frame.TRAINING
    stochastic = True
    signed = False

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        exponential = -context.draws.uniform(context.require_training(self.name).inputs.size(), stream=self.name).log()
        return (exponential / exponential.sum(1, keepdim=True)).to(inputs)


@dataclass(frozen=True, kw_only=True)
class ConceptControl(Learner, Control, ABC):
    """A random number per concept."""

    frame = Frame.CONCEPTS
    stochastic = True

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        context.require_concepts(self.name)
        return ()

    def learn(self, model: nn.Module, context: Context) -> Mapping[str, Tensor]:
        return {"concepts": torch.tensor(len(context.require_concepts(self.name).concepts))}

    def count(self, context: Context) -> int:
        """The number of concepts, as `learn` found it."""
        return int(context.require_learnt(self.name)["concepts"])


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class RandomConcepts(ConceptControl):
    """A fair coin per concept, bits (N, C): two draws agree on half of them on average."""

    name = "random_concepts"
    categorical = True
    signed = False

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        return (context.draws.uniform(self.count(context), stream=self.name) < 0.5).to(inputs)


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class RandomSensitivities(ConceptControl):
    """A standard normal number per concept, (N, C): the null of concept sensitivities (the mean cosine of two draws is 0)."""

    name = "random_sensitivities"

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        return context.draws.normal(self.count(context), stream=self.name).to(inputs)


CONTROLS: tuple[type[Control], ...] = (
    *(RandomUniform, RandomGaussian, Constant, EdgeFilter),
    *(RandomGlobal, RandomExamples, RandomMixture, RandomConcepts, RandomSensitivities),
)
"""The controls that an audit adds on its own, next to explainers of the same frame."""


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
