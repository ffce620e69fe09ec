"""Content hashes of models, data, functions and settings: the keys of results.

A value counts by its content, never by its address or age, so its hash is the same in every process. User code counts by what it
does, including everything that it names (`code.py`). Code of an installed distribution counts by name and version, and Python's own
code by name (`origin.py`). Objects that belong to one process, such as loggers, locks, threads and open files, do not count
(`objects.py`). TorchScript has rules of its own (`script.py`).
"""

from __future__ import annotations

import hashlib
import json
import os
import types
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn
from torch._subclasses.fake_tensor import FakeTensor

from veracity.core.digest import of_json as of_json
from veracity.core.fingerprint.code import Import, cell_parts, class_parts, code_parts, function_parts, import_parts, module_parts
from veracity.core.fingerprint.objects import PLAIN, mapping_parts, object_parts, plain_bytes, stored_attributes
from veracity.core.fingerprint.script import graph_parts, script_parts, script_state
from veracity.core.transfer import fetch

MODULE_NAMES = frozenset({*vars(nn.Module()), "_compiled_call_impl"})
"""Internal attributes of every network: its mode, its tables of weights, parts and hooks, and its compiled form."""
SCRIPT_NAMES = frozenset({"_c", "_concrete_type", "_initializing", "_actual_script_module"})
"""Further internal attributes of a scripted network."""
TABLES = ("_parameters", "_buffers", "_modules")
HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
PLAIN_TENSORS = (Tensor, nn.Parameter)
NO_NUMBERS = (FakeTensor, nn.UninitializedParameter, nn.UninitializedBuffer)
SPARSE = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)


def of_tensor(tensor: Tensor) -> str:
    """A short hash of a dense tensor's type, shape and bytes, independent of its device."""
    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    return of_bytes(plain, plain.flatten().view(torch.uint8) if plain.numel() else torch.empty(0, dtype=torch.uint8))


def of_bytes(kind: Tensor, content: Tensor) -> str:
    """A short hash of the type and shape of one tensor, and of its bytes (n,)."""
    digest, held = hashlib.sha256(f"{kind.dtype}{tuple(kind.shape)}".encode()), content.numpy().data
    if len(held):
        digest.update(held if len(held) <= PIECE else hash_of_pieces(held))
    return digest.hexdigest()[:24]


PIECE = 1 << 23
"""Large tensors are hashed in pieces of this many bytes, by several threads."""


def hash_of_pieces(content: memoryview) -> bytes:
    """The hashes of all pieces, one after the other."""
    pieces = [content[start : start + PIECE] for start in range(0, len(content), PIECE)]
    with ThreadPoolExecutor(min(os.cpu_count() or 1, len(pieces))) as pool:
        return b"".join(pool.map(lambda piece: hashlib.sha256(piece).digest(), pieces))


def of_model(model: nn.Module) -> str:
    """A short hash of a model: its weights, buffers, attributes, hooks and layers, and the code of their classes."""
    hasher = Hasher()
    hasher.read_ahead([*model.parameters(), *model.buffers()])
    return hasher.digest(model).hex()[:24]


def of_value(value: Any) -> str:
    """A short hash of any value with its content, including functions and classes."""
    return Hasher().digest(value).hex()[:24]


