"""Gradients of scores in the parameters of one layer, one row an input, never a loop over inputs.

Where the layer is affine, z = W [h; 1], shares no parameter and runs once on one row an input, a row's gradient is the outer product of the
gradient in z and [h; 1]: both come out of one pass, and products of gradients never need the gradients themselves.
If z are the scores themselves, their gradients sum to 0, and are kept in K - 1 coordinates. Elsewhere the pass is
differentiated a row at a time under vmap; such gradients are outer products with a 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, vjp, vmap

from veracity.core.errors import InputError
from veracity.core.inputs import Signals
from veracity.core.models import layer_of
from veracity.core.targets import Outputs
from veracity.explain.examples.base import chosen_layer, log_scores, name_of, tap, with_parameters

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
