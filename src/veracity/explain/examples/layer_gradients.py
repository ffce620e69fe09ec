"""Gradients of scores in the parameters of one layer, one row an input, never a loop over inputs.

Where the layer is affine, z = W [h; 1], shares no parameter and runs once on one row an input, a row's gradient is the outer product of the
gradient in z and [h; 1]: both come out of one pass, and products of gradients never need the gradients themselves.
If z are the scores themselves, their gradients sum to 0, and are kept in K - 1 coordinates. Elsewhere the pass is
differentiated a row at a time under vmap; such gradients are outer products with a 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
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
    return next((name for name, module in unwrap(model).named_modules() if module is layer), "") or type(layer).__name__


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
        if isinstance(view, (LayerScores, OutputFunction)):
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


Cotangents = Callable[[Tensor, Tensor], Tensor]
State = Mapping[str, Tensor]


@dataclass(frozen=True)
class Factors:
    """Gradients (n, m, o i), m of them a row, as outer products of `left` (n, m, o) and `right` (n, i)."""

    left: Tensor
    right: Tensor

    def flat(self) -> Tensor:
        """The gradients themselves, (n, m, o i)."""
        return (self.left.unsqueeze(-1) * self.right[:, None, None, :]).flatten(2)

    def some(self, which: slice) -> Factors:
        """Some of each row's m gradients."""
        return Factors(self.left[:, which], self.right)

    def kernel(self, other: Factors) -> Tensor:
        """Inner products (n, n') of the first gradient of each row with that of each other row.

        >>> one, two = Factors(torch.ones(1, 1, 2), torch.ones(1, 3)), Factors(torch.ones(4, 1, 2), torch.ones(4, 3))
        >>> one.kernel(two)
        tensor([[6., 6., 6., 6.]])
        """
        return (self.left[:, 0] @ other.left[:, 0].T) * (self.right @ other.right.T)


@dataclass(frozen=True)
class Place:
    """A layer of a model, what the model's outputs are, and whether the layer is affine in one row an input."""

    model: nn.Module
    layer: nn.Module
    outputs: Outputs
    affine: bool

    @classmethod
    def find(cls, model: nn.Module, name: str | None, outputs: Outputs, signals: Signals) -> Place:
        """The layer of this name, or else the last one with parameters, as a pass over a few signals shows it."""
        layer = chosen_layer(model, name, signals)
        return cls(model, layer, outputs, is_affine(layer) and holds_alone(model, layer) and runs_on_rows(model, layer, signals))

    @classmethod
    def kept(cls, model: nn.Module, name: str | None, outputs: Outputs, found: Tensor) -> Place:
        """The same place again, from what `found` says of it."""
        number, affine, _ = found.tolist()
        layer = layer_of(model, name) if name is not None else with_parameters(model)[number]
        return cls(model, layer, outputs, bool(affine))

    @property
    def found(self) -> Tensor:
        """The layer's number among those with parameters of their own (-1: a block of layers), whether it is affine, and its size."""
        layers = with_parameters(self.model)
        number = next((number for number, layer in enumerate(layers) if layer is self.layer), -1)
        return torch.tensor([number, self.affine, self.size])

    @property
    def own(self) -> dict[str, Tensor]:
        """The layer's parameters by their name in the model."""
        inside = {id(parameter) for parameter in self.layer.parameters()}
        return {name: value.detach() for name, value in self.model.named_parameters() if id(value) in inside}

    @property
    def size(self) -> int:
        """How many parameters the layer has."""
        return sum(value.numel() for value in self.own.values())

    def factors(self, signals: Signals, labels: Tensor, cotangents: Cotangents, state: State | None = None) -> Factors:
        """Gradients of n rows: `cotangents(scores (..., K), labels (...,))` (..., m, K) says of which combinations of the scores.

        `state` holds other weights to run the model with.
        """
        return (self.outer if self.affine else self.row_by_row)(signals, labels, cotangents, state)

    def outer(self, signals: Signals, labels: Tensor, cotangents: Cotangents, state: State | None) -> Factors:
        """The factors of an affine layer's gradients, in float64."""
        call = None if state is None else lambda *args: functional_call(self.model, dict(state), args)
        seen = tap(self.model, self.layer, signals, call)
        with torch.enable_grad():
            scores = log_scores(seen.output, self.outputs)
        wanted = cotangents(scores.detach(), labels)
        made_scores = seen.last and scores is seen.output
        left = wanted @ balanced(wanted) if made_scores else self.pulled(scores, seen.made, wanted)
        right = seen.given.double()
        if self.layer.bias is not None:
            right = torch.cat((right, torch.ones_like(right[:, :1])), dim=1)
        return Factors(left, right)

    def pulled(self, scores: Tensor, made: Tensor, wanted: Tensor) -> Tensor:
        """Cotangents (n, m, K) of the scores as cotangents (n, m, o) of the layer's output."""
        if not scores.requires_grad:
            raise self.unrelated()
        columns = [torch.autograd.grad(scores, made, part.to(scores), retain_graph=True, allow_unused=True)[0] for part in wanted.unbind(1)]
        if columns[0] is None:
            raise self.unrelated()
        return torch.stack(columns, dim=1).double()

    def unrelated(self) -> InputError:
        """The error for a layer that the output does not depend on."""
        return InputError(f"The model's output does not depend differentiably on its layer '{name_of(self.model, self.layer)}'.")

    def row_by_row(self, signals: Signals, labels: Tensor, cotangents: Cotangents, state: State | None) -> Factors:
        """Gradients under vmap, as computed by the model, each an outer product with 1."""
        weights = dict(state or {})
        own = {name: weights.get(name, value) for name, value in self.own.items()}

        def row(label: Tensor, *parts: Tensor) -> Tensor:
            def scores_of(parameters: dict[str, Tensor]) -> Tensor:
                output = functional_call(self.model, weights | parameters, tuple(part.unsqueeze(0) for part in parts))
                return log_scores(output, self.outputs).squeeze(0)

            scores, pull, *_ = vjp(scores_of, own)
            (pulled,) = vmap(pull)(cotangents(scores, label).to(scores))
            return torch.cat([part.flatten(1) for part in pulled.values()], dim=1)

        try:
            left: Tensor = vmap(row)(labels, signals.values, *signals.structure)
        except RuntimeError as error:
            if "vmap" not in str(error):
                raise
            name = name_of(self.model, self.layer)
            raise InputError(
                f"Gradients in the layer '{name}' do not come one row an input, and this model cannot be vectorised over its inputs: "
                "choose a linear layer after the pooling, such as the last one."
            ) from error
        return Factors(left.detach(), torch.ones_like(left[:, 0, :1]))


