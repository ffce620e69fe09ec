"""What all methods that differentiate the model share: a probe that finds models without gradients.

Rules for the integral along a line: where they look, and how much each point weighs.

Captum's deterministic methods, run in full batches.

Captum differentiates row by row sums through `torch.unbind`; here one summed score is differentiated, which gives the
same numbers in fewer kernels. Its DeepLift and Grad-CAM need more than this and have files of their own.
"""

from __future__ import annotations

import warnings
from abc import ABC
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import captum.attr
import torch
from captum.attr._utils.approximation_methods import approximation_parameters
from torch import Size, Tensor, nn

from veracity.core.errors import InputError, SpecError, unknown
from veracity.core.explainers import BARE, Context, Cost, Explainer
from veracity.core.inputs import Signals
from veracity.core.models import evaluating
from veracity.core.registry import EXPLAINERS
from veracity.core.settings import Count
from veracity.explain.ablation import Baseline, as_row, check_baseline
from veracity.explain.nonlinear import nonlinear_steps
from veracity.explain.passes import Structure, at, by_rows, pick, tile


def require_gradient(name: str, model: nn.Module, inputs: Tensor, targets: Tensor, structure: Structure = ()) -> None:
    """Raise unless the first input's score has a gradient in that input."""
    leaf = inputs[:1].detach().clone().requires_grad_()
    with evaluating(model), torch.enable_grad():
        score = pick(model(leaf, *at(structure, slice(1))), targets[:1]).sum()
        found = torch.autograd.grad(score, leaf, allow_unused=True)[0] if score.requires_grad else None
    if found is None:
        raise InputError(f"{name} needs gradients, but the output of this model does not depend differentiably on its input.")


@dataclass(frozen=True, kw_only=True)
class GradientBased(Explainer, ABC):
    """An explainer that differentiates the model in its input."""

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise if the model has no gradient in its input."""
        require_gradient(self.name, model, inputs, targets, context.structure)
        return ()


TRAPEZOID = "trapezoid"
QUADRATURES = ("gausslegendre", "riemann_left", "riemann_middle", "riemann_right", "riemann_trapezoid", TRAPEZOID)


def captums(method: str, steps: int) -> tuple[str, float]:
    """Captum's name of a rule, and what its sum is multiplied by.

    `riemann_trapezoid` divides m points, which leave m - 1 intervals, by m, so that its weights add up to (m - 1) / m;
    `trapezoid` is the rule itself, whose weights add up to 1.

    >>> captums("trapezoid", 60), captums("riemann_left", 60)
    (('riemann_trapezoid', 1.0169491525423728), ('riemann_left', 1.0))
    """
    return ("riemann_trapezoid", steps / (steps - 1)) if method == TRAPEZOID else (method, 1.0)


def points_and_weights(method: str, steps: int) -> tuple[list[float], list[float]]:
    """Shares of the way from the baseline to the input, and the weights of the slopes there.

    >>> points_and_weights("trapezoid", 3)
    ([0.0, 0.5, 1.0], [0.25, 0.5, 0.25])
    """
    name, factor = captums(method, steps)
    weights, points = approximation_parameters(name)
    return points(steps), [factor * weight for weight in weights(steps)]


def check_quadrature(name: str, method: str, steps: int) -> None:
    """Raise unless there is such a rule with as many points."""
    if method not in QUADRATURES:
        raise unknown(f"method of {name}", method, QUADRATURES)
    if method != "gausslegendre" and steps < 2:
        raise SpecError(f"The rule '{method}' of {name} needs at least 2 steps, not {steps}: use more, or method='gausslegendre'.")


@contextmanager
def quiet() -> Iterator[None]:
    """Without Captum's remarks about the hooks that it sets and removes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"captum\.")
        yield


def summed_gradients(
    forward_fn: Callable[..., Tensor], inputs: tuple[Tensor, ...], target_ind: Tensor | None = None, additional_forward_args: Any = None
) -> tuple[Tensor, ...]:
    """Captum's gradient function, with one backward pass from the sum of the rows' scores."""
    with torch.enable_grad():
        output = forward_fn() if target_ind is None else pick(forward_fn(*inputs, *(additional_forward_args or ())), target_ind)
        return torch.autograd.grad(output.sum(), inputs)


def attribute(method: Any, inputs: Tensor, targets: Tensor, structure: Structure, /, **settings: Any) -> Tensor:
    """Captum's answer for these rows; it takes its hooks off again, and its flags go to a copy of the inputs."""
    if structure:
        settings["additional_forward_args"] = structure
    method.gradient_func = summed_gradients
    leaf = inputs.detach().clone().requires_grad_()
    with quiet():
        result: Tensor = method.attribute(leaf, target=targets, **settings)
    return result.detach()


