"""Regression along an orbit: tensors that should stay, or move in a known way."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from veracity.core.errors import InputError
from veracity.core.measures import Direction
from veracity.core.registry import TASKS
from veracity.orbits.tasks.base import Metric, Task, as_float
from veracity.perturb.output_actions import Fixed, OutputAction


def difference(output: Tensor, truth: Tensor) -> Tensor:
    """output - truth as rows (R, D)."""
    if output.shape != truth.shape:
        raise InputError(f"Outputs and truth must have one shape, not {tuple(output.shape)} and {tuple(truth.shape)}.")
    return (output - truth).reshape(len(output), -1)


def mse(output: Tensor, truth: Tensor) -> Tensor:
    """The mean of squared errors over all entries of a row, (R,).

    >>> import torch
    >>> mse(torch.tensor([[1.0, 3.0]]), torch.tensor([[1.0, 1.0]]))
    tensor([2.])
    """
    return difference(output, truth).square().mean(dim=1)


def rmse(output: Tensor, truth: Tensor) -> Tensor:
    """The root of the mean of squared errors, (R,)."""
    return mse(output, truth).sqrt()


def mae(output: Tensor, truth: Tensor) -> Tensor:
    """The mean of absolute errors over all entries of a row, (R,).

    >>> import torch
    >>> mae(torch.tensor([[1.0, 3.0]]), torch.tensor([[1.0, 1.0]]))
    tensor([1.])
    """
    return difference(output, truth).abs().mean(dim=1)


FIXED = Fixed()
POSITIVE = (0.0, math.inf)
RMSE = Metric(name="rmse", function=rmse, label="RMSE", direction=Direction.LOWER, bounds=POSITIVE)
MSE = Metric(name="mse", function=mse, label="MSE", direction=Direction.LOWER, bounds=POSITIVE)
MAE = Metric(name="mae", function=mae, label="MAE", direction=Direction.LOWER, bounds=POSITIVE)


@TASKS.add
@dataclass(frozen=True, kw_only=True)
class Regression(Task):
    """Outputs and truth are tensors of one shape (R, ...) that `action` moves: by default not at all, as `AsInput()` with the input."""

    name = "regression"
    kind = "regression"

    action: OutputAction = FIXED
    metrics: tuple[Metric, ...] = (RMSE, MSE, MAE)

    def read(self, raw: Any) -> Tensor:
        """The output itself; one number per row becomes (R, 1)."""
        found = as_float(raw, "a tensor with one row per input")
        return found if found.ndim > 1 else found[:, None]

    def check(self, truth: Tensor, samples: int) -> Tensor:
        """Numbers of the outputs' shape, float32 (samples, ...)."""
        if not isinstance(truth, Tensor) or truth.ndim == 0 or len(truth) != samples:
            what = tuple(truth.shape) if isinstance(truth, Tensor) else type(truth).__name__
            raise InputError(f"The targets of a regression must be a tensor with one row for each of {samples} samples, not {what}.")
        return truth.float() if truth.ndim > 1 else truth.float()[:, None]

    def apart(self, a: Tensor, b: Tensor) -> Tensor:
        """The root of the mean squared difference."""
        return rmse(a, b)
