"""Ablation of single numbers, in full batches and only where it changes anything.

Captum builds its ablated inputs one feature at a time, which costs many times the model passes of a small network, and
ablates numbers that are at the baseline already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Size, Tensor, nn

from veracity.core.explainers import BARE, Context, Cost, Explainer
from veracity.core.registry import EXPLAINERS
from veracity.explain.baselines import Baseline, as_row, check_baseline
from veracity.explain.passes import Structure, at, by_rows, scores


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class FeatureAblation(Explainer):
    """What the score loses when one number of the input is set to the baseline: e_i(x) = f(x) - f(r_i(x)).

    Equivariant for permutation representations that leave the baseline in place (Proposition D.8). Where a number is at
    the baseline already, its ablation changes nothing and is 0 without a pass.
    """

    name = "feature_ablation"
    reference = "Crabbé and van der Schaar 2023, Proposition D.8"
    structured = True
    baseline: Baseline = 0.0

    def cost(self, shape: Size) -> Cost:
        """At most one forward pass for each number of the input, and one for the input."""
        return Cost(forward=1 + shape.numel())

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise if the baseline does not fit."""
        check_baseline(self.name, self.baseline, inputs.shape[1:])
        return ()

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Attributions of the inputs' shape."""
        flat, structure = inputs.detach().flatten(1), context.structure
        baseline = as_row(self.baseline, inputs).flatten()

        def whole(x: Tensor, t: Tensor, s: Structure) -> Tensor:
            return scores(model, x, t, s)

        before = by_rows(whole, inputs.detach(), targets, context.batch, structure)
        losses = torch.zeros_like(flat)
        row, place = (flat != baseline).nonzero(as_tuple=True)
        for part in torch.arange(len(row), device=row.device).split(context.batch):
            here, there = row[part], place[part]
            points = flat[here].scatter(1, there.unsqueeze(1), baseline[there].unsqueeze(1)).reshape(-1, *inputs.shape[1:])
            losses[here, there] = (before[here] - scores(model, points, targets[here], at(structure, here))).to(losses)
        return losses.reshape(inputs.shape)
