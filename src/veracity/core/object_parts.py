"""What an object counts by: its class and its state, if that means the same in every process."""

from __future__ import annotations

import io
import types
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from veracity.core.origin import origin, origin_of

PLAIN = frozenset({str, int, float, complex, bool, type(None)})
PROCESS = frozenset(
    {"asyncio", "concurrent", "contextvars", "ctypes", "io", "logging", "multiprocessing", "queue", "random"}
    | {"select", "selectors", "signal", "socket", "ssl", "subprocess", "tempfile", "thread", "threading", "weakref"}
)
"""Modules of Python's own whose objects belong to one process: handles, threads, loggers, generators of random numbers."""
AT_WORK = frozenset({"asyncio", "concurrent", "io", "multiprocessing", "socket", "subprocess", "threading"})
"""Those of them that only an object at work holds. Fitted models may well hold a logger, a lock or a weak reference."""
STATE = 2
"""Where an object's attributes stand in what pickle writes of it."""


def object_parts(value: Any) -> Iterator[Any]:
    """Any other object: a library's by its serialised state, the user's own by its attributes; for nothing if it belongs to one
    process. A library's object at work in this process (a progress bar, a writer) counts by the arrays, networks and user's code in it.
    """
    kind = type(value)
    yield from ("object", kind)
    if of_process(value):
        return
    if callable(value):
        yield from (getattr(value, "__module__", None), getattr(value, "__name__", None), getattr(value, "__wrapped__", None))
    if isinstance(value, torch.jit.ScriptFunction):
        yield value.code
    if origin_of(kind) is None:
        yield from pairs("attributes", attributes(value))
        plain = getattr(kind, "__getstate__", None) is getattr(object, "__getstate__", None)
        yield from (part for place, part in enumerate(serialised(value)) if not (plain and place == STATE))
    elif kind.__module__.startswith("xgboost.") and hasattr(value, "save_raw"):
        yield bytes(value.save_raw())
    elif works(value):
        yield from pairs("attributes", {name: held for name, held in kept(value).items() if computes(held)})
    else:
        yield from serialised(value)


def of_process(value: Any) -> bool:
    """Whether an object belongs to one process and means nothing in another."""
    if isinstance(value, (torch.Generator, np.random.Generator, np.random.RandomState, np.random.BitGenerator)):
        return True
    return comes_from(value, PROCESS) and not isinstance(value, (io.BytesIO, io.StringIO))


def comes_from(value: Any, modules: frozenset[str]) -> bool:
    """Whether a class or a base of it is defined in one of these modules of Python's own."""
    return any(str(base.__module__).partition(".")[0].lstrip("_") in modules for base in type(value).__mro__)


def works(value: Any, depth: int = 4) -> bool:
    """Whether a library's object is at work in this process: holds an open file, a thread or the like, itself or through others."""
    held = [item for item in getattr(value, "__dict__", {}).values() if type(item) not in PLAIN]
    if any(of_process(item) and comes_from(item, AT_WORK) for item in held):
        return True
    inner = [item for item in held if hasattr(item, "__dict__") and not isinstance(item, (type, nn.Module, Tensor))] if depth > 1 else []
    return any(works(item, depth - 1) for item in inner if origin_of(type(item)) is not None)


def computes(value: Any) -> bool:
    """Whether a value is an array, a network, or an object or a function of the user's own."""
    if isinstance(value, types.FunctionType):
        return origin(str(value.__globals__.get("__name__"))) is None
    return isinstance(value, (Tensor, np.ndarray, nn.Module)) or (type(value) not in PLAIN and origin_of(type(value)) is None)


def attributes(value: Any) -> dict[str, Any]:
    """An object's attributes by name, those in slots too."""
    slots = [name for base in type(value).__mro__ for name in slots_of(base) if hasattr(value, name)]
    return {name: getattr(value, name) for name in slots} | kept(value)


def kept(value: Any) -> dict[str, Any]:
    """What an object keeps under its attributes' names; not what it has worked out once from the rest."""
    kind, held = type(value), getattr(value, "__dict__", {})
    return {name: item for name, item in held.items() if not isinstance(getattr(kind, name, None), cached_property)}


def slots_of(kind: type) -> tuple[str, ...]:
    """The names of a class's own slots."""
    names = vars(kind).get("__slots__", ())
    given = (names,) if isinstance(names, str) else tuple(names)
    private = f"_{kind.__name__.lstrip('_')}"
    return tuple(private + name if name.startswith("__") else name for name in given if not name.endswith("__"))


def serialised(value: Any) -> Iterator[Any]:
    """What pickle would write of an object; of one that cannot be pickled, its attributes or how it prints."""
    try:
        made = value.__reduce_ex__(2)
    except Exception:
        state = attributes(value)
        shown = repr(value) if not state else ""
        made = (None, shown if " at 0x" not in shown else "", state)
    if isinstance(made, str):
        yield made
        return
    yield from (tuple(part) if isinstance(part, Iterator) else part for part in made)


def pairs(kind: str, values: Mapping[Any, Any]) -> Iterator[Any]:
    """A mapping, in the order of its keys if they are plain."""
    yield kind
    for key, value in sorted(values.items(), key=lambda pair: written(pair[0]) if type(pair[0]) in PLAIN else b""):
        yield from (key, value)


def written(value: Any) -> bytes:
    """A plain value as text."""
    return f"{type(value).__name__} {hex(value) if type(value) is int else repr(value)}\n".encode(errors="surrogatepass")
