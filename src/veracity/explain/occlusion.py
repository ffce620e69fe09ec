"""Occlusion by a window that wraps around, so that no position is special."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Size, Tensor, nn

from veracity.core.errors import SpecError
from veracity.core.explainers import BARE, Context, Cost, Explainer
from veracity.core.registry import EXPLAINERS
from veracity.core.settings import Count
from veracity.explain.baselines import Baseline, as_row, check_baseline
from veracity.explain.passes import scores, table_of
from veracity.explain.patches import over_channels, side_on, space_of


def windows(size: int, window: int) -> Tensor:
    """Which positions of a circle lie in the window that starts at each: (size, size).

    >>> windows(4, 2).int()
    tensor([[1, 1, 0, 0],
            [0, 1, 1, 0],
            [0, 0, 1, 1],
            [1, 0, 0, 1]], dtype=torch.int32)
    """
    position = torch.arange(size)
    return (position[None, :] - position[:, None]) % size < window


def box_mean(values: Tensor, window: int, axes: int) -> Tensor:
    """The mean over the windows that contain each position, from values by window start, around the last `axes` axes.

    >>> box_mean(torch.tensor([[1.0, 0.0, 0.0, 0.0]]), window=2, axes=1)
    tensor([[0.5000, 0.5000, 0.0000, 0.0000]])
    """
    for axis in range(-axes, 0):
        values = torch.stack([values.roll(offset, axis) for offset in range(window)]).mean(0)
    return values


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class Occlusion(Explainer):
    """What the score loses when a window of the input is set to the baseline, averaged over the windows at a position.

    Windows have `window` positions a side, start at every position, wrap around the edges and cover all channels; each
    position lies in exactly window^k of them. e_i(x) = the mean of f(x) - f(x occluded by w) over the windows w that
    contain i: equivariant under cyclic shifts if the baseline is. On a vector of features, whose order means nothing, a
    window is one feature.
    """

    name = "occlusion"
    reference = "Zeiler and Fergus 2013, arXiv:1311.2901; Crabbé and van der Schaar 2023, Proposition D.8"
    window: Count = 5
    baseline: Baseline = 0.0

    def cost(self, shape: Size) -> Cost:
        """One forward pass for each position, and one for the input."""
        return Cost(forward=1 + space_of(shape).numel())

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise on settings that do not fit."""
        check_baseline(self.name, self.baseline, inputs.shape[1:])
        space = space_of(inputs.shape[1:])
        if side_on(inputs.shape[1:], self.window) > min(space):
            raise SpecError(
                f"window of occlusion is {self.window}, larger than the input's positions {tuple(space)}: use a smaller window."
            )
        return ()

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Attributions of the inputs' shape, the same in every channel."""
        x, shape, space = inputs.detach(), inputs.shape[1:], space_of(inputs.shape[1:])
        baseline = as_row(self.baseline, x)
        window = side_on(shape, self.window)
        along = [windows(size, window).to(x.device) for size in space]

        def occluded(position: Tensor) -> Tensor:
            if len(space) == 1:
                return along[0][position]
            return along[0][position // space[1]].unsqueeze(-1) & along[1][position % space[1]].unsqueeze(-2)

        def term(row: Tensor, item: Tensor) -> Tensor:
            hidden = occluded(item - 1)
            hidden[item == 0] = False
            return scores(model, torch.where(over_channels(hidden, shape), baseline, x[row]), targets[row])

        values = table_of(term, len(x), 1 + space.numel(), context.batch, x.device)
        losses = (values[:, :1] - values[:, 1:]).reshape(len(x), *space)
        return over_channels(box_mean(losses, window, len(space)), shape).expand_as(x).contiguous()
