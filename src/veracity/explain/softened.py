"""A model without kinks: while a context is on, every ReLU is a softplus, so that gradients have gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from veracity.core.errors import SpecError


def softened(beta: float) -> Softened:
    """A context in which every ReLU of a forward pass is a softplus: relu(x) becomes ln(1 + exp(beta x)) / beta.

    That is at most ln(2) / beta above relu(x), and curved where relu is bent: second derivatives of a ReLU network are zero
    almost everywhere, those of its soft form are not. ReLU6 and hardtanh are softened at both of their bends. Modules,
    functions, methods and in-place forms are met as they are called, so that the model is neither copied nor touched.
    Max-pooling, leaky ReLU and `clamp` stay as they are, and so does whatever TorchScript runs.

    >>> with softened(beta=10.0):
    ...     torch.relu(torch.tensor([-0.1, 0.0, 0.1]))
    tensor([0.0313, 0.0693, 0.1313])
    """
    if isinstance(beta, bool) or not isinstance(beta, (int, float)) or not 0 < beta < math.inf:
        raise SpecError(f"The sharpness beta of a softened model must be a positive number, such as 20.0, not {beta!r}.")
    return Softened(float(beta))


class Softened(TorchFunctionMode):
    """While it is on, ReLUs are softplus of this sharpness; `softened` makes one."""

    def __init__(self, beta: float) -> None:
        super().__init__()
        self.beta = beta

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Soften what is bent, do the rest as it would have been done."""
        soft = SOFT.get(func)
        return func(*args, **(kwargs or {})) if soft is None else soft(self.beta, *args, **(kwargs or {}))


def relu(beta: float, input: Tensor, inplace: bool = False) -> Tensor:
    """Softplus for relu."""
    return put(input, functional.softplus(input.clone() if inplace else input, beta=beta), inplace)


def relu_in_place(beta: float, input: Tensor) -> Tensor:
    """Softplus for relu, written over its input."""
    return relu(beta, input, inplace=True)


def cut(beta: float, input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """Hardtanh with softplus at both bends: low + softplus(x - low) - softplus(x - high)."""
    low, high = (functional.softplus(input - bend, beta=beta) for bend in (min_val, max_val))
    return put(input, min_val + low - high, inplace)


def cut_in_place(beta: float, input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """Soft hardtanh, written over its input."""
    return cut(beta, input, min_val, max_val, inplace=True)


def relu6(beta: float, input: Tensor, inplace: bool = False) -> Tensor:
    """Soft hardtanh between 0 and 6."""
    return cut(beta, input, 0.0, 6.0, inplace)


def put(input: Tensor, value: Tensor, inplace: bool) -> Tensor:
    """The value, over the input if that is what was asked for."""
    return input.copy_(value) if inplace else value


SOFT: dict[Any, Callable[..., Tensor]] = {
    torch.relu: relu,
    functional.relu: relu,
    Tensor.relu: relu,
    torch.relu_: relu_in_place,
    Tensor.relu_: relu_in_place,
    functional.hardtanh: cut,
    functional.hardtanh_: cut_in_place,
    functional.relu6: relu6,
}
"""What stands in for each bent operation."""
