"""Content hashes: what a result depends on, in a few letters.

A value counts by what it holds, never by where it lies or when it was made, so that its hash is the same in every process. Code of
the user's own counts by what it does, and is followed into everything that it names (`core/fingerprint/code.py`); code of an installed
distribution counts by name and version, Python's own by name (`core/fingerprint/origin.py`). What belongs to one process (loggers, locks,
threads, open files) counts for nothing (`core/fingerprint/objects.py`).
"""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import re
import types
import zipfile
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn
from torch._subclasses.fake_tensor import FakeTensor

from veracity.core.fingerprint.code import Import, cell_parts, class_parts, code_parts, function_parts, import_parts, module_parts
from veracity.core.fingerprint.objects import PLAIN, kept, object_parts, pairs, written

MODULE_NAMES = frozenset({*vars(nn.Module()), "_compiled_call_impl"})
"""What every network keeps for itself: its mode, its tables of weights, parts and hooks, and what the compiler made of it."""
SCRIPT_NAMES = frozenset({"_c", "_concrete_type", "_initializing", "_actual_script_module"})
"""What a scripted network keeps beside these."""
TABLES = ("_parameters", "_buffers", "_modules")
HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
PLAIN_TENSORS = (Tensor, nn.Parameter)
NO_NUMBERS = (FakeTensor, nn.UninitializedParameter, nn.UninitializedBuffer)
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
        self.listed: set[int] = set()
        """The networks inside others, by identity, whose shared weights are listed there."""

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
            return ("set", type(value), kept(value), *sorted(self.digest(item).hex() for item in value))
        if type(value) in (dict, types.MappingProxyType):
            return pairs("dict", value)
        return object_parts(value)

    def tensor_parts(self, value: Tensor) -> Iterable[Any]:
        """A tensor by its numbers, and by its class and attributes if it has more than others."""
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
        """A tensor by its numbers; weights that share their memory are read once."""
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
        place = (value.device, pointer, value.dtype, value.shape, value.stride(), value.is_conj(), value.is_neg())
        if place not in self.stored:
            self.stored[place] = of_tensor(value)
        return ("tensor", self.stored[place])

    def network_parts(self, value: nn.Module) -> Iterator[Any]:
        """A network by its class, its attributes, weights, buffers, parts and hooks. Its mode does not count; nor does what the compiler
        keeps.
        """
        kind = type(value)
        yield from ("network", kind)
        if id(value) not in self.listed:
            yield from pairs("shared", self.shared(value))
        names, script = hidden(value), isinstance(value, torch.jit.ScriptModule)
        yield from pairs("attributes", {name: held for name, held in kept(value).items() if name not in names})
        if script:
            yield from (script_state(value._c), *script_parts(value._c))
        for table in TABLES if not script else ():
            yield from (table, *(part for pair in getattr(value, table).items() for part in pair))
        for table in HOOKS:
            with_names = getattr(value, f"{table}_with_kwargs", ())
            yield from (table, *((hook, key in with_names) for key, hook in getattr(value, table, {}).items()))

    def shared(self, value: nn.Module) -> dict[str, str]:
        """The names of weights and parts that a network holds a second time, and the names under which it holds them first."""
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


def hidden(value: nn.Module) -> frozenset[str]:
    """The attributes of a network that do not count: its tables, what the compiler keeps, notes on a graph."""
    kind = type(value)
    if kind.__qualname__ == "OptimizedModule" and kind.__module__.startswith("torch."):
        return frozenset(vars(value))
    if isinstance(value, torch.jit.ScriptModule):
        return MODULE_NAMES | SCRIPT_NAMES | {name for name, held in vars(value).items() if isinstance(held, torch._C.ScriptMethod)}
    return MODULE_NAMES | {"meta"} if isinstance(value, fx.GraphModule) else MODULE_NAMES


def pointer_of(value: Tensor) -> int:
    """Where a tensor's numbers lie; 0 if it has none of its own."""
    try:
        return value.data_ptr()
    except RuntimeError:
        return 0


