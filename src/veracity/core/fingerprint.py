"""Content hashes: what a result depends on, in a few letters.

A hash covers data (tensors, settings) and code: the source of every class and function that is not part of this
package, of torch or of Captum, with whatever they hold.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import inspect
import json
import sys
import types
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

KNOWN_PACKAGES = {"veracity", "torch", "torch_geometric", "captum", "numpy", "builtins", "abc", "typing", "collections"}
DEPTH = 6
"""How many levels of values are hashed with all that they hold; further down, what computes: networks, arrays and code."""
CODE, PLAIN = (types.FunctionType, type), (str, bytes, int, float, complex, bool, type(None))
MODULE_NAMES = frozenset({name for name in dir(nn.Module()) if name.startswith("_")} | {"training"})
"""What every module keeps for itself: its tables of weights, submodules and hooks."""
Seen = dict[int, Any]
"""Functions and classes, and what lies further down than the depth, that a hash holds already: by identity."""


def of_json(value: Any) -> str:
    """A short hash of anything that JSON can write, independent of key order.

    >>> of_json({"a": 1, "b": 2}) == of_json({"b": 2, "a": 1})
    True
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def of_tensor(tensor: Tensor) -> str:
    """A short hash of a tensor's type, shape and bytes, wherever it lives."""
    plain = tensor.detach().cpu().contiguous()
    digest = hashlib.sha256(f"{plain.dtype}{tuple(plain.shape)}".encode())
    digest.update(plain.flatten().view(torch.uint8).numpy().tobytes() if plain.numel() else b"")
    return digest.hexdigest()[:24]


def of_model(model: nn.Module, depth: int = DEPTH, seen: Seen | None = None) -> str:
    """A short hash of a model: its weights and buffers, its layers as they print, its own code and plain attributes."""
    seen = {} if seen is None else seen
    tensors = dict(model.named_parameters()) | dict(model.named_buffers())
    parts = {
        "layers": str(model),
        "tensors": {name: of_tensor(value) for name, value in tensors.items()},
        "code": {name: of_class(type(part), seen) for name, part in model.named_modules()},
        "attributes": {name: attributes(part, depth - 1, seen) for name, part in model.named_modules()},
    }
    return of_json(parts)


def attributes(module: nn.Module, depth: int, seen: Seen) -> dict[str, Any]:
    """What a module holds besides weights and submodules; of a library's own layer the plain settings, and functions from outside."""
    own = {key: value for key, value in vars(module).items() if key not in MODULE_NAMES}
    if known(type(module)):
        public = {key: value for key, value in own.items() if not key.startswith("_")}
        plain = {key: value for key, value in public.items() if isinstance(value, (str, int, float, bool))}
        return plain | {key: of_value(value, depth, seen) for key, value in public.items() if callable(value) and not known(value)}
    return {key: of_value(value, depth, seen) for key, value in own.items()}


def of_class(kind: type, seen: Seen) -> list[Any]:
    """A class's code, and what the methods of its own and of its bases use that no library holds."""
    if id(kind) in seen or known(kind):
        return [f"{kind.__module__}.{kind.__qualname__}"]
    seen[id(kind)] = kind
    methods = [part for base in kind.__mro__ if not known(base) for part in vars(base).values() if isinstance(part, types.FunctionType)]
    return [of_code(kind), {one.__qualname__: used_by(one, DEPTH, seen) for one in methods}]


def of_code(kind: type) -> str:
    """A hash of a class's source and of its bases', or its name where it belongs to a known library."""
    return of_json([f"{base.__module__}.{base.__qualname__}" if known(base) else source(base) for base in kind.__mro__])


def known(item: Any) -> bool:
    """Whether code belongs to a library whose version the manifest records."""
    return (getattr(item, "__module__", None) or "builtins").partition(".")[0] in KNOWN_PACKAGES


def source(item: Any) -> str:
    """The source text, or else the place, of a class or function."""
    try:
        return inspect.getsource(item)
    except (OSError, TypeError):
        return f"{item.__module__}.{item.__qualname__}"


def of_function(function: Any, depth: int = DEPTH, seen: Seen | None = None) -> Any:
    """What a function, a method, a partial function or a callable object does, as data: its code, all that it holds, and the code
    of every function and class that it uses, and they use, outside of known libraries.
    """
    seen = {} if seen is None else seen
    if isinstance(function, functools.partial):
        return ["partial", *(of_value(part, depth - 1, seen) for part in (function.func, function.args, function.keywords))]
    if isinstance(function, types.MethodType):
        return ["method", of_function(function.__func__, depth, seen), of_value(function.__self__, depth - 1, seen)]
    if isinstance(function, types.FunctionType):
        if id(function) in seen:
            return ["function", function.__qualname__]
        seen[id(function)] = function
        return ["function", function.__qualname__, *of_code_object(function.__code__), *held_by(function, depth, seen)]
    if isinstance(function, type):
        return ["class", f"{function.__module__}.{function.__qualname__}", *of_class(function, seen)]
    return of_value(function, depth, seen)


