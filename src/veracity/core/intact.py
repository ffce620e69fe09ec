"""Somebody's model comes back from a method as it went in, whatever the method did to it and however it ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

INTERNAL = frozenset(vars(nn.Module()))
PARTS = frozenset({"_parameters", "_buffers", "_modules"})


class State:
    """The hooks, layers and mode of every module of a model, and each parameter's gradient and its flag."""

    def __init__(self, model: nn.Module) -> None:
        self.modules, self.parameters = list(model.modules()), list(model.parameters())
        self.attributes = [set(vars(module)) for module in self.modules]
        self.internals = [
            {key: vars(module)[key] for key in INTERNAL & known} for module, known in zip(self.modules, self.attributes, strict=True)
        ]
        self.tables = [{key: dict(value) for key, value in state.items() if isinstance(value, dict)} for state in self.internals]
        self.gradients = [(parameter.grad, parameter.requires_grad) for parameter in self.parameters]

    def changes(self) -> list[str]:
        """What is not as it was, in words; gradients are not looked at."""
        modes, hooks, parts = False, False, False
        for module, known, tables in zip(self.modules, self.internals, self.tables, strict=True):
            modes |= module.training != known["training"]
            for key, before in tables.items():
                now = vars(module)[key]
                same = list(before) == list(now) and all(now[name] is value for name, value in before.items())
                parts |= not same and key in PARTS
                hooks |= not same and "hook" in key
        flags = any(parameter.requires_grad != flag for parameter, (_, flag) in zip(self.parameters, self.gradients, strict=True))
        found = {"its layers": parts, "its hooks": hooks, "its training mode": modes, "requires_grad of its weights": flags}
        return [what for what, changed in found.items() if changed]

    def restore(self) -> None:
        """Bring all of it back."""
        for module, state, content in zip(self.modules, self.internals, self.tables, strict=True):
            vars(module).update(state)
            for key, value in content.items():
                state[key].clear()
                state[key].update(value)
        for parameter, (gradient, flag) in zip(self.parameters, self.gradients, strict=True):
            parameter.grad = gradient
            parameter.requires_grad_(flag)


@contextmanager
def untouched(model: nn.Module) -> Iterator[None]:
    """Restore the hooks, layers and mode of every module, and each parameter's gradient and its flag; drop new attributes.

    What a model writes to attributes of its own is its own affair and stays.
    """
    state = State(model)
    for parameter in state.parameters:
        parameter.grad = None
    try:
        yield
    finally:
        for module, known in zip(state.modules, state.attributes, strict=True):
            for name in set(vars(module)) - known:
                del vars(module)[name]
        state.restore()


class Numbers:
    """Tensors by name, with copies of them on the CPU."""

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        self.tensors = tensors
        self.copies = {name: (tensor.detach().to("cpu", copy=True), tensor.device) for name, tensor in tensors.items()}

    def changes(self) -> list[str]:
        """The names of those that lie elsewhere or hold other numbers; NaN is NaN."""
        return [name for name in self.tensors if not self.same(name)]

    @torch.no_grad()
    def restore(self) -> None:
        """Give them back what they held; what did not change is not written to."""
        for name in self.changes():
            tensor, (copy, device) = self.tensors[name], self.copies[name]
            if (tensor.shape, tensor.dtype, tensor.device) != (copy.shape, copy.dtype, device):
                tensor.data = copy.to(device, copy=True)
            tensor.copy_(copy)

    def same(self, name: str) -> bool:
        """Whether one is as it was."""
        tensor, (copy, device) = self.tensors[name], self.copies[name]
        if (tensor.shape, tensor.dtype, tensor.device) != (copy.shape, copy.dtype, device):
            return False
        now = tensor.detach().cpu()
        return torch.equal(now, copy) or bool(((now == copy) | ((now != now) & (copy != copy))).all())


class Intact:
    """A model as it was: what somebody's code changes can be named, and brought back."""

    def __init__(self, model: nn.Module) -> None:
        self.state = State(model)
        self.numbers = Numbers({**dict(model.named_parameters()), **dict(model.named_buffers())})

    def changes(self) -> list[str]:
        """What is not as it was, in words: weights and buffers by their names, then layers, hooks, modes and flags."""
        return [*(f"'{name}'" for name in self.numbers.changes()), *self.state.changes()]

    def restore(self) -> None:
        """Bring all of it back."""
        self.state.restore()
        self.numbers.restore()
