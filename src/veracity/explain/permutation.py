"""Feature permutation against an explicit reference set, so that a row does not depend on its neighbours in the batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Size, Tensor, nn

from veracity.core.errors import SpecError
from veracity.core.explainers import BARE, Context, Cost, Explainer
from veracity.core.registry import EXPLAINERS
from veracity.core.settings import Count
from veracity.core.spaces import InputSpace
from veracity.explain.passes import scores, table_of


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class FeaturePermutation(Explainer):
    """What the score loses when one number of the input comes from a reference row: e_i(x) = f(x) - E f(x with x_i of r).

    The rows r of `reference_set` (B, ...) are drawn anew for each number, `draws` times. Reference rows are not
    invariant under a symmetry, so Proposition D.8 does not hold and this is not equivariant.
    """

    name = "feature_permutation"
    reference = "Fisher et al. 2019, arXiv:1801.01489"
    stochastic = True
    draws: Count = 1
    reference_set: Tensor | None = None

    def cost(self, shape: Size) -> Cost:
        """One forward pass for each number of the input and each draw, and one for the input."""
        return Cost(forward=1 + self.draws * shape.numel())

    def bind(self, reference: Tensor | None = None, space: InputSpace | None = None) -> FeaturePermutation:
        """With the audit's reference set, unless it has its own."""
        return replace(self, reference_set=reference) if self.reference_set is None else self

    def rows(self, shape: Size) -> Tensor:
        """The reference set, flattened to (B, numbers); raises if there is none or it does not fit."""
        if self.reference_set is None:
            raise SpecError(
                "feature_permutation needs a reference set: pass Audit(reference=...) or FeaturePermutation(reference_set=...)."
            )
        if self.reference_set.shape[1:] != shape or len(self.reference_set) == 0:
            raise SpecError(
                f"The reference set of feature_permutation has shape {tuple(self.reference_set.shape)}, but must be inputs of shape "
                f"{tuple(shape)} stacked along a first axis."
            )
        return self.reference_set.detach().flatten(1)

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise without a reference set that fits."""
        self.rows(inputs.shape[1:])
        return ()

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Attributions of the inputs' shape."""
        flat = inputs.detach().flatten(1)
        others, numbers = self.rows(inputs.shape[1:]).to(flat), flat.shape[1]
        chosen = context.draws.integers(len(others), self.draws * numbers, stream="feature_permutation").to(flat.device)

        def term(row: Tensor, item: Tensor) -> Tensor:
            place = (item - 1) % numbers
            points = flat[row]
            own, other = points.gather(1, place.unsqueeze(1)).squeeze(1), others[chosen[row, item - 1], place]
            points.scatter_(1, place.unsqueeze(1), torch.where(item > 0, other, own).unsqueeze(1))
            return scores(model, points.reshape(-1, *inputs.shape[1:]), targets[row])

        values = table_of(term, len(flat), 1 + self.draws * numbers, context.batch, flat.device)
        losses = values[:, :1] - values[:, 1:].reshape(len(flat), self.draws, numbers).mean(1)
        return losses.reshape(inputs.shape)
