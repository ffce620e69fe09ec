"""Where in a model a method looks: a layer by its name, or the last one with parameters, and one pass that listens there.

The loss of a classifier and its derivatives in the scores, where softmax and cross-entropy have closed forms.

With scores s, probabilities p = softmax(s) and label y the loss is l = -log p_y; its gradient in s is p - e_y and its
Hessian diag(p) - p pᵀ = Σ_k r_k r_kᵀ with r_k = sqrt(p_k) (e_k - p).

What explainers by training examples share: one number for each example, (N, n), that does not move with the input.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Size, Tensor, nn

from veracity.core.errors import InputError
from veracity.core.explainers import BARE, Context, Cost, Explainer, Frame, Learner, Need
from veracity.core.inputs import Signals
from veracity.core.models import device_of, evaluating
from veracity.core.training import Training
from veracity.explain.examples.layer_gradients import Place, check_loss, residual


def training_of(name: str, context: Context) -> Training:
    """The training examples, if there are any."""
    if context.training is None:
        raise InputError(f"{name} explains by training examples: pass training=(inputs, labels).")
    return context.training


def examples(training: Training, index: Tensor, device: torch.device) -> tuple[Signals, Tensor]:
    """Some training examples and their labels on a device."""
    return training.inputs.take(index).to(device), training.labels[index.to(training.labels.device)].to(device)


def first_examples(training: Training, device: torch.device) -> tuple[Signals, Tensor]:
    """One or two training examples, to look at the model with."""
    return examples(training, torch.arange(min(2, training.inputs.size())), device)


def in_parts(inputs: Tensor, targets: Tensor, context: Context, rows: int) -> Iterator[tuple[Signals, Tensor]]:
    """Inputs with their structure, and targets, at most so many rows at a time."""
    signals = Signals(inputs.detach(), context.structure)
    for low in range(0, len(inputs), rows):
        part = slice(low, low + rows)
        yield signals[part], targets[part].to(inputs.device)


def loss_gradient(scores: Tensor, labels: Tensor) -> Tensor:
    """The one cotangent, (..., 1, K), that gives the gradient of the loss."""
    return residual(scores, labels).unsqueeze(-2)


@dataclass(frozen=True, kw_only=True)
class ExampleBased(Explainer, ABC):
    """An explainer whose explanations are numbers for the training examples."""

    frame = Frame.TRAINING
    structured = True

    @property
    def needs(self) -> frozenset[Need]:
        """Training examples."""
        return frozenset({Need.TRAINING})


@dataclass(frozen=True, kw_only=True)
class LossBased(Learner, ExampleBased, ABC):
    """An explainer by gradients of the loss in one layer's parameters; `targets` are the labels of the explained inputs.

    The explanation depends on the input through the model's output (and what makes it) alone, so that it is invariant
    where the model is (Proposition D.9). It is float64, since the residuals of sure predictions underflow in float32.
    """

    layer: str | None = None

    def cost(self, shape: Size) -> Cost:
        """One pass; also back to the layer if one is named."""
        return Cost(forward=1, backward=0 if self.layer is None else 1)

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise unless the model gives one score a class, there are two classes to learn, and the layer has a gradient."""
        training = training_of(self.name, context)
        with evaluating(model):
            place, _ = self.placed(model, context)
            place.factors(*first_examples(training, device_of(model)), loss_gradient)
        return ()

    def placed(self, model: nn.Module, context: Context) -> tuple[Place, int]:
        """The layer, as passes over the first training examples find it, and how many classes there are."""
        training = training_of(self.name, context)
        signals, _ = first_examples(training, device_of(model))
        with torch.no_grad():
            output = signals.through(model)
        check_loss(self.name, model, output, context.outputs, training)
        return Place.find(model, self.layer, context.outputs, signals), output.shape[1]

    def kept(self, model: nn.Module, context: Context) -> Place:
        """The layer, as `learn` found it."""
        return Place.kept(model, self.layer, context.outputs, learnt(self.name, context)["place"])


def learnt(name: str, context: Context) -> Mapping[str, Tensor]:
    """What `learn` found out."""
    if not context.learnt:
        raise InputError(f"{name} must learn about the model first: pass what learn(model, context) gives as Context(learnt=...).")
    return context.learnt
