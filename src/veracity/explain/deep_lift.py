"""DeepLift: Captum's, with rows kept apart and with a check for the models on which it silently degrades."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import captum.attr
from captum.attr._core.deep_lift import SUPPORTED_NON_LINEAR
from torch import Size, Tensor, nn

from veracity.core.errors import InputError
from veracity.core.explainers import BARE, Context, Cost
from veracity.core.inputs import Signals
from veracity.core.intact import untouched
from veracity.core.registry import EXPLAINERS
from veracity.explain.baselines import Baseline, as_row, check_baseline
from veracity.explain.captum_adapters import attribute
from veracity.explain.gradient_based import GradientBased
from veracity.explain.nonlinear import nonlinear_steps
from veracity.explain.passes import Structure, by_rows

Rule = Callable[[nn.Module, Tensor, Tensor], Tensor]


def has_rule(module: nn.Module) -> bool:
    """Whether Captum's DeepLift treats this very type of module."""
    return type(module) in SUPPORTED_NON_LINEAR and not module._backward_hooks


def row_wise(rule: Rule) -> Rule:
    """Captum's rule, with softmax centred on each input's own mean: Captum takes one mean over the whole batch."""

    def apply(module: nn.Module, grad_input: Tensor, grad_output: Tensor) -> Tensor:
        multipliers = rule(module, grad_input, grad_output)
        if not isinstance(module, nn.Softmax):
            return multipliers
        means = multipliers.flatten(1).mean(1).reshape(2, -1).mean(0).repeat(2)
        return multipliers - means.reshape(-1, *[1] * (multipliers.ndim - 1))

    return apply


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class DeepLift(GradientBased):
    """Differences from a baseline, passed back by the rescale rule: at each nonlinearity Δout / Δin for the gradient.

    The rule exists for modules alone. At a functional ReLU DeepLift is the plain gradient, without a word; `check`
    counts such steps and says so.
    """

    name = "deep_lift"
    reference = "Shrikumar et al. 2017, arXiv:1704.02685"
    structured = True
    baseline: Baseline = 0.0

    def cost(self, shape: Size) -> Cost:
        """The input and its baseline, each way."""
        return Cost(forward=2, backward=2)

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise if a module is used twice, which the rule cannot treat; count the steps that have no rule."""
        check_baseline(self.name, self.baseline, inputs.shape[1:])
        super().check(model, inputs, targets, context)
        steps = nonlinear_steps(model, Signals(inputs, context.structure)[:1], has_rule)
        if steps.reused:
            first = steps.reused[0]
            raise InputError(
                f"deep_lift cannot treat the module '{first}', which this model calls {steps.calls[first]} times in one pass: "
                "give each nonlinear step a module of its own."
            )
        missing = steps.outside.total()
        if not missing:
            return ()
        names = ", ".join(f"{name} x{count}" for name, count in steps.outside.items())
        return (
            f"deep_lift has no rule for {missing} of {missing + steps.inside.total()} nonlinear steps of this model ({names}): there it "
            "falls back on the plain gradient, so it tends to Input x Gradient; use modules such as nn.ReLU, one for each step.",
        )

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Attributions of the inputs' shape."""
        baseline = as_row(self.baseline, inputs)

        def some(x: Tensor, t: Tensor, s: Structure) -> Tensor:
            method = captum.attr.DeepLift(model)
            method._backward_hook = row_wise(method._backward_hook)
            return attribute(method, x, t, s, baselines=baseline)

        with untouched(model):
            return by_rows(some, inputs, targets, max(1, context.batch // 2), context.structure)
