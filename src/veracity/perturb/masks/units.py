"""Units that are masked together: single entries of a sample, or square patches of it with all their channels."""

from __future__ import annotations

import torch
from torch import Size, Tensor
from torch.nn.functional import pad

from veracity.core.errors import SpecError


def positions(shape: Size) -> Size:
    """The axes that patches run over: the last two of (C, H, W), the last one of (C, T) or of (features,).

    >>> positions(Size((3, 8, 9))), positions(Size((2, 7)))
    (torch.Size([8, 9]), torch.Size([7]))
    """
    return shape[-2:] if len(shape) > 2 else shape[-1:]


def unit_count(shape: Size, patch: int) -> int:
    """How many units a sample has; with patches of 1 every entry of every channel is one.

    >>> unit_count(Size((3, 8, 9)), 1), unit_count(Size((3, 8, 9)), 4)
    (216, 6)
    """
    return shape.numel() if patch == 1 else Size(-(-length // patch) for length in positions(shape)).numel()


def unit_numbers(shape: Size, patch: int) -> Tensor:
    """The unit of each of the d entries of a flattened sample, (d,); patches at the far edge may be smaller.

    >>> unit_numbers(Size((2, 3)), 2)
    tensor([0, 0, 1, 0, 0, 1])
    """
    if patch == 1:
        return torch.arange(shape.numel())
    number = torch.zeros((), dtype=torch.int64)
    for length in positions(shape):
        number = number.unsqueeze(-1) * (-(-length // patch)) + torch.arange(length) // patch
    return number.expand(shape).flatten()


def unit_sums(values: Tensor, patch: int) -> Tensor:
    """The sum of the values (N, ...) over each unit's entries, (N, units); patches are summed in float64.

    >>> unit_sums(torch.tensor([[1.0, 2.0, 4.0]]), 2)
    tensor([[3., 4.]], dtype=torch.float64)
    """
    if patch == 1:
        return values.flatten(1)
    shape = values.shape[1:]
    space = positions(shape)
    sums = values.double().reshape(len(values), shape.numel() // space.numel(), *space).sum(dim=1)
    sums = pad(sums, [side for length in reversed(space) for side in (0, -length % patch)])
    for axis in range(sums.ndim - 1, 0, -1):
        sums = sums.unflatten(axis, (-1, patch)).sum(dim=axis + 1)
    return sums.flatten(1)


def check_patch(name: str, patch: int, shape: Size) -> None:
    """Raise unless patches of this size fit into a sample of this shape."""
    if patch > max(positions(shape), default=1):
        raise SpecError(f"The patch of {name} is {patch}, larger than the sample's positions {tuple(positions(shape))}: use a smaller one.")
