"""Square patches as features: all channels of a patch are present together or replaced by the baseline together."""

from __future__ import annotations

import torch
from torch import Size, Tensor, nn

from veracity.core.errors import SpecError
from veracity.explain.passes import scores, table_of


def space_of(shape: Size) -> Size:
    """The axes that positions run over: the last two of (C, H, W), the last one of (C, T) or of (features,).

    >>> space_of(Size((3, 8, 9))), space_of(Size((2, 7)))
    (torch.Size([8, 9]), torch.Size([7]))
    """
    return shape[-2:] if len(shape) > 2 else shape[-1:]


def side_on(shape: Size, side: int) -> int:
    """How many neighbours stand together along an axis: `side`, but one on a vector of features, whose order means nothing.

    >>> side_on(Size((1, 8, 8)), 4), side_on(Size((10,)), 4)
    (4, 1)
    """
    return side if len(shape) > 1 else 1


def patch_numbers(shape: Size, patch: int) -> Tensor:
    """Which patch each position belongs to, from 0; patches at the far edge may be smaller. Features of a vector stand alone.

    >>> patch_numbers(Size((1, 2, 3)), 2)
    tensor([[0, 0, 1],
            [0, 0, 1]])
    """
    number, side = torch.zeros((), dtype=torch.int64), side_on(shape, patch)
    for size in space_of(shape):
        along = torch.arange(size) // side
        number = number.unsqueeze(-1) * (-(-size // side)) + along
    return number


def patch_count(shape: Size, patch: int) -> int:
    """How many patches cover the positions.

    >>> patch_count(Size((1, 14, 14)), 4)
    16
    """
    side = side_on(shape, patch)
    return Size(-(-size // side) for size in space_of(shape)).numel()


def spread_over(values: Tensor, numbers: Tensor, shape: Size) -> Tensor:
    """Each position gets its patch's value, in every channel: (N, patches) -> (N, *shape).

    The patches' numbers are those of all rows, (*space), or of each row, (N, *space).
    """
    maps = looked_up(values, numbers.to(values.device).expand(len(values), *space_of(shape)))
    return over_channels(maps, shape).expand(len(values), *shape)


def looked_up(values: Tensor, numbers: Tensor) -> Tensor:
    """Each row's values (R, patches) at its own patches' positions: (R, *space).

    >>> looked_up(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[0, 0, 1], [1, 0, 0]]))
    tensor([[1., 1., 2.],
            [4., 3., 3.]])
    """
    return values.gather(1, numbers.flatten(1)).reshape(numbers.shape)


def over_channels(maps: Tensor, shape: Size) -> Tensor:
    """Maps over positions (R, *space) with the leading axes of the input put in as ones: they broadcast to (R, *shape)."""
    return maps.reshape(len(maps), *[1] * (len(shape) - maps.ndim + 1), *maps.shape[1:])


def sums_over(values: Tensor, numbers: Tensor, count: int) -> Tensor:
    """The sum of the values (N, ...) inside each patch, over all channels, in float64 on the CPU: (N, patches)."""
    flat = values.detach().double().cpu().reshape(len(values), -1, numbers.numel()).sum(1)
    return torch.zeros(len(values), count, dtype=torch.float64).index_add_(1, numbers.flatten(), flat)


def masked_scores(
    model: nn.Module, inputs: Tensor, targets: Tensor, present: Tensor, baseline: Tensor, numbers: Tensor, batch: int
) -> Tensor:
    """Scores with some patches present and the others at the baseline: masks (N, S, patches) -> (N, S) float64, on the CPU.

    The baseline is one for all rows, (1, ...), or one each, (N, ...); so are the patches' numbers, (*space) or (N, *space).
    """
    x, shape = inputs.detach(), inputs.shape[1:]
    numbers, baseline = numbers.to(x.device).expand(len(x), *space_of(shape)), baseline.expand_as(x)

    def term(row: Tensor, item: Tensor) -> Tensor:
        keep = looked_up(present[row.cpu(), item.cpu()].to(x.device), numbers[row])
        return scores(model, torch.where(over_channels(keep, shape), x[row], baseline[row]), targets[row])

    return table_of(term, len(x), present.shape[1], batch, x.device).double().cpu()


def check_patch(name: str, patch: int, shape: Size) -> None:
    """Raise unless the patch fits into the input."""
    if patch > max(space_of(shape)):
        raise SpecError(f"patch of {name} is {patch}, larger than the input's positions {tuple(space_of(shape))}: use a smaller patch.")
