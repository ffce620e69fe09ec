"""Natural activation maximisation: the training examples that a class, or another score, responds to most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from veracity.core.errors import SpecError
from veracity.core.explainers import BARE, Context, Frame
from veracity.core.models import device_of
from veracity.core.randomness import Draws
from veracity.core.registry import EXPLAINERS
from veracity.core.settings import Count
from veracity.explain.examples.base import example_batches
from veracity.explain.visualise.base import GlobalExplainer

CHOSEN = "chosen"


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class NaturalActivation(GlobalExplainer):
    """The `k` training examples with the largest score for the class: ones there and zeros elsewhere, (N, n).

    Of examples with equal scores, the first counts.
    """

    name = "natural_activation"
    reference = "Borowski et al. 2021, arXiv:2010.12606; named as future work in Hedström et al. 2025"
    frame = Frame.TRAINING
    structured = True
    signed = False
    k: Count = 5

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise unless there are more than k training examples."""
        count = context.require_training(self.name).inputs.size()
        if self.k >= count:
            raise SpecError(f"k of natural_activation is {self.k}, but there are only {count} training examples: use a smaller k.")
        return ()

    def explain_classes(self, model: nn.Module, classes: Tensor, draws: Draws, like: Tensor, context: Context) -> Mapping[str, Tensor]:
        """Which examples are chosen for each class, (C, n), from one forward pass of all examples."""
        training, device = context.require_training(self.name), device_of(model)
        with torch.no_grad():
            parts = [signals.through(model)[:, classes.to(device)] for signals, _ in example_batches(training, context.batch, device)]
        scores = torch.cat(parts).T
        best = scores.argsort(dim=1, descending=True, stable=True)[:, : self.k]
        return {CHOSEN: torch.zeros_like(scores).scatter(1, best, 1.0)}

    def read(self, learnt: Mapping[str, Tensor], rows: Tensor) -> Tensor:
        chosen = learnt[CHOSEN]
        return chosen[rows.to(chosen.device)]
