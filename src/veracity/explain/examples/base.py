"""Where in a model a method looks: a layer by its name, or the last one with parameters, and one pass that listens there.

The loss of a classifier and its derivatives in the scores, where softmax and cross-entropy have closed forms.

With scores s, probabilities p = softmax(s) and label y the loss is l = -log p_y; its gradient in s is p - e_y and its
Hessian diag(p) - p pᵀ = Σ_k r_k r_kᵀ with r_k = sqrt(p_k) (e_k - p).

What explainers by training examples share: one number for each example, (N, n), that does not move with the input.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Size, Tensor, nn

from veracity.core.errors import InputError
from veracity.core.explainers import BARE, Context, Cost, Explainer, Frame, Need
from veracity.core.inputs import Signals
from veracity.core.models import LayerScores, View, device_of, evaluating, layer_of, viewed
from veracity.core.targets import Outputs, Then, class_numbers
from veracity.core.training import Training
from veracity.explain.examples.layer_gradients import Place


@dataclass(frozen=True)
class Tapped:
    """One pass over N signals: what a layer was `given`, what it `made` (the leaf of a graph), and the model's `output`.

    `last` says that the output is what the layer made.
    """

    given: Tensor
    made: Tensor
    output: Tensor
    last: bool


def with_parameters(model: nn.Module) -> list[nn.Module]:
    """The modules that hold parameters of their own; views of a model add none, so that numbers in this list are stable."""
    return [module for module in model.modules() if next(module.parameters(recurse=False), None) is not None]


def name_of(model: nn.Module, layer: nn.Module) -> str:
    """The layer's name in the model."""
    return next((name for name, module in viewed(model).named_modules() if module is layer), "") or type(layer).__name__


def chosen_layer(model: nn.Module, name: str | None, signals: Signals) -> nn.Module:
    """The layer of this name; without one, the last layer with parameters that a pass over the signals begins."""
    if name is not None:
        layer = layer_of(model, name)
        if next(layer.parameters(), None) is None:
            raise InputError(f"The layer '{name}' has no parameters to differentiate in: choose one that has, such as a linear layer.")
        return layer
    begun: list[nn.Module] = []
    with ExitStack() as stack, torch.no_grad():
        for module in with_parameters(model):
            stack.callback(module.register_forward_pre_hook(lambda module, _args: begun.append(module)).remove)
        signals.through(model)
    if not begun:
        raise InputError("The model has no layer with parameters, so that there is nothing to differentiate the loss in.")
    return begun[-1]


def tap(model: nn.Module, layer: nn.Module, signals: Signals, call: Callable[..., Tensor] | None = None) -> Tapped:
    """Run the model (or `call`, which runs it with other weights) once; the graph begins at the layer's output."""
    seen: list[tuple[Tensor, Tensor, Tensor]] = []

    def listen(_module: nn.Module, args: tuple[Any, ...], made: Tensor) -> Tensor:
        leaf = made.detach().requires_grad_()
        torch.set_grad_enabled(True)
        passed = leaf.clone()
        seen.append((args[0].detach().clone(), leaf, passed))
        return passed

    with torch.no_grad(), ExitStack() as stack:
        stack.callback(layer.register_forward_hook(listen).remove)
        output = (call or model)(signals.values, *signals.structure)
    name = name_of(model, layer)
    if len(seen) != 1:
        raise InputError(f"The layer '{name}' runs {len(seen)} times in a forward pass, where it must run once.")
    given, made, passed = seen[0]
    check_rows(name, len(given), len(signals))
    return Tapped(given, made, output, output is passed)


def given_to(model: nn.Module, layer: nn.Module, signals: Signals) -> Tensor:
    """What a layer is given in a pass over N signals, flattened to (N, d)."""
    seen: list[Tensor] = []
    with torch.no_grad(), ExitStack() as stack:
        stack.callback(layer.register_forward_pre_hook(lambda _module, args: seen.append(args[0].detach().clone())).remove)
        signals.through(model)
    check_rows(name_of(model, layer), len(seen[-1]), len(signals))
    return seen[-1].flatten(1)


def check_rows(name: str, rows: int, signals: int) -> None:
    """Raise if a layer's rows are not the inputs', as those of a graph network before the pooling."""
    if rows != signals:
        raise InputError(
            f"The layer '{name}' has {rows} rows for {signals} inputs, so that none of them belongs to one input: "
            "choose a layer after the pooling."
        )


def log_scores(output: Tensor, outputs: Outputs) -> Tensor:
    """Scores (N, K) whose softmax is the model's probabilities."""
    return output if outputs is Outputs.LOGITS else output.clamp(min=torch.finfo(output.dtype).tiny).log()


def residual(scores: Tensor, labels: Tensor) -> Tensor:
    """The loss's gradient in the scores, p - e_y, (..., K) in float64; the label's entry is minus the sum of the others.

    >>> residual(torch.tensor([[0.0, 100.0]]), torch.tensor([1]))
    tensor([[ 3.7201e-44, -3.7201e-44]], dtype=torch.float64)
    """
    label = labels.unsqueeze(-1)
    others = scores.double().softmax(-1).scatter(-1, label, 0.0)
    return others.scatter(-1, label, -others.sum(-1, keepdim=True))


def roots(scores: Tensor) -> Tensor:
    """Rows r_k (..., K, K) in float64 whose outer products sum to the loss's Hessian in the scores.

    >>> r = roots(torch.tensor([0.0, 0.0]))
    >>> r.T @ r
    tensor([[ 0.2500, -0.2500],
            [-0.2500,  0.2500]], dtype=torch.float64)
    """
    p = scores.double().softmax(-1)
    eye = torch.eye(p.shape[-1], dtype=p.dtype, device=p.device)
    return p.sqrt().unsqueeze(-1) * (eye - p.unsqueeze(-2))


def check_loss(name: str, model: nn.Module, output: Tensor, outputs: Outputs, training: Training) -> None:
    """Raise unless the model's output is one score a class, and the training set has at least two classes."""
    view = model
    while isinstance(view, View):
        if isinstance(view, (LayerScores, Then)):
            raise InputError(f"{name} explains the loss of a class: the target must be 'predicted', 'label' or a class number.")
        view = view.model
    if output.ndim != 2 or output.shape[1] < 2 or outputs is Outputs.RAW:
        raise InputError(
            f"{name} needs logits or probabilities with one column a class, (N, classes), but the model gives "
            f"{outputs.value} of shape {tuple(output.shape)}."
        )
    class_numbers(training.labels, output.shape[1], what="label of training example")
    classes = training.labels.unique()
    if len(classes) < 2:
        raise InputError(
            f"All {len(training.labels)} training examples are of class {int(classes[0])}: {name} needs examples of at least two classes."
        )


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
class LossBased(ExampleBased, ABC):
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
