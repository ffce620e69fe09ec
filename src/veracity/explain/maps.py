"""Maps that come from elsewhere: as a tensor, in the shape of the inputs, and how far two of them lie apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Size, Tensor

from veracity.core.errors import SpecError
from veracity.core.inputs import check_readable
from veracity.core.settings import short_repr


def map_tensor(value: Any) -> Tensor:
    """Maps (samples, ...) as a tensor; raises if they are something else."""
    given = value.to_numpy() if is_table(value) else value
    if isinstance(given, np.ndarray) and given.dtype.kind in "fiub":
        given = torch.from_numpy(np.array(given, dtype=given.dtype if given.dtype.kind == "f" else np.float32))
    if isinstance(given, np.ndarray) or (isinstance(given, Tensor) and given.is_complex()):
        raise SpecError(f"precomputed needs maps, a real tensor (samples, ...), not one of type {given.dtype}: pass maps.astype(float).")
    if not isinstance(given, Tensor) or given.ndim < 2:
        what = (
            f"shape {tuple(given.shape)}"
            if hasattr(given, "shape")
            else short_repr(given)
            if isinstance(given, str)
            else type(given).__name__
        )
        raise SpecError(f"precomputed needs maps, a real tensor (samples, ...) with one explanation per input, not {what}.")
    check_readable(given, "maps of precomputed")
    return given.detach()


def is_table(value: Any) -> bool:
    """Whether a value is a DataFrame."""
    return hasattr(value, "to_numpy") and hasattr(value, "columns")


def in_shape(maps: Tensor, shape: Size) -> Tensor | None:
    """Maps (N, ...) in the shape of the inputs, (N, *shape); None if they do not fit.

    Axes of size one are repeated. So is a map without channels, (N, H, W) or (N, H, W, 1), along the channels.

    >>> in_shape(torch.ones(2, 4, 4), Size((3, 4, 4))).shape, in_shape(torch.ones(2, 1, 4, 4), Size((3, 4, 4))).shape
    (torch.Size([2, 3, 4, 4]), torch.Size([2, 3, 4, 4]))
    """
    if len(shape) > 1 and maps.shape[1:] == (*shape[1:], 1):
        maps = maps.squeeze(-1)
    if len(shape) > 1 and maps.shape[1:] == shape[1:]:
        maps = maps.unsqueeze(1)
    if maps.ndim != len(shape) + 1 or any(size not in (1, full) for size, full in zip(maps.shape[1:], shape, strict=True)):
        return None
    return maps.expand(len(maps), *shape)


def apart(one: Tensor, other: Tensor) -> float:
    """The largest distance of two maps (N, ...) as a share of their size; 0 if it is rounding, or if their shapes differ.

    >>> round(apart(torch.tensor([[3.0, 4.0]]), torch.tensor([[3.0, 3.5]])), 3), apart(torch.ones(1, 2), torch.ones(1, 2))
    (0.1, 0.0)
    """
    if one.shape != other.shape or not len(one):
        return 0.0
    a, b = (maps.double().nan_to_num().flatten(1) for maps in (one, other))
    largest = float(((a - b).norm(dim=1) / torch.maximum(a.norm(dim=1), b.norm(dim=1))).nan_to_num().max())
    return largest if largest > 16 * torch.finfo(one.dtype).eps else 0.0
