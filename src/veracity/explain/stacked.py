"""Gradient explanations as pure functions of the model: many copies of its weights are explained at once.

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

import torch
from torch import Tensor
from torch.func import grad

from veracity.core.explainers import Context, Explainer
from veracity.explain.gradients import Gradient, GradientShap, InputXGradient, InputXSaliency, IntegratedGradients, Saliency, SmoothGrad
from veracity.explain.passes import Structure, Terms, pairs, pick, select
from veracity.explain.precomputed import Precomputed

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
        wide = torch.promote_types(x.dtype, torch.float32)
        terms, total = self.terms(x, context), torch.zeros_like(x, dtype=wide)
        for row, item in pairs(len(x), self.items, context.batch, x.device):
            points, weights = terms(row, item)
            structure, chosen = select(context.structure, row), targets[row]

            def score(p: Tensor, s: Structure = structure, t: Tensor = chosen) -> Tensor:
                return pick(call(p.clone(), *s), t).sum()

            total = total.index_add(0, row, (weights * derivative(score, points)).to(wide))
        return self.finish(x, total)


ONE_PASS: dict[type[Explainer], Callable[[Tensor, Tensor], Tensor]] = {
    Gradient: lambda x, gradient: gradient,
    Saliency: lambda x, gradient: gradient.abs(),
    InputXGradient: lambda x, gradient: x * gradient,
    InputXSaliency: lambda x, gradient: x * gradient.abs(),
}
"""What these explainers make of the gradient at the input."""


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
    if kind in ONE_PASS:
        return GradientSum(1, lambda x, _context: lambda row, _item: (x[row], x.new_ones(())), ONE_PASS[kind])
    if isinstance(explainer, IntegratedGradients) and kind is IntegratedGradients:
        return GradientSum(explainer.steps, explainer.terms)
    if isinstance(explainer, (SmoothGrad, GradientShap)) and kind in (SmoothGrad, GradientShap):
        draws = explainer.draws
        return GradientSum(draws, explainer.terms, lambda x, total: total / draws)
    return None