@dataclass(frozen=True, kw_only=True)
class OnePass(GradientBased, ABC):
    """A Captum method of one forward and one backward pass."""

    structured = True
    local = True
    method: ClassVar[Callable[..., Any]]
    options: ClassVar[dict[str, Any]] = {}

    def cost(self, shape: Size) -> Cost:
        """One pass each way."""
        return Cost(forward=1, backward=1)

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Attributions of the inputs' shape."""
        method = type(self).method(model)
        return by_rows(lambda x, t, s: attribute(method, x, t, s, **self.options), inputs, targets, context.batch, context.structure)


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class Saliency(OnePass):
    """The size of the gradient: e(x) = |∇f(x)|."""

    name = "saliency"
    reference = "Simonyan et al. 2013, arXiv:1312.6034"
    method = captum.attr.Saliency

    @property
    def signed(self) -> bool:
        """Absolute values."""
        return False


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
    """The input times the size of its gradient: e(x) = x ⊙ |∇f(x)|, which has the input's sign and not the gradient's.

    The form that the stability paper calls Gradient ⊙ Input; `input_x_gradient` is the usual one.
    """

    name = "input_x_saliency"
    reference = "Fel et al., How good is your explanation? (WACV 2022), appendix B"
    method = captum.attr.Saliency

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Attributions of the inputs' shape."""
        return inputs.detach() * super().explain(model, inputs, targets, context)


@dataclass(frozen=True, kw_only=True)
class ModifiedRelu(OnePass, ABC):
    """A gradient whose ReLU modules pass back something else."""

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Say how many ReLU steps are not modules, since there nothing is modified."""
        super().check(model, inputs, targets, context)
        steps = nonlinear_steps(model, Signals(inputs, context.structure)[:1], lambda module: isinstance(module, nn.ReLU))
        outside, inside = steps.outside["relu"], steps.inside["relu"]
        if not outside:
            return ()
        return (
            f"{self.name} changes the gradient of nn.ReLU modules alone, and {outside} of {outside + inside} ReLU steps of this "
            "model are not modules: there it is the plain gradient.",
        )


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class GuidedBackprop(ModifiedRelu):
    """The gradient with negative parts cut at every ReLU that was on."""

    name = "guided_backprop"
    reference = "Springenberg et al. 2014, arXiv:1412.6806"
    method = captum.attr.GuidedBackprop


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class Deconvolution(ModifiedRelu):
    """The gradient with negative parts cut at every ReLU, on or off."""

    name = "deconvolution"
    reference = "Zeiler and Fergus 2013, arXiv:1311.2901"
    method = captum.attr.Deconvolution


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class IntegratedGradients(GradientBased):
    """Gradients along the straight line from a baseline: e(x) = (x - b) ⊙ ∫ ∇f(b + t(x - b)) dt over t in [0, 1].

    Equivariant for permutation representations that leave the baseline in place (Proposition D.6). `method` names the
    quadrature with `steps` points; `baseline` is a number or one input. "trapezoid" has its points at regular intervals, both
    ends included, and weights that add up to 1; those of Captum's "riemann_trapezoid" add up to 1 - 1 / steps.
    """

    name = "integrated_gradients"
    reference = "Sundararajan et al. 2017, arXiv:1703.01365"
    structured = True
    steps: Count = 50
    method: str = "gausslegendre"
    baseline: Baseline = 0.0

    def cost(self, shape: Size) -> Cost:
        """One pass each way for each step."""
        return Cost(forward=self.steps, backward=self.steps)

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise on settings that do not fit or a model without gradients."""
        check_quadrature(self.name, self.method, self.steps)
        check_baseline(self.name, self.baseline, inputs.shape[1:])
        return super().check(model, inputs, targets, context)

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Attributions of the inputs' shape; they sum to f(x) - f(b) up to the quadrature's error."""
        method = captum.attr.IntegratedGradients(model)
        rows, steps = tile(len(inputs), self.steps, context.batch)
        rule, factor = captums(self.method, self.steps)
        settings = {"baselines": as_row(self.baseline, inputs), "n_steps": self.steps, "method": rule}

        def some(x: Tensor, t: Tensor, s: Structure) -> Tensor:
            found = attribute(method, x, t, s, internal_batch_size=steps * len(x), **settings)
            return found if factor == 1.0 else factor * found

        return by_rows(some, inputs, targets, rows, context.structure)
