"""Explanations by gradients: Captum's methods of one pass, integrated gradients, and means over random points.

Captum differentiates scores row by row through `torch.unbind`. Here one summed score is differentiated, which gives the same
numbers in fewer kernels. Captum's DeepLift needs more than that and has a file of its own. Captum draws the points of SmoothGrad
and GradientSHAP from the global random state; here the random numbers belong to the sample, not to the batch.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import captum.attr
import torch
from captum.attr._utils.approximation_methods import approximation_parameters
from torch import Size, Tensor, nn

from veracity.core.errors import InputError, SpecError, unknown
from veracity.core.explainers import BARE, Context, Cost, Explainer
from veracity.core.features import Features
from veracity.core.inputs import Signals
from veracity.core.models import evaluating
from veracity.core.randomness import Draws
from veracity.core.registry import EXPLAINERS
from veracity.core.settings import Count, NonNegative
from veracity.core.transfer import send
from veracity.explain.masking import Baseline, baseline_row, check_baseline, over_table
from veracity.explain.nonlinear import nonlinear_steps
from veracity.explain.passes import Structure, Terms, gradients, in_batches, pick, select, sum_over_items
from veracity.explain.wrapper import computed

TRAPEZOID = "trapezoid"
QUADRATURES = ("gausslegendre", "riemann_left", "riemann_middle", "riemann_right", "riemann_trapezoid", TRAPEZOID)


@dataclass(frozen=True, kw_only=True)
class GradientBased(Explainer, ABC):
    """An explainer that differentiates the model in its input, by default in one pass each way."""

    def cost(self, shape: Size) -> Cost:
        return Cost(forward=1, backward=1)

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        check_gradient(self.name, model, inputs, targets, context.structure)
        return ()


def check_gradient(name: str, model: nn.Module, inputs: Tensor, targets: Tensor, structure: Structure = ()) -> None:
    """Raise unless the first input's score has a gradient in that input; `name` is the explainer's."""
    leaf = inputs[:1].detach().clone().requires_grad_()
    with evaluating(model), torch.enable_grad():
        score = pick(model(leaf, *select(structure, slice(1))), targets[:1]).sum()
        gradient = torch.autograd.grad(score, leaf, allow_unused=True)[0] if score.requires_grad else None
    if gradient is None:
        raise InputError(f"{name} needs gradients, but the output of this model does not depend differentiably on its input.")


@dataclass(frozen=True, kw_only=True)
class OnePass(GradientBased, ABC):
    """A Captum method of one forward and one backward pass."""

    structured = True
    local = True
    method: ClassVar[Callable[..., Any]]
    options: ClassVar[dict[str, Any]] = {}

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        method = type(self).method(model)
        return in_batches(lambda x, t, s: attribute(method, x, t, s, **self.options), inputs, targets, context.batch, context.structure)


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class Saliency(OnePass):
    """The magnitude of the gradient: e(x) = |∇f(x)|."""

    name = "saliency"
    reference = "Simonyan et al. 2013, arXiv:1312.6034"
    signed = False
    method = captum.attr.Saliency


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class Gradient(OnePass):
    """The gradient with its sign: e(x) = ∇f(x), equivariant for orthogonal representations (Corollary D.5)."""

    name = "gradient"
    reference = "Simonyan et al. 2013, arXiv:1312.6034"
    method = captum.attr.Saliency
    options = {"abs": False}  # noqa: RUF012 - annotated in the base class


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class InputXGradient(OnePass):
    """The input times its gradient: e(x) = x ⊙ ∇f(x)."""

    name = "input_x_gradient"
    reference = "Shrikumar et al. 2016, arXiv:1605.01713"
    method = captum.attr.InputXGradient


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class InputXSaliency(OnePass):
    """The input times the magnitude of its gradient: e(x) = x ⊙ |∇f(x)|, which has the sign of the input.

    The stability paper calls this form Gradient ⊙ Input; `input_x_gradient` is the usual one.
    """

    name = "input_x_saliency"
    reference = "Fel et al., How good is your explanation? (WACV 2022), appendix B"
    method = captum.attr.Saliency
    directed = False

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        return inputs.detach() * super().explain(model, inputs, targets, context)


@dataclass(frozen=True, kw_only=True)
class ModifiedRelu(OnePass, ABC):
    """A gradient in which nn.ReLU modules have another backward pass."""

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Count the ReLU steps that are not modules, since they keep the plain gradient."""
        super().check(model, inputs, targets, context)
        steps = nonlinear_steps(model, Signals(inputs, context.structure)[:1], lambda module: isinstance(module, nn.ReLU))
        outside, inside = steps.outside["relu"], steps.inside["relu"]
        if not outside:
            return ()
        return (
            f"{self.name} changes the gradient of nn.ReLU modules only, but {outside} of {outside + inside} ReLU steps of this "
            "model are not modules: there it is the plain gradient.",
        )


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class GuidedBackprop(ModifiedRelu):
    """The gradient without its negative parts at every ReLU that was active."""

    name = "guided_backprop"
    reference = "Springenberg et al. 2014, arXiv:1412.6806"
    method = captum.attr.GuidedBackprop


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class Deconvolution(ModifiedRelu):
    """The gradient without its negative parts at every ReLU, active or not."""

    name = "deconvolution"
    reference = "Zeiler and Fergus 2013, arXiv:1311.2901"
    method = captum.attr.Deconvolution


