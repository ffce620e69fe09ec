from __future__ import annotations

import copy
import ctypes
import functools
import importlib.util
import io
import linecache
import logging
import multiprocessing
import re
import sys
import threading
import types
from collections import deque
from functools import cached_property, lru_cache, partial
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from torch import Tensor, nn
from torch.masked import masked_tensor
from tqdm import tqdm
from xgboost import XGBClassifier

from veracity.core import fingerprint
from veracity.core.component import encode_callable
from veracity.core.measures import Direction, Measure
from veracity.explain import Saliency


class Rolled(nn.Module):
    def __init__(self, by: int, buffer: float = 0.0) -> None:
        super().__init__()
        self.by = by
        self.register_buffer("hidden", torch.tensor(buffer), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return x.roll(self.by, -1) + self.hidden


class Scaled:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, model: Any, inputs: Tensor, targets: Tensor) -> Tensor:
        return inputs * self.factor

    def method(self, model: Any, inputs: Tensor, targets: Tensor) -> Tensor:
        return inputs * self.factor


FACTOR = 2.0


def named_global(model: Any, inputs: Tensor, targets: Tensor) -> Tensor:
    return inputs * FACTOR


class Mine(Saliency):
    pass


def test_a_model_counts_with_its_attributes_its_hidden_buffers_and_its_code() -> None:
    base = fingerprint.of_model(Rolled(0))
    assert fingerprint.of_model(Rolled(0)) == base
    assert fingerprint.of_model(Rolled(1)) != base
    assert fingerprint.of_model(Rolled(0, buffer=1.0)) != base
    assert fingerprint.of_model(nn.Sequential(Rolled(1))) != fingerprint.of_model(nn.Sequential(Rolled(2)))

    class Rolled2(Rolled):
        def forward(self, x: Tensor) -> Tensor:
            return x

    assert fingerprint.of_model(Rolled2(0)) != base


def test_values_without_attributes_count_by_what_they_show() -> None:
    for one, another in ((torch.float32, torch.float64), (b"a", b"b"), (1j, 2j), (slice(1), slice(2))):
        assert fingerprint.of_value(one) == fingerprint.of_value(one)
        assert fingerprint.of_value(one) != fingerprint.of_value(another)


def test_a_module_that_holds_itself_has_an_end() -> None:
    model = Rolled(0)
    model.friends = [model]
    assert fingerprint.of_model(model) == fingerprint.of_model(model)


def test_callables_count_with_all_that_they_hold() -> None:
    two, three = Scaled(2.0), Scaled(3.0)
    ramp, other = np.arange(3.0), np.arange(1.0, 4.0)

    def held(array: np.ndarray) -> Any:
        return lambda model, inputs, targets: inputs * torch.as_tensor(array)

    def through(function: Any) -> Any:
        return lambda model, inputs, targets: function(inputs)

    pairs = [
        (two, three),
        (two.method, three.method),
        (held(ramp), held(other)),
        (through(torch.abs), through(torch.sin)),
        (through(lambda x: x + 1), through(lambda x: x + 2)),
        (partial(max, 1), partial(max, 2)),
        (lambda model, inputs, targets: inputs, lambda model, inputs, targets: -inputs),
    ]
    for one, another in pairs:
        assert encode_callable(one) == encode_callable(one)
        assert encode_callable(one)["code"] != encode_callable(another)["code"]
    assert encode_callable(held(ramp)) == encode_callable(held(ramp.copy()))


def test_a_global_that_a_function_names_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = encode_callable(named_global)
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    assert encode_callable(named_global)["code"] != before["code"]


def test_components_from_outside_count_with_their_code() -> None:
    assert "code" not in Saliency().spec()
    assert "code" in Mine().spec()
    one = Measure(name="gap", function=lambda a, b: a - b, direction=Direction.LOWER, range=(0.0, 1.0))
    two = Measure(name="gap", function=lambda a, b: b - a, direction=Direction.LOWER, range=(0.0, 1.0))
    assert one.spec()["code"] != two.spec()["code"]


RATE = 0.1


def step(x: float) -> float:
    return x - RATE


def looped(x: float) -> float:
    return step(step(x))


