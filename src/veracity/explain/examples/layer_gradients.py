"""Gradients of the loss in the parameters of one layer, one per input, without a loop over inputs.

With scores s, probabilities p = softmax(s) and label y the loss is l = -log p_y. Its gradient in s is p - e_y and its
Hessian diag(p) - p pᵀ = Σ_k r_k r_kᵀ with r_k = sqrt(p_k) (e_k - p).

If the layer is affine, z = W [h; 1], shares no parameter and runs once with one row per input, a row's gradient is the outer
product of the gradient in z and [h; 1]. Both come out of one pass, and products of gradients never need the gradients
themselves. If z are the scores themselves, their gradients sum to 0 and are stored in K - 1 coordinates. For other layers
the pass is differentiated per row under vmap; such gradients are outer products with a 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vjp, vmap

from veracity.core.errors import InputError
from veracity.core.inputs import Signals
from veracity.core.models import LayerScores, View, layer_of, unwrap
from veracity.core.targets import OutputFunction, Outputs, class_numbers
from veracity.core.training import Training
from veracity.explain.passes import hooks

State = Mapping[str, Tensor]

Cotangents = Callable[[Tensor, Tensor], Tensor]
"""From scores (..., K) and labels (...,) to m combinations of the scores (..., m, K)."""


@dataclass(frozen=True)
class Factors:
    """Gradients (n, m, o i), m per row, as outer products of `left` (n, m, o) and `right` (n, i)."""

    left: Tensor
    right: Tensor

    def flat(self) -> Tensor:
        """The gradients themselves, (n, m, o i)."""
        return (self.left.unsqueeze(-1) * self.right[:, None, None, :]).flatten(2)

    def select(self, which: slice) -> Factors:
        """Some of each row's m gradients."""
        return Factors(self.left[:, which], self.right)

    def kernel(self, other: Factors) -> Tensor:
        """Inner products (n, n') of each row's first gradient with the first gradient of each of the other's rows.

        >>> one, two = Factors(torch.ones(1, 1, 2), torch.ones(1, 3)), Factors(torch.ones(4, 1, 2), torch.ones(4, 3))
        >>> one.kernel(two)
        tensor([[6., 6., 6., 6.]])
        """
        return (self.left[:, 0] @ other.left[:, 0].T) * (self.right @ other.right.T)