@dataclass(frozen=True, kw_only=True)
class GradientSums(GradientBased, ABC):
    """A sum of weighted gradients at several points: e(x) = Σ_i w_i ⊙ ∇f(p_i)."""

    structured = True
    splits: ClassVar[bool] = computed(lambda self: type(self).explain in (GradientSums.explain, MeanGradient.explain))

    @property
    @abstractmethod
    def items(self) -> int:
        """The number of points."""

    @abstractmethod
    def terms(self, x: Tensor, context: Context) -> Terms:
        """The points p_i and the weights w_i."""

    def cost(self, shape: Size) -> Cost:
        return Cost(forward=self.items, backward=self.items)

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        x, targets = inputs.detach(), targets.to(inputs.device)
        terms = self.terms(x, context)

        def term(row: Tensor, item: Tensor) -> Tensor:
            points, weights = terms(row, item)
            return weights * gradients(model, points, targets[row], select(context.structure, row))

        return sum_over_items(term, x, self.items, context.batch)


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class IntegratedGradients(GradientSums):
    """Gradients along the straight line from a baseline: e(x) = (x - b) ⊙ ∫ ∇f(b + t(x - b)) dt over t in [0, 1].

    The maps sum to f(x) - f(b) up to the quadrature's error. Equivariant for permutation representations that leave the
    baseline in place (Proposition D.6). `method` names the quadrature with `steps` points; `baseline` is a number or one
    input: 0 unless given, and in a table with names its reference.

    "trapezoid" has points at regular intervals, both ends included, and weights that add up to 1; the weights of
    Captum's "riemann_trapezoid" add up to 1 - 1 / steps.
    """

    name = "integrated_gradients"
    reference = "Sundararajan et al. 2017, arXiv:1703.01365"
    steps: Count = 50
    method: str = "gausslegendre"
    baseline: Baseline = None

    def over(self, features: Features | None) -> Self:
        return over_table(self, features)

    @property
    def items(self) -> int:
        return self.steps

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        if self.method not in QUADRATURES:
            raise unknown(f"method of {self.name}", self.method, QUADRATURES)
        if self.method != "gausslegendre" and self.steps < 2:
            raise SpecError(f"The rule '{self.method}' of {self.name} needs at least 2 steps, not {self.steps}: use more steps.")
        check_baseline(self.name, self.baseline, inputs.shape[1:])
        return super().check(model, inputs, targets, context)

    def terms(self, x: Tensor, context: Context) -> Terms:
        """The points of the quadrature between baseline and input, and the weights of the gradients there."""
        baseline, (points, weights) = baseline_row(self.baseline, x), quadrature(self.method, self.steps)
        share, weight = (torch.tensor(values, dtype=torch.float64).reshape(-1, *[1] * (x.ndim - 1)) for values in (points, weights))
        share, weight = send(share.to(x.dtype), x.device), send(weight.to(torch.promote_types(x.dtype, torch.float32)), x.device)

        def terms(row: Tensor, item: Tensor) -> tuple[Tensor, Tensor]:
            difference = x[row] - baseline
            return baseline + share[item] * difference, weight[item] * difference

        return terms


