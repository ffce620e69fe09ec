"""DeepLift: Captum's, and a second form that can be differentiated.

Captum's method is run with independent rows, and `check` names the models on which it silently degrades.

The differentiable form sends three copies of a batch through the model together. The first copy is the input x and the second
the baseline b. Both pass as usual, so the multipliers Δout / Δin of every nonlinearity depend on x as they should. The third
copy has the values of x, but every nonlinearity has the rescale rule in place of its gradient: its gradient in x is DeepLift's,
and can be differentiated along the first copy. A step without a rule keeps its plain gradient.

The differentiable maps are complete, Σ e = f(x) - f(b), even where max-pooling and an activation follow each other directly.
There Captum's hooks, and with them the explainer, miss one of the two rules, so the numbers differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import captum.attr
import torch
from captum.attr._core.deep_lift import SUPPORTED_NON_LINEAR
from torch import Size, Tensor, nn
from torch.nn import functional

from veracity.core.errors import InputError
from veracity.core.explainers import BARE, Context, Cost
from veracity.core.features import Features
from veracity.core.inputs import Signals
from veracity.core.registry import EXPLAINERS
from veracity.core.snapshot import preserve_state
from veracity.explain.gradients import GradientBased, attribute
from veracity.explain.masking import Baseline, baseline_row, check_baseline, over_table
from veracity.explain.nonlinear import nonlinear_steps
from veracity.explain.passes import Structure, hooks, in_batches, pick

CLOSE = 1e-10
"""Inputs closer to their baseline than this keep the plain gradient."""

GradientRule = Callable[[Tensor], Tensor]
"""From the gradient at a nonlinearity's output to the gradient at its input."""

POOLS: dict[type[nn.Module], tuple[Callable[..., Any], Callable[..., Tensor]]] = {
    nn.MaxPool1d: (functional.max_pool1d, functional.max_unpool1d),
    nn.MaxPool2d: (functional.max_pool2d, functional.max_unpool2d),
    nn.MaxPool3d: (functional.max_pool3d, functional.max_unpool3d),
}


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class DeepLift(GradientBased):
    """Differences from a baseline, propagated by the rescale rule: Δout / Δin in place of each nonlinearity's gradient.

    The rule exists for modules only. A functional ReLU silently keeps its plain gradient; `check` counts such steps.
    """

    name = "deep_lift"
    reference = "Shrikumar et al. 2017, arXiv:1704.02685"
    structured = True
    baseline: Baseline = None

    def over(self, features: Features | None) -> Self:
        return over_table(self, features)

    def cost(self, shape: Size) -> Cost:
        """The input and its baseline, each way."""
        return Cost(forward=2, backward=2)

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise if a module is used twice, which the rule cannot handle; count the steps without a rule."""
        check_baseline(self.name, self.baseline, inputs.shape[1:])
        super().check(model, inputs, targets, context)
        steps = nonlinear_steps(model, Signals(inputs, context.structure)[:1], has_rule)
        reused = next((name for name, count in steps.calls.items() if count > 1), None)
        if reused is not None:
            raise InputError(
                f"deep_lift cannot handle the module '{reused}', which this model calls {steps.calls[reused]} times in one pass: "
                "give each nonlinear step a module of its own."
            )
        missing = steps.outside.total()
        if not missing:
            return ()
        names = ", ".join(f"{name} x{count}" for name, count in steps.outside.items())
        return (
            f"deep_lift has no rule for {missing} of {missing + steps.inside.total()} nonlinear steps of this model ({names}). It uses "
            "the plain gradient there, so it tends to Input x Gradient: use modules such as nn.ReLU, one for each step.",
        )

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        def explain_rows(x: Tensor, t: Tensor, s: Structure) -> Tensor:
            return attribute(IndependentRows(model), x, t, s, baselines=baseline_row(self.baseline, x))

        with preserve_state(model):
            return in_batches(explain_rows, inputs, targets, max(1, context.batch // 2), context.structure)


def has_rule(module: nn.Module) -> bool:
    """Whether Captum's DeepLift handles this very type of module."""
    return type(module) in SUPPORTED_NON_LINEAR and not module._backward_hooks