@dataclass(frozen=True)
class LossLayer:
    """A layer in whose parameters the loss is differentiated, and whether it is affine with one row per input."""

    model: nn.Module
    layer: nn.Module
    outputs: Outputs
    affine: bool

    @classmethod
    def find(cls, model: nn.Module, name: str | None, outputs: Outputs, signals: Signals) -> LossLayer:
        """The layer of this name, or the last one with parameters in a pass over a few signals."""
        layer = find_layer(model, name, signals)
        return cls(model, layer, outputs, is_affine(model, layer, signals))

    @classmethod
    def restore(cls, model: nn.Module, name: str | None, outputs: Outputs, record: Tensor) -> LossLayer:
        """The same layer again, from its `record`."""
        number, affine, _ = record.tolist()
        layer = layer_of(model, name) if name is not None else parametric_layers(model)[number]
        return cls(model, layer, outputs, bool(affine))

    @property
    def record(self) -> Tensor:
        """The layer's position in `parametric_layers` (-1: a block of layers), whether it is affine, and its size."""
        layers = parametric_layers(self.model)
        number = next((number for number, layer in enumerate(layers) if layer is self.layer), -1)
        return torch.tensor([number, self.affine, self.size])

    @property
    def parameters(self) -> dict[str, Tensor]:
        """The layer's parameters by their name in the model."""
        inside = {id(parameter) for parameter in self.layer.parameters()}
        return {name: value.detach() for name, value in self.model.named_parameters() if id(value) in inside}

    @property
    def size(self) -> int:
        """The number of parameters."""
        return sum(value.numel() for value in self.parameters.values())

    def gradients(self, signals: Signals, labels: Tensor, cotangents: Cotangents, state: State | None = None) -> Factors:
        """m gradients for each of n rows, of the combinations `cotangents(scores (..., K), labels (...,))` (..., m, K) of scores.

        `state` holds other weights to run the model with.
        """
        return (self.affine_gradients if self.affine else self.vmap_gradients)(signals, labels, cotangents, state)

    def affine_gradients(self, signals: Signals, labels: Tensor, cotangents: Cotangents, state: State | None) -> Factors:
        """The factors of an affine layer's gradients, in float64."""
        runs: list[tuple[Tensor, Tensor, Tensor]] = []

        def record(_module: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
            leaf = output.detach().requires_grad_()
            torch.set_grad_enabled(True)  # the graph starts at the layer's output
            runs.append((args[0].detach().clone(), leaf, leaf.clone()))
            return runs[-1][2]

        with torch.no_grad(), self.layer.register_forward_hook(record):
            args = (signals.values, *signals.structure)
            output = self.model(*args) if state is None else functional_call(self.model, dict(state), args)
        if len(runs) != 1:
            raise InputError(f"The layer '{name_of(self.model, self.layer)}' runs {len(runs)} times in a forward pass, but must run once.")
        received, activation, copy = runs[0]
        check_rows(self.model, self.layer, received, signals)
        with torch.enable_grad():
            scores = log_scores(output, self.outputs)
        wanted = cotangents(scores.detach(), labels)
        left = wanted @ zero_sum_basis(wanted) if scores is copy else self.backpropagate(scores, activation, wanted)
        right = received.double()
        if self.layer.bias is not None:
            right = torch.cat((right, torch.ones_like(right[:, :1])), dim=1)
        return Factors(left, right)

    def backpropagate(self, scores: Tensor, activation: Tensor, wanted: Tensor) -> Tensor:
        """Cotangents (n, m, K) of the scores as cotangents (n, m, o) of the layer's output."""

        def pull(part: Tensor) -> Tensor | None:
            return torch.autograd.grad(scores, activation, part.to(scores), retain_graph=True, allow_unused=True)[0]

        columns = [pull(part) for part in wanted.unbind(1)] if scores.requires_grad else [None]
        found = [column for column in columns if column is not None]
        if not found:
            raise InputError(f"The model's output does not depend differentiably on its layer '{name_of(self.model, self.layer)}'.")
        return torch.stack(found, dim=1).double()

    def vmap_gradients(self, signals: Signals, labels: Tensor, cotangents: Cotangents, state: State | None) -> Factors:
        """Gradients under vmap, in the model's type, each an outer product with 1."""
        weights = dict(state or {})
        parameters = {name: weights.get(name, value) for name, value in self.parameters.items()}

        def row(label: Tensor, *parts: Tensor) -> Tensor:
            def scores_of(own: dict[str, Tensor]) -> Tensor:
                output = functional_call(self.model, weights | own, tuple(part.unsqueeze(0) for part in parts))
                return log_scores(output, self.outputs).squeeze(0)

            scores, pull, *_ = vjp(scores_of, parameters)
            (pulled,) = vmap(pull)(cotangents(scores, label).to(scores))
            return torch.cat([part.flatten(1) for part in pulled.values()], dim=1)

        try:
            left: Tensor = vmap(row)(labels, signals.values, *signals.structure)
        except RuntimeError as error:
            if "vmap" not in str(error):
                raise
            name = name_of(self.model, self.layer)
            raise InputError(
                f"The layer '{name}' does not give one gradient per input, and this model cannot be vectorised over its inputs: "
                "choose a linear layer after the pooling, such as the last one."
            ) from error
        return Factors(left.detach(), torch.ones_like(left[:, 0, :1]))


def parametric_layers(model: nn.Module) -> list[nn.Module]:
    """The modules with parameters of their own. Views of a model add none, so positions in this list are stable."""
    return [module for module in model.modules() if next(module.parameters(recurse=False), None) is not None]


def name_of(model: nn.Module, layer: nn.Module) -> str:
    """The layer's name in the model, or its class."""
    return next((name for name, module in unwrap(model).named_modules() if module is layer), "") or type(layer).__name__


def find_layer(model: nn.Module, name: str | None, signals: Signals) -> nn.Module:
    """The layer of this name; without a name, the last layer with parameters that a pass over the signals enters."""
    if name is not None:
        layer = layer_of(model, name)
        if next(layer.parameters(), None) is None:
            raise InputError(f"The layer '{name}' has no parameters: choose a layer that has some, such as a linear layer.")
        return layer
    entered: list[nn.Module] = []
    record = [module.register_forward_pre_hook(lambda module, _args: entered.append(module)) for module in parametric_layers(model)]
    with hooks(record), torch.no_grad():
        signals.through(model)
    if not entered:
        raise InputError("The model has no layer with parameters, so the loss has no gradient in any layer.")
    return entered[-1]


def layer_input(model: nn.Module, layer: nn.Module, signals: Signals) -> Tensor:
    """The input of a layer in a pass over N signals, flattened to (N, d)."""
    received: list[Tensor] = []
    with torch.no_grad(), layer.register_forward_pre_hook(lambda _module, args: received.append(args[0].detach().clone())):
        signals.through(model)
    check_rows(model, layer, received[-1], signals)
    return received[-1].flatten(1)


def check_rows(model: nn.Module, layer: nn.Module, received: Tensor, signals: Signals) -> None:
    """Raise if a layer's rows are not the inputs, as in a graph network before the pooling."""
    if len(received) != len(signals):
        raise InputError(
            f"The layer '{name_of(model, layer)}' has {len(received)} rows for {len(signals)} inputs, so no row belongs to one input: "
            "choose a layer after the pooling."
        )


def log_scores(output: Tensor, outputs: Outputs) -> Tensor:
    """Scores (N, K) whose softmax is the model's probabilities."""
    return output if outputs is Outputs.LOGITS else output.clamp(min=torch.finfo(output.dtype).tiny).log()


def residual(scores: Tensor, labels: Tensor) -> Tensor:
    """The gradient of the loss in the scores, p - e_y, (..., K) in float64; the label's entry is minus the sum of the others.

    >>> residual(torch.tensor([[0.0, 100.0]]), torch.tensor([1]))
    tensor([[ 3.7201e-44, -3.7201e-44]], dtype=torch.float64)
    """
    label = labels.unsqueeze(-1)
    others = scores.double().softmax(-1).scatter(-1, label, 0.0)
    return others.scatter(-1, label, -others.sum(-1, keepdim=True))


def hessian_roots(scores: Tensor) -> Tensor:
    """Rows r_k (..., K, K) in float64 whose outer products sum to the Hessian of the loss in the scores.

    >>> r = hessian_roots(torch.tensor([0.0, 0.0]))
    >>> r.T @ r
    tensor([[ 0.2500, -0.2500],
            [-0.2500,  0.2500]], dtype=torch.float64)
    """
    p = scores.double().softmax(-1)
    eye = torch.eye(p.shape[-1], dtype=p.dtype, device=p.device)
    return p.sqrt().unsqueeze(-1) * (eye - p.unsqueeze(-2))


def check_loss(name: str, model: nn.Module, output: Tensor, outputs: Outputs, training: Training) -> None:
    """Raise unless the model's output is one score per class, and the training set has at least two classes."""
    view = model
    while isinstance(view, View):
        if isinstance(view, (LayerScores, OutputFunction)):
            raise InputError(f"{name} explains the loss of a class: the target must be 'predicted', 'label' or a class number.")
        view = view.model
    if output.ndim != 2 or output.shape[1] < 2 or outputs is Outputs.RAW:
        raise InputError(
            f"{name} needs logits or probabilities with one column per class, (N, classes), but the model gives "
            f"{outputs.value} of shape {tuple(output.shape)}."
        )
    class_numbers(training.labels, output.shape[1], what="label of training example")
    if len(training.labels.unique()) < 2:
        raise InputError(
            f"All {len(training.labels)} training examples have class {training.labels[0]}: {name} needs at least two classes."
        )


def zero_sum_basis(like: Tensor) -> Tensor:
    """An orthonormal basis (K, K - 1) of the vectors (..., K) of sum 0, which hold all cotangents of a softmax loss.

    >>> zero_sum_basis(torch.zeros(1, 2, dtype=torch.float64))
    tensor([[ 0.7071],
            [-0.7071]], dtype=torch.float64)
    """
    count = like.shape[-1]
    normal = like.new_full((count,), count**-0.5)
    normal[0] -= 1
    reflection = torch.eye(count, dtype=like.dtype, device=like.device) - 2 * torch.outer(normal, normal) / normal.square().sum()
    return reflection[:, 1:]


def is_affine(model: nn.Module, layer: nn.Module, signals: Signals) -> bool:
    """Whether a layer computes W h + b and nothing else, shares no parameter, and runs once per pass with one row per input."""
    plain = type(layer).forward is nn.Linear.forward and "forward" not in vars(layer)
    own = {id(parameter) for parameter in layer.parameters()}
    others = (parameter for module in model.modules() if module is not layer for parameter in module.parameters(recurse=False))
    parametrised = not set(dict(layer.named_parameters())) <= {"weight", "bias"}
    if not plain or parametrised or layer._forward_hooks or layer._forward_pre_hooks or any(id(parameter) in own for parameter in others):
        return False
    shapes: list[torch.Size] = []
    with layer.register_forward_pre_hook(lambda _module, args: shapes.append(args[0].shape)), torch.no_grad():
        signals.through(model)
    return len(shapes) == 1 and len(shapes[0]) == 2 and shapes[0][0] == len(signals)