@dataclass(frozen=True, kw_only=True)
class MeanGradient(GradientSums, ABC):
    """A mean of weighted gradients at random points: e(x) = mean_i w_i ⊙ ∇f(p_i)."""

    stochastic = True
    draws: Count

    @property
    def items(self) -> int:
        return self.draws

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        return super().explain(model, inputs, targets, context) / self.draws


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class SmoothGrad(MeanGradient):
    """The mean gradient around the input: e(x) = E[∇f(x + σ ε)], ε standard normal.

    σ is `noise` times the sample's own range, max(x) - min(x), or `sigma` for all samples if it is given: a number, or one for each
    value. In a table with names it is `noise` times the standard deviation of each column, and 0 for categories.
    """

    name = "smooth_grad"
    reference = "Smilkov et al. 2017, arXiv:1706.03825"
    draws: Count = 25
    noise: NonNegative = 0.15
    sigma: NonNegative | Tensor | None = None

    def over(self, features: Features | None) -> Self:
        return self if features is None or self.sigma is not None else replace(self, sigma=self.noise * features.scales)

    def terms(self, x: Tensor, context: Context) -> Terms:
        spread, noise, one = self.spread(x, context.present), item_noise(context.draws, x, "smooth_grad"), x.new_ones(())
        return lambda row, item: (x[row] + spread[row] * noise(row, item), one)

    def spread(self, x: Tensor, present: Tensor | None = None) -> Tensor:
        """σ per sample, (N, 1, ...). The range of values of which some do not exist starts at 0, as that of gates does."""
        axes = tuple(range(1, x.ndim))
        if isinstance(self.sigma, Tensor):
            return self.sigma.to(x).expand_as(x)
        if self.sigma is not None:
            return x.new_full((len(x), *[1] * len(axes)), self.sigma)
        low = x.amin(axes, keepdim=True)
        return self.noise * (x.amax(axes, keepdim=True) - (low if present is None else low.clamp(max=0.0)))


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class GradientShap(MeanGradient):
    """Gradients at random points between the input and random baselines: e(x) = E[(x̃ - b) ⊙ ∇f(b + a(x̃ - b))].

    a is uniform on (0, 1), b is a random row of `baselines` (B, ...), or zero if there are none (in a table with
    names, of its background), and x̃ is x plus Gaussian noise of standard deviation `noise`. With the zero baseline,
    the mean over many draws is Integrated
    Gradients; baselines that the symmetry moves break equivariance (Proposition D.6).
    """

    name = "gradient_shap"
    reference = "Lundberg and Lee 2017, arXiv:1705.07874; Erion et al. 2021, arXiv:1906.10670"
    draws: Count = 5
    noise: NonNegative = 0.0
    baselines: Tensor | None = None

    def over(self, features: Features | None) -> Self:
        return self if features is None or self.baselines is not None else replace(self, baselines=features.background)

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
        noise = item_noise(context.draws, x, "gradient_shap.noise")

        def terms(row: Tensor, item: Tensor) -> tuple[Tensor, Tensor]:
            baseline = baselines[choice[row, item]]
            difference = x[row] - baseline
            if self.noise:
                difference = difference + self.noise * noise(row, item)
            return baseline + share[row, item].reshape(-1, *[1] * (x.ndim - 1)) * difference, difference

        return terms


def quadrature(method: str, steps: int) -> tuple[list[float], list[float]]:
    """Points of the rule as shares of the way from the baseline to the input, and their weights.

    Captum's "riemann_trapezoid" divides m points, which leave m - 1 intervals, by m, so its weights add up to (m - 1) / m.
    "trapezoid" is the rule itself, whose weights add up to 1.

    >>> quadrature("trapezoid", 3)
    ([0.0, 0.5, 1.0], [0.25, 0.5, 0.25])
    """
    name, factor = ("riemann_trapezoid", steps / (steps - 1)) if method == TRAPEZOID else (method, 1.0)
    weights, points = approximation_parameters(name)
    return points(steps), [factor * weight for weight in weights(steps)]


def attribute(method: Any, inputs: Tensor, targets: Tensor, structure: Structure, /, **settings: Any) -> Tensor:
    """The attributions of a Captum method. The flags that it sets go to a copy of the inputs."""
    if structure:
        settings["additional_forward_args"] = structure
    method.gradient_func = summed_gradients
    leaf = inputs.detach().clone().requires_grad_()
    with silent_captum():
        result: Tensor = method.attribute(leaf, target=targets, **settings)
    return result.detach()


def summed_gradients(
    forward_fn: Callable[..., Tensor], inputs: tuple[Tensor, ...], target_ind: Tensor | None = None, additional_forward_args: Any = None
) -> tuple[Tensor, ...]:
    """Captum's gradient function, with one backward pass from the sum of all rows' scores."""
    with torch.enable_grad():
        output = forward_fn() if target_ind is None else pick(forward_fn(*inputs, *(additional_forward_args or ())), target_ind)
        return torch.autograd.grad(output.sum(), inputs)


@contextmanager
def silent_captum() -> Iterator[None]:
    """Suppress Captum's warnings about the hooks that it sets and removes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"captum\.")
        yield


def item_noise(draws: Draws, like: Tensor, stream: str) -> Callable[[Tensor, Tensor], Tensor]:
    """A function from rows (R,) and items (R,) to standard normal noise of `like`'s shape, (R, ...).

    The noise depends on the sample, the draw and the item, never on the batch.
    """
    own = draws.to(like.device)

    def noise(row: Tensor, item: Tensor) -> Tensor:
        return replace(own[row], item=item).normal(*like.shape[1:], stream=stream).to(like)

    return noise
