"""Vector fields along an orbit of turns, mirror images and time reversal."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from veracity.core.errors import InputError
from veracity.core.measures import Direction
from veracity.core.registry import TASKS
from veracity.orbits.tasks.base import Metric, Task, as_float
from veracity.perturb.output_actions import TurnedField


def epe_map(output: Tensor, truth: Tensor) -> Tensor:
    """The end-point error |v - v_true| at every pixel: fields (R, 2, H, W) in pixels, u to the right and v down, to (R, H, W).

    >>> epe_map(torch.tensor([[[[3.0]], [[4.0]]]]), torch.zeros(1, 2, 1, 1))
    tensor([[[5.]]])
    """
    return errors(output, truth).square().sum(dim=1).sqrt()


def epe(output: Tensor, truth: Tensor) -> Tensor:
    """The mean over pixels of |v - v_true|, (R,); pixels without truth, NaN, are left out."""
    return epe_map(output, truth).flatten(1).nanmean(dim=1)


def mse(output: Tensor, truth: Tensor) -> Tensor:
    """The mean over pixels of |v - v_true|^2, the square of the error's length, (R,)."""
    return errors(output, truth).square().sum(dim=1).flatten(1).nanmean(dim=1)


def rmse(output: Tensor, truth: Tensor) -> Tensor:
    """The root of the mean of |v - v_true|^2, (R,): comparable with `reversal_floor`.

    >>> rmse(torch.tensor([[[[3.0, 0.0]], [[4.0, 0.0]]]]), torch.zeros(1, 2, 1, 2))
    tensor([3.5355])
    """
    return mse(output, truth).sqrt()


def mae(output: Tensor, truth: Tensor) -> Tensor:
    """The mean over pixels of |u - u_true| + |v - v_true|, (R,)."""
    return errors(output, truth).abs().sum(dim=1).flatten(1).nanmean(dim=1)


def errors(output: Tensor, truth: Tensor) -> Tensor:
    """The error vectors of fields (R, 2, H, W)."""
    if output.shape != truth.shape:
        raise InputError(f"Two vector fields must have one shape, not {tuple(output.shape)} and {tuple(truth.shape)}.")
    return field(output) - truth


def field(x: Tensor) -> Tensor:
    """The tensor itself, if it is vector fields (R, 2, H, W)."""
    if x.ndim != 4 or x.shape[1] != 2:
        raise InputError(f"Vector fields have shape (rows, 2, height, width), u to the right and v down, not {tuple(x.shape)}.")
    return x


def reversal_floor(flow: Tensor) -> Tensor:
    """How far time reversal is from negating a flow (N, 2, H, W): the root of the mean of |v(x) - v(x + v(x))|^2, (N,).

    Played backwards, what ends at x + v has the velocity -v(x), while the negated field says -v(x + v). Between pixels the field
    is read bilinearly; what leaves the frame is left out. A model that is right about both directions, with fields that belong to the
    first frame's places, shows this much; one whose fields belong to the middle of the paths shows less.

    >>> bool(reversal_floor(torch.full((1, 2, 8, 8), 1.5)) < 1e-6)
    True
    """
    v = field(flow).float()
    height, width = v.shape[2:]
    rows, columns = torch.meshgrid(torch.arange(height, device=flow.device), torch.arange(width, device=flow.device), indexing="ij")
    at = torch.stack((columns, rows)).float() + v
    last = v.new_tensor([width - 1, height - 1])[:, None, None]
    grid = (2 * at / last.clamp(min=1) - 1).movedim(1, -1)
    there = functional.grid_sample(v, grid, align_corners=True)
    stays = ((at >= 0) & (at <= last)).all(dim=1)
    square = (v - there).square().sum(dim=1).masked_fill(~stays, float("nan"))
    return square.flatten(1).nanmean(dim=1).sqrt()


POSITIVE = (0.0, math.inf)
RMSE = Metric(name="rmse", function=rmse, label="RMSE", direction=Direction.LOWER, bounds=POSITIVE, unit="px")
MSE = Metric(name="mse", function=mse, label="MSE", direction=Direction.LOWER, bounds=POSITIVE, unit="px²")
MAE = Metric(name="mae", function=mae, label="MAE", direction=Direction.LOWER, bounds=POSITIVE, unit="px")
EPE = Metric(name="epe", function=epe, label="end-point error", direction=Direction.LOWER, bounds=POSITIVE, unit="px")


@TASKS.add
@dataclass(frozen=True, kw_only=True)
class Flow(Task):
    """Outputs and truth are vector fields (R, 2, H, H) in pixels, u to the right and v down, which turn with the frames (covariance).

    D4 moves them exactly; time reversal negates them, which a flow obeys only down to `reversal_floor`. The consensus is the mean
    of the undone fields.
    """

    name = "flow"
    kind = "flow"

    action = TurnedField()

    metrics: tuple[Metric, ...] = (RMSE, MSE, MAE, EPE)

    def read(self, raw: Any) -> Tensor:
        """The field, (R, 2, H, W)."""
        return field(as_float(raw, "vector fields of shape (rows, 2, height, width), u to the right and v down"))

    def check(self, truth: Tensor, samples: int) -> Tensor:
        """Fields (samples, 2, H, W), float32."""
        if not isinstance(truth, Tensor) or truth.ndim != 4 or truth.shape[:2] != (samples, 2):
            what = tuple(truth.shape) if isinstance(truth, Tensor) else type(truth).__name__
            raise InputError(f"The targets of a flow must be vector fields of shape ({samples}, 2, height, width), not {what}.")
        return truth.float()

    def apart(self, a: Tensor, b: Tensor) -> Tensor:
        """The root of the mean squared length of the difference, in pixels."""
        return rmse(a, b)
