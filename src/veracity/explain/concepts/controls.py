"""Concept bits and sensitivities that do not look at the model: what a score of concept explanations must be compared with."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from veracity.core.errors import InputError
from veracity.core.explainers import BARE, Context, Frame, Learner, Need
from veracity.core.registry import EXPLAINERS
from veracity.explain.concepts.base import with_concepts
from veracity.explain.controls import Control


@dataclass(frozen=True, kw_only=True)
class ConceptControl(Learner, Control, ABC):
    """A random number for each concept."""

    frame = Frame.CONCEPTS
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

    def count(self, context: Context) -> int:
        """The number of concepts, as `learn` found it."""
        if "concepts" not in context.learnt:
            raise InputError(f"{self.name} has learnt nothing yet: call learn(model, context) and hand its result back as context.learnt.")
        return int(context.learnt["concepts"])


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class RandomConcepts(ConceptControl):
    """A fair coin for each concept, (N, C): the null of concept bits (two of them agree in one half on average)."""

    name = "random_concepts"
    categorical = True

    @property
    def signed(self) -> bool:
        """Zero or one."""
        return False

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Bits (N, C)."""
        return (context.draws.uniform(self.count(context), stream=self.name) < 0.5).to(inputs)


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class RandomSensitivities(ConceptControl):
    """A standard normal number for each concept, (N, C): the null of concept sensitivities (two of them have a cosine of mean 0)."""

    name = "random_sensitivities"

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Numbers (N, C)."""
        return context.draws.normal(self.count(context), stream=self.name).to(inputs)
