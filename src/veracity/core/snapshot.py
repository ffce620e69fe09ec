"""Snapshots of a model: what a method changed in it can be named and restored, even after an error."""

from __future__ import annotations

import types
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from veracity.core.fingerprint.objects import PLAIN, of_process

INTERNAL = frozenset(vars(nn.Module()))
PARTS = frozenset({"_parameters", "_buffers", "_modules"})
DEEPEST, MOST = 6, 10_000
"""How deep attributes are followed, and how many containers at most."""
CODE = (type, types.ModuleType, types.FunctionType, types.MethodType, types.BuiltinFunctionType)


class ModelSnapshot:
    """The whole state of a model: weights, buffers, attributes, layers, hooks, modes and gradient flags."""

    def __init__(self, model: nn.Module) -> None:
        self.state, self.attributes = ModuleSnapshot(model), AttributeSnapshot(model)
        self.numbers = TensorSnapshot({**self.attributes.tensors, **dict(model.named_parameters()), **dict(model.named_buffers())})

    def changes(self) -> list[str]:
        """What has changed, in words: weights, buffers and attributes by name, then layers, hooks, modes and flags."""
        return [*(f"'{name}'" for name in (*self.numbers.changes(), *self.attributes.changes())), *self.state.changes()]

    def restore(self) -> None:
        """Bring everything back."""
        self.state.restore()
        self.attributes.restore()
        self.numbers.restore()


@contextmanager
def preserve_state(model: nn.Module) -> Iterator[None]:
    """Restore the hooks, layers and mode of every module and the gradients and flags of parameters on exit; drop new attributes.

    Values that a model writes to its existing attributes stay.
    """
    state = ModuleSnapshot(model)
    for parameter in state.parameters:
        parameter.grad = None
    try:
        yield
    finally:
        for module, known in zip(state.modules, state.attributes, strict=True):
            for name in set(vars(module)) - known:
                del vars(module)[name]
        state.restore()


class ModuleSnapshot:
    """The hooks, layers and mode of every module, and the gradient and `requires_grad` flag of every parameter."""

    def __init__(self, model: nn.Module) -> None:
        self.modules, self.parameters = list(model.modules()), list(model.parameters())
        self.attributes = [set(vars(module)) for module in self.modules]
        self.internals = [
            {key: vars(module)[key] for key in INTERNAL & known} for module, known in zip(self.modules, self.attributes, strict=True)
        ]
        self.tables = [{key: dict(value) for key, value in state.items() if isinstance(value, dict)} for state in self.internals]
        self.gradients = [(parameter.grad, parameter.requires_grad) for parameter in self.parameters]

    def changes(self) -> list[str]:
        """What has changed, in words; gradients do not count."""
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
        """Bring everything back."""
        for module, state, content in zip(self.modules, self.internals, self.tables, strict=True):
            vars(module).update(state)
            for key, value in content.items():
                state[key].clear()
                state[key].update(value)
        for parameter, (gradient, flag) in zip(self.parameters, self.gradients, strict=True):
            parameter.grad = gradient
            parameter.requires_grad_(flag)


SMALL = 1 << 20
"""Tensors of up to this many bytes are copied where they are, to avoid a synchronisation."""


class TensorSnapshot:
    """Tensors by name, with copies: of large ones on the CPU."""

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        self.tensors = tensors
        self.copies = {name: (kept_copy(tensor), tensor.device) for name, tensor in tensors.items()}

    def changes(self, names: Collection[str] | None = None) -> list[str]:
        """Names of tensors, or those of `names`, that have moved or hold other numbers; NaN equals NaN."""
        found = {name: self.same(name) for name in (self.tensors if names is None else names)}
        asked: dict[torch.device, list[str]] = {}
        for name, same in found.items():
            if isinstance(same, Tensor):
                asked.setdefault(same.device, []).append(name)
        answers: dict[str, bool] = {}
        for names in asked.values():  # one question for each device
            answers |= dict(zip(names, torch.stack([torch.as_tensor(found[name]) for name in names]).tolist(), strict=True))
        return [name for name, same in found.items() if not (answers[name] if isinstance(same, Tensor) else same)]

    @torch.no_grad()
    def restore(self) -> None:
        """Write the copies back into tensors that have changed; on a GPU into all that are small, which waits for nothing."""
        blind = {name: copy for name, (copy, _) in self.copies.items() if writable_as_is(self.tensors[name], copy)}
        if blind:
            torch._foreach_copy_([self.tensors[name] for name in blind], list(blind.values()))
        for name in self.changes([name for name in self.tensors if name not in blind]):
            tensor, (copy, device) = self.tensors[name], self.copies[name]
            if (tensor.shape, tensor.dtype, tensor.device) != (copy.shape, copy.dtype, device):
                tensor.data = copy.to(device, copy=True)
            tensor.copy_(copy)

    def same(self, name: str) -> bool | Tensor:
        """Whether a tensor has its former device, shape, type and numbers; a tensor on its device answers for the numbers."""
        tensor, (copy, device) = self.tensors[name], self.copies[name]
        if (tensor.shape, tensor.dtype, tensor.device) != (copy.shape, copy.dtype, device):
            return False
        now = tensor.detach().to(copy.device)
        if copy.device.type == "cpu" and torch.equal(now, copy):
            return True
        return ((now == copy) | ((now != now) & (copy != copy))).all()


