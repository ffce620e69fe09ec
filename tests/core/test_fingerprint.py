from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

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
    before = fingerprint.of_json(fingerprint.of_function(what))
    assert before == fingerprint.of_json(fingerprint.of_function(what))
    monkeypatch.setitem(globals(), "RATE", 0.2)
    assert before != fingerprint.of_json(fingerprint.of_function(what))


def attribute_alone(x: torch.Tensor) -> int:
    return x.unrelated  # type: ignore[attr-defined, no-any-return]


def test_names_of_attributes_are_not_globals(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint.of_json(fingerprint.of_function(attribute_alone))
    monkeypatch.setitem(globals(), "unrelated", 7)
    assert before == fingerprint.of_json(fingerprint.of_function(attribute_alone))


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
        return fingerprint.of_json(fingerprint.of_function(lambda x: held.inside(x)))

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


def test_private_attributes_of_ones_own_module_count_but_hooks_do_not() -> None:
    one = Private(1.0)
    base = fingerprint.of_model(one)
    assert fingerprint.of_model(Private(1.0)) == base != fingerprint.of_model(Private(2.0))
    one.register_forward_hook(lambda module, inputs, output: output)
    assert fingerprint.of_model(one.train()) == base
