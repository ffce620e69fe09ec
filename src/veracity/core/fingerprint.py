"""Content hashes: what a result depends on, in a few letters.

A value counts by what it holds, never by where it lies or when it was made, so that its hash is the same in every process. Code of
the user's own counts by what it does, and is followed into everything that it names (`core/code_parts.py`); code of an installed
distribution counts by name and version, Python's own by name (`core/origin.py`). What belongs to one process (loggers, locks,
threads, open files) counts for nothing (`core/object_parts.py`).
"""

from __future__ import annotations

import hashlib
import json
import re
import types
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from veracity.core.code_parts import Import, cell_parts, class_parts, code_parts, function_parts, import_parts, module_parts
from veracity.core.object_parts import PLAIN, kept, object_parts, pairs, written

MODULE_NAMES = frozenset({name for name in dir(nn.Module()) if name.startswith("_")} | {"training"})
"""What every network keeps for itself: its mode, and its tables of weights, parts and hooks."""
TABLES = ("_parameters", "_buffers", "_modules")
HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
SPARSE = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)


def of_json(value: Any) -> str:
    """A short hash of anything that JSON can write, independent of key order.

    >>> of_json({"a": 1, "b": 2}) == of_json({"b": 2, "a": 1})
    True
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def of_tensor(tensor: Tensor) -> str:
    """A short hash of a dense tensor's type, shape and bytes, wherever it lives."""
    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    digest = hashlib.sha256(f"{plain.dtype}{tuple(plain.shape)}".encode())
    if plain.numel():
        digest.update(plain.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()[:24]


def of_model(model: nn.Module) -> str:
    """A short hash of a model: its weights and buffers, attributes, hooks, layers, and the code of the classes among them."""
    return of_value(model)


def of_value(value: Any) -> str:
    """A short hash of anything, functions and classes too, with all that it holds."""
    return Walk().digest(value).hex()[:24]


class Walk:
    """One walk through all that a value holds; what is held twice is looked at once."""

    def __init__(self) -> None:
        self.done: dict[int, tuple[bytes, Any]] = {}
        """The hash of each part by identity, and the part itself, which keeps the identity taken."""
        self.open: dict[int, int] = {}
        """The parts that hold the one in hand, by identity, and how far from the top they lie."""
        self.stored: dict[tuple[Any, ...], str] = {}

    def digest(self, value: Any) -> bytes:
        """The hash of a value from those of its parts; without recursion, since values may be nested deeper than Python's stack."""
        waiting: list[tuple[Any, Any, Iterator[Any]]] = [(None, hashlib.sha256(), iter([value]))]
        while True:
            held, found, rest = waiting[-1]
            for part in rest:
                if type(part) in PLAIN:
                    found.update(written(part))
                elif id(part) in self.done:
                    found.update(self.done[id(part)][0])
                elif id(part) in self.open:
                    found.update(f"{len(self.open) - self.open[id(part)]} above\n".encode())
                elif isinstance(part, (bytes, bytearray, memoryview)):
                    found.update(hashlib.sha256(part).digest())
                else:
                    self.open[id(part)] = len(self.open)
                    waiting.append((part, hashlib.sha256(), iter(self.parts(part))))
                    break
            else:
                waiting.pop()
                if not waiting:
                    return bytes(found.digest())
                del self.open[id(held)]
                self.done[id(held)] = (found.digest(), held)
                waiting[-1][1].update(found.digest())

    def parts(self, value: Any) -> Iterable[Any]:
        """What a value counts by: what kind of thing it is, and the values that it is made of."""
        match value:
            case Tensor():
                return self.tensor_parts(value)
            case np.ndarray():
                return array_parts(value)
            case nn.Module():
                return network_parts(value)
            case types.FunctionType():
                return function_parts(value)
            case types.CodeType():
                return code_parts(value)
            case types.CellType():
                return cell_parts(value)
            case types.MethodType():
                return ("method", value.__func__, value.__self__)
            case staticmethod() | classmethod():
                return (type(value).__name__, value.__func__)
            case property():
                return ("property", value.fget, value.fset, value.fdel)
            case type():
                return class_parts(value)
            case types.ModuleType():
                return module_parts(value)
            case Import():
                return import_parts(value.name)
        if type(value) in (list, tuple):
            return (type(value).__name__, *value)
        if isinstance(value, (set, frozenset)):
            return ("set", type(value), kept(value), *sorted(self.digest(item).hex() for item in value))
        if type(value) in (dict, types.MappingProxyType):
            return pairs("dict", value)
        return object_parts(value)

    def tensor_parts(self, value: Tensor) -> Iterable[Any]:
        """A tensor by its numbers; weights that share their memory are read once."""
        if value.is_quantized:
            return ("quantised", value.int_repr(), value.dequantize(), str(value.qscheme()))
        if value.is_meta:
            return ("tensor", str(value.dtype), str(tuple(value.shape)))
        if hasattr(value, "__tensor_flatten__"):
            names, about = value.__tensor_flatten__()
            return (type(value), about, *(getattr(value, name) for name in names))
        if value.layout is not torch.strided:
            sparse = value.detach().to_sparse_coo().coalesce() if value.layout in SPARSE else None
            return ("sparse", tuple(value.shape), *((sparse.indices(), sparse.values()) if sparse is not None else (value.to_dense(),)))
        place = (value.device, value.data_ptr(), value.dtype, value.shape, value.stride(), value.is_conj(), value.is_neg())
        if place not in self.stored:
            self.stored[place] = of_tensor(value)
        return ("tensor", self.stored[place])


def array_parts(value: np.ndarray[Any, Any]) -> Iterator[Any]:
    """An array by its numbers: of records field by field, since the bytes between fields are arbitrary; of objects by these."""
    yield from ("array", str(value.dtype), value.shape)
    if value.dtype.names:
        yield from (np.ascontiguousarray(value[name]) for name in value.dtype.names)
    elif value.dtype.hasobject:
        yield value.ravel().tolist()
    else:
        yield np.ascontiguousarray(value).reshape(-1).view(np.uint8).data if value.size else None


def network_parts(value: nn.Module) -> Iterator[Any]:
    """A network by its class, its attributes, weights, buffers, parts and hooks. Its mode does not count; nor does what the compiler
    keeps.
    """
    kind = type(value)
    yield from ("network", kind)
    if isinstance(value, torch.jit.ScriptModule):
        yield scripted(value)
    elif kind.__qualname__ != "OptimizedModule" or not kind.__module__.startswith("torch."):
        yield from pairs("attributes", {name: held for name, held in kept(value).items() if name not in MODULE_NAMES})
    for table in TABLES:
        for name, part in getattr(value, table).items():
            yield from (name, part)
    for table in HOOKS:
        yield from (table, *getattr(value, table, {}).values())


def scripted(value: torch.jit.ScriptModule) -> str:
    """The code of a scripted or traced network and its plain attributes, without numbers that TorchScript gives to classes."""
    listed = str(value._c.dump_to_str(False, True, False)).splitlines()
    settings = [line.strip() for line in listed if " at 0x" not in line and "training = " not in line]
    return re.sub(r"___torch_mangle_\d+", "", "\n".join([str(getattr(value, "code", "")), *settings]))
