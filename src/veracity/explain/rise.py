"""RISE: how much a position's presence helps the score, over random smooth masks of the sample's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import torch
from torch import Size, Tensor, nn
from torch.nn import functional

from veracity.core.explainers import BARE, Context, Cost, Explainer
from veracity.core.randomness import Draws
from veracity.core.registry import EXPLAINERS
from veracity.core.settings import Count, Inside
from veracity.explain.passes import mean_of, scores
from veracity.explain.patches import over_channels, space_of

TOGETHER = 2**20  # random numbers that are drawn at once


def grid_of(space: Size, cells: int) -> tuple[Size, Size]:
    """Cells along each axis, never more than positions, and positions a cell, rounded up.

    >>> grid_of(Size((28, 5)), 7)
    (torch.Size([7, 5]), torch.Size([4, 1]))
    """
    count = Size(min(cells, size) for size in space)
    return count, Size(-(-size // number) for size, number in zip(space, count, strict=True))


def ramps(cells: int, side: int, like: Tensor) -> Tensor:
    """How much each cell weighs at each position of an axis one cell longer, by linear interpolation: (cells, positions).

    >>> ramps(2, 2, torch.zeros(()))[0]
    tensor([1.0000, 1.0000, 0.6667, 0.3333, 0.0000, 0.0000])
    """
    larger = (cells + 1) * side if side > 1 else cells
    alone = torch.eye(cells, dtype=like.dtype, device=like.device)
    return functional.interpolate(alone.unsqueeze(1), size=larger, mode="linear", align_corners=False).squeeze(1)


def smooth_masks(grid: Tensor, offset: Tensor, space: Size, size: Size) -> Tensor:
    """Grids (R, *cells) of kept and dropped cells as masks (R, *space): one cell larger, interpolated, cut out at offsets (R, axes).

    One axis after the other, each as a single product with the weights of all its cells.

    >>> smooth_masks(torch.tensor([[1.0, 0.0]]), torch.tensor([[1]]), Size((4,)), Size((2,)))
    tensor([[1.0000, 0.6667, 0.3333, 0.0000]])
    """
    rows, cells, width, place = len(grid), grid.shape[-1], space[-1], torch.arange(max(space), device=grid.device)
    lines = grid.reshape(rows, -1, cells).transpose(0, 1).reshape(-1, cells) @ ramps(cells, size[-1], grid)
    lines = lines.reshape(-1, rows, lines.shape[1])
    lines = lines.gather(2, (offset[:, -1:] + place[:width]).expand(len(lines), rows, width))
    if len(space) == 1:
        return lines.squeeze(0)
    columns = ramps(grid.shape[1], size[0], grid).T @ lines.flatten(1)
    chosen = (offset[:, :1] + place[: space[0]]) * rows + torch.arange(rows, device=grid.device)[:, None]
    return columns.reshape(-1, width).index_select(0, chosen.flatten()).reshape(rows, *space)


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class Rise(Explainer):
    """Random masks weighted by the score of the masked input: e(x) = 1 / (keep · masks) Σ_m f(x ⊙ M_m) M_m (eq. 6).

    Each mask keeps each of `cells` cells an axis with probability `keep`, is interpolated to a grid one cell larger than the
    input and cut out at a random offset, so that no position is special; it covers all channels. A sample's masks
    are its own.
    """

    name = "rise"
    reference = "Petsiuk et al. 2018, arXiv:1806.07421"
    stochastic = True
    masks: Count = 1000
    cells: Count = 7
    keep: Inside = 0.5

    def cost(self, shape: Size) -> Cost:
        """One forward pass for each mask."""
        return Cost(forward=self.masks)

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise on settings that do not fit."""
        return ()

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Attributions of the inputs' shape, the same in every channel."""
        x, shape, space = inputs.detach(), inputs.shape[1:], space_of(inputs.shape[1:])
        count, size = grid_of(space, self.cells if len(shape) > 1 else space[0])
        kept, offsets = self.drawn(context.draws, count, size, x.device)

        def term(row: Tensor, item: Tensor) -> Tensor:
            masks = smooth_masks(kept[row, item].to(x), offsets[row, item], space, size)
            score = scores(model, x[row] * over_channels(masks, shape), targets[row])
            return score.to(masks).reshape(-1, *[1] * len(space)) * masks

        mean = mean_of(term, x.new_zeros(len(x), *space), self.masks, context.batch)
        return over_channels(mean / self.keep, shape).expand_as(x).contiguous()

    def drawn(self, draws: Draws, count: Size, size: Size, device: torch.device) -> tuple[Tensor, Tensor]:
        """Which cells each mask keeps, (N, masks, *cells), and where it is cut out, (N, masks, axes), on the device.

        A cell is kept where its uniform number (word + 1/2) / 2**32 lies below `keep`, told from the word alone.
        """
        below = ceil(self.keep * 2**32 - 0.5)
        parts = torch.arange(len(draws)).split(max(1, TOGETHER // (self.masks * count.numel())))
        kept = torch.cat([draws[part].words_on(self.masks * count.numel(), "rise.cells", device) < below for part in parts])
        shares = draws.words_on(self.masks * len(size), "rise.offset", device).double().add_(0.5).div_(2.0**32)
        sides = torch.tensor(size, device=device)
        offsets = (shares.reshape(-1, self.masks, len(size)) * sides).long().clamp(max=sides - 1)
        return kept.reshape(-1, self.masks, *count), offsets
