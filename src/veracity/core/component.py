"""A component is a frozen record with a name; it can be written down as {name, settings} and built again."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, ClassVar

import numpy as np
import torch

from veracity.core import fingerprint
from veracity.core.fingerprint.origin import ours
from veracity.core.registry import component
from veracity.core.settings import Checking


@dataclass(frozen=True, kw_only=True)
class Component(metaclass=Checking):
    """What every space, walk, explainer, target and score is: a name and settings, nothing else.

    Settings are checked by their declared types before the component is made (`core.settings`). `role` says what it is,
    such as "explainer".
    """

    role: ClassVar[str] = ""
    name: ClassVar[str] = ""
    reference: ClassVar[str] = ""

    def spec(self) -> dict[str, Any]:
        """The component as plain data: its name and every setting; for a class from outside, a hash of its code too."""
        settings = {item.name: encode(getattr(self, item.name)) for item in fields(self) if item.metadata.get("spec", True)}
        own = {} if ours(type(self)) else {"code": fingerprint.of_value(type(self))}
        return {"name": self.name, **settings, **own}

    @classmethod
    def named(cls, spec: str | Mapping[str, Any]) -> Any:
        """The registered component of this name, or of {name, settings}."""
        return component(cls.role, spec)

    @classmethod
    def summary(cls) -> str:
        """The first sentence of the docstring, for listings."""
        return (inspect.getdoc(cls) or "").split("\n\n")[0].replace("\n", " ")


def encode(value: Any) -> Any:
    """A setting as plain data. Tensors and functions become their content hash, so that a changed one is seen."""
    if isinstance(value, torch.Tensor):
        return {"tensor": fingerprint.of_tensor(value), "shape": list(value.shape)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if hasattr(value, "spec") and not isinstance(value, type):
        return value.spec()
    if callable(value):
        return encode_callable(value)
    return value


def encode_callable(function: Callable[..., Any]) -> dict[str, str]:
    """Where a function or class lives and a hash of what it does, so that editing it changes what depends on it."""
    target: Any = getattr(function, "func", function)
    if not (inspect.isroutine(target) or inspect.isclass(target)):
        target = type(target)
    where = f"{target.__module__}:{target.__qualname__}"
    return {"import": where, "code": fingerprint.of_value(function)}