def outer(x: float) -> float:
    def inner(y: float) -> float:
        return looped(y)

    return inner(x)


class Calls:
    def __call__(self, x: float) -> float:
        return outer(x)


@pytest.mark.parametrize("what", [looped, outer, Calls()])
def test_code_is_followed_however_far_away(what: object, monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint.of_value(what)
    assert before == fingerprint.of_value(what)
    monkeypatch.setitem(globals(), "RATE", 0.2)
    assert before != fingerprint.of_value(what)


def attribute_alone(x: torch.Tensor) -> int:
    return x.unrelated  # type: ignore[attr-defined, no-any-return]


def test_names_of_attributes_are_not_globals(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint.of_value(attribute_alone)
    monkeypatch.setitem(globals(), "unrelated", 7)
    assert before == fingerprint.of_value(attribute_alone)


class Box:
    def __init__(self, inside: Any) -> None:
        self.inside = inside


class Slotted:
    __slots__ = ("inside",)

    def __init__(self, inside: Any) -> None:
        self.inside = inside


def deep(value: Any, levels: int) -> Any:
    for level in range(levels):
        value = [Box([("stage", value)]), {"value": value}][level % 2]
    return value


def layer(weight: float) -> nn.Module:
    made = nn.Linear(1, 1)
    nn.init.constant_(made.weight, weight)
    nn.init.zeros_(made.bias)
    return made


@pytest.mark.parametrize("levels", [0, 2, 9, 400])
def test_weights_arrays_and_functions_count_however_deep_they_lie(levels: int) -> None:
    def hashed(value: Any) -> str:
        held = deep(value, levels)
        return fingerprint.of_value(lambda x: held.inside(x))

    pairs = [
        (layer(1.0), layer(2.0)),
        (torch.zeros(2), torch.ones(2)),
        (np.zeros(2), np.ones(2)),
        (lambda x: x + 1, lambda x: x + 2),
        (Slotted(layer(1.0)), Slotted(layer(2.0))),
        (partial(layer(1.0).forward), partial(layer(2.0).forward)),
        ({layer(1.0)}, {layer(2.0)}),
    ]
    for one, another in pairs:
        assert hashed(one) == hashed(one)
        assert hashed(one) != hashed(another)
    assert hashed(layer(1.0)) == hashed(layer(1.0))


def test_a_cycle_below_the_depth_has_an_end() -> None:
    knot: dict[str, Any] = {"net": layer(1.0)}
    knot["self"] = knot["list"] = [knot]
    assert fingerprint.of_value(deep(knot, 8)) == fingerprint.of_value(deep(knot, 8))


class Private(nn.Module):
    def __init__(self, k: float) -> None:
        super().__init__()
        self._k = k

    def forward(self, x: Tensor) -> Tensor:
        return x * self._k


def test_private_attributes_count_and_the_mode_does_not() -> None:
    base = fingerprint.of_model(Private(1.0))
    assert fingerprint.of_model(Private(1.0).eval()) == base != fingerprint.of_model(Private(2.0))


def hooked(register: str, factor: float) -> nn.Module:
    net = layer(1.0)
    getattr(net, register)(lambda module, *values: values[-1] * factor if torch.is_tensor(values[-1]) else None)
    return net


@pytest.mark.parametrize("register", ["register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook"])
def test_hooks_count_with_what_they_hold(register: str) -> None:
    base = fingerprint.of_model(hooked(register, 2.0))
    assert fingerprint.of_model(hooked(register, 2.0)) == base
    assert base not in (fingerprint.of_model(hooked(register, 3.0)), fingerprint.of_model(layer(1.0)))


def test_one_weight_counts_and_tied_weights_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    net[1].weight = net[0].weight
    net[1].view = net[0].weight.data[:]
    base, read = fingerprint.of_model(net), []
    monkeypatch.setattr(fingerprint, "of_tensor", lambda tensor, plain=fingerprint.of_tensor: read.append(tensor.shape) or plain(tensor))
    assert fingerprint.of_model(net) == base
    assert read.count(torch.Size([3, 3])) == 1
    with torch.no_grad():
        net[0].weight[1, 2] += 1e-6
    assert fingerprint.of_model(net) != base


def test_a_method_put_in_the_place_of_another_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    base = fingerprint.of_model(Private(1.0))
    monkeypatch.setattr(Private, "forward", lambda self, x: x)
    assert fingerprint.of_model(Private(1.0)) != base


class Decorated(nn.Module):
    rate = 1.0

    @property
    def twice(self) -> float:
        return 2 * self.rate

    @staticmethod
    def still(x: Tensor) -> Tensor:
        return x

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        return self.still(x) * self.twice


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("rate", 2.0),
        ("twice", property(lambda self: 3.0)),
        ("still", staticmethod(lambda x: -x)),
        ("forward", torch.no_grad()(lambda self, x: x)),
    ],
)
def test_attributes_and_decorated_methods_of_a_class_count(name: str, other: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    base = fingerprint.of_model(Decorated())
    monkeypatch.setattr(Decorated, name, other)
    assert fingerprint.of_model(Decorated()) != base


class Lazy:
    def __init__(self, start: int) -> None:
        self.start = start

    @cached_property
    def later(self) -> int:
        return self.start + 1


def test_what_is_worked_out_once_from_the_rest_does_not_count() -> None:
    one = Lazy(1)
    base = fingerprint.of_value(one)
    assert one.later == 2
    assert fingerprint.of_value(one) == base != fingerprint.of_value(Lazy(2))


class Words(set[str]):
    pass


class Count(int):
    pass


PAIRS = [
    (pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"a": [1, 3]})),
    (np.array([{"a": 1}], dtype=object), np.array([{"a": 2}], dtype=object)),
    (torch.eye(2).to_sparse(), 2 * torch.eye(2).to_sparse()),
    (torch.eye(2).to_sparse_csr(), 2 * torch.eye(2).to_sparse_csr()),
    (torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8), torch.quantize_per_tensor(torch.zeros(2), 0.1, 0, torch.qint8)),
    (io.BytesIO(b"a"), io.BytesIO(b"b")),
    (deque([1]), deque([2])),
    (re.compile("a"), re.compile("b")),
    (Path("a"), Path("b")),
    (Words({"a"}), Words({"b"})),
    (Count(1), Count(2)),
    (np.vectorize(lambda x: x), np.vectorize(lambda x: -x)),
    (lru_cache(lambda x: x), lru_cache(lambda x: -x)),
    (10**5000, 10**5000 + 1),
    ([1], ["1"]),
]


