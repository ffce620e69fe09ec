"""Explanations that can be differentiated in the input they explain, so a search can follow their slope.

Second derivatives of a ReLU network are zero almost everywhere; `softened` replaces ReLU by softplus while it is active.

>>> from veracity.core.explainers import BARE
>>> from veracity.explain.gradients import InputXGradient
>>> class Cubes(nn.Module):
...     def forward(self, x):
...         return x.pow(3).sum(1, keepdim=True)
>>> x = torch.tensor([[1.0, 2.0]], requires_grad=True)
>>> maps = differentiable(InputXGradient())(Cubes(), x, torch.tensor([0]), BARE)  # 3 x^3
>>> maps.detach(), torch.autograd.grad(maps.sum(), x)[0]  # its slope is 9 x^2
(tensor([[ 3., 24.]]), tensor([[ 9., 36.]]))
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from veracity.core.errors import SpecError
from veracity.core.explainers import Context, Explainer
from veracity.explain.deep_lift import DeepLift, differentiable_deep_lift
from veracity.explain.grad_cam import GradCam, GradCamPlusPlus, LayerMap, resize
from veracity.explain.passes import in_batches, pairs, pick, select
from veracity.explain.precomputed import Precomputed
from veracity.explain.stacked import GradientSum, gradient_sum
from veracity.explain.symmetrised import Symmetrised

Form = Callable[[nn.Module, Tensor, Tensor, Context], Tensor]
"""From (model, inputs, targets, context) to the explainer's maps, with a graph back to inputs that require gradients."""

Combine = Callable[[Tensor, Tensor], Tensor]
"""From gradients and activations (N, K, ...) to a map (N, 1, ...)."""


def differentiable(explainer: Explainer) -> Form | None:
    """The explainer as a differentiable function of its inputs; None if no such form is known.

    The numbers are the explainer's up to rounding, random ones included: the context fixes the draws, and their points
    move with the input. Targets are fixed. Memory grows with all model rows of a call, since the graph is kept.
    """
    kind = type(explainer)
    if isinstance(explainer, Precomputed):
        return None if explainer.explainer is None else differentiable(explainer.explainer)
    gradients = gradient_sum(explainer)
    if gradients is not None:
        return partial(explain_gradients, gradients)
    if isinstance(explainer, GradCam) and kind is GradCam:
        return partial(explain_layer, explainer, explainer.combine)
    if isinstance(explainer, GradCamPlusPlus) and kind is GradCamPlusPlus:
        return partial(explain_layer, explainer, combine_plus_plus)
    if isinstance(explainer, DeepLift) and kind is DeepLift:
        return partial(explain_deep_lift, explainer)
    if isinstance(explainer, Symmetrised) and kind is Symmetrised:
        inner = differentiable(explainer.inner)
        return None if inner is None else partial(explain_symmetrised, explainer, inner)
    return None


def in_graph(inputs: Tensor) -> Tensor:
    """The inputs if they are part of a graph, else a copy that starts one."""
    return inputs if inputs.requires_grad else inputs.detach().clone().requires_grad_()


