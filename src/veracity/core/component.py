"""Components: frozen records with a name and settings, which can be written as {name, settings} and built again."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, ClassVar

import numpy as np
import torch

from veracity.core import fingerprint
from veracity.core.fingerprint.origin import in_this_package
from veracity.core.registry import build_component
from veracity.core.settings import Checking


@dataclass(frozen=True, kw_only=True)
class Component(metaclass=Checking):
    """Base class of every space, walk, explainer, target and score: a name and settings, nothing else.

    Settings are checked by their declared types before the component is made (`core.settings`). `role` is its kind, such as
    "explainer".
    """

    role: ClassVar[str] = ""
    name: ClassVar[str] = ""
    reference: ClassVar[str] = ""

    def spec(self) -> dict[str, Any]:
        """The component as plain data: its name and settings; for a class outside this package, a hash of its code too.

        A field with the metadata {"unset": True} is left out while it is None: only some data sets set it. The metadata "words" says
        what to pass where the type does not.
        """
        given = {item.name: getattr(self, item.name) for item in fields(self) if item.metadata.get("spec", True)}
        unset = {item.name for item in fields(self) if item.metadata.get("unset") and given.get(item.name) is None}
        settings = {name: encode_setting(value) for name, value in given.items() if name not in unset}
        own = {} if in_this_package(type(self)) else {"code": fingerprint.of_value(type(self))}
        return {"name": self.name, **settings, **own}

    @classmethod
    def named(cls, spec: str | Mapping[str, Any]) -> Any:
        """The registered component of this name, or built from {name, settings}."""
        return build_component(cls.role, spec)

    @classmethod
    def summary(cls) -> str:
        """The first sentence of the docstring, for listings."""
        return (inspect.getdoc(cls) or "").split("\n\n")[0].replace("\n", " ")


def encode_setting(value: Any) -> Any:
    """A setting as plain data; tensors and functions become content hashes."""
    if isinstance(value, torch.Tensor):
        return {"tensor": fingerprint.of_tensor(value), "shape": list(value.shape)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        return [encode_setting(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): encode_setting(item) for key, item in value.items()}
    if isinstance(value, Checking) and issubclass(value, Component):
        value = value()
    if hasattr(value, "spec") and not isinstance(value, type):
        return value.spec()
    if callable(value):
        return encode_callable(value)
    return value


def encode_callable(function: Callable[..., Any]) -> dict[str, str]:
    """The import path of a function or class and a hash of its code, so that editing it changes the keys that depend on it."""
    target: Any = getattr(function, "func", function)
    if not (inspect.isroutine(target) or inspect.isclass(target)):
        target = type(target)
    where = f"{target.__module__}:{target.__qualname__}"
    known = HASHED.get()
    if known is None:
        return {"import": where, "code": fingerprint.of_value(function)}
    if id(function) not in known:
        known[id(function)] = (fingerprint.of_value(function), function)
    return {"import": where, "code": known[id(function)][0]}


HASHED: ContextVar[dict[int, tuple[str, Any]] | None] = ContextVar("HASHED", default=None)
"""Hashes of functions by their ids, and the functions, so that an id is not reused; None outside of `hashing_once`."""


@contextmanager
def hashing_once() -> Iterator[None]:
    """Hash every function once within this block, in which no code may change: a function that uses a large library takes seconds."""
    if HASHED.get() is not None:
        yield
        return
    token = HASHED.set({})
    try:
        yield
    finally:
        HASHED.reset(token)
