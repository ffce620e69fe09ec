"""What explainers by training examples share: one number per example, (N, n), that does not move with the input."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Size, Tensor, nn

from veracity.core.explainers import BARE, Context, Cost, Frame, Learner
from veracity.core.inputs import Signals
from veracity.core.models import device_of, evaluating
from veracity.core.training import Training
from veracity.explain.examples.layer_gradients import LossLayer, check_loss, residual


@dataclass(frozen=True, kw_only=True)
class ExampleBased(Learner, ABC):
    """An explainer whose explanations are numbers per training example, computed from one `layer` of the model."""

    frame = Frame.TRAINING
    structured = True
    layer: str | None = None


@dataclass(frozen=True, kw_only=True)
class LossBased(ExampleBased, ABC):
    """An explainer by gradients of the loss in one layer's parameters; `targets` are the labels of the explained inputs.

    The explanation depends on the input only through the model's output and the layers before it, so it is invariant
    if the model is (Proposition D.9). It is float64, since the residuals of certain predictions underflow in float32.
    """

    def cost(self, shape: Size) -> Cost:
        """One forward pass, and one back to the layer if it is named."""
        return Cost(forward=1, backward=0 if self.layer is None else 1)

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise unless the model gives one score per class, the examples have two classes, and the layer has a gradient."""
        training = context.require_training(self.name)
        with evaluating(model):
            layer, _ = self.find_layer(model, context)
            layer.gradients(*first_examples(training, device_of(model)), loss_gradient)
        return ()

    def find_layer(self, model: nn.Module, context: Context) -> tuple[LossLayer, int]:
        """The layer, found by passes over the first training examples, and the number of classes."""
        training = context.require_training(self.name)
        signals, _ = first_examples(training, device_of(model))
        with torch.no_grad():
            output = signals.through(model)
        check_loss(self.name, model, output, context.outputs, training)
        return LossLayer.find(model, self.layer, context.outputs, signals), output.shape[1]

    def learnt_layer(self, model: nn.Module, context: Context) -> LossLayer:
        """The layer, as `learn` found it."""
        return LossLayer.restore(model, self.layer, context.outputs, context.require_learnt(self.name)["place"])


def examples_at(training: Training, index: Tensor, device: torch.device) -> tuple[Signals, Tensor]:
    """The training examples with these indices and their labels, on a device."""
    return training.inputs.take(index).to(device), training.labels[index.to(training.labels.device)].to(device)


def first_examples(training: Training, device: torch.device) -> tuple[Signals, Tensor]:
    """The first one or two training examples, for a trial."""
    return examples_at(training, torch.arange(min(2, training.inputs.size())), device)


def example_batches(training: Training, rows: int, device: torch.device) -> Iterator[tuple[Signals, Tensor]]:
    """All training examples and their labels, at most `rows` at a time, on a device."""
    return (examples_at(training, part, device) for part in torch.arange(training.inputs.size()).split(rows))


def input_batches(inputs: Tensor, targets: Tensor, context: Context) -> Iterator[tuple[Signals, Tensor]]:
    """Inputs with their structure, and targets, at most `context.batch` rows at a time."""
    signals = Signals(inputs.detach(), context.structure)
    for low in range(0, len(inputs), context.batch):
        part = slice(low, low + context.batch)
        yield signals[part], targets[part].to(inputs.device)


def loss_gradient(scores: Tensor, labels: Tensor) -> Tensor:
    """The single cotangent, (..., 1, K), that gives the gradient of the loss."""
    return residual(scores, labels).unsqueeze(-2)