@pytest.mark.parametrize(("one", "another"), PAIRS, ids=lambda value: type(value).__name__)
def test_values_of_many_kinds_count_by_what_they_hold(one: Any, another: Any) -> None:
    assert fingerprint.of_value(one) == fingerprint.of_value(one)
    assert fingerprint.of_value(one) != fingerprint.of_value(another)


def test_the_bytes_between_the_fields_of_records_do_not_count() -> None:
    gaps = np.dtype([("a", np.int8), ("b", np.float64)], align=True)
    one, another = (np.frombuffer(bytearray([fill]) * gaps.itemsize, gaps) for fill in (0, 255))
    another["a"], another["b"] = one["a"], one["b"]
    assert one.tobytes() != another.tobytes()
    assert fingerprint.of_value(one) == fingerprint.of_value(another)
    another["a"] = 1
    assert fingerprint.of_value(one) != fingerprint.of_value(another)


def test_fitted_estimators_count_by_what_they_have_learnt() -> None:
    x, y = np.arange(24.0).reshape(12, 2), np.arange(12) % 2
    for kind in (partial(RandomForestClassifier, 3, random_state=0), partial(XGBClassifier, n_estimators=3, n_jobs=1)):
        base = fingerprint.of_value(kind().fit(x, y))
        assert fingerprint.of_value(kind().fit(x, y)) == base
        assert fingerprint.of_value(kind().fit(x, 1 - y)) != base


def scripted(factor: int) -> nn.Module:
    net = Rolled(factor)
    return torch.jit.script(net)


