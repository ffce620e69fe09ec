"""What a TorchScript network counts by: the code of its methods, and the weights and attributes that it saves."""

from __future__ import annotations

import io
import pickle
import re
import zipfile
from collections.abc import Iterator
from typing import Any

import torch

KEY_MODULE = "veracity.core.fingerprint"
"""The module that stands for TorchScript's classes in keys. Changing it changes the key of every scripted model."""


def script_parts(owner: Any) -> Iterator[Any]:
    """The code of all methods of a TorchScript network and of its parts."""
    waiting = [("", owner)]
    for place, one in waiting:
        waiting += [(f"{place}.{name}", inner) for name, inner in torch._C.ModuleDict(one).items()]
        for name in sorted(one._method_names()):
            yield from (place, name, *graph_parts(one._get_method(name).inlined_graph))


def graph_parts(graph: Any) -> Iterator[Any]:
    """A graph's code with everything that it calls, its constants, and the Python functions that it calls.

    The numbers that TorchScript appends to class names and the shapes of traced inputs do not count.
    """
    text = re.sub(r"\.?___torch_mangle_\d+|\(0x[0-9a-f]+\)", "", graph.str(False))
    yield re.sub(r"\b[A-Z]\w*\([^()]*\bdevice=[^()]*\)", "Tensor", text)
    yield from (node.pyobj() for node in graph.findAllNodes("prim::PythonOp"))
    for node in graph.findAllNodes("prim::Constant"):
        kind = node.kindOf("value") if "value" in node.attributeNames() else ""
        yield getattr(node, kind)("value") if hasattr(node, kind) else None


def script_state(owner: Any) -> Any:
    """The weights and attributes that a TorchScript network saves; if it cannot be saved, those that its code names."""
    try:
        return ScriptUnpickler(owner.save_to_buffer()).load()
    except RuntimeError:
        graphs = [owner._get_method(name).inlined_graph for name in owner._method_names()]
        names = {node.s("name") for graph in graphs for node in graph.findAllNodes("prim::GetAttr")}
        held = {name: owner.getattr(name) for name in names - {"training"} if owner.hasattr(name)}
        inner = {name: script_state(part) for name, part in torch._C.ModuleDict(owner).items()}
        tables: list[Any] = [torch._C.ParameterDict(owner), torch._C.BufferDict(owner)]
        return ([dict(table.items()) for table in tables], {name: part for name, part in held.items() if name not in inner}, inner)


class ScriptUnpickler(pickle.Unpickler):
    """Reads the content of a saved TorchScript network without TorchScript's classes."""

    def __init__(self, saved: bytes) -> None:
        self.files = zipfile.ZipFile(io.BytesIO(saved))
        self.top = self.files.namelist()[0].partition("/")[0]
        super().__init__(io.BytesIO(self.files.read(f"{self.top}/data.pkl")))

    def find_class(self, module: str, name: str) -> Any:
        """Torch's functions that build tensors, and a stand-in for every TorchScript class."""
        if module == "torch._utils" and name.startswith("_rebuild"):
            return getattr(torch._utils, name)
        if (module, name) == ("collections", "OrderedDict"):
            return dict
        if module == "torch" and name.endswith("Storage"):
            return name
        if module == "torch.jit._pickle":
            return lambda *values: list(values)
        return type("Scripted", (Scripted,), {"kind": re.sub(r"\.?___torch_mangle_\d+", "", f"{module}.{name}"), "__module__": KEY_MODULE})

    def persistent_load(self, saved: Any) -> Any:
        """The storage of a tensor."""
        _, kind, key, *_ = saved
        data = self.files.read(f"{self.top}/data/{key}")
        held = torch.frombuffer(bytearray(data), dtype=torch.uint8).untyped_storage() if data else torch.UntypedStorage(0)
        named = getattr(torch, kind, None)
        dtype = named._dtype if named is not None else getattr(torch, kind.removesuffix("Storage").lower())
        return torch.storage.TypedStorage(wrap_storage=held, dtype=dtype, _internal=True)


class Scripted:
    """Stand-in for an object of a TorchScript class."""

    kind = ""

    def __init__(self, *given: Any) -> None:
        self.about = (type(self).kind, *given)

    def __setstate__(self, state: Any) -> None:
        self.about = (type(self).kind,)
        self.state = {name: held for name, held in state.items() if name != "training"} if isinstance(state, dict) else state