def balanced(like: Tensor) -> Tensor:
    """An orthonormal basis (K, K - 1) of the vectors (..., K) of sum 0, in which all cotangents of a softmax loss lie.

    >>> balanced(torch.zeros(1, 2, dtype=torch.float64))
    tensor([[ 0.7071],
            [-0.7071]], dtype=torch.float64)
    """
    count = like.shape[-1]
    normal = like.new_full((count,), count**-0.5)
    normal[0] -= 1
    reflection = torch.eye(count, dtype=like.dtype, device=like.device) - 2 * torch.outer(normal, normal) / normal.square().sum()
    return reflection[:, 1:]


def is_affine(layer: nn.Module) -> bool:
    """Whether a layer computes W h + b and nothing else: no forward of its own, no parametrised weights, no hooks."""
    plain = type(layer).forward is nn.Linear.forward and "forward" not in vars(layer)
    hooked = bool(layer._forward_hooks or layer._forward_pre_hooks)
    return plain and not hooked and set(dict(layer.named_parameters())) <= {"weight", "bias"}


def holds_alone(model: nn.Module, layer: nn.Module) -> bool:
    """Whether no other module holds a parameter of the layer, through which the scores would depend on it as well."""
    own = {id(parameter) for parameter in layer.parameters()}
    others = (module for module in model.modules() if module is not layer)
    return not any(id(parameter) in own for module in others for parameter in module.parameters(recurse=False))


def runs_on_rows(model: nn.Module, layer: nn.Module, signals: Signals) -> bool:
    """Whether a layer runs once in a pass, on one row an input."""
    shapes: list[torch.Size] = []
    handle = layer.register_forward_pre_hook(lambda _module, args: shapes.append(args[0].shape))
    try:
        with torch.no_grad():
            signals.through(model)
    finally:
        handle.remove()
    return len(shapes) == 1 and len(shapes[0]) == 2 and shapes[0][0] == len(signals)
