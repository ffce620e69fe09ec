"""Explanations that can be differentiated in the input they explain, so that a search can follow their slope.

>>> from veracity.core.explainers import BARE
>>> from veracity.explain.captum_adapters import InputXGradient
>>> class Cubes(nn.Module):
...     def forward(self, x):
...         return x.pow(3).sum(1, keepdim=True)
>>> x = torch.tensor([[1.0, 2.0]], requires_grad=True)
>>> maps = differentiable(InputXGradient())(Cubes(), x, torch.tensor([0]), BARE)  # 3 x^3
>>> maps.detach(), torch.autograd.grad(maps.sum(), x)[0]  # its slope is 9 x^2
(tensor([[ 3., 24.]]), tensor([[ 9., 36.]]))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from veracity.core.explainers import Context, Explainer
from veracity.core.inputs import Signals
from veracity.explain.captum_adapters import Gradient, InputXGradient, InputXSaliency, IntegratedGradients, Saliency
from veracity.explain.deep_lift import DeepLift
from veracity.explain.grad_cam import GradCam, LayerMap, interpolated
from veracity.explain.grad_cam_plus import GradCamPlusPlus
from veracity.explain.gradient_shap import GradientShap
from veracity.explain.passes import Terms, at, by_rows, pairs, pick
from veracity.explain.precomputed import Precomputed
from veracity.explain.rescaled import rescaled
from veracity.explain.smooth_grad import SmoothGrad
from veracity.explain.stacked import along_the_line, plain, times_input
from veracity.explain.symmetrised import Symmetrised, Undoes, elements_of, of_items

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
