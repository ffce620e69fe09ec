"""RISE: how much a position's presence helps the score, over random smooth masks drawn for each sample."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import torch
from torch import Size, Tensor, nn
from torch.nn import functional

from veracity.core.explainers import Context, Cost, Explainer
from veracity.core.randomness import Draws
from veracity.core.registry import EXPLAINERS
from veracity.core.settings import Count, Inside
from veracity.explain.masking import broadcast_channels, spatial_shape
from veracity.explain.passes import mean_over_items, scores

DRAWN_AT_ONCE = 2**20  # random numbers


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class Rise(Explainer):
    """Random masks weighted by the score of the masked input: e(x) = 1 / (keep · masks) Σ_m f(x ⊙ M_m) M_m (eq. 6).

    Each mask keeps each of `cells` cells per axis with probability `keep`. It is interpolated to a grid one cell larger than
    the input and cropped at a random offset, so no position is special. It covers all channels.
    """

    name = "rise"
    reference = "Petsiuk et al. 2018, arXiv:1806.07421"
    stochastic = True
    masks: Count = 1000
    cells: Count = 7
    keep: Inside = 0.5

    def cost(self, shape: Size) -> Cost:
        return Cost(forward=self.masks)

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        x, shape, size = inputs.detach(), inputs.shape[1:], spatial_shape(inputs.shape[1:])
        cells, sides = cell_grid(size, self.cells if len(shape) > 1 else size[0])
        kept, offsets = self.draw_masks(context.draws.to(x.device), cells, sides)

        def term(row: Tensor, item: Tensor) -> Tensor:
            masks = smooth_masks(kept[row, item].to(x), offsets[row, item], size, sides)
            score = scores(model, x[row] * broadcast_channels(masks, shape), targets[row])
            return score.to(masks).reshape(-1, *[1] * len(size)) * masks

        mean = mean_over_items(term, x.new_zeros(len(x), *size), self.masks, context.batch)
        return broadcast_channels(mean / self.keep, shape).expand_as(x).contiguous()

    def draw_masks(self, draws: Draws, cells: Size, sides: Size) -> tuple[Tensor, Tensor]:
        """The cells that each mask keeps, (N, masks, *cells), and the offset of its crop, (N, masks, axes).

        A cell is kept if its uniform number (word + 1/2) / 2**32 lies below `keep`, which the 32-bit word alone decides.
        """
        threshold = ceil(self.keep * 2**32 - 0.5)
        numbers = self.masks * cells.numel()
        parts = torch.arange(len(draws)).split(max(1, DRAWN_AT_ONCE // numbers))
        kept = torch.cat([draws[part].words(numbers, "rise.cells") < threshold for part in parts])
        shares = draws.words(self.masks * len(sides), "rise.offset").double().add_(0.5).div_(2.0**32)
        limits = torch.tensor(sides, device=shares.device)
        offsets = (shares.reshape(-1, self.masks, len(sides)) * limits).long().clamp(max=limits - 1)
        return kept.reshape(-1, self.masks, *cells), offsets


def cell_grid(size: Size, cells: int) -> tuple[Size, Size]:
    """Cells per axis, never more than positions, and positions per cell, rounded up.

    >>> cell_grid(Size((28, 5)), 7)
    (torch.Size([7, 5]), torch.Size([4, 1]))
    """
    count = Size(min(cells, length) for length in size)
    return count, Size(-(-length // number) for length, number in zip(size, count, strict=True))


def smooth_masks(grid: Tensor, offset: Tensor, size: Size, sides: Size) -> Tensor:
    """Grids (R, *cells) of kept cells as masks (R, *size): interpolated to one more cell, then cropped at offsets (R, axes).

    One axis after the other, each as a single product with the weights of all its cells.

    >>> smooth_masks(torch.tensor([[1.0, 0.0]]), torch.tensor([[1]]), Size((4,)), Size((2,)))
    tensor([[1.0000, 0.6667, 0.3333, 0.0000]])
    """
    rows, cells, width, place = len(grid), grid.shape[-1], size[-1], torch.arange(max(size), device=grid.device)
    lines = grid.reshape(rows, -1, cells).transpose(0, 1).reshape(-1, cells) @ cell_weights(cells, sides[-1], grid)
    lines = lines.reshape(-1, rows, lines.shape[1])
    lines = lines.gather(2, (offset[:, -1:] + place[:width]).expand(len(lines), rows, width))
    if len(size) == 1:
        return lines.squeeze(0)
    columns = cell_weights(grid.shape[1], sides[0], grid).T @ lines.flatten(1)
    chosen = (offset[:, :1] + place[: size[0]]) * rows + torch.arange(rows, device=grid.device)[:, None]
    return columns.reshape(-1, width).index_select(0, chosen.flatten()).reshape(rows, *size)


def cell_weights(cells: int, side: int, like: Tensor) -> Tensor:
    """The weight of each cell at each position of an axis that is one cell longer, by linear interpolation: (cells, positions).

    >>> cell_weights(2, 2, torch.zeros(()))[0]
    tensor([1.0000, 1.0000, 0.6667, 0.3333, 0.0000, 0.0000])
    """
    length = (cells + 1) * side if side > 1 else cells
    unit = torch.eye(cells, dtype=like.dtype, device=like.device)
    return functional.interpolate(unit.unsqueeze(1), size=length, mode="linear", align_corners=False).squeeze(1)
