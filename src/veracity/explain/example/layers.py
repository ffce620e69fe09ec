"""Where in a model a method looks: a layer by its name, or the last one with parameters, and one pass that listens there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from veracity.core.errors import InputError
from veracity.core.inputs import Signals
from veracity.core.models import layer_of, viewed


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
