from __future__ import annotations

import io
import logging
import re
import sys
import threading
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
from torch import Tensor, nn
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
    walk = fingerprint.Walk()
    walk.digest(net)
    files = {part.co_filename for _, part in walk.done.values() if isinstance(part, CodeType)}
    assert files == {__file__}