class Hasher:
    """Hashes a value and its parts; a part that occurs twice is hashed once."""

    def __init__(self) -> None:
        self.done: dict[int, tuple[bytes, Any]] = {}
        """The hash of each part by its id, and the part itself, so that its id is not reused."""
        self.open: dict[int, int] = {}
        """The depth of the parts that contain the current one, by id."""
        self.stored: dict[tuple[Any, ...], str] = {}
        self.listed: set[int] = set()
        """The ids of networks inside others, whose shared weights are listed there."""

    def read_ahead(self, tensors: Iterable[Tensor]) -> None:
        """Hash plain tensors of a GPU before they are asked for: many come to the CPU at once, and threads hash them."""
        plain = [one.detach() for one in tensors if one.is_cuda and type(one) in PLAIN_TENSORS and plainly_stored(one)]
        hashed: Iterable[tuple[tuple[Any, ...], str]] = ()
        with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
            for group in groups_of_bytes(plain, GROUP):
                joined = torch.cat([one.reshape(-1).view(torch.uint8) for one in group])
                together = fetch(joined)() if joined.nbytes <= GROUP else joined.cpu()  # torch never returns pinned memory
                self.stored |= hashed  # those of the last group, which were hashed meanwhile
                parts = together.split([one.nbytes for one in group])
                hashed = zip(map(place_of, group), pool.map(of_bytes, group, parts), strict=True)
            self.stored |= hashed

    def digest(self, value: Any) -> bytes:
        """The hash of a value from those of its parts; not recursive, because values may be nested deeper than Python's stack."""
        waiting: list[tuple[Any, Any, Iterator[Any]]] = [(None, hashlib.sha256(), iter([value]))]
        while True:
            held, found, rest = waiting[-1]
            for part in rest:
                if type(part) in PLAIN:
                    found.update(plain_bytes(part))
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
        """The kind of a value, and the values that it consists of."""
        match value:
            case Tensor():
                return self.tensor_parts(value)
            case np.ndarray():
                return array_parts(value)
            case nn.Module():
                return self.network_parts(value)
            case fx.Graph():
                return ("graph", value._codegen, *((one.op, one.name, one.target, one.args, one.kwargs) for one in value.nodes))
            case fx.Node():
                return ("node", value.name)
            case torch.jit.ScriptFunction():
                return ("script", *graph_parts(value.inlined_graph))
            case torch._C.ScriptMethod():
                return ("script", value.name, script_state(value.owner), *script_parts(value.owner))
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
            return ("set", type(value), stored_attributes(value), *sorted(self.digest(item).hex() for item in value))
        if type(value) in (dict, types.MappingProxyType):
            return mapping_parts("dict", value)
        return object_parts(value)

    def tensor_parts(self, value: Tensor) -> Iterable[Any]:
        """A tensor's numbers; for a subclass or a tensor with attributes, its class and attributes too."""
        if isinstance(value, NO_NUMBERS) or hasattr(value, "__tensor_flatten__"):
            return self.number_parts(value)
        plain = type(value) in PLAIN_TENSORS
        skipped = ("_", "grad", "persistent") if plain else ("_dynamo", "grad")
        marks = {name: held for name, held in vars(value).items() if not name.startswith(skipped)}
        if plain and not marks:
            return self.number_parts(value)
        with torch._C.DisableTorchFunctionSubclass(), torch._C._DisableTorchDispatch():
            return (type(value), marks, *self.number_parts(value if plain else value.as_subclass(Tensor)))

    def number_parts(self, value: Tensor) -> Iterable[Any]:
        """A tensor's numbers; weights that share memory are read once."""
        if isinstance(value, NO_NUMBERS):
            return ("tensor", str(value.dtype), str(tuple(value.shape)) if isinstance(value, FakeTensor) else "")
        if value.is_nested and value.layout is torch.strided:
            return ("nested", *value.unbind())
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
        pointer = pointer_of(value)
        if not pointer and value.numel():
            return ("tensor", str(value.dtype), str(tuple(value.shape)))
        place = place_of(value)
        if place not in self.stored:
            self.stored[place] = of_tensor(value)
        return ("tensor", self.stored[place])

    def network_parts(self, value: nn.Module) -> Iterator[Any]:
        """A network's class, attributes, weights, buffers, parts and hooks. Its mode and its compiled form do not count."""
        kind = type(value)
        yield from ("network", kind)
        if id(value) not in self.listed:
            yield from mapping_parts("shared", self.shared(value))
        names, script = uncounted_attributes(value), isinstance(value, torch.jit.ScriptModule)
        yield from mapping_parts("attributes", {name: held for name, held in stored_attributes(value).items() if name not in names})
        if script:
            yield from (script_state(value._c), *script_parts(value._c))
        for table in TABLES if not script else ():
            yield from (table, *(part for pair in getattr(value, table).items() for part in pair))
        for table in HOOKS:
            with_names = getattr(value, f"{table}_with_kwargs", ())
            yield from (table, *((hook, key in with_names) for key, hook in getattr(value, table, {}).items()))

    def shared(self, value: nn.Module) -> dict[str, str]:
        """Second names of weights and parts that a network holds twice, mapped to their first names."""
        first: dict[int, str] = {}
        again: dict[str, str] = {}
        waiting: list[tuple[str, Any]] = [("", value)]
        while waiting:
            name, held = waiting.pop()
            if id(held) in first:
                again[name] = first[id(held)]
                continue
            first[id(held)] = name
            if isinstance(held, nn.Module):
                self.listed.add(id(held))
                inner = [pair for table in TABLES for pair in getattr(held, table).items()]
                waiting.extend((f"{name}.{key}", part) for key, part in reversed(inner) if part is not None)
        return again


