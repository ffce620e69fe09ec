"""The input that stands for "nothing there": one number, or one input."""

from __future__ import annotations

import torch
from torch import Size, Tensor

from veracity.core.errors import SpecError

Baseline = float | Tensor


def as_row(baseline: Baseline, inputs: Tensor) -> Tensor:
    """The baseline as one input of the right type and place, (1, ...).

    >>> as_row(0.5, torch.zeros(3, 1, 2))
    tensor([[[0.5000, 0.5000]]])
    """
    value = torch.as_tensor(baseline, dtype=inputs.dtype, device=inputs.device)
    return value.expand(inputs.shape[1:]).unsqueeze(0)


def check_baseline(name: str, baseline: Baseline, shape: Size) -> None:
    """Raise unless the baseline is a number or broadcasts to one input of this shape."""
    if not isinstance(baseline, Tensor):
        return
    try:
        baseline.expand(shape)
    except RuntimeError:
        raise SpecError(
            f"The baseline of {name} has shape {tuple(baseline.shape)}, but one input has shape {tuple(shape)}: "
            "give a number or a tensor of one input's shape."
        ) from None
