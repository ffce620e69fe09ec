"""Gradient explanations as pure functions of the model, so that many copies of its weights are explained at once.

They are the explanations of the form Σ_i w_i(x) ⊙ ∇f(p_i(x)), with points p_i and weights w_i.

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
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.func import grad

from veracity.core.explainers import Context, Explainer
from veracity.explain.gradients import Gradient, InputXGradient, InputXSaliency, IntegratedGradients, Saliency, quadrature
from veracity.explain.masking import baseline_row
from veracity.explain.passes import Structure, Terms, pairs, pick, select
from veracity.explain.precomputed import Precomputed
from veracity.explain.smooth_grad import GradientShap, SmoothGrad

Call = Callable[..., Tensor]
"""From inputs (R, ...) and their structure to scores (R, K), with the weights bound and torch operations only."""

Form = Callable[[Call, Tensor, Tensor, Context], Tensor]
"""From (call, inputs, targets, context) to the maps that the explainer gives for the same model."""


Derivative = Callable[[Callable[[Tensor], Tensor], Tensor], Tensor]
"""From a function of points and points (R, ...) to the function's gradient there."""


@dataclass(frozen=True)
class GradientSum:
    """An explanation finish(x, Σ_i w_i ⊙ ∇f(p_i)); `terms` gives the points p_i and weights w_i of `items` terms per row."""

    items: int
    terms: Callable[[Tensor, Context], Terms]
    finish: Callable[[Tensor, Tensor], Tensor] = lambda x, total: total

    def explain(self, call: Call, x: Tensor, targets: Tensor, context: Context, derivative: Derivative) -> Tensor:
        """The explanations (N, ...) of x."""
        terms, total = self.terms(x, context), torch.zeros_like(x)
        for row, item in pairs(len(x), self.items, context.batch, x.device):
            points, weights = terms(row, item)
            structure, chosen = select(context.structure, row), targets[row]

            def score(p: Tensor, s: Structure = structure, t: Tensor = chosen) -> Tensor:
                return pick(call(p.clone(), *s), t).sum()

            total = total.index_add(0, row, weights * derivative(score, points))
        return self.finish(x, total)


def stacked(explainer: Explainer) -> Form | None:
    """The explainer as a function that torch.func.vmap can map over weights; None if it has no such form.

    The numbers are the explainer's up to rounding. Random numbers are the same for every copy.
    """
    if isinstance(explainer, Precomputed):
        return None if explainer.explainer is None else stacked(explainer.explainer)
    form = gradient_sum(explainer)
    if form is None:
        return None
    return lambda call, x, targets, context: form.explain(call, x.detach(), targets, context, lambda score, points: grad(score)(points))


def gradient_sum(explainer: Explainer) -> GradientSum | None:
    """The explainer as a weighted sum of gradients; None if it is not one. A subclass may do anything, so it is not one."""
    kind = type(explainer)
    if kind is Saliency:
        return GradientSum(1, gradient_terms, lambda x, total: total.abs())
    if kind is Gradient:
        return GradientSum(1, gradient_terms)
    if kind is InputXSaliency:
        return GradientSum(1, gradient_terms, lambda x, total: x * total.abs())
    if kind is InputXGradient:
        return GradientSum(1, lambda x, context: lambda row, _item: (x[row], x[row]))
    if isinstance(explainer, IntegratedGradients) and kind is IntegratedGradients:
        return GradientSum(explainer.steps, partial(path_terms, explainer))
    if isinstance(explainer, (SmoothGrad, GradientShap)) and kind in (SmoothGrad, GradientShap):
        draws = explainer.draws
        return GradientSum(draws, explainer.terms, lambda x, total: total / draws)
    return None


def gradient_terms(x: Tensor, context: Context) -> Terms:
    """The gradient at the input."""
    return lambda row, _item: (x[row], x.new_ones(()))


def path_terms(explainer: IntegratedGradients, x: Tensor, context: Context) -> Terms:
    """The quadrature points between baseline and input."""
    baseline, rule = baseline_row(explainer.baseline, x), quadrature(explainer.method, explainer.steps)
    share, weight = (x.new_tensor(values).reshape(-1, *[1] * (x.ndim - 1)) for values in rule)

    def terms(row: Tensor, item: Tensor) -> tuple[Tensor, Tensor]:
        difference = x[row] - baseline
        return baseline + share[item] * difference, weight[item] * difference

    return terms