def uncounted_attributes(value: nn.Module) -> frozenset[str]:
    """Names of a network's attributes that do not count: its tables, its compiled form, metadata of a graph."""
    kind = type(value)
    if kind.__qualname__ == "OptimizedModule" and kind.__module__.startswith("torch."):
        return frozenset(vars(value))
    if isinstance(value, torch.jit.ScriptModule):
        return MODULE_NAMES | SCRIPT_NAMES | {name for name, held in vars(value).items() if isinstance(held, torch._C.ScriptMethod)}
    return MODULE_NAMES | {"meta"} if isinstance(value, fx.GraphModule) else MODULE_NAMES


GROUP = 1 << 25
"""How many bytes of weights come from a GPU at once."""


def groups_of_bytes(tensors: Sequence[Tensor], most: int) -> Iterator[list[Tensor]]:
    """Consecutive tensors of one device that have at most so many bytes together, or one that has more."""
    group: list[Tensor] = []
    for one in tensors:
        if group and (one.device != group[0].device or sum(other.nbytes for other in group) + one.nbytes > most):
            yield group
            group = []
        group.append(one)
    if group:
        yield group


def plainly_stored(value: Tensor) -> bool:
    """Whether a tensor is a dense block of real numbers."""
    return value.layout is torch.strided and not (value.is_complex() or value.is_quantized) and value.is_contiguous() and value.numel() > 0


def place_of(value: Tensor) -> tuple[Any, ...]:
    """Where a tensor's numbers lie, and how they are read."""
    return value.device, pointer_of(value), value.dtype, value.shape, value.stride(), value.is_conj(), value.is_neg()


def pointer_of(value: Tensor) -> int:
    """The address of a tensor's numbers; 0 if it has no memory."""
    try:
        return value.data_ptr()
    except RuntimeError:
        return 0


def array_parts(value: np.ndarray[Any, Any]) -> Iterator[Any]:
    """An array's numbers; records field by field, since the bytes between fields are arbitrary. Subclasses count with their attributes."""
    if isinstance(value, np.ma.MaskedArray):
        yield from (type(value), np.ma.getmaskarray(value), value.view().fill_value, value.hardmask)
    elif type(value) not in (np.ndarray, np.memmap):
        yield from (type(value), vars(value) if hasattr(value, "__dict__") else None)
    value = np.asarray(value)
    yield from ("array", str(value.dtype), value.shape)
    if value.dtype.names:
        yield from (np.ascontiguousarray(value[name]) for name in value.dtype.names)
    elif value.dtype.hasobject:
        yield value.ravel().tolist()
    else:
        yield np.ascontiguousarray(value).reshape(-1).view(np.uint8).data if value.size else None
