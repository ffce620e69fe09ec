from __future__ import annotations

from math import exp

import pytest
import torch
from shift_invariant import explain
from torch import Size, Tensor, nn

from veracity.core.errors import InputError, SpecError
from veracity.explain import ExtremalPerturbation
from veracity.explain.extremal import COLDNESS, LEVELS, Smoother, area_loss, blend, blur_levels


class Squares(nn.Module):
    """Score k is the energy of one square of the input, which blur lowers: rows 4-9 and columns 8-13, or rows 10-15 and columns 1-6."""

    def forward(self, x: Tensor) -> Tensor:
        energy = x[:, 0] ** 2
        return torch.stack((energy[:, 4:10, 8:14].sum((1, 2)), energy[:, 10:16, 1:7].sum((1, 2))), dim=1)


def noise(count: int) -> Tensor:
    return torch.randn(count, 1, 16, 16, generator=torch.Generator().manual_seed(0))


def overlap(mask: Tensor, square: tuple[slice, slice]) -> float:
    kept, truth = mask > 0.5, torch.zeros(16, 16, dtype=torch.bool)
    truth[square] = True
    return float((kept & truth).sum() / (kept | truth).sum())


def test_the_square_that_counts_is_found() -> None:
    """A square of 36 of 256 positions, a mask of that area: the two cover each other by two thirds or more, the wrong one hardly."""
    masks = explain(ExtremalPerturbation(area=36 / 256), Squares(), noise(2).sign(), torch.tensor([0, 1]))[:, 0]
    squares = [(slice(4, 10), slice(8, 14)), (slice(10, 16), slice(1, 7))]
    for row, square in enumerate(squares):
        assert overlap(masks[row], square) > 2 / 3
        assert overlap(masks[row], squares[1 - row]) < 0.1


def net() -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Conv2d(6, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(864, 3)).eval()


@pytest.mark.parametrize("area", [0.05, 0.1, 0.3])
def test_the_area_is_kept(area: float) -> None:
    masks = explain(ExtremalPerturbation(area=area), net(), noise(4), torch.tensor([0, 1, 2, 0]))
    assert masks.flatten(1).mean(1).tolist() == pytest.approx([area] * 4, abs=0.04)
    assert masks.min() >= 0
    assert masks.max() <= 1


def test_the_score_is_kept_better_than_by_the_same_mask_elsewhere() -> None:
    model, x, targets = net(), noise(6), torch.arange(6) % 3
    masks, levels = explain(ExtremalPerturbation(), model, x, targets), blur_levels(x, 16 * 3 / 32)

    def kept(mask: Tensor) -> Tensor:
        with torch.no_grad():
            return model(blend(levels, mask)).gather(1, targets[:, None]).squeeze(1)

    moved = torch.stack([kept(masks.roll((down, right), (2, 3))) for down in (0, 4, 8, 12) for right in (0, 4, 8, 12)][1:])
    assert bool((kept(masks) > moved.amax(0)).all())


