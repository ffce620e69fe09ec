"""DeepLift's rescale rule in a form that can be differentiated: three copies of a batch go through the model together.

The first copy is the input x and the second the baseline b, and both pass as usual, so that the multipliers Δout / Δin of
every nonlinearity depend on x as they truly do. The third has the values of x, but at each nonlinearity the rule in the
place of the gradient; its gradient in x is DeepLift's, and has a slope along the first. Steps without a rule have the plain
gradient, whose own slope is then that of the third copy.

Maps are complete, Σ e = f(x) - f(b), also where max-pooling and an activation follow each other directly: there Captum's
hooks, and with them the explainer, miss one of the two rules, so that numbers differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from veracity.explain.baselines import Baseline, as_row
from veracity.explain.deep_lift import has_rule
from veracity.explain.passes import Structure, pick

CLOSE = 1e-10
"""Inputs closer to their baseline than this have the plain gradient."""

Rule = Callable[[Tensor], Tensor]
"""From the gradient at a nonlinearity's output to that at its input."""

POOLS: dict[type[nn.Module], tuple[Callable[..., Any], Callable[..., Tensor]]] = {
    nn.MaxPool1d: (functional.max_pool1d, functional.max_unpool1d),
    nn.MaxPool2d: (functional.max_pool2d, functional.max_unpool2d),
    nn.MaxPool3d: (functional.max_pool3d, functional.max_unpool3d),
}


class Ruled(torch.autograd.Function):
    """A value whose gradient is what a rule says; the rule's own tensors keep their graphs."""

    @staticmethod
    def forward(ctx: Any, given: Tensor, value: Tensor, rule: Rule) -> Tensor:
        """The value."""
        ctx.rule = rule
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """The rule's gradient."""
        return ctx.rule(gradients[0]), None, None


def rescaled(baseline: Baseline, model: nn.Module, x: Tensor, targets: Tensor, structure: Structure = ()) -> Tensor:
    """DeepLift's maps (N, ...) of inputs in a graph, in that graph: (x - b) ⊙ the gradient by the rescale rule."""
    base, copy = as_row(baseline, x).expand_as(x), x.clone()
    with rules(model):
        scores = model(torch.cat((x, base, copy)), *(torch.cat((part, part, part)) for part in structure))
        (gradient,) = torch.autograd.grad(pick(scores[-len(x) :], targets).sum(), copy, create_graph=True)
    return (x - base) * gradient


@contextmanager
def rules(model: nn.Module) -> Iterator[None]:
    """While it is on, the last third of a batch has DeepLift's rules at every module that has one."""
    given: dict[nn.Module, Tensor] = {}

    def before(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        given[module] = args[0]
        return (args[0].clone(), *args[1:])

    def after(module: nn.Module, _args: Any, output: Tensor) -> Tensor:
        inside = given.pop(module)
        rule = pool_rule(module, inside, output) if type(module) in POOLS else scale_rule(module, inside, output)
        true, base, last = output.chunk(3)
        ruled: Tensor = Ruled.apply(inside.chunk(3)[2], last.detach(), rule)  # type: ignore[no-untyped-call]
        return torch.cat((true, base, ruled))

    modules = [module for module in model.modules() if has_rule(module)]
    handles = [module.register_forward_pre_hook(before) for module in modules]
    handles += [module.register_forward_hook(after) for module in modules]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def scale_rule(module: nn.Module, inside: Tensor, output: Tensor) -> Rule:
    """Δout / Δin for the gradient; a softmax's is centred on its mean in each row."""
    (true, base, _), (high, low, _) = inside.chunk(3), output.chunk(3)
    close = (true - base).abs() < CLOSE
    ratio = (high - low) / (true - base).where(~close, 1.0)

    def rule(gradient: Tensor) -> Tensor:
        found = torch.where(close, plainly(gradient, inside, output, close), gradient * ratio)
        if not isinstance(module, nn.Softmax):
            return found
        return found - found.flatten(1).mean(1).reshape(-1, *[1] * (found.ndim - 1))

    return rule


def pool_rule(module: Any, inside: Tensor, output: Tensor) -> Rule:
    """Δout shared out between the places of the input's and of the baseline's maximum, over Δin there."""
    pool, unpool = POOLS[type(module)]
    (true, base, _), (high, low, _) = inside.chunk(3), output.chunk(3)
    close, top, sizes = (true - base).abs() < CLOSE, torch.maximum(high, low), (module.kernel_size, module.stride, module.padding)
    first, second = (pool(part.detach(), *sizes, module.dilation, module.ceil_mode, True)[1] for part in (true, base))

    def rule(gradient: Tensor) -> Tensor:
        shares = ((gradient * (top - low), first), (gradient * (high - top), second))
        ups = [unpool(share, place, *sizes, list(true.shape)) for share, place in shares]
        return torch.where(close, plainly(gradient, inside, output, close), sum(ups) / (true - base).where(~close, 1.0))

    return rule


def plainly(gradient: Tensor, inside: Tensor, output: Tensor, close: Tensor) -> Tensor:
    """The plain gradient at the inputs, where any of them is close to its baseline."""
    if not bool(close.any()):
        return torch.zeros_like(close, dtype=gradient.dtype)
    whole = torch.cat((gradient, torch.zeros_like(gradient), torch.zeros_like(gradient)))
    return torch.autograd.grad(output, inside, whole, create_graph=True)[0].chunk(3)[0]
