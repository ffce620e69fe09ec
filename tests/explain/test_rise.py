from __future__ import annotations

from math import floor

import pytest
import torch
from shift_invariant import context_of, explain
from torch import Tensor, nn
from torch.nn import functional

from veracity.core.errors import SpecError
from veracity.explain import Rise
from veracity.explain.rise import smooth_masks

Cells = list[list[float]]


def along(position: int, size: int, larger: int) -> list[tuple[int, float]]:
    """The cells between which a position lies, with their weights: linear interpolation between the cells' middles."""
    place = min(max((position + 0.5) * size / larger - 0.5, 0.0), size - 1.0)
    low = floor(place)
    return [(low, 1 - (place - low)), (min(low + 1, size - 1), place - low)]


def slow_mask(cells: Tensor, offset: Tensor, tall: int, wide: int) -> Tensor:
    """One mask, position by position."""
    rows, columns = cells.shape
    side = (-(-tall // rows), -(-wide // columns))
    larger = [(n + 1) * s if s > 1 else n for n, s in zip((rows, columns), side, strict=True)]
    mask = torch.zeros(tall, wide)
    for i in range(tall):
        for j in range(wide):
            for row, down in along(i + int(offset[0]), rows, larger[0]):
                for column, right in along(j + int(offset[1]), columns, larger[1]):
                    mask[i, j] += down * right * float(cells[row, column])
    return mask


def test_the_slow_loop_on_images() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(60, 3))
    x, targets = torch.randn(2, 2, 6, 7, generator=torch.Generator().manual_seed(0)), torch.tensor([2, 0])
    context = context_of(2, batch=3)
    found = Rise(masks=5, cells=3, keep=0.4).explain(model, x, targets, context)
    kept = context.draws.uniform(5, 3, 3, stream="rise.cells") < 0.4
    offset = (context.draws.uniform(5, 2, stream="rise.offset") * torch.tensor([2, 3])).long()
    assert len(offset.reshape(-1, 2).unique(dim=0)) > 2
    for row in range(2):
        total = torch.zeros(6, 7)
        for m in range(5):
            mask = slow_mask(kept[row, m], offset[row, m], 6, 7)
            total += model((x[row] * mask)[None])[0, targets[row]].detach() * mask
        torch.testing.assert_close(found[row], (total / (5 * 0.4)).expand(2, 6, 7), rtol=1e-4, atol=1e-6)


def test_the_slow_loop_on_series_is_that_of_images_one_row_high() -> None:
    x, context = torch.randn(2, 3, 11, generator=torch.Generator().manual_seed(0)), context_of(2)
    found = Rise(masks=4, cells=4, keep=0.5).explain(First(), x, torch.tensor([0, 0]), context)
    kept = context.draws.uniform(4, 4, stream="rise.cells") < 0.5
    offset = (context.draws.uniform(4, 1, stream="rise.offset") * 3).long()
    for row in range(2):
        masks = [slow_mask(kept[row, m][None], torch.tensor([0, int(offset[row, m])]), 1, 11)[0] for m in range(4)]
        expected = sum(float((x[row] * mask)[0, 2]) * mask for mask in masks) / (4 * 0.5)
        torch.testing.assert_close(found[row], expected.expand(3, 11))


class First(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[:, 0, 2:3]


class One(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.new_ones(len(x), 1)


@pytest.mark.parametrize("shape", [(1, 9, 9), (2, 14), (5,)], ids=str)
def test_every_position_is_kept_as_often(shape: tuple[int, ...]) -> None:
    """For the score 1 the map is E[M] / keep = 1 everywhere, edges included."""
    found = explain(Rise(masks=6000, cells=4, keep=0.3), One(), torch.zeros(1, *shape), torch.tensor([0]))
    torch.testing.assert_close(found, torch.ones(1, *shape), rtol=0, atol=0.1)


def test_features_without_neighbours_are_kept_or_dropped_whole() -> None:
    """With as many cells as numbers, masks are bits: for f = x_0 the map is (x_0, keep x_0, ...) in expectation."""
    x, keep = torch.tensor([[2.0, 1.0, 1.0]]), 0.5
    linear = nn.Linear(3, 1, bias=False)
    linear.weight.data = torch.tensor([[1.0, 0.0, 0.0]])
    found = explain(Rise(masks=20_000, keep=keep), linear, x, torch.tensor([0]))
    torch.testing.assert_close(found, torch.tensor([[2.0, 1.0, 1.0]]), rtol=0.05, atol=0)


def test_misuse_raises() -> None:
    for setting, value in (("masks", 0), ("cells", 0), ("keep", 1.0)):
        with pytest.raises(SpecError, match=f"The setting '{setting}' of explainer 'rise' must be a .*number"):
            Rise(**{setting: value})


@pytest.mark.parametrize(("space", "cells"), [((28, 28), (7, 7)), ((9, 31), (7, 7)), ((5, 40), (5, 7)), ((13,), (4,))], ids=str)
def test_masks_are_interpolated_and_cut_out(space: tuple[int, ...], cells: tuple[int, ...]) -> None:
    """The same as torch's own interpolation of the whole grid, from which each mask is cut."""
    generator = torch.Generator().manual_seed(0)
    size = torch.Size(-(-length // number) for length, number in zip(space, cells, strict=True))
    grid = (torch.rand(30, *cells, generator=generator) < 0.5).float()
    offset = torch.stack([torch.randint(side, (30,), generator=generator) for side in size], dim=1)
    found = smooth_masks(grid, offset, torch.Size(space), size)
    larger = [(number + 1) * side if side > 1 else number for number, side in zip(cells, size, strict=True)]
    whole = functional.interpolate(grid[:, None], size=larger, mode=["linear", "bilinear"][len(space) - 1], align_corners=False)
    for row in range(30):
        window = [slice(int(start), int(start) + length) for start, length in zip(offset[row], space, strict=True)]
        torch.testing.assert_close(found[row], whole[row, 0][tuple(window)], rtol=0, atol=5e-7)


@pytest.mark.parametrize("keep", [0.5, 0.3, 1e-11, 1 - 1e-11])
def test_cells_are_kept_where_their_uniform_numbers_lie_below(keep: float) -> None:
    draws = context_of(3).draws
    kept, _ = Rise(masks=50, keep=keep).draw_masks(draws, torch.Size((7, 7)), torch.Size((4, 4)))
    assert torch.equal(kept, draws.uniform(50, 7, 7, stream="rise.cells") < keep)
