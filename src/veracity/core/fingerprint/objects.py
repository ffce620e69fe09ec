"""What an object counts by: its class and its state, if that means the same in every process."""

from __future__ import annotations

import ctypes
import io
import threading
import types
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from veracity.core.fingerprint.origin import origin, origin_of

PLAIN = frozenset({str, int, float, complex, bool, type(None)})
PROCESS = frozenset(
    {"asyncio", "concurrent", "contextvars", "ctypes", "io", "logging", "multiprocessing", "queue", "random"}
    | {"select", "selectors", "signal", "socket", "ssl", "subprocess", "tempfile", "thread", "threading", "weakref"}
)
"""Modules of Python's own whose objects belong to one process: handles, threads, loggers, generators of random numbers."""
SHOWS = frozenset({"alive_progress", "loguru", "mlflow", "progressbar", "rich", "tensorboard", "tensorboardX", "tqdm", "wandb"})
"""Libraries whose objects show or log what goes on, and change with it."""
ADDRESSES = frozenset("PzZO")
"""The codes of simple C types that hold an address."""
NESTED = (ctypes.Structure, ctypes.Array)
STATE = 2
"""Where an object's attributes stand in what pickle writes of it."""


def object_parts(value: Any) -> Iterator[Any]:
    """Any other object: a library's by its serialised state, the user's own by its attributes; one that belongs to one process by the
    numbers in it, if any. A progress bar or a log counts by the arrays, networks and user's code in it.
    """
    kind = type(value)
    yield from ("object", kind)
    if of_process(value):
        yield from numbers(value)
        return
    if callable(value):
        yield from (getattr(value, "__module__", None), getattr(value, "__name__", None), getattr(value, "__wrapped__", None))
    if any(str(base.__module__).removeprefix("torch.utils.").partition(".")[0] in SHOWS for base in kind.__mro__):
        yield from pairs("attributes", {name: held for name, held in kept(value).items() if computes(held)})
    elif origin_of(kind) is None:
        yield from pairs("attributes", attributes(value))
        plain = getattr(kind, "__getstate__", None) is getattr(object, "__getstate__", None)
        yield from (part for place, part in enumerate(serialised(value)) if not (plain and place == STATE))
    elif kind.__module__.startswith("xgboost.") and hasattr(value, "save_raw"):
        yield bytes(value.save_raw())
    else:
        entered = kind.__module__.startswith("torch.") and hasattr(kind, "__exit__")
        yield from (lasting(part) if entered else part for part in serialised(value))


def of_process(value: Any) -> bool:
    """Whether an object belongs to one process and means nothing in another."""
    if isinstance(value, (RemovableHandle, torch.Generator, np.random.Generator, np.random.RandomState, np.random.BitGenerator)):
        return True
    if isinstance(value, (io.BytesIO, io.StringIO)):
        return False
    return any(str(base.__module__).partition(".")[0].lstrip("_") in PROCESS for base in type(value).__mro__)


def numbers(value: Any) -> Iterator[Any]:
    """The numbers in C data, in memory that processes share, and in the user's own `threading.local`; never an address."""
    kind = type(value)
    if isinstance(value, threading.local) and kind is not threading.local:
        yield from pairs("attributes", vars(value))
    elif hasattr(kind, "get_obj"):
        yield value.get_obj()
    elif isinstance(value, ctypes.Structure):
        yield {name: getattr(value, name) for name, made in fields_of(kind) if issubclass(made, NESTED) or flat(made)}
    elif isinstance(value, ctypes.Array) and issubclass(kind._type_, NESTED):
        yield list(value)
    elif isinstance(value, (ctypes.Array, ctypes.Union, ctypes._SimpleCData)) and flat(kind):
        yield bytes(value)


def fields_of(kind: Any) -> list[tuple[str, Any]]:
    """The names and types of a C structure's or union's fields."""
    return [(name, made) for base in reversed(kind.__mro__) for name, made, *_ in vars(base).get("_fields_", ())]


def flat(kind: Any) -> bool:
    """Whether there is no address anywhere in a C type."""
    if issubclass(kind, (ctypes.Structure, ctypes.Union)):
        return all(flat(made) for _, made in fields_of(kind))
    if issubclass(kind, ctypes.Array):
        return flat(kind._type_)
    return issubclass(kind, ctypes._SimpleCData) and kind._type_ not in ADDRESSES


def lasting(state: Any) -> Any:
    """The state of one of torch's context managers without what it saves when it is entered."""
    return {name: held for name, held in state.items() if not str(name).startswith("prev")} if type(state) is dict else state


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
