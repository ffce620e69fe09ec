"""Gradient explanations as pure functions of the model, so that many copies of its weights are explained at once.

>>> from torch.func import functional_call, vmap
>>> net = torch.nn.Linear(2, 1, bias=False)
>>> weights = torch.tensor([[[1.0, 2.0]], [[3.0, 4.0]]])  # two copies
>>> x, targets = torch.ones(1, 2), torch.tensor([0])
>>> from veracity.core.explainers import BARE
>>> from veracity.explain.gradients import Gradient
>>> form = stacked(Gradient())
>>> vmap(lambda w: form(lambda x: functional_call(net, {"weight": w}, (x,)), x, targets, BARE))(weights)
tensor([[[1., 2.]],
<BLANKLINE>
        [[3., 4.]]])
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.func import grad

from veracity.core.explainers import Context, Explainer
from veracity.explain.ablation import as_row
from veracity.explain.gradients import Gradient, InputXGradient, InputXSaliency, IntegratedGradients, Saliency, points_and_weights
from veracity.explain.passes import Structure, Terms, at, pairs, pick
from veracity.explain.precomputed import Precomputed
from veracity.explain.smooth_grad import GradientShap, SmoothGrad

Call = Callable[..., Tensor]
"""From inputs (R, ...) and their structure to scores (R, K): torch operations alone, the weights bound to it."""

Form = Callable[[Call, Tensor, Tensor, Context], Tensor]
"""From (call, inputs, targets, context) to the maps that the explainer gives for the same model."""


def stacked(explainer: Explainer) -> Form | None:
    """The explainer as a function that torch.func.vmap can map over weights; None if it has no such form.

    Its numbers are the explainer's up to rounding, random ones included, which do not depend on the copy.
    """
    if isinstance(explainer, Precomputed):
        return None if explainer.explainer is None else stacked(explainer.explainer)
    if type(explainer) is Saliency:
        return lambda *given: weighted_gradients(1, plain, *given).abs()
    if type(explainer) is Gradient:
        return partial(weighted_gradients, 1, plain)
    if type(explainer) is InputXSaliency:
        return lambda call, x, *given: x.detach() * weighted_gradients(1, plain, call, x, *given).abs()
    if type(explainer) is InputXGradient:
        return partial(weighted_gradients, 1, times_input)
    if type(explainer) is IntegratedGradients:
        return partial(weighted_gradients, explainer.steps, partial(along_the_line, explainer))
    if isinstance(explainer, (SmoothGrad, GradientShap)) and type(explainer) in (SmoothGrad, GradientShap):
        draws, terms = explainer.draws, explainer.terms
        return lambda *given: weighted_gradients(draws, terms, *given) / draws
    return None


def weighted_gradients(
    items: int, terms_of: Callable[[Tensor, Context], Terms], call: Call, inputs: Tensor, targets: Tensor, context: Context
) -> Tensor:
    """Σ_i w_i(x) ⊙ ∇f(p_i(x)) over the items' points p_i and weights w_i: (N, ...)."""
    x = inputs.detach()
    terms, total = terms_of(x, context), torch.zeros_like(x)
    for row, item in pairs(len(x), items, context.batch, x.device):
        points, weights = terms(row, item)
        structure, chosen = at(context.structure, row), targets[row]

        def score(p: Tensor, s: Structure = structure, t: Tensor = chosen) -> Tensor:
            return pick(call(p, *s), t).sum()

        total = total.index_add(0, row, weights * grad(score)(points))
    return total


def plain(x: Tensor, context: Context) -> Terms:
    """The gradient at the input."""
    return lambda row, _item: (x[row], x.new_ones(()))


def times_input(x: Tensor, context: Context) -> Terms:
    """The gradient at the input, times the input."""
    return lambda row, _item: (x[row], x[row])


def along_the_line(explainer: IntegratedGradients, x: Tensor, context: Context) -> Terms:
    """The points and weights of the quadrature between baseline and input."""
    baseline, rule = as_row(explainer.baseline, x), points_and_weights(explainer.method, explainer.steps)
    share, weight = (x.new_tensor(values).reshape(-1, *[1] * (x.ndim - 1)) for values in rule)

    def terms(row: Tensor, item: Tensor) -> tuple[Tensor, Tensor]:
        difference = x[row] - baseline
        return baseline + share[item] * difference, weight[item] * difference

    return terms
