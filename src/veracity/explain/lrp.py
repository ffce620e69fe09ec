"""Layer-wise relevance propagation, by rules at linear maps and activations, for any wiring of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Size, Tensor, nn

from veracity.core.errors import InputError
from veracity.core.explainers import BARE, Context, Cost
from veracity.core.intact import untouched
from veracity.core.models import evaluating
from veracity.core.registry import EXPLAINERS
from veracity.core.settings import Positive
from veracity.explain.gradient_based import GradientBased
from veracity.explain.lrp_rules import Relevance, Rule, epsilon_rule, watched, z_plus_rule
from veracity.explain.passes import Structure, at, by_rows, pick


def relevance(model: nn.Module, points: Tensor, targets: Tensor, structure: Structure, rule: Rule) -> Tensor:
    """The relevance of each number of each point for that point's score, (R, ...): the point times the rules' gradient.

    >>> net = nn.Linear(2, 1, bias=False)
    >>> net.weight.data = torch.tensor([[2.0, -1.0]])
    >>> x, target = torch.tensor([[1.0, 1.0]]), torch.tensor([0])
    >>> relevance(net, x, target, (), epsilon_rule(1.0)), relevance(net, x, target, (), z_plus_rule)
    (tensor([[ 1.0000, -0.5000]]), tensor([[1., 0.]]))
    """
    leaf = points.detach().requires_grad_()
    with torch.enable_grad(), Relevance(rule):
        score = pick(model(leaf.clone(), *structure), targets).sum()
    (gradient,) = torch.autograd.grad(score, leaf)
    return leaf.detach() * gradient


@dataclass(frozen=True, kw_only=True)
class LRP(GradientBased, ABC):
    """Relevance that starts as the score and is handed back layer by layer, one rule for all linear maps.

    Rules exist for linear layers and convolutions, batch normalisation (one map with the layer right before it) and
    curved activations, which pass relevance as it is, modules or not. Sums, pooling, maxima and ReLU share relevance in
    proportion by their gradient; where there is no rule (a softmax, a product of activations), it is the gradient too,
    and `check` says so.
    """

    structured = True

    @property
    @abstractmethod
    def rule(self) -> Rule:
        """What happens at a linear map."""

    def cost(self, shape: Size) -> Cost:
        """One pass each way."""
        return Cost(forward=1, backward=1)

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise if there is no linear map to treat; count the steps that have no rule."""
        super().check(model, inputs, targets, context)
        with untouched(model), evaluating(model), torch.enable_grad(), watched(self.rule) as (found, missing):
            model.requires_grad_(False)
            model(inputs[:1].detach().requires_grad_().clone(), *at(context.structure, slice(1)))
        if not found.linear:
            raise InputError(
                f"{self.name} has no rule for any layer of this model: it needs linear layers or convolutions, such as nn.Linear and "
                "nn.Conv2d, in a model that is not scripted or compiled."
            )
        if not missing:
            return ()
        steps = ", ".join(f"{name} x{count}" for name, count in sorted(missing.items()))
        return (f"{self.name} has no rule for some steps of this model ({steps}): there relevance follows the plain gradient.",)

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Relevances of the inputs' shape."""
        rule = self.rule
        return by_rows(lambda x, t, s: relevance(model, x, t, s, rule), inputs, targets, context.batch, context.structure)


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class LRPEpsilon(LRP):
    """Relevance in proportion to contributions, damped where they cancel: R_i = Σ_j x_i w_ij / (z_j + ε sign z_j) R_j.

    For ReLU networks and ε → 0 it is the input times the gradient; without biases it sums to the score.
    """

    name = "lrp_epsilon"
    reference = "Bach et al. 2015, PLOS ONE 10(7), eq. 58"
    epsilon: Positive = 1e-6

    @property
    def rule(self) -> Rule:
        """The epsilon rule."""
        return epsilon_rule(self.epsilon)

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise on an epsilon that does not damp."""
        return super().check(model, inputs, targets, context)


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class LRPZPlus(LRP):
    """Relevance in proportion to positive contributions alone: R_i = Σ_j (x_i w_ij)⁺ / (Σ_i' (x_i' w_i'j)⁺ + b_j⁺) R_j.

    Negative inputs contribute through negative weights. Positive biases take their share, which is lost; without biases
    relevance sums to the score wherever something contributes.
    """

    name = "lrp_z_plus"
    reference = "Montavon et al. 2017, Pattern Recognition 65; Bach et al. 2015 (alpha 1, beta 0)"

    @property
    def rule(self) -> Rule:
        """The z+ rule."""
        return z_plus_rule