def of_code_object(code: types.CodeType) -> list[Any]:
    """Byte code, names and constants, of inner functions too."""
    constants = [of_code_object(part) if isinstance(part, types.CodeType) else of_value(part) for part in code.co_consts]
    return [code.co_code.hex(), list(code.co_names), constants]


def held_by(function: types.FunctionType, depth: int, seen: Seen) -> list[Any]:
    """A function's defaults, what it has closed over, and the globals of its own module that it names."""
    closed = [cell.cell_contents for cell in function.__closure__ or ()]
    parts = (closed, function.__defaults__, function.__kwdefaults__)
    return [*(of_value(part, depth - 1, seen) for part in parts), used_by(function, depth, seen)]


def used_by(function: types.FunctionType, depth: int, seen: Seen) -> dict[str, Any]:
    """The globals that a function and the functions inside it name: code as it is, however far away; values as deep as it goes."""
    names = set() if known(function) else set(global_names(function.__code__))
    named = {name: function.__globals__.get(name) for name in sorted(names)}
    code = (types.FunctionType, type)
    return {
        name: of_value(value, depth if isinstance(value, code) else depth - 3, seen)
        for name, value in named.items()
        if not isinstance(value, types.ModuleType)
    }


def global_names(code: types.CodeType) -> Iterator[str]:
    """The globals that code looks up, and code inside it; not the names of attributes."""
    yield from (one.argval for one in dis.get_instructions(code) if one.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            yield from global_names(part)


def of_value(value: Any, depth: int = DEPTH, seen: Seen | None = None) -> Any:
    """Any value as plain data that is the same in every process: what it holds, never where it is."""
    seen = {} if seen is None else seen
    if isinstance(value, (str, int, float, bool, type(None))):
        return value
    if isinstance(value, Tensor):
        return of_tensor(value)
    if isinstance(value, np.ndarray):
        return [str(value.dtype), value.shape, hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:24]]
    if depth <= 0:
        return further_down(value, seen)
    if isinstance(value, nn.Module):
        return of_model(value, depth, seen)
    if isinstance(value, Mapping):
        return {str(key): of_value(item, depth - 1, seen) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [of_value(item, depth - 1, seen) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted(json.dumps(of_value(item, depth - 1, seen), sort_keys=True) for item in value)
    if isinstance(value, (types.FunctionType, types.MethodType, functools.partial, type)):
        return of_function(value, depth, seen)
    if callable(value) and hasattr(value, "__name__"):
        return f"{getattr(value, '__module__', '')}.{value.__name__}"
    state = {key: of_value(item, depth - 1, seen) for key, item in sorted(state_of(value).items())}
    shown = "" if state or " at 0x" in repr(value) else repr(value)
    return [of_class(type(value), seen), state, shown]


def further_down(value: Any, seen: Seen) -> Any:
    """A value's type, and all networks, arrays and code from outside that it holds at any depth, nearest first; each once."""
    found: list[Any] = []
    waiting = deque([value])
    while waiting:
        one = waiting.popleft()
        if isinstance(one, (Tensor, np.ndarray)):
            found.append(of_value(one))
        elif isinstance(one, CODE) and foreign(one) and id(one) not in seen:
            found.append(of_function(one, 0, seen))
        elif not isinstance(one, (*CODE, *PLAIN, types.ModuleType)) and id(one) not in seen:
            seen[id(one)] = one
            if isinstance(one, nn.Module):
                found.append(of_model(one, 0, seen))
                continue
            if foreign(type(one)) and id(type(one)) not in seen:
                found.append(of_class(type(one), seen))
            waiting.extend(held_in(one))
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    return [name, *found] if found else name


def foreign(item: Any) -> bool:
    """Whether code belongs to neither a known library nor Python's own."""
    return not known(item) and item.__module__.partition(".")[0] not in sys.stdlib_module_names


def held_in(value: Any) -> Iterable[Any]:
    """What a container or an object holds, in an order that is the same in every process."""
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, (list, tuple, deque)):
        return value
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=lambda item: json.dumps(of_value(item), sort_keys=True))
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, types.MethodType):
        return [value.__func__, value.__self__]
    return [item for _, item in sorted(state_of(value).items())]


def state_of(value: Any) -> dict[str, Any]:
    """An object's attributes by name, those in slots of classes from outside too."""
    slots = [name for base in type(value).__mro__ if not known(base) for name in slots_of(base) if hasattr(value, name)]
    return {name: getattr(value, name) for name in slots} | dict(getattr(value, "__dict__", {}))


def slots_of(kind: type) -> tuple[str, ...]:
    """The names of a class's own slots."""
    names = vars(kind).get("__slots__", ())
    given = (names,) if isinstance(names, str) else tuple(names)
    private = f"_{kind.__name__.lstrip('_')}"
    return tuple(private + name if name.startswith("__") else name for name in given if not name.endswith("__"))