def test_scripted_networks_count_with_code_and_attributes() -> None:
    base = fingerprint.of_model(scripted(1))
    assert fingerprint.of_model(scripted(1)) == base != fingerprint.of_model(scripted(2))


@pytest.mark.parametrize("kind", [threading.Lock, threading.Event, torch.Generator, lambda: logging.getLogger("some"), lambda: sys.stderr])
def test_what_belongs_to_one_process_counts_for_nothing(kind: Any) -> None:
    one, another = Box(kind()), Box(kind())
    if isinstance(one.inside, logging.Logger):
        another = Box(logging.getLogger("other"))
    assert fingerprint.of_value(one) == fingerprint.of_value(another)


def test_a_progress_bar_at_work_has_the_same_key_as_before() -> None:
    bar = Box(tqdm(total=3, file=io.TextIOWrapper(io.BytesIO())))
    base = fingerprint.of_value(bar)
    bar.inside.update(2)
    assert fingerprint.of_value(bar) == base


def test_code_of_libraries_is_never_followed() -> None:
    x, y = np.arange(24.0).reshape(12, 2), np.arange(12) % 2
    net = nn.Sequential(nn.TransformerEncoderLayer(4, 2), Private(1.0))
    net.fitted, net.bar = RandomForestClassifier(3, random_state=0).fit(x, y), torch.no_grad()(named_global)
    walk = fingerprint.Hasher()
    walk.digest(net)
    files = {part.co_filename for _, part in walk.done.values() if isinstance(part, CodeType)}
    assert files == {__file__}


def built(source: str, what: str, value: str) -> Any:
    """The last value of a script of the user's own."""
    scope: dict[str, Any] = {"__name__": "__main__", "torch": torch, "nn": nn, "np": np, "functools": functools}
    exec(source.replace("@@", value), scope)
    return eval(what, scope)


DECORATED = {
    "no_grad": "@torch.no_grad()\ndef f(x): return x * @@",
    "inference_mode": "@torch.inference_mode()\ndef f(x): return x * @@",
    "autocast": "@torch.autocast('cpu')\ndef f(x): return x * @@",
    "compile": "@torch.compile(backend='eager')\ndef f(x): return x * @@",
    "disable": "@torch.compiler.disable\ndef f(x): return x * @@",
    "vmap": "@torch.vmap\ndef f(x): return x * @@",
    "script_if_tracing": "@torch.jit.script_if_tracing\ndef f(x): return x * @@",
    "contextmanager": "from contextlib import contextmanager\n@contextmanager\ndef f(x): yield x * @@",
    "singledispatch": (
        "import abc\n@functools.singledispatch\ndef f(x): return x\n@f.register(abc.ABC)\ndef _(x): return 0\n"
        "@f.register(torch.Tensor)\ndef _(x): return x * @@"
    ),
    "lru_cache": "@functools.lru_cache\ndef f(x): return x * @@",
}


@pytest.mark.parametrize("name", DECORATED)
def test_a_function_inside_a_librarys_decorator_counts_and_its_use_does_not(name: str) -> None:
    one, same, another = (built(DECORATED[name], "f", value) for value in ("2.0", "2.0", "3.0"))
    base = fingerprint.of_value(one)
    assert fingerprint.of_value(same) == base != fingerprint.of_value(another)
    for _ in range(2):
        one(torch.ones(2))
    assert fingerprint.of_value(one) == base


