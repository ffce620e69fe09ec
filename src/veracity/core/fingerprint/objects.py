"""What objects count by: their class and their state, if that means the same in every process."""

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
PROCESS_MODULES = frozenset(
    {"asyncio", "concurrent", "contextvars", "ctypes", "io", "logging", "multiprocessing", "queue", "random"}
    | {"select", "selectors", "signal", "socket", "ssl", "subprocess", "tempfile", "thread", "threading", "weakref"}
)
"""Standard modules whose objects belong to one process: handles, threads, loggers, random number generators."""
LOGGING_LIBRARIES = frozenset({"alive_progress", "loguru", "mlflow", "progressbar", "rich", "tensorboard", "tensorboardX", "tqdm", "wandb"})
"""Libraries whose objects report progress and change with it."""
ADDRESSES = frozenset("PzZO")
"""Codes of simple C types that hold an address."""
NESTED = (ctypes.Structure, ctypes.Array)
STATE_INDEX = 2
"""The position of an object's attributes in the tuple that `__reduce_ex__` returns."""


def object_parts(value: Any) -> Iterator[Any]:
    """Any other object: by its pickled state for a library class, by its attributes for a user class.

    An object that belongs to one process counts by the numbers in it, if any; a progress bar or a logger by the arrays, networks and
    user code in it.
    """
    kind = type(value)
    yield from ("object", kind)
    if of_process(value):
        yield from c_data_parts(value)
        return
    if callable(value):
        yield from (getattr(value, "__module__", None), getattr(value, "__name__", None), getattr(value, "__wrapped__", None))
    if any(str(base.__module__).removeprefix("torch.utils.").partition(".")[0] in LOGGING_LIBRARIES for base in kind.__mro__):
        yield from mapping_parts("attributes", {name: held for name, held in stored_attributes(value).items() if affects_outputs(held)})
    elif origin_of(kind) is None:
        yield from mapping_parts("attributes", all_attributes(value))
        plain = getattr(kind, "__getstate__", None) is getattr(object, "__getstate__", None)
        yield from (part for place, part in enumerate(pickled_parts(value)) if not (plain and place == STATE_INDEX))
    elif kind.__module__.startswith("xgboost.") and hasattr(value, "save_raw"):
        yield bytes(value.save_raw())
    else:
        entered = kind.__module__.startswith("torch.") and hasattr(kind, "__exit__")
        yield from (without_saved_state(part) if entered else part for part in pickled_parts(value))


def of_process(value: Any) -> bool:
    """Whether an object is only meaningful in the process that made it."""
    if isinstance(value, (RemovableHandle, torch.Generator, np.random.Generator, np.random.RandomState, np.random.BitGenerator)):
        return True
    if isinstance(value, (io.BytesIO, io.StringIO)):
        return False
    return any(str(base.__module__).partition(".")[0].lstrip("_") in PROCESS_MODULES for base in type(value).__mro__)


def c_data_parts(value: Any) -> Iterator[Any]:
    """The numbers in C data, in shared memory, and in a user's `threading.local`; never an address."""
    kind = type(value)
    if isinstance(value, threading.local) and kind is not threading.local:
        yield from mapping_parts("attributes", vars(value))
    elif hasattr(kind, "get_obj"):
        yield value.get_obj()
    elif isinstance(value, ctypes.Structure):
        yield {name: getattr(value, name) for name, made in fields_of(kind) if issubclass(made, NESTED) or holds_no_address(made)}
    elif isinstance(value, ctypes.Array) and issubclass(kind._type_, NESTED):
        yield list(value)
    elif isinstance(value, (ctypes.Array, ctypes.Union, ctypes._SimpleCData)) and holds_no_address(kind):
        yield bytes(value)


def fields_of(kind: Any) -> list[tuple[str, Any]]:
    """Names and types of the fields of a C structure or union."""
    return [(name, made) for base in reversed(kind.__mro__) for name, made, *_ in vars(base).get("_fields_", ())]


def holds_no_address(kind: Any) -> bool:
    """Whether a C type holds no address at any level."""
    if issubclass(kind, (ctypes.Structure, ctypes.Union)):
        return all(holds_no_address(made) for _, made in fields_of(kind))
    if issubclass(kind, ctypes.Array):
        return holds_no_address(kind._type_)
    return issubclass(kind, ctypes._SimpleCData) and kind._type_ not in ADDRESSES


def without_saved_state(state: Any) -> Any:
    """The state of a torch context manager without the values that it saves on entry."""
    return {name: held for name, held in state.items() if not str(name).startswith("prev")} if type(state) is dict else state


def affects_outputs(value: Any) -> bool:
    """Whether a value is an array, a network, or a user's object or function."""
    if isinstance(value, types.FunctionType):
        return origin(str(value.__globals__.get("__name__"))) is None
    return isinstance(value, (Tensor, np.ndarray, nn.Module)) or (type(value) not in PLAIN and origin_of(type(value)) is None)


def all_attributes(value: Any) -> dict[str, Any]:
    """An object's attributes by name, including slots."""
    slots = [name for base in type(value).__mro__ for name in slots_of(base) if hasattr(value, name)]
    return {name: getattr(value, name) for name in slots} | stored_attributes(value)


def stored_attributes(value: Any) -> dict[str, Any]:
    """The attributes in an object's `__dict__` without cached properties."""
    kind, held = type(value), getattr(value, "__dict__", {})
    return {name: item for name, item in held.items() if not isinstance(getattr(kind, name, None), cached_property)}


def slots_of(kind: type) -> tuple[str, ...]:
    """The names of a class's own slots."""
    names = vars(kind).get("__slots__", ())
    given = (names,) if isinstance(names, str) else tuple(names)
    private = f"_{kind.__name__.lstrip('_')}"
    return tuple(private + name if name.startswith("__") else name for name in given if not name.endswith("__"))


def pickled_parts(value: Any) -> Iterator[Any]:
    """What `__reduce_ex__` returns; for an object that cannot be pickled, its attributes or its repr."""
    try:
        made = value.__reduce_ex__(2)
    except Exception:
        state = all_attributes(value)
        shown = repr(value) if not state else ""
        made = (None, shown if " at 0x" not in shown else "", state)
    if isinstance(made, str):
        yield made
        return
    yield from (tuple(part) if isinstance(part, Iterator) else part for part in made)


def mapping_parts(kind: str, values: Mapping[Any, Any]) -> Iterator[Any]:
    """The items of a mapping, sorted by key if keys are plain values."""
    yield kind
    for key, value in sorted(values.items(), key=lambda pair: plain_bytes(pair[0]) if type(pair[0]) in PLAIN else b""):
        yield from (key, value)


def plain_bytes(value: Any) -> bytes:
    """A plain value with its type, as bytes."""
    return f"{type(value).__name__} {hex(value) if type(value) is int else repr(value)}\n".encode(errors="surrogatepass")
