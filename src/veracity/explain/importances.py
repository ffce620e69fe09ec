"""Importances of features for a whole model: the same map for every sample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Size, Tensor, nn

from veracity.core.component import encode_setting
from veracity.core.errors import InputError
from veracity.core.explainers import Context, Cost, Learner, Need
from veracity.core.models import device_of
from veracity.core.randomness import Draws
from veracity.core.registry import EXPLAINERS
from veracity.core.settings import Count
from veracity.explain.foreign import Bound
from veracity.explain.passes import Structure
from veracity.explain.wrapper import computed

ROWS = 1024
"""How many training examples are used at most."""


@dataclass(frozen=True, kw_only=True)
class Importances(Bound):
    """Importances (features,) of one fitted model, such as the result of scikit-learn's `permutation_importance`."""

    name: ClassVar[str] = computed(lambda self: self.label or "importances")
    values: Any
    random: bool = False
    forward: int = 0
    backward: int = 0

    @property
    def instead(self) -> str:
        return "pass 'permutation_importance', which is computed for each model"

    def spec(self) -> dict[str, Any]:
        return {"name": self.name, "values": encode_setting(torch.as_tensor(np.asarray(self.values, dtype=np.float64)))}

    def call(self, model: nn.Module, inputs: Tensor, targets: Tensor, structure: Structure) -> Any:
        values = torch.as_tensor(np.asarray(self.values, dtype=np.float64))
        if values.shape != inputs.shape[1:]:
            raise InputError(
                f"The importances are {values.numel()} numbers, but an input has shape {tuple(inputs.shape[1:])}: give one per feature."
            )
        return values.expand(len(inputs), *values.shape)


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class PermutationImportance(Learner):
    """The loss of accuracy when one feature is shuffled among training examples; the same for every sample.

    I_j = accuracy - mean over `draws` shuffles of the accuracy with feature j shuffled. For a model of one output, the R² takes
    the place of the accuracy. At most 1,024 examples are used.
    """

    name = "permutation_importance"
    reference = "Breiman 2001; Fisher et al. 2019, arXiv:1801.01489"
    draws: Count = 5

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset({Need.TRAINING})

    def cost(self, shape: Size) -> Cost:
        return Cost()

    def learn(self, model: nn.Module, context: Context) -> Mapping[str, Tensor]:
        training = context.require_training(self.name)
        rows = torch.arange(min(ROWS, training.inputs.size()))
        x = training.inputs.take(rows).to(device_of(model))
        if x.structure:
            raise InputError("permutation_importance shuffles features of tables and plain tensors, not of graphs and texts.")
        labels, flat = training.labels[rows], x.values.flatten(1)
        before = self.quality(model, x.values, labels, context.batch)
        losses = torch.zeros(flat.shape[1], dtype=torch.float64)
        for place in range(flat.shape[1]):
            order = Draws.of(context.draws.seed, rows, place).normal(self.draws, stream="permutation_importance").argsort(0)
            shuffled = flat.repeat(self.draws, 1, 1)
            shuffled[:, :, place] = flat[order.T.to(flat.device), place]
            several = shuffled.reshape(-1, *x.values.shape[1:])  # one call for all shuffles, since estimators are slow to start
            losses[place] = before - self.quality(model, several, labels.repeat(self.draws), context.batch)
        return {"importances": losses.reshape(x.values.shape[1:])}

    @torch.no_grad()
    def quality(self, model: nn.Module, x: Tensor, labels: Tensor, batch: int) -> float:
        """The accuracy, or R² for one output."""
        scores = torch.cat([model(part) for part in x.split(batch)]).double().cpu()
        if scores.ndim == 2 and scores.shape[1] > 1:
            return float((scores.argmax(1) == labels).double().mean())
        truth = labels.double()
        return float(1 - (truth - scores.flatten()).square().sum() / (truth - truth.mean()).square().sum())

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        return context.require_learnt(self.name)["importances"].to(inputs).expand_as(inputs).contiguous()