METHODS = {
    "no_grad": "class M(nn.Module):\n @torch.no_grad()\n def forward(self, x): return x * @@",
    "autocast": "class M(nn.Module):\n @torch.autocast('cpu')\n def forward(self, x): return x * @@",
    "disable": "class M(nn.Module):\n @torch.compiler.disable\n def forward(self, x): return x * @@",
    "custom_fwd": (
        "class F(torch.autograd.Function):\n @staticmethod\n @torch.amp.custom_fwd(device_type='cpu')\n def forward(c, x): return x * @@\n"
        "class M(nn.Module):\n def forward(self, x): return F.apply(x)"
    ),
    "global with two underscores": "__gain = @@\nclass M:\n pass\nM.__call__ = lambda self, x: x * __gain",
    "partialmethod": "class M:\n def g(self, k, x): return x * k\n __call__ = functools.partialmethod(g, @@)",
    "lru_cache on a method": "class M:\n @functools.lru_cache\n def __call__(self, x): return x * @@",
    "new_class": (
        "import types\ndef fw(self, x): return x * @@\nM = types.new_class('M', (nn.Module,), {}, lambda space: space.update(forward=fw))"
    ),
    "attribute of new_class": "import types\nM = types.new_class('M', (nn.Module,), {}, lambda space: space.update(gain=@@))",
    "ABCMeta": "import abc\ndef fw(self, x): return x * @@\nM = abc.ABCMeta('M', (object,), {'__call__': fw})",
    "metaclass": "class T(type):\n gain = @@\nclass M(metaclass=T):\n def __call__(self, x): return x * type(self).gain",
    "metadata": "import dataclasses\n@dataclasses.dataclass\nclass M:\n a: int = dataclasses.field(default=0, metadata={'gain': @@})",
    "pydantic": "import pydantic\nclass C(pydantic.BaseModel):\n gain: float = @@\nclass M:\n def __call__(self, x): return x * C().gain",
    "array in a module": (
        "import types\nm = types.ModuleType('settings'); m.table = np.array([@@])\nclass M:\n def __init__(self): self.held = m"
    ),
    "list in a module": "import types\nm = types.ModuleType('settings'); m.table = [@@]\nclass M:\n def __init__(self): self.held = m",
    "function in a module": (
        "import types\nm = types.ModuleType('ops')\ndef act(x): return x * @@\nact.__module__ = 'ops.inner'; m.act = act\n"
        "class M:\n def __init__(self): self.held = m"
    ),
    "module passed on": (
        "import types\nm = types.ModuleType('settings'); m.gain = [@@]\ndef helper(c, x): return x * c.gain[0]\n"
        "class M:\n def __call__(self, x): return helper(m, x)"
    ),
    "module inside a module passed on": (
        "import types\nm = types.ModuleType('a'); m.inner = types.ModuleType('a.inner'); m.inner.gain = [@@]\n"
        "def helper(c, x): return x * c.gain[0]\nclass M:\n def __call__(self, x): return helper(m.inner, x)"
    ),
    "local to a thread": (
        "import threading\nclass C(threading.local):\n def __init__(self, gain): self.gain = gain\n"
        "class M:\n def __init__(self, gain=None): self.held = C(gain)\nmade = M(@@)\nM = lambda: made"
    ),
}


@pytest.mark.parametrize("name", METHODS)
def test_code_and_classes_count_however_they_were_made(name: str) -> None:
    one, same, another = (fingerprint.of_value(built(METHODS[name], "M()", value)) for value in ("2.0", "2.0", "3.0"))
    assert one == same != another


def test_a_method_put_into_a_librarys_class_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    net, plain = nn.Sequential(layer(1.0)), nn.Linear.forward
    base = fingerprint.of_model(net)
    with monkeypatch.context() as patch:
        patch.setattr(nn.Linear, "forward", functools.wraps(plain)(lambda self, x: plain(self, x) * 2))
        assert fingerprint.of_model(net) != base
    assert fingerprint.of_model(net) == base


class Marked(Tensor):
    pass


class Units(np.ndarray):
    pass


def marked(gain: float) -> Tensor:
    made = torch.ones(2).as_subclass(Marked)
    made.gain = gain
    return made


def units(gain: float) -> np.ndarray:
    made = np.ones(2).view(Units)
    made.gain = gain
    return made


class Point(ctypes.Structure):
    _fields_ = (("x", ctypes.c_float), ("at", ctypes.c_void_p), ("grid", ctypes.c_int * 2))


def parameter(gain: float) -> nn.Parameter:
    made = nn.Parameter(torch.ones(2))
    made.gain = gain
    return made