def array_parts(value: np.ndarray[Any, Any]) -> Iterator[Any]:
    """An array by its numbers: of records field by field, since the bytes between fields are arbitrary; of objects by these. One of
    another class counts by this and its attributes too.
    """
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


def script_parts(owner: Any) -> Iterator[Any]:
    """The code of a TorchScript network: all methods, and those of its parts."""
    waiting = [("", owner)]
    for place, one in waiting:
        waiting += [(f"{place}.{name}", inner) for name, inner in torch._C.ModuleDict(one).items()]
        for name in sorted(one._method_names()):
            yield from (place, name, *graph_parts(one._get_method(name).inlined_graph))


def graph_parts(graph: Any) -> Iterator[Any]:
    """TorchScript's code, with the functions and methods that it calls, its constants, and the Python functions that it calls. Neither the
    numbers that TorchScript gives to classes count, nor the shapes of the inputs that were traced.
    """
    text = re.sub(r"\.?___torch_mangle_\d+|\(0x[0-9a-f]+\)", "", graph.str(False))
    yield re.sub(r"\b[A-Z]\w*\([^()]*\bdevice=[^()]*\)", "Tensor", text)
    yield from (node.pyobj() for node in graph.findAllNodes("prim::PythonOp"))
    for node in graph.findAllNodes("prim::Constant"):
        kind = node.kindOf("value") if "value" in node.attributeNames() else ""
        yield getattr(node, kind)("value") if hasattr(node, kind) else None


def script_state(owner: Any) -> Any:
    """The weights and attributes of a TorchScript network, as it saves them; those that its code names if it cannot be saved."""
    try:
        return Reader(owner.save_to_buffer()).load()
    except RuntimeError:
        graphs = [owner._get_method(name).inlined_graph for name in owner._method_names()]
        names = {node.s("name") for graph in graphs for node in graph.findAllNodes("prim::GetAttr")}
        held = {name: owner.getattr(name) for name in names - {"training"} if owner.hasattr(name)}
        inner = {name: script_state(part) for name, part in torch._C.ModuleDict(owner).items()}
        tables: list[Any] = [torch._C.ParameterDict(owner), torch._C.BufferDict(owner)]
        return ([dict(table.items()) for table in tables], {name: part for name, part in held.items() if name not in inner}, inner)


class Reader(pickle.Unpickler):
    """Reads what a TorchScript network holds from what it saves."""

    def __init__(self, saved: bytes) -> None:
        self.files = zipfile.ZipFile(io.BytesIO(saved))
        self.top = self.files.namelist()[0].partition("/")[0]
        super().__init__(io.BytesIO(self.files.read(f"{self.top}/data.pkl")))

    def find_class(self, module: str, name: str) -> Any:
        """A stand-in for each of TorchScript's classes; torch's functions that build tensors."""
        if module == "torch._utils" and name.startswith("_rebuild"):
            return getattr(torch._utils, name)
        if (module, name) == ("collections", "OrderedDict"):
            return dict
        if module == "torch" and name.endswith("Storage"):
            return name
        if module == "torch.jit._pickle":
            return lambda *values: list(values)
        return type("Scripted", (Scripted,), {"kind": re.sub(r"\.?___torch_mangle_\d+", "", f"{module}.{name}")})

    def persistent_load(self, saved: Any) -> Any:
        """The numbers of a tensor."""
        _, kind, key, *_ = saved
        data = self.files.read(f"{self.top}/data/{key}")
        held = torch.frombuffer(bytearray(data), dtype=torch.uint8).untyped_storage() if data else torch.UntypedStorage(0)
        named = getattr(torch, kind, None)
        dtype = named._dtype if named is not None else getattr(torch, kind.removesuffix("Storage").lower())
        return torch.storage.TypedStorage(wrap_storage=held, dtype=dtype, _internal=True)


class Scripted:
    """An object of one of TorchScript's classes."""

    kind = ""

    def __init__(self, *given: Any) -> None:
        self.about = (type(self).kind, *given)

    def __setstate__(self, state: Any) -> None:
        self.about = (type(self).kind,)
        self.state = {name: held for name, held in state.items() if name != "training"} if isinstance(state, dict) else state