@pytest.mark.parametrize("factor", [1e-3, 100.0])
def test_the_scores_unit_does_not_matter(factor: float) -> None:
    class Scaled(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return factor * Squares()(x) + 7

    explainer, x, targets = ExtremalPerturbation(iterations=30), noise(2).double(), torch.tensor([0, 1])
    torch.testing.assert_close(explain(explainer, Scaled(), x, targets), explain(explainer, Squares(), x, targets), rtol=0, atol=1e-6)


def test_three_steps_are_the_definitions() -> None:
    """From one half, down the slope of λ area - score with λ = 0, 3 · 10⁴ᐟ³ and 3 · 10⁸ᐟ³, a tenth of it joining the speed.

    The score is scaled so that its first slope sums to 50.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Flatten(), nn.Linear(72, 5), nn.Tanh(), nn.Linear(5, 2)).double()
        x = torch.randn(1, 2, 6, 6).double()
    found = explain(ExtremalPerturbation(iterations=3, rate=0.5, area=0.2, cells=3, sigma=0.4), model, x, torch.tensor([1]))
    smoother, levels = Smoother(Size((6, 6)), 2, 2.4), blur_levels(x, 6 * 3 / 32)
    grid, speed, unit = torch.full((1, 1, 3, 3), 0.5, dtype=torch.float64), 0.0, 1.0
    for firm in (0.0, 3 * 1e4 ** (1 / 3), 3 * 1e4 ** (2 / 3)):
        grid = grid.detach().requires_grad_()
        mask = slow_masks(smoother, grid)
        (down,) = torch.autograd.grad(-model(blend(levels, mask))[0, 1], grid, retain_graph=True)
        (smaller,) = torch.autograd.grad(area_loss(mask, 0.2).sum(), grid)
        unit = 50 / down.abs().sum() if firm == 0 else unit
        slope = unit * down + firm * smaller
        speed = 0.9 * speed + 0.1 * slope
        grid = (grid - 0.5 * speed).clamp(0, 1)
    torch.testing.assert_close(found, slow_masks(smoother, grid).detach().expand_as(x))


def slow_masks(smoother: Smoother, grid: Tensor) -> Tensor:
    """The smooth maximum, position by position, over the cells that are heard; cells outside of the image are zero."""
    step, reach = smoother.step, smoother.reach
    rows = []
    for y in range(smoother.size[0]):
        for x in range(smoother.size[1]):
            values = []
            for i in range(y // step - reach, y // step + reach + 1):
                for j in range(x // step - reach, x // step + reach + 1):
                    inside = 0 <= i < grid.shape[2] and 0 <= j < grid.shape[3]
                    away = ((i * step + (step - 1) / 2 - y) ** 2 + (j * step + (step - 1) / 2 - x) ** 2) ** 0.5
                    kernel = exp(-2 * max(0.0, away / smoother.sigma - 0.5) ** 2)
                    values.append(kernel * grid[:, 0, i, j] if inside else torch.zeros_like(grid[:, 0, 0, 0]))
            heard = torch.stack(values, dim=1)
            rows.append((heard * torch.softmax(COLDNESS * heard, dim=1)).sum(1))
    return torch.stack(rows, dim=1).reshape(len(grid), 1, *smoother.size)


@pytest.mark.parametrize(("size", "step", "sigma"), [((5, 7), 2, 2.5), ((4, 4), 1, 1.0), ((1, 9), 3, 4.0)])
def test_masks_are_the_slow_smooth_maximum(size: tuple[int, int], step: int, sigma: float) -> None:
    smoother = Smoother(Size(size), step, sigma)
    grid = torch.rand(2, 1, *smoother.cells, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(smoother.masks(grid, smoother.weights().float()), slow_masks(smoother, grid))


def test_blur_goes_from_all_to_none() -> None:
    x = torch.rand(2, 3, 6, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    levels = blur_levels(x, 50.0)
    assert levels.shape == (2, LEVELS, 3, 6, 9)
    torch.testing.assert_close(levels[:, -1], x)
    torch.testing.assert_close(levels[:, 0], x.mean((2, 3), keepdim=True).expand_as(x), rtol=0, atol=0.01)
    torch.testing.assert_close(blend(levels, torch.ones(2, 1, 6, 9).double()), x)
    assert torch.equal(blend(levels, torch.zeros(2, 1, 6, 9).double()), levels[:, 0])


def test_misuse_raises() -> None:
    for setting, value, sentence in (
        ("area", 1.0, "a number above 0 and below 1, not 1.0"),
        ("iterations", 0, "a whole number of at least 1, not 0"),
        ("blur", 0.0, "a positive number, not 0.0"),
    ):
        with pytest.raises(SpecError, match=f"'{setting}' of explainer 'extremal_perturbation' must be {sentence}"):
            ExtremalPerturbation(**{setting: value})
    with pytest.raises(InputError, match=r"needs images \(C, H, W\) or series \(C, T\), but an input has shape \(4,\)"):
        ExtremalPerturbation().check(nn.Linear(4, 2), torch.zeros(2, 4), torch.tensor([0, 1]))
