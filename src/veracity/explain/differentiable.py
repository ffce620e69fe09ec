"""Explanations that can be differentiated in the input they explain, so a search can follow their slope.

Second derivatives of a ReLU network are zero almost everywhere; `SoftReLU` replaces ReLU by softplus while it is active.

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
from veracity.core.settings import short_repr
from veracity.explain.deep_lift import DeepLift, differentiable_deep_lift
from veracity.explain.grad_cam import GradCam, GradCamPlusPlus, LayerMap, resize
from veracity.explain.masking import Baseline
from veracity.explain.passes import in_batches
from veracity.explain.precomputed import Precomputed
from veracity.explain.stacked import GradientSum, gradient_sum
from veracity.explain.symmetrised import Symmetrised

Form = Callable[[nn.Module, Tensor, Tensor, Context], Tensor]
"""From (model, inputs, targets, context) to the explainer's maps, as part of the graph of the inputs."""

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
    form: Form | None = None
    sums = gradient_sum(explainer)
    if sums is not None:
        form = partial(explain_gradients, sums)
    elif isinstance(explainer, GradCam) and kind is GradCam:
        form = partial(explain_layer, explainer, explainer.combine)
    elif isinstance(explainer, GradCamPlusPlus) and kind is GradCamPlusPlus:
        form = partial(explain_layer, explainer, combine_plus_plus)
    elif isinstance(explainer, DeepLift) and kind is DeepLift:
        form = partial(explain_deep_lift, explainer.baseline)
    elif isinstance(explainer, Symmetrised) and kind is Symmetrised:
        inner = differentiable(explainer.inner)
        form = None if inner is None else partial(explainer.mean, inner)
    return None if form is None else partial(explain_in_graph, form)


def explain_in_graph(form: Form, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
    """Maps in the graph of the inputs, or of a copy if they have none. A map that does not depend on x has slope 0."""
    x = inputs if inputs.requires_grad else inputs.detach().clone().requires_grad_()
    with torch.enable_grad():
        return form(model, x, targets, context) + 0.0 * x


def explain_gradients(sums: GradientSum, model: nn.Module, x: Tensor, targets: Tensor, context: Context) -> Tensor:
    """A weighted sum of gradients, (N, ...)."""
    return sums.explain(model, x, targets, context, lambda f, points: torch.autograd.grad(f(points), points, create_graph=True)[0])


def explain_deep_lift(baseline: Baseline, model: nn.Module, x: Tensor, targets: Tensor, context: Context) -> Tensor:
    """DeepLift's maps (N, ...), three model rows per input at once."""
    return in_batches(partial(differentiable_deep_lift, baseline, model), x, targets, max(1, context.batch // 3), context.structure)


def explain_layer(explainer: LayerMap, combine: Combine, model: nn.Module, x: Tensor, targets: Tensor, context: Context) -> Tensor:
    """The map of a layer's activations and their gradients, (N, 1, ...)."""
    gradient, activation = explainer.last_activation(*explainer.activations(model, x, targets), graph=True)
    return resize(combine(gradient, activation).clamp(min=0.0), x.shape[2:])


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


class SoftReLU(TorchFunctionMode):
    """A context in which every ReLU of a forward pass is a softplus: relu(x) becomes ln(1 + exp(beta x)) / beta.

    That is at most ln(2) / beta above relu(x), and curved at zero: second derivatives of a ReLU network are zero
    almost everywhere, those of its soft form are not. ReLU6 and hardtanh are softened at both of their bends. Modules,
    functions, methods and in-place forms are replaced where they are called; the model is neither copied nor changed.
    Max-pooling, leaky ReLU, `clamp` and anything in TorchScript stay as they are.

    >>> with SoftReLU(beta=10.0):
    ...     torch.relu(torch.tensor([-0.1, 0.0, 0.1]))
    tensor([0.0313, 0.0693, 0.1313])
    """

    def __init__(self, beta: float) -> None:
        if isinstance(beta, bool) or not isinstance(beta, (int, float)) or not 0 < beta < math.inf:
            raise SpecError(f"The sharpness beta of SoftReLU must be a positive number, such as 20.0, not {short_repr(beta)}.")
        super().__init__()
        self.beta = float(beta)

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


SOFT: dict[Any, Callable[..., Tensor]] = {
    torch.relu: soft_relu,
    functional.relu: soft_relu,
    Tensor.relu: soft_relu,
    torch.relu_: partial(soft_relu, inplace=True),
    Tensor.relu_: partial(soft_relu, inplace=True),
    functional.hardtanh: soft_hardtanh,
    functional.hardtanh_: partial(soft_hardtanh, inplace=True),
    functional.relu6: lambda beta, input, inplace=False: soft_hardtanh(beta, input, 0.0, 6.0, inplace),
}
"""The soft form of each function with a bend."""
