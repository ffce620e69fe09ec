from __future__ import annotations

import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from veracity.core.models import evaluating
from veracity.core.snapshot import ModelSnapshot, preserve_state


def test_everything_comes_back_even_after_an_error() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU()).eval()
    kept, mark = model[0], torch.ones(2, 2)
    model[0].weight.grad = mark
    own = model[1].register_forward_hook(lambda *_: None)
    with pytest.raises(ValueError, match="inside"), preserve_state(model):  # noqa: PT012 - all of it is done to one model
        assert model[0].weight.grad is None
        model(torch.ones(1, 2)).sum().backward()
        model.train()
        model[1].register_full_backward_hook(lambda *_: None)
        own.remove()
        model[1].input = torch.ones(1)
        model[0].weight.requires_grad_(False)
        model[0] = nn.Identity()
        raise ValueError("inside")
    assert model[0] is kept
    assert not model.training
    assert model[0].weight.grad is mark
    assert mark.eq(1).all()
    assert model[0].weight.requires_grad
    assert model[0].bias.grad is None
    assert not hasattr(model[1], "input")
    assert not model[1]._backward_hooks
    assert len(model[1]._forward_hooks) == 1


def test_a_models_own_counter_goes_on() -> None:
    class Counts(nn.Identity):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return x

    model = Counts()
    with preserve_state(model):
        model(torch.ones(1))
    assert model.calls == 1


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.ReLU()).eval()


def shuffle_behind_the_version_counter(model: nn.Sequential) -> None:
    model[0].weight.data.copy_(model[0].weight.data.flip(0))


def count_a_batch(model: nn.Sequential) -> None:
    model[1].running_mean += 1


def cut_precision(model: nn.Sequential) -> None:
    model[0].half()


def exchange_a_weight(model: nn.Sequential) -> None:
    model[0].weight = nn.Parameter(torch.ones(2, 2))


def exchange_the_memory(model: nn.Sequential) -> None:
    model[0].bias.data = torch.zeros(5)


def listen(model: nn.Sequential) -> None:
    model[2].register_forward_hook(lambda *_: None)


def freeze(model: nn.Sequential) -> None:
    model[0].weight.requires_grad_(False)


def train(model: nn.Sequential) -> None:
    model[1].train()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (shuffle_behind_the_version_counter, ["'0.weight'"]),
        (count_a_batch, ["'1.running_mean'"]),
        (cut_precision, ["'0.weight'", "'0.bias'"]),
        (exchange_a_weight, ["its layers"]),
        (exchange_the_memory, ["'0.bias'"]),
        (listen, ["its hooks"]),
        (freeze, ["requires_grad of its weights"]),
        (train, ["its training mode"]),
    ],
)
def test_every_change_is_named_and_undone(change: Callable[[nn.Sequential], None], named: list[str]) -> None:
    model = net()
    weight, before, intact = model[0].weight, {name: value.clone() for name, value in model.state_dict().items()}, ModelSnapshot(model)
    assert intact.changes() == []
    change(model)
    assert intact.changes() == named
    intact.restore()
    assert intact.changes() == []
    assert model[0].weight is weight
    assert weight.requires_grad
    assert not model[1].training
    assert not model[2]._forward_hooks
    assert all(value.dtype == before[name].dtype and torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_nan_in_a_weight_is_no_change() -> None:
    model = net()
    with torch.no_grad():
        model[0].weight[0, 0] = torch.nan
    assert ModelSnapshot(model).changes() == []


def test_what_did_not_change_is_not_written_to() -> None:
    model = net()
    intact, version = ModelSnapshot(model), model[0].weight._version
    intact.restore()
    assert model[0].weight._version == version


def test_a_models_own_buffers_come_back_from_evaluation() -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return x

    model = Counts()
    with evaluating(model):
        model(torch.ones(1))
        assert model.calls == 1
    assert model.calls == 0


class Configured(nn.Module):
    """A network whose outputs follow from plain attributes, nested ones too."""

    def __init__(self) -> None:
        super().__init__()
        self.gain, self.table = 1.0, {"inner": [1.0, 2.0]}
        self.array, self.held = np.ones(2), torch.ones(2)
        self.config = SimpleNamespace(scale=1.0)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda net: setattr(net, "gain", 0.0), "'0.gain'"),
        (lambda net: net.table["inner"].append(3.0), "'0.table'"),
        (lambda net: net.table.clear(), "'0.table'"),
        (lambda net: net.array.fill(0.0), "'0.array'"),
        (lambda net: net.held.zero_(), "'0.held'"),
        (lambda net: setattr(net, "held", torch.zeros(2)), "'0.held'"),
        (lambda net: setattr(net.config, "scale", 0.0), "'0.config'"),
        (lambda net: delattr(net, "gain"), "'0.gain'"),
    ],
)
def test_attributes_are_watched_too(change: Callable[[Any], object], named: str) -> None:
    model = nn.Sequential(Configured())
    intact, net = ModelSnapshot(model), model[0]
    array = net.array
    change(net)
    net.new = 1
    assert intact.changes() == [named]
    intact.restore()
    assert intact.changes() == []
    assert (net.gain, net.table, net.held.tolist(), net.config.scale) == (1.0, {"inner": [1.0, 2.0]}, [1.0, 1.0], 1.0)
    assert net.array is array
    assert array.tolist() == [1.0, 1.0]
    assert not hasattr(net, "new")


def test_attributes_that_hold_each_other_or_loggers_are_followed_once() -> None:
    net = Configured()
    net.table["self"] = net.table  # type: ignore[assignment]
    net.logger = logging.getLogger("somebody")
    intact = ModelSnapshot(net)
    net.logger.setLevel("ERROR")
    assert intact.changes() == []
