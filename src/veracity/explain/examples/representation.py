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
from veracity.explain.examples.base import ExampleBased, examples, first_examples, in_parts, learnt, training_of
from veracity.explain.examples.convex_hull import nearest
from veracity.explain.examples.layer_gradients import chosen_layer, given_to, with_parameters


@dataclass(frozen=True, kw_only=True)
class RepresentationBased(Learner, ExampleBased, ABC):
    """An explainer by the output of one `layer`, flattened; None: by what the last layer with parameters is given.

    Invariant where that representation is (Proposition D.12).
    """

    layer: str | None = None

    def cost(self, shape: Size) -> Cost:
        """One forward pass."""
        return Cost(forward=1)

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise unless the layer has one row for each training example and as many units for the input."""
        with evaluating(model):
            first, place = self.first(model, context)
            theirs, ours = (self.represented(model, part, place) for part in (first, Signals(inputs.detach(), context.structure)))
        if theirs.shape[1] != ours.shape[1]:
            raise InputError(
                f"The layer '{self.layer}' has {ours.shape[1]} units for an input and {theirs.shape[1]} for a training example: "
                f"{self.name} needs a layer of fixed size."
            )
        return ()

    def first(self, model: nn.Module, context: Context) -> tuple[Signals, Tensor]:
        """The first training examples, and the number of the last layer with parameters if none is named."""
        training = training_of(self.name, context)
        signals, _ = first_examples(training, device_of(model))
        number = with_parameters(model).index(chosen_layer(model, None, signals)) if self.layer is None else -1
        return signals, torch.tensor(number)

    def represented(self, model: nn.Module, signals: Signals, place: Tensor) -> Tensor:
        """h (N, d) of some signals."""
        if self.layer is None:
            return given_to(model, with_parameters(model)[int(place)], signals)
        with torch.no_grad():
            return signals.through(LayerScores(model, self.layer)).detach()

    def corpus(self, model: nn.Module, context: Context) -> tuple[Tensor, Tensor]:
        """h (n, d) of all training examples, and the number of the layer."""
        training, device = training_of(self.name, context), device_of(model)
        parts = torch.arange(training.inputs.size()).split(context.batch)
        with evaluating(model):
            _, place = self.first(model, context)
            return torch.cat([self.represented(model, examples(training, part, device)[0], place) for part in parts]), place

    @property
    def lesson(self) -> Learner:
        """What is learnt here is the same for both explainers by one layer; one of another class learns for itself."""
        return RepresentationSimilarity(layer=self.layer) if type(self) in (RepresentationSimilarity, SimplEx) else self

    def learn(self, model: nn.Module, context: Context) -> Mapping[str, Tensor]:
        """The examples' `features` (n, d), as the model gives them, and the number of the layer."""
        features, place = self.corpus(model, context)
        return {"features": features, "place": place}

    def facts(self, learnt: Mapping[str, Tensor], context: Context) -> list[dict[str, Any]]:
        """How large the corpus is."""
        examples, units = learnt["features"].shape
        return [{"examples": examples, "units": units}]

    def points(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """h (N, d) of the explained inputs."""
        place = learnt(self.name, context)["place"]
        parts = in_parts(inputs, targets, context, context.batch)
        return torch.cat([self.represented(model, signals, place) for signals, _ in parts])


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class RepresentationSimilarity(RepresentationBased):
    """How well the input's representation fits each training example's: e_n(x) = h(x)ᵀ h(x_n) (Remark D.13)."""

    name = "representation_similarity"
    reference = "Crabbé and van der Schaar 2023, Proposition D.12 and Remark D.13"

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Inner products (N, n) with the n training examples."""
        return self.points(model, inputs, targets, context) @ learnt(self.name, context)["features"].to(inputs.device).T


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class SimplEx(RepresentationBased):
    """The mixture of training examples nearest to the input: e(x) = argmin |h(x) - Σ w_n h(x_n)|² + ridge |w|², w >= 0, Σ w = 1.

    Representations are centred at the examples' mean and divided by the root mean square distance from it, which
    leaves the minimum as it is and makes `ridge` and `tolerance` relative to the examples' variance. The ridge makes the
    minimum unique; it is found in float64, to a duality gap of tolerance (1 + |h|²), by default 1e-10, or to what rounding
    leaves of it (Remark D.13). An input whose representation is not finite, or whose gap stays larger, has a row of NaN.
    """

    name = "simplex"
    reference = "Crabbé et al. 2021, arXiv:2110.15355; Crabbé and van der Schaar 2023, Proposition D.12 and Remark D.13"
    ridge: Positive = 1e-6
    tolerance: Positive = 1e-10

    @property
    def signed(self) -> bool:
        """Weights are at least zero."""
        return False

    def facts(self, learnt: Mapping[str, Tensor], context: Context) -> list[dict[str, Any]]:
        """How large the corpus is, and how the mixture is found."""
        return [row | {"ridge": self.ridge, "tolerance": self.tolerance} for row in super().facts(learnt, context)]

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Weights (N, n) of the n training examples, each row of sum 1."""
        features, points = learnt(self.name, context)["features"].to(inputs.device).double(), self.points(model, inputs, targets, context)
        centre = features.mean(0)
        vertices = features - centre
        scale = vertices.square().sum(1).mean().sqrt()
        scale = torch.where(scale > 0, scale, torch.ones_like(scale))
        return nearest(vertices / scale, (points.double() - centre) / scale, self.ridge, self.tolerance).to(inputs.dtype)