def writable_as_is(tensor: Tensor, copy: Tensor) -> bool:
    """Whether a copy on a GPU can be written into its tensor without a look at it."""
    alike = (tensor.shape, tensor.dtype, tensor.device, tensor.stride()) == (copy.shape, copy.dtype, copy.device, copy.stride())
    return alike and copy.is_cuda and not tensor.is_inference() and tensor.is_contiguous()


def kept_copy(tensor: Tensor) -> Tensor:
    """A copy of a tensor's numbers."""
    held = tensor.detach()
    return held.clone() if held.nbytes <= SMALL else held.to("cpu", copy=True)


class AttributeSnapshot:
    """Attributes of modules besides weights, layers and hooks: plain values, containers, arrays, and objects such as a config.

    `restore` removes new attributes; they do not count as changes, because they do not affect outputs.
    """

    def __init__(self, model: nn.Module) -> None:
        self.held: dict[int, tuple[str, Any, Any]] = {}
        """Containers by id: the first name, the container, and a shallow copy of its content."""
        self.tensors: dict[str, Tensor] = {}
        for path, module in model.named_modules():
            own = {name: value for name, value in vars(module).items() if name not in INTERNAL}
            self.held[id(module)] = (path, module, own)
            for name, value in own.items():
                self.follow(f"{path}.{name}" if path else name, value, DEEPEST)

    def follow(self, name: str, value: Any, depth: int) -> None:
        """Record a value and everything in it."""
        kind = type(value)
        if kind in PLAIN or id(value) in self.held or not depth or len(self.held) > MOST or isinstance(value, (nn.Module, *CODE)):
            return
        if isinstance(value, Tensor):
            self.tensors[name] = value
        elif isinstance(value, np.ndarray):
            self.held[id(value)] = (name, value, value.copy())
        elif not of_process(value) and (content := content_of(value)) is not None:
            self.held[id(value)] = (name, value, content)
            for part in content.values() if isinstance(content, dict) else content:
                self.follow(name, part, depth - 1)

    def changes(self) -> list[str]:
        """Names of attributes whose value or content has changed."""
        found: dict[str, None] = {}
        for name, value, content in self.held.values():
            if isinstance(value, nn.Module):
                now = vars(value)
                lost = [key for key, before in content.items() if key not in now or not same_value(now[key], before)]
                found |= dict.fromkeys(f"{name}.{key}" if name else key for key in lost)
            elif not same_content(value, content):
                found[name] = None
        return list(found)

    def restore(self) -> None:
        """Write the former content back where it has changed."""
        for _, value, content in self.held.values():
            if isinstance(value, nn.Module):
                now = vars(value)
                for key in [key for key in now if key not in INTERNAL and key not in content]:
                    del now[key]
                now.update({key: before for key, before in content.items() if key not in now or not same_value(now[key], before)})
            elif not same_content(value, content):
                restore_content(value, content)


def content_of(value: Any) -> Any:
    """A shallow copy of the content of a container or an object; None for anything else."""
    if isinstance(value, dict):
        return dict(value)
    if isinstance(value, (list, set, tuple)):
        return list(value)
    return dict(vars(value)) if isinstance(getattr(value, "__dict__", None), dict) else None


def same_content(value: Any, content: Any) -> bool:
    """Whether a container has its former content."""
    if isinstance(value, np.ndarray):
        return bool(value.shape == content.shape and value.dtype == content.dtype and value.tobytes() == content.tobytes())
    now = content_of(value)
    if isinstance(now, dict):
        return now.keys() == content.keys() and all(same_value(now[key], content[key]) for key in now)
    return len(now) == len(content) and all(same_value(one, other) for one, other in zip(now, content, strict=True))


def same_value(now: Any, before: Any) -> bool:
    """Whether two values are the same object or equal plain values; NaN equals NaN."""
    equal = type(now) is type(before) and type(now) in PLAIN and (now == before or (now != now and before != before))
    return now is before or bool(equal)


def restore_content(value: Any, content: Any) -> None:
    """Write the former content into a container."""
    if isinstance(value, np.ndarray):
        value[...] = content
    elif isinstance(value, list):
        value[:] = content
    elif isinstance(value, (dict, set)):
        value.clear()
        value.update(content)
    else:
        vars(value).clear()
        vars(value).update(content)
