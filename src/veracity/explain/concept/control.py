"""Concept bits that do not look at the model: what a score of concept explanations must be compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from veracity.core.errors import InputError
from veracity.core.explainers import BARE, Context, Frame, Need
from veracity.core.registry import EXPLAINERS
from veracity.explain.concept.sets import with_concepts
from veracity.explain.controls import Unsigned


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class RandomConcepts(Unsigned):
    """A fair coin for each concept, (N, C): the null of concept bits (two of them agree in one half on average)."""

    name = "random_concepts"
    frame = Frame.CONCEPTS
    categorical = True
    stochastic = True
    structured = True

    @property
    def needs(self) -> frozenset[Need]:
        """How many concepts there are."""
        return frozenset({Need.TRAINING, Need.CONCEPTS})

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise without concepts."""
        with_concepts(self.name, context.training)
        return ()

    def learn(self, model: nn.Module, context: Context) -> Mapping[str, Tensor]:
        """The number of concepts."""
        return {"concepts": torch.tensor(len(with_concepts(self.name, context.training).concepts))}

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Bits (N, C)."""
        if "concepts" not in context.learnt:
            raise InputError(f"{self.name} has learnt nothing yet: call learn(model, context) and hand its result back as context.learnt.")
        return (context.draws.uniform(int(context.learnt["concepts"]), stream=self.name) < 0.5).to(inputs)