def explain_gradients(gradients: GradientSum, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
    """A weighted sum of gradients (N, ...). A gradient that does not depend on x, as of a linear model, has slope 0."""
    with torch.enable_grad():
        x = in_graph(inputs)
        terms, total = gradients.terms(x, context), 0.0 * x
        for row, item in pairs(len(x), gradients.items, context.batch, x.device):
            points, weights = terms(row, item)
            score = pick(model(points.clone(), *select(context.structure, row)), targets[row]).sum()
            (gradient,) = torch.autograd.grad(score, points, create_graph=True)
            total = total.index_add(0, row, weights * gradient)
        return gradients.finish(x, total)


def explain_deep_lift(explainer: DeepLift, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
    """DeepLift's maps (N, ...), three model rows per input at once."""
    form = partial(differentiable_deep_lift, explainer.baseline, model)
    with torch.enable_grad():
        return in_batches(form, in_graph(inputs), targets, max(1, context.batch // 3), context.structure)


def explain_layer(explainer: LayerMap, combine: Combine, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
    """The map of a layer's activations and their gradients, (N, ...)."""
    with torch.enable_grad():
        x = in_graph(inputs)
        gradient, activation = explainer.last_activation(*explainer.activations(model, x, targets), graph=True)
        return resize(combine(gradient, activation).clamp(min=0.0), x.shape[2:]) + 0.0 * x


def combine_plus_plus(gradient: Tensor, activation: Tensor) -> Tensor:
    """The map of Grad-CAM++ without its divisions by zero, which have no slope: (N, K, ...) twice -> (N, 1, ...).

    For g > 0, α g⁺ = g³ / (2 g² + g³ Σ A) = g / (2 + g Σ A); it is 0 otherwise. The last form works for all g⁺.

    >>> combine_plus_plus(torch.tensor([[[1.0, 2.0]]]), torch.tensor([[[1.0, 1.0]]]))
    tensor([[[0.5833, 0.5833]]])
    """
    axes = tuple(range(2, activation.ndim))
    rising, positive = gradient.clamp(min=0.0), activation.clamp(min=0.0)
    weights = (rising / (2.0 + rising * positive.sum(axes, keepdim=True))).sum(axes, keepdim=True)
    return (weights * positive).sum(1, keepdim=True)


def explain_symmetrised(explainer: Symmetrised, inner: Form, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
    """The mean of the inner maps over transforms of the input, (N, ...)."""
    with torch.enable_grad():
        x = in_graph(inputs)
        return explainer.mean(inner, model, x, targets, context) + 0.0 * x


def softened(beta: float) -> Softened:
    """A context in which every ReLU of a forward pass is a softplus: relu(x) becomes ln(1 + exp(beta x)) / beta.

    That is at most ln(2) / beta above relu(x), and curved at zero: second derivatives of a ReLU network are zero
    almost everywhere, those of its soft form are not. ReLU6 and hardtanh are softened at both of their bends. Modules,
    functions, methods and in-place forms are replaced where they are called; the model is neither copied nor changed.
    Max-pooling, leaky ReLU, `clamp` and anything in TorchScript stay as they are.

    >>> with softened(beta=10.0):
    ...     torch.relu(torch.tensor([-0.1, 0.0, 0.1]))
    tensor([0.0313, 0.0693, 0.1313])
    """
    if isinstance(beta, bool) or not isinstance(beta, (int, float)) or not 0 < beta < math.inf:
        raise SpecError(f"The sharpness beta of a softened model must be a positive number, such as 20.0, not {beta!r}.")
    return Softened(float(beta))


class Softened(TorchFunctionMode):
    """While active, ReLU is softplus of this sharpness. Use `softened` to make one."""

    def __init__(self, beta: float) -> None:
        super().__init__()
        self.beta = beta

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        soft = SOFT.get(func)
        return func(*args, **(kwargs or {})) if soft is None else soft(self.beta, *args, **(kwargs or {}))


def soft_relu(beta: float, input: Tensor, inplace: bool = False) -> Tensor:
    """Softplus."""
    value = functional.softplus(input.clone() if inplace else input, beta=beta)
    return input.copy_(value) if inplace else value


def soft_hardtanh(beta: float, input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """Softplus at both bends: low + softplus(x - low) - softplus(x - high)."""
    low, high = (functional.softplus(input - bend, beta=beta) for bend in (min_val, max_val))
    value = min_val + low - high
    return input.copy_(value) if inplace else value


def soft_relu6(beta: float, input: Tensor, inplace: bool = False) -> Tensor:
    """Soft hardtanh between 0 and 6."""
    return soft_hardtanh(beta, input, 0.0, 6.0, inplace)


SOFT: dict[Any, Callable[..., Tensor]] = {
    torch.relu: soft_relu,
    functional.relu: soft_relu,
    Tensor.relu: soft_relu,
    torch.relu_: partial(soft_relu, inplace=True),
    Tensor.relu_: partial(soft_relu, inplace=True),
    functional.hardtanh: soft_hardtanh,
    functional.hardtanh_: partial(soft_hardtanh, inplace=True),
    functional.relu6: soft_relu6,
}
"""The soft form of each function with a bend."""
