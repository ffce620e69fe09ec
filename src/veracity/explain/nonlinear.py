"""Counts the nonlinear steps of a model, inside and outside of the modules that a method has a rule for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from veracity.core.inputs import Signals
from veracity.core.models import evaluating
from veracity.explain.passes import hooks

NONLINEAR = re.compile(
    r"(adaptive_)?max_pool\dd|(hard|leaky_|log_)?(relu|sigmoid|swish|tanh|softmax)6?|prelu|rrelu|c?elu|gelu|silu|mish|softplus|softshrink|"
    r"hardshrink|threshold|clamp(_min|_max)?|a?max|a?min|maximum|minimum|abs|exp|log|pow|r?sqrt|sin|cos|erf|native_(layer|group)_norm|"
    r"glu|logsumexp|linalg_vector_norm|scaled_dot_product_attention"
)
SUFFIXES = re.compile(r"_(with_indices|forward|kernel|with_noise|for_cpu|efficient|flash)")


@dataclass
class NonlinearSteps:
    """Nonlinear operations by name, inside and outside of covered modules, and the calls of each covered module."""

    inside: Counter[str] = field(default_factory=Counter)
    outside: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)

    @property
    def reused(self) -> list[str]:
        """The covered modules that are called more than once."""
        return [name for name, count in self.calls.items() if count > 1]


class StepCounter(TorchDispatchMode):
    """Counts the nonlinear operations that run while it is active; `depth` > 0 means inside of a covered module."""

    def __init__(self, steps: NonlinearSteps) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.steps, self.depth = steps, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        name = SUFFIXES.sub("", func.__name__.split(".")[0].strip("_"))
        if NONLINEAR.fullmatch(name):
            (self.steps.inside if self.depth else self.steps.outside)[name] += 1
        return func(*args, **(kwargs or {}))


def nonlinear_steps(model: nn.Module, inputs: Signals, covered: Callable[[nn.Module], bool]) -> NonlinearSteps:
    """Count the nonlinear operations of one forward pass, inside and outside of covered modules.

    >>> net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Softmax(1))
    >>> steps = nonlinear_steps(net, Signals(torch.zeros(1, 2)), lambda module: isinstance(module, nn.ReLU))
    >>> dict(steps.inside), dict(steps.outside)
    ({'relu': 1}, {'softmax': 1})
    """
    steps = NonlinearSteps()
    counter = StepCounter(steps)

    def enter(name: str) -> Callable[..., None]:
        def hook(*_: Any) -> None:
            counter.depth += 1
            steps.calls[name] += 1

        return hook

    def leave(*_: Any) -> None:
        counter.depth -= 1

    modules = [(name, module) for name, module in model.named_modules() if covered(module)]
    handles = [module.register_forward_pre_hook(enter(name)) for name, module in modules]
    handles += [module.register_forward_hook(leave) for _, module in modules]
    with hooks(handles), evaluating(model), torch.no_grad(), counter:
        Signals(inputs.values.detach().clone(), inputs.structure).through(model)
    return steps
