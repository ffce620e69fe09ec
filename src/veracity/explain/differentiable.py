"""A model without kinks: while a context is on, every ReLU is a softplus, so that gradients have gradients.

Explanations that can be differentiated in the input they explain, so that a search can follow their slope.

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
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from veracity.core.errors import SpecError
from veracity.core.explainers import Context, Explainer
from veracity.core.inputs import Signals
from veracity.explain.deep_lift import DeepLift, rescaled
from veracity.explain.grad_cam import GradCam, GradCamPlusPlus, LayerMap, interpolated
from veracity.explain.gradients import Gradient, InputXGradient, InputXSaliency, IntegratedGradients, Saliency
from veracity.explain.passes import Terms, at, by_rows, pairs, pick
from veracity.explain.precomputed import Precomputed
from veracity.explain.smooth_grad import GradientShap, SmoothGrad
from veracity.explain.stacked import along_the_line, plain, times_input
from veracity.explain.symmetrised import Symmetrised, Undoes, elements_of, of_items


def softened(beta: float) -> Softened:
    """A context in which every ReLU of a forward pass is a softplus: relu(x) becomes ln(1 + exp(beta x)) / beta.

    That is at most ln(2) / beta above relu(x), and curved where relu is bent: second derivatives of a ReLU network are zero
    almost everywhere, those of its soft form are not. ReLU6 and hardtanh are softened at both of their bends. Modules,
    functions, methods and in-place forms are met as they are called, so that the model is neither copied nor touched.
    Max-pooling, leaky ReLU and `clamp` stay as they are, and so does whatever TorchScript runs.

    >>> with softened(beta=10.0):
    ...     torch.relu(torch.tensor([-0.1, 0.0, 0.1]))
    tensor([0.0313, 0.0693, 0.1313])
    """
    if isinstance(beta, bool) or not isinstance(beta, (int, float)) or not 0 < beta < math.inf:
        raise SpecError(f"The sharpness beta of a softened model must be a positive number, such as 20.0, not {beta!r}.")
    return Softened(float(beta))


class Softened(TorchFunctionMode):
    """While it is on, ReLUs are softplus of this sharpness; `softened` makes one."""

    def __init__(self, beta: float) -> None:
        super().__init__()
        self.beta = beta

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Soften what is bent, do the rest as it would have been done."""
        soft = SOFT.get(func)
        return func(*args, **(kwargs or {})) if soft is None else soft(self.beta, *args, **(kwargs or {}))


def relu(beta: float, input: Tensor, inplace: bool = False) -> Tensor:
    """Softplus for relu."""
    return put(input, functional.softplus(input.clone() if inplace else input, beta=beta), inplace)


def relu_in_place(beta: float, input: Tensor) -> Tensor:
    """Softplus for relu, written over its input."""
    return relu(beta, input, inplace=True)


