"""Counts the nonlinear steps of a model, inside and outside of the modules that a method has a rule for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
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


class NonlinearSteps(TorchDispatchMode):
    """Counts the nonlinear operations that run while it is active, by name: `inside` of covered modules if `depth` > 0, else `outside`.

    `calls` counts the calls of each covered module.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.depth = 0
        self.inside, self.outside, self.calls = Counter[str](), Counter[str](), Counter[str]()

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        name = SUFFIXES.sub("", func.__name__.split(".")[0].strip("_"))
        if NONLINEAR.fullmatch(name):
            (self.inside if self.depth else self.outside)[name] += 1
        return func(*args, **(kwargs or {}))


def nonlinear_steps(model: nn.Module, inputs: Signals, covered: Callable[[nn.Module], bool]) -> NonlinearSteps:
    """Count the nonlinear operations of one forward pass, inside and outside of covered modules.

    >>> net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Softmax(1))
    >>> steps = nonlinear_steps(net, Signals(torch.zeros(1, 2)), lambda module: isinstance(module, nn.ReLU))
    >>> dict(steps.inside), dict(steps.outside)
    ({'relu': 1}, {'softmax': 1})
    """
    steps = NonlinearSteps()
    names = {module: name for name, module in model.named_modules() if covered(module)}

    def enter(module: nn.Module, _args: Any) -> None:
        steps.depth += 1
        steps.calls[names[module]] += 1

    def leave(*_: Any) -> None:
        steps.depth -= 1

    handles = [module.register_forward_pre_hook(enter) for module in names]
    with hooks([*handles, *(module.register_forward_hook(leave) for module in names)]), evaluating(model), torch.no_grad(), steps:
        Signals(inputs.values.detach().clone(), inputs.structure).through(model)
    return steps
