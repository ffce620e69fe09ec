"""How much a score grows along each concept's activation vector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Size, Tensor, nn

from veracity.core.errors import InputError
from veracity.core.explainers import BARE, Context, Cost
from veracity.core.models import evaluating, layer_of
from veracity.core.registry import EXPLAINERS
from veracity.explain.concept.linear import LinearConcepts
from veracity.explain.passes import Structure, by_rows, pick


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class ConceptSensitivity(LinearConcepts):
    """The derivative of the score along each concept's activation vector: e_c(x) = ∇_h f(h(x)) · w_c / |w_c|, (N, C).

    One backward pass from the score to the layer serves all concepts. Real-valued; invariant if the layer is.
    """

    name = "tcav"
    reference = "Kim et al. 2018, arXiv:1711.11279"

    def cost(self, shape: Size) -> Cost:
        """One pass each way, back to the layer."""
        return Cost(forward=1, backward=1)

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise also if the score has no gradient at the layer."""
        notes = super().check(model, inputs, targets, context)
        with evaluating(model):
            layer_gradients(model, self.layer, inputs, targets, context.structure)
        return notes

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Sensitivities (N, T), one for each concept that can be told from the layer, in the order of the concepts."""
        learnt = self.trusted(context, inputs.device)
        if not learnt["trusted"].any():
            return inputs.new_full((len(inputs), 1), float("nan"))
        directions = learnt["weights"] / learnt["weights"].norm(dim=1, keepdim=True)

        def along(x: Tensor, target: Tensor, structure: Structure) -> Tensor:
            slopes: Tensor = layer_gradients(model, self.layer, x, target, structure).double() @ directions.T
            return slopes

        return by_rows(along, inputs, targets, context.batch, context.structure).to(inputs.dtype)


def layer_gradients(model: nn.Module, layer: str, inputs: Tensor, targets: Tensor, structure: Structure = ()) -> Tensor:
    """The gradient of each row's score in what the layer gave, flattened: (N, units)."""
    seen: list[Tensor] = []

    def cut(_module: nn.Module, _args: Any, output: Tensor) -> Tensor:
        seen.append(output.detach().requires_grad_())
        return seen[-1].clone()

    handle = layer_of(model, layer).register_forward_hook(cut)
    try:
        with torch.enable_grad():
            score = pick(model(inputs.detach(), *structure), targets).sum()
    finally:
        handle.remove()
    gradient = torch.autograd.grad(score, seen[-1], allow_unused=True)[0] if seen and score.requires_grad else None
    if gradient is None:
        raise InputError(f"tcav needs a layer on the way to the score, but the score does not depend on the layer '{layer}'.")
    return gradient.flatten(1)


def tcav_scores(sensitivities: Tensor, labels: Tensor, classes: int) -> Tensor:
    """The TCAV score of each class and concept: the share of the class's samples whose sensitivity is positive.

    From sensitivities (N, C) and labels (N,) to (classes, C). Undefined sensitivities are left out; a class without
    any is NaN.

    >>> tcav_scores(torch.tensor([[1.0, -2.0], [3.0, 0.5], [-1.0, 4.0]]), torch.tensor([0, 0, 1]), classes=3)
    tensor([[1.0000, 0.5000],
            [0.0000, 1.0000],
            [   nan,    nan]], dtype=torch.float64)
    """
    member = torch.nn.functional.one_hot(labels.long(), classes).T.double()
    return (member @ (sensitivities > 0).double()) / (member @ sensitivities.isfinite().double())