def cut(beta: float, input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """Hardtanh with softplus at both bends: low + softplus(x - low) - softplus(x - high)."""
    low, high = (functional.softplus(input - bend, beta=beta) for bend in (min_val, max_val))
    return put(input, min_val + low - high, inplace)


def cut_in_place(beta: float, input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """Soft hardtanh, written over its input."""
    return cut(beta, input, min_val, max_val, inplace=True)


def relu6(beta: float, input: Tensor, inplace: bool = False) -> Tensor:
    """Soft hardtanh between 0 and 6."""
    return cut(beta, input, 0.0, 6.0, inplace)


def put(input: Tensor, value: Tensor, inplace: bool) -> Tensor:
    """The value, over the input if that is what was asked for."""
    return input.copy_(value) if inplace else value


SOFT: dict[Any, Callable[..., Tensor]] = {
    torch.relu: relu,
    functional.relu: relu,
    Tensor.relu: relu,
    torch.relu_: relu_in_place,
    Tensor.relu_: relu_in_place,
    functional.hardtanh: cut,
    functional.hardtanh_: cut_in_place,
    functional.relu6: relu6,
}
"""What stands in for each bent operation."""


Form = Callable[[nn.Module, Tensor, Tensor, Context], Tensor]
"""From (model, inputs, targets, context) to the explainer's maps, with a graph back to the inputs where these require gradients."""

Combine = Callable[[Tensor, Tensor], Tensor]
"""From gradients and activations (N, K, ...) to a map (N, 1, ...)."""


def differentiable(explainer: Explainer) -> Form | None:
    """The explainer as a function with a slope in its inputs; None if it has none, or none is known.

    Its numbers are the explainer's up to rounding, random ones included: draws are fixed by the context, and their points
    move with the input. Targets are fixed. Memory grows with all model rows of a call, since the graph is kept.
    """
    kind = type(explainer)
    if isinstance(explainer, Precomputed):
        return None if explainer.explainer is None else differentiable(explainer.explainer)
    if kind is Saliency:
        return lambda *given: weighted_gradients(1, plain, *given).abs()
    if kind is Gradient:
        return partial(weighted_gradients, 1, plain)
    if kind is InputXSaliency:
        return lambda model, x, *given: x * weighted_gradients(1, plain, model, x, *given).abs()
    if kind is InputXGradient:
        return partial(weighted_gradients, 1, times_input)
    if isinstance(explainer, IntegratedGradients) and kind is IntegratedGradients:
        return partial(weighted_gradients, explainer.steps, partial(along_the_line, explainer))
    if isinstance(explainer, (SmoothGrad, GradientShap)) and kind in (SmoothGrad, GradientShap):
        draws, terms = explainer.draws, explainer.terms
        return lambda *given: weighted_gradients(draws, terms, *given) / draws
    if isinstance(explainer, GradCam) and kind is GradCam:
        return partial(layer_maps, explainer, explainer.combined)
    if isinstance(explainer, GradCamPlusPlus) and kind is GradCamPlusPlus:
        return partial(layer_maps, explainer, plus_plus)
    if isinstance(explainer, DeepLift) and kind is DeepLift:
        return partial(differences, explainer)
    if isinstance(explainer, Symmetrised) and kind is Symmetrised:
        inner = differentiable(explainer.inner)
        return None if inner is None else partial(averaged, explainer, inner)
    return None


def tracked(inputs: Tensor) -> Tensor:
    """The inputs themselves where they are part of a graph, else a copy that begins one."""
    return inputs if inputs.requires_grad else inputs.detach().clone().requires_grad_()


def weighted_gradients(
    items: int, terms_of: Callable[[Tensor, Context], Terms], model: nn.Module, inputs: Tensor, targets: Tensor, context: Context
) -> Tensor:
    """Σ_i w_i(x) ⊙ ∇f(p_i(x)) over the items' points p_i and weights w_i, in the graph of x: (N, ...).

    A gradient that does not depend on x, say of a linear model, has the slope 0 rather than none.
    """
    with torch.enable_grad():
        x = tracked(inputs)
        terms, total = terms_of(x, context), 0.0 * x
        for row, item in pairs(len(x), items, context.batch, x.device):
            points, weights = terms(row, item)
            score = pick(model(points.clone(), *at(context.structure, row)), targets[row]).sum()
            (gradient,) = torch.autograd.grad(score, points, create_graph=True)
            total = total.index_add(0, row, weights * gradient)
    return total


def differences(explainer: DeepLift, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
    """DeepLift by the rescale rule, in the graph of the input: (N, ...)."""
    with torch.enable_grad():
        return by_rows(
            partial(rescaled, explainer.baseline, model), tracked(inputs), targets, max(1, context.batch // 3), context.structure
        )


def layer_maps(explainer: LayerMap, combine: Combine, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
    """The map of a layer's activations and their gradients, both in the graph of the input: (N, ...)."""
    with torch.enable_grad():
        x = tracked(inputs)
        gradient, activation = explainer.last_used(*explainer.activations(model, x, targets), graph=True)
        return interpolated(combine(gradient, activation).clamp(min=0.0), x.shape[2:]) + 0.0 * x


def plus_plus(gradient: Tensor, activation: Tensor) -> Tensor:
    """The map of Grad-CAM++ without its divisions by zero, which have no slope: (N, K, ...) twice -> (N, 1, ...).

    Where g > 0, α g⁺ = g³ / (2 g² + g³ Σ A) = g / (2 + g Σ A), and elsewhere it is 0; here so for all g⁺.

    >>> plus_plus(torch.tensor([[[1.0, 2.0]]]), torch.tensor([[[1.0, 1.0]]]))
    tensor([[[0.5833, 0.5833]]])
    """
    axes = tuple(range(2, activation.ndim))
    rising, positive = gradient.clamp(min=0.0), activation.clamp(min=0.0)
    weights = (rising / (2.0 + rising * positive.sum(axes, keepdim=True))).sum(axes, keepdim=True)
    return (weights * positive).sum(1, keepdim=True)


def averaged(explainer: Symmetrised, inner: Form, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
    """The mean of the inner maps over transforms of the input, each moved back: (N, ...)."""
    space = explainer.fitted(inputs.shape[1:])
    count, elements = explainer.count(space), elements_of(space, context.draws, explainer.draws)
    cost = explainer.inner.cost(inputs.shape[1:])
    with torch.enable_grad():
        signals = Signals(tracked(inputs), context.structure)
        total = 0.0 * signals.values.double()
        for row, item in pairs(len(inputs), count, max(1, context.batch // max(1, cost.forward, cost.backward))):
            element, here = elements(row, item).to(inputs.device), row.to(inputs.device)
            moved = space.move(element, signals[here])
            own = replace(context, structure=moved.structure, draws=of_items(context.draws, row, item))
            found = inner(model, moved.values, targets[here], own)
            if isinstance(space, Undoes):
                found = space.act(space.inverse(element), found)
            total = total.index_add(0, here, found.double())
    return (total / count).to(inputs.dtype)