SUBCLASSES = [
    (partial(np.ma.array, [1.0, 2.0], mask=[0, 1]), partial(np.ma.array, [1.0, 2.0], mask=[1, 0])),
    (partial(np.ma.array, [1.0], fill_value=2.0), partial(np.ma.array, [1.0], fill_value=3.0)),
    (partial(np.matrix, [[1.0]]), partial(np.array, [[1.0]])),
    (partial(units, 1.0), partial(units, 2.0)),
    (partial(marked, 1.0), partial(marked, 2.0)),
    (lambda: torch.ones(2).as_subclass(Marked), lambda: torch.ones(2)),
    (partial(parameter, 1.0), partial(parameter, 2.0)),
    (lambda: torch.nested.nested_tensor([torch.ones(1)]), lambda: torch.nested.nested_tensor([torch.zeros(1)])),
    (lambda: masked_tensor(torch.ones(2), torch.tensor([True, False])), lambda: masked_tensor(torch.ones(2), torch.tensor([False, True]))),
    (lambda: (ctypes.c_float * 2)(1, 2), lambda: (ctypes.c_float * 2)(1, 3)),
    (lambda: (Point * 1)(Point(1.0)), lambda: (Point * 1)(Point(2.0))),
    (lambda: Point(1.0, 5, (1, 2)), lambda: Point(1.0, 5, (1, 3))),
    (lambda: ctypes.c_double(1), lambda: ctypes.c_double(2)),
    (lambda: multiprocessing.Array("f", [1.0]), lambda: multiprocessing.Array("f", [2.0])),
    (lambda: multiprocessing.Value("d", 1.0), lambda: multiprocessing.Value("d", 2.0)),
]


@pytest.mark.parametrize(("one", "another"), SUBCLASSES)
def test_subclasses_of_arrays_and_c_data_count_by_all_that_they_hold(one: Any, another: Any) -> None:
    base = fingerprint.of_value(Box(one()))
    assert fingerprint.of_value(Box(one())) == base != fingerprint.of_value(Box(another()))


def test_addresses_do_not_count() -> None:
    assert fingerprint.of_value(Point(1.0, 5)) == fingerprint.of_value(Point(1.0, 6))
    assert fingerprint.of_value((ctypes.c_void_p * 1)(5)) == fingerprint.of_value((ctypes.c_void_p * 1)(6))


def test_a_masked_array_has_the_same_key_after_use() -> None:
    array = np.ma.array([1.0, 2.0], mask=[0, 1])
    base = fingerprint.of_value(array)
    assert array.filled()[1] == array.fill_value
    assert fingerprint.of_value(array) == base


def test_a_fitted_model_that_holds_an_open_file_counts_by_all_else(tmp_path: Path) -> None:
    x, y = np.arange(24.0).reshape(12, 2), np.arange(12) % 2

    def fitted(penalty: float) -> str:
        made = Pipeline([("line", LogisticRegression(C=penalty))]).fit(x, y)
        with open(tmp_path / "log", "w") as made.log:
            return fingerprint.of_value(made)

    assert fitted(1.0) == fitted(1.0) != fitted(0.1)


def test_a_parameter_is_no_buffer_and_shared_weights_are_not_equal_ones() -> None:
    buffer, weight = nn.Module(), nn.Module()
    buffer.register_buffer("w", torch.ones(2))
    weight.w = nn.Parameter(torch.ones(2))
    assert fingerprint.of_model(buffer) != fingerprint.of_model(weight)
    apart, parts, weights = (nn.Sequential(layer(1.0), layer(1.0)) for _ in range(3))
    parts[1], weights[1].weight = parts[0], weights[0].weight
    assert len({fingerprint.of_model(net) for net in (apart, parts, weights)}) == 3
    assert fingerprint.of_model(nn.Sequential(weights)) == fingerprint.of_model(nn.Sequential(copy.deepcopy(weights)))


@pytest.mark.parametrize("name", ["_call_impl", "_version"])
def test_attributes_of_every_network_count_if_one_has_its_own(name: str) -> None:
    base, one, another = layer(1.0), layer(1.0), layer(1.0)
    setattr(one, name, partial(max, 1))
    setattr(another, name, partial(max, 2))
    assert len({fingerprint.of_model(net) for net in (base, one, another)}) == 3


