"""Explanations by a layer's representation h of the input and of the training examples (Proposition D.12)."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Size, Tensor, nn

from veracity.core.errors import InputError
from veracity.core.explainers import BARE, Context, Cost, Learner
from veracity.core.inputs import Signals
from veracity.core.models import LayerScores, device_of, evaluating
from veracity.core.registry import EXPLAINERS
from veracity.core.settings import Positive
from veracity.explain.examples.base import ExampleBased, example_batches, first_examples, input_batches
from veracity.explain.examples.convex_hull import nearest
from veracity.explain.examples.layer_gradients import find_layer, layer_input, parametric_layers


@dataclass(frozen=True, kw_only=True)
class RepresentationBased(ExampleBased, ABC):
    """An explainer by the output h of one `layer`, flattened; None: by the input of the last layer with parameters.

    Invariant if that representation is (Proposition D.12).
    """

    def cost(self, shape: Size) -> Cost:
        return Cost(forward=1)

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise unless the layer gives one row per training example and as many units for an input."""
        with evaluating(model):
            first, place = self.find_layer(model, context)
            example, ours = (self.represent(model, part, place) for part in (first, Signals(inputs.detach(), context.structure)))
        if example.shape[1] != ours.shape[1]:
            raise InputError(
                f"The layer '{self.layer}' has {ours.shape[1]} units for an input and {example.shape[1]} for a training example: "
                f"{self.name} needs a layer of fixed size."
            )
        return ()

    def find_layer(self, model: nn.Module, context: Context) -> tuple[Signals, Tensor]:
        """The first training examples, and the position of the last layer with parameters (-1 if a layer is named)."""
        training = context.require_training(self.name)
        signals, _ = first_examples(training, device_of(model))
        number = parametric_layers(model).index(find_layer(model, None, signals)) if self.layer is None else -1
        return signals, torch.tensor(number)

    def represent(self, model: nn.Module, signals: Signals, place: Tensor) -> Tensor:
        """h (N, d) of some signals."""
        if self.layer is None:
            return layer_input(model, parametric_layers(model)[int(place)], signals)
        with torch.no_grad():
            return signals.through(LayerScores(model, self.layer)).detach()

    @property
    def lesson(self) -> Learner:
        """Both explainers by one layer learn the same, so they learn once. A subclass learns on its own."""
        return RepresentationSimilarity(layer=self.layer) if type(self) in (RepresentationSimilarity, SimplEx) else self

    def learn(self, model: nn.Module, context: Context) -> Mapping[str, Tensor]:
        """h of all training examples, `features` (n, d), and the position of the layer."""
        examples = example_batches(context.require_training(self.name), context.batch, device_of(model))
        with evaluating(model):
            _, place = self.find_layer(model, context)
            features = torch.cat([self.represent(model, signals, place) for signals, _ in examples])
        return {"features": features, "place": place}

    def facts(self, learnt: Mapping[str, Tensor], context: Context) -> list[dict[str, Any]]:
        examples, units = learnt["features"].shape
        return [{"examples": examples, "units": units}]

    def represent_all(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> tuple[Tensor, Tensor]:
        """h (N, d) of the explained inputs, and h (n, d) of the training examples."""
        learnt = context.require_learnt(self.name)
        points = [self.represent(model, signals, learnt["place"]) for signals, _ in input_batches(inputs, targets, context)]
        return torch.cat(points), learnt["features"].to(inputs.device)


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class RepresentationSimilarity(RepresentationBased):
    """The inner product of the representations of the input and each training example: e_n(x) = h(x)ᵀ h(x_n) (Remark D.13)."""

    name = "representation_similarity"
    reference = "Crabbé and van der Schaar 2023, Proposition D.12 and Remark D.13"

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        points, features = self.represent_all(model, inputs, targets, context)
        return points @ features.T


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class SimplEx(RepresentationBased):
    """The mixture of training examples nearest to the input: e(x) = argmin |h(x) - Σ w_n h(x_n)|² + ridge |w|², w >= 0, Σ w = 1.

    Representations are centred at the examples' mean and divided by the root mean square distance from it. That does not
    change the minimum, and makes `ridge` and `tolerance` relative to the examples' variance. The ridge makes the minimum
    unique (Remark D.13). It is found in float64, up to a duality gap of tolerance (1 + |h|²) or up to rounding. An input whose
    representation is not finite, or whose gap stays larger, has a row of NaN.
    """

    name = "simplex"
    reference = "Crabbé et al. 2021, arXiv:2110.15355; Crabbé and van der Schaar 2023, Proposition D.12 and Remark D.13"
    signed = False
    ridge: Positive = 1e-6
    tolerance: Positive = 1e-10

    def facts(self, learnt: Mapping[str, Tensor], context: Context) -> list[dict[str, Any]]:
        return [row | {"ridge": self.ridge, "tolerance": self.tolerance} for row in super().facts(learnt, context)]

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        points, features = self.represent_all(model, inputs, targets, context)
        features = features.double()
        centre = features.mean(0)
        vertices = features - centre
        scale = vertices.square().sum(1).mean().sqrt()
        scale = torch.where(scale > 0, scale, torch.ones_like(scale))
        return nearest(vertices / scale, (points.double() - centre) / scale, self.ridge, self.tolerance).to(inputs.dtype)
