"""Somebody's model comes back from a method as it went in, whatever the method did to it and however it ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

INTERNAL = frozenset(vars(nn.Module()))


@contextmanager
def untouched(model: nn.Module) -> Iterator[None]:
    """Restore the hooks, layers and mode of every module, and each parameter's gradient and its flag; drop new attributes.

    What a model writes to attributes of its own is its own affair and stays.
    """
    modules, parameters = list(model.modules()), list(model.parameters())
    names = [set(vars(module)) for module in modules]
    states = [{key: vars(module)[key] for key in INTERNAL & known} for module, known in zip(modules, names, strict=True)]
    tables = [{key: dict(value) for key, value in state.items() if isinstance(value, dict)} for state in states]
    gradients = [(parameter.grad, parameter.requires_grad) for parameter in parameters]
    for parameter in parameters:
        parameter.grad = None
    try:
        yield
    finally:
        for module, known, state, content in zip(modules, names, states, tables, strict=True):
            for name in set(vars(module)) - known:
                del vars(module)[name]
            vars(module).update(state)
            for key, value in content.items():
                state[key].clear()
                state[key].update(value)
        for parameter, (gradient, flag) in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
            parameter.requires_grad_(flag)