def test_a_hooks_handle_does_not_count() -> None:
    one, another = layer(1.0), layer(1.0)
    one.handle = one.register_forward_hook(attribute_alone)
    layer(1.0).register_forward_hook(attribute_alone)
    another.handle = another.register_forward_hook(attribute_alone)
    assert fingerprint.of_model(one) == fingerprint.of_model(another)


SCRIPTS = """
import torch
from torch import nn

def helper(x):
    return x * @@

def outer(x):
    return helper(x) + 1

class Function(nn.Module):
    def forward(self, x):
        return helper(x)

class Method(nn.Module):
    def helper(self, x):
        return x * @@
    def forward(self, x):
        return self.helper(x)

class Listed(nn.Module):
    def __init__(self):
        super().__init__()
        self.held = [torch.tensor(@@)]
    def forward(self, x):
        return x * self.held[0]

class Constant(nn.Module):
    def forward(self, x):
        return x + torch.tensor([@@, 1.0])

class Weight(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(@@))
    def forward(self, x):
        return x * self.weight

class Python(nn.Module):
    @torch.jit.ignore
    def helper(self, x: torch.Tensor) -> torch.Tensor:
        return x * @@
    def forward(self, x):
        return self.helper(x)
"""
X = torch.ones(1, 2)
SCRIPTED: dict[str, Any] = {
    "function": lambda own: torch.jit.script(own.Function()),
    "method": lambda own: torch.jit.script(own.Method()),
    "attribute": lambda own: torch.jit.script(own.Listed()),
    "constant": lambda own: torch.jit.trace(own.Constant(), X),
    "weight": lambda own: torch.jit.script(own.Weight()),
    "call of Python": lambda own: torch.jit.script(own.Python()),
    "freeze": lambda own: torch.jit.freeze(torch.jit.script(own.Weight().eval())),
    "optimised": lambda own: torch.jit.optimize_for_inference(torch.jit.script(own.Weight().eval())),
    "script of a function": lambda own: torch.jit.script(own.outer),
    "trace of a function": lambda own: torch.jit.trace(own.helper, X),
    "bound method": lambda own: torch.jit.script(own.Weight()).forward,
}


def loaded(folder: Path, value: str) -> types.ModuleType:
    """The scripts above, anew from the same file."""
    (folder / "own_scripts.py").write_text(SCRIPTS.replace("@@", value))
    spec = importlib.util.spec_from_file_location("own_scripts", folder / "own_scripts.py")
    made = importlib.util.module_from_spec(spec)
    linecache.clearcache()
    exec(compile(Path(spec.origin).read_text(), spec.origin, "exec", dont_inherit=True), vars(made))
    return made


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("kind", SCRIPTED)
def test_scripted_code_counts_with_its_functions_methods_and_constants(kind: str, tmp_path: Path) -> None:
    one, same, another = (SCRIPTED[kind](loaded(tmp_path, value)) for value in ("2.0", "2.0", "3.0"))
    base = fingerprint.of_value(one)
    assert fingerprint.of_value(same) == base != fingerprint.of_value(another)
    for _ in range(3):
        one(X)
    assert fingerprint.of_value(one) == base


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_mode_of_a_scripted_network_does_not_count() -> None:
    net = scripted(1)
    assert fingerprint.of_model(net.train()) == fingerprint.of_model(net.eval())


def test_an_exported_network_counts_by_its_graph_and_weights() -> None:
    def exported(weight: float, act: nn.Module) -> str:
        return fingerprint.of_model(torch.export.export(nn.Sequential(layer(weight), act), (torch.ones(1, 1),)).module())

    base = exported(1.0, nn.ReLU())
    assert exported(1.0, nn.ReLU()) == base
    assert base not in (exported(2.0, nn.ReLU()), exported(1.0, nn.Tanh()))


def test_an_import_from_a_folder_without_code_in_a_package_that_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `from cv2 import dnn`, whose folder holds stubs alone."""
    (tmp_path / "unloaded" / "inner").mkdir(parents=True)
    (tmp_path / "unloaded" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)

    def reads(x: Tensor) -> Tensor:
        from unloaded.inner import later  # type: ignore[import-not-found]

        return later(x)  # type: ignore[no-any-return]

    assert fingerprint.of_value(reads)
    assert "unloaded" not in sys.modules
