"""What all methods that differentiate the model share: a probe that finds models without gradients."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from veracity.core.errors import InputError
from veracity.core.explainers import BARE, Context, Explainer
from veracity.core.models import evaluating
from veracity.explain.passes import Structure, at, pick


def require_gradient(name: str, model: nn.Module, inputs: Tensor, targets: Tensor, structure: Structure = ()) -> None:
    """Raise unless the first input's score has a gradient in that input."""
    leaf = inputs[:1].detach().clone().requires_grad_()
    with evaluating(model), torch.enable_grad():
        score = pick(model(leaf, *at(structure, slice(1))), targets[:1]).sum()
        found = torch.autograd.grad(score, leaf, allow_unused=True)[0] if score.requires_grad else None
    if found is None:
        raise InputError(f"{name} needs gradients, but the output of this model does not depend differentiably on its input.")


@dataclass(frozen=True, kw_only=True)
class GradientBased(Explainer, ABC):
    """An explainer that differentiates the model in its input."""

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise if the model has no gradient in its input."""
        require_gradient(self.name, model, inputs, targets, context.structure)
        return ()