class IndependentRows(captum.attr.DeepLift):  # type: ignore[misc]
    """Captum's DeepLift with softmax centred on each row's own mean. Captum takes one mean over the whole batch."""

    def _backward_hook(self, module: nn.Module, grad_input: Tensor, grad_output: Tensor) -> Tensor:
        multipliers: Tensor = super()._backward_hook(module, grad_input, grad_output)
        if not isinstance(module, nn.Softmax):
            return multipliers
        means = multipliers.flatten(1).mean(1).reshape(2, -1).mean(0).repeat(2)
        return multipliers - means.reshape(-1, *[1] * (multipliers.ndim - 1))


def differentiable_deep_lift(baseline: Baseline, model: nn.Module, x: Tensor, targets: Tensor, structure: Structure = ()) -> Tensor:
    """DeepLift's maps (N, ...) as part of the graph of x: (x - b) ⊙ the gradient by the rescale rule."""
    base, copy = baseline_row(baseline, x).expand_as(x), x.clone()
    with rescale_rules(model):
        scores = model(torch.cat((x, base, copy)), *(torch.cat((part, part, part)) for part in structure))
        (gradient,) = torch.autograd.grad(pick(scores[-len(x) :], targets).sum(), copy, create_graph=True)
    return (x - base) * gradient


@contextmanager
def rescale_rules(model: nn.Module) -> Iterator[None]:
    """While active, the last third of a batch has the rescale rule at every module that has one."""
    inputs: dict[nn.Module, Tensor] = {}

    def before(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        inputs[module] = args[0]
        return (args[0].clone(), *args[1:])

    def after(module: nn.Module, _args: Any, output: Tensor) -> Tensor:
        inside = inputs.pop(module)
        rule = pool_rule(module, inside, output) if type(module) in POOLS else activation_rule(module, inside, output)
        true, base, last = output.chunk(3)
        ruled: Tensor = RuledValue.apply(inside.chunk(3)[2], last.detach(), rule)  # type: ignore[no-untyped-call]
        return torch.cat((true, base, ruled))

    modules = [module for module in model.modules() if has_rule(module)]
    handles = [module.register_forward_pre_hook(before) for module in modules]
    with hooks([*handles, *(module.register_forward_hook(after) for module in modules)]):
        yield


class RuledValue(torch.autograd.Function):
    """A value whose gradient a rule computes. The rule's tensors keep their graphs."""

    @staticmethod
    def forward(ctx: Any, inside: Tensor, value: Tensor, rule: GradientRule) -> Tensor:
        ctx.rule = rule
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return ctx.rule(gradients[0]), None, None


def activation_rule(module: nn.Module, inside: Tensor, output: Tensor) -> GradientRule:
    """Δout / Δin in place of the gradient. A softmax's is centred on the mean of each row."""
    (true, base, _), (high, low, _) = inside.chunk(3), output.chunk(3)
    close = (true - base).abs() < CLOSE
    ratio = (high - low) / (true - base).where(~close, 1.0)

    def rule(gradient: Tensor) -> Tensor:
        result = torch.where(close, plain_gradient(gradient, inside, output, close), gradient * ratio)
        if not isinstance(module, nn.Softmax):
            return result
        return result - result.flatten(1).mean(1).reshape(-1, *[1] * (result.ndim - 1))

    return rule


def pool_rule(module: Any, inside: Tensor, output: Tensor) -> GradientRule:
    """Δout, shared between the positions of the input's and of the baseline's maximum, over Δin there."""
    pool, unpool = POOLS[type(module)]
    (true, base, _), (high, low, _) = inside.chunk(3), output.chunk(3)
    close, top, sizes = (true - base).abs() < CLOSE, torch.maximum(high, low), (module.kernel_size, module.stride, module.padding)
    first, second = (pool(part.detach(), *sizes, module.dilation, module.ceil_mode, True)[1] for part in (true, base))

    def rule(gradient: Tensor) -> Tensor:
        shares = ((gradient * (top - low), first), (gradient * (high - top), second))
        ups = [unpool(share, place, *sizes, list(true.shape)) for share, place in shares]
        return torch.where(close, plain_gradient(gradient, inside, output, close), sum(ups) / (true - base).where(~close, 1.0))

    return rule


def plain_gradient(gradient: Tensor, inside: Tensor, output: Tensor, close: Tensor) -> Tensor:
    """The plain gradient at the inputs; zeros if none of them is `close` to its baseline."""
    if not bool(close.any()):
        return torch.zeros_like(close, dtype=gradient.dtype)
    whole = torch.cat((gradient, torch.zeros_like(gradient), torch.zeros_like(gradient)))
    return torch.autograd.grad(output, inside, whole, create_graph=True)[0].chunk(3)[0]
