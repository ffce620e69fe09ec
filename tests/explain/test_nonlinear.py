from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from veracity.core.inputs import Signals
from veracity.explain.nonlinear import nonlinear_steps


class Mixed(nn.Module):
    """Three ReLUs of which one is a module, a pooling, a softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.relu, self.linear = nn.ReLU(), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.relu(self.linear(x)))
        return functional.max_pool1d(x.relu_()[:, None], 2).squeeze(1).softmax(-1)


def test_steps_are_counted_inside_and_outside() -> None:
    steps = nonlinear_steps(Mixed(), Signals(torch.randn(1, 4)), lambda module: isinstance(module, nn.ReLU))
    assert dict(steps.inside) == {"relu": 1}
    assert dict(steps.outside) == {"relu": 2, "max_pool2d": 1, "softmax": 1}
    assert dict(steps.calls) == {"relu": 1}


def test_reuse_is_seen() -> None:
    relu = nn.ReLU()
    steps = nonlinear_steps(
        nn.Sequential(relu, nn.Linear(2, 2), relu), Signals(torch.ones(1, 2)), lambda module: isinstance(module, nn.ReLU)
    )
    assert dict(steps.calls) == {"0": 2}


@pytest.mark.parametrize("linear", [nn.Linear(4, 4), nn.AvgPool1d(2), nn.BatchNorm1d(2), nn.Dropout(), nn.Flatten()])
def test_linear_steps_do_not_count(linear: nn.Module) -> None:
    assert nonlinear_steps(linear, Signals(torch.randn(1, 2, 4)), lambda module: False).outside.total() == 0


NONLINEAR = [
    *(nn.ReLU(), nn.ReLU6(), nn.LeakyReLU(), nn.PReLU(), nn.ELU(), nn.CELU(), nn.SELU(), nn.GELU(), nn.SiLU(), nn.Mish(), nn.Sigmoid()),
    *(nn.LogSigmoid(), nn.Hardswish(), nn.Tanh(), nn.Softplus(), nn.Softmax(-1), nn.LogSoftmax(-1), nn.MaxPool1d(2)),
    *(nn.AdaptiveMaxPool1d(2), nn.LayerNorm(4), nn.GLU()),
]


@pytest.mark.parametrize("module", NONLINEAR, ids=lambda module: type(module).__name__)
def test_nonlinear_modules_count_once(module: nn.Module) -> None:
    assert nonlinear_steps(module, Signals(torch.randn(1, 2, 4)), lambda module: False).outside.total() == 1
