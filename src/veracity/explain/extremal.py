"""Extremal perturbations: the smooth mask of a given area that keeps the score highest when everything else is blurred."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import torch
from torch import Size, Tensor, nn
from torch.nn import functional

from veracity.core.explainers import BARE, Context, Cost
from veracity.core.registry import EXPLAINERS
from veracity.core.settings import Count, Inside, Positive
from veracity.explain.gradients import GradientBased
from veracity.explain.masking import broadcast_channels, require_positions, spatial_shape
from veracity.explain.passes import in_batches, pick

COLDNESS = 20.0  # of the smooth maximum
LEVELS = 8  # of blur, from the strongest to none
MOMENTUM = 0.9
START = 0.5  # of every cell
SCORE_SLOPE = 50.0  # the sum of the score's slopes over all cells at the start; the score is scaled to it
AREA_WEIGHT, AREA_GROWTH = 3.0, 10_000.0  # the weight of the area loss at the start, and its growth until the end


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class ExtremalPerturbation(GradientBased):
    """The mask m of a given `area` that maximises the score of the input blurred outside of the mask.

    max_m f(m ⊗ x) - λ mean((sort(m) - r_a)²) by `iterations` steps of gradient descent with momentum (eq. 5). m is a smooth
    maximum over at most `cells` cells along the longer side; `sigma` is the width of its kernel and `blur` the width of the
    strongest blur, as shares of that side. The paper takes 800 steps at rate .01 from a mask of ones, mirrors the input in
    every second step, and raises λ from 300 to 4900. Here nothing is mirrored, cells start at one half, and the first step has
    λ = 0, so the score and not a tie decides which cells go first. λ then grows from 3 to 30000, next to a score scaled to a
    fixed slope at the start, so the score's unit does not matter. On MNIST's LeNet (logit 14, all blurred 1.4) the best tenth
    scores 8.6; the published start gives 1.6. Rows are optimised independently.
    """

    name = "extremal_perturbation"
    reference = "Fong et al. 2019, arXiv:1910.08485"
    signed = False
    area: Inside = 0.1
    iterations: Count = 100
    cells: Count = 32
    sigma: Positive = 3 / 32
    blur: Positive = 3 / 32
    rate: Positive = 0.3

    def cost(self, shape: Size) -> Cost:
        return Cost(forward=self.iterations, backward=self.iterations)

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        require_positions(self.name, inputs)
        return super().check(model, inputs, targets, context)

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        return in_batches(lambda x, t, _: self.optimise(model, x, t), inputs.detach(), targets, context.batch)

    def optimise(self, model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        """The masks of one batch after all steps."""
        shape, positions = inputs.shape[1:], spatial_shape(inputs.shape[1:])
        images = inputs.reshape(len(inputs), -1, *[1] * (2 - len(positions)), *positions)
        size, side = images.shape[-2:], max(positions)
        smoother = Smoother(size, ceil(side / self.cells), self.sigma * side)
        levels, weights = blur_levels(images, self.blur * side), smoother.weights().to(images)
        grid = images.new_full((len(images), 1, *smoother.cells), START)
        speed, unit = torch.zeros_like(grid), images.new_ones(len(images))
        for step in range(self.iterations):
            grid.requires_grad_()
            with torch.enable_grad():
                masks = smoother.masks(grid, weights)
                score = pick(model(blend(levels, masks).reshape(inputs.shape)), targets)
                weight = AREA_WEIGHT * AREA_GROWTH ** (step / self.iterations) if step else 0.0
                loss = weight * area_loss(masks, self.area) - score * unit
                (slope,) = torch.autograd.grad(loss.sum(), grid)
            if step == 0:
                total = slope.abs().sum((1, 2, 3))
                unit = torch.where(total > 0, SCORE_SLOPE / total, 0.0)
                slope = slope * unit.reshape(-1, 1, 1, 1)
            speed = MOMENTUM * speed + (1 - MOMENTUM) * slope
            grid = (grid.detach() - self.rate * speed).clamp(0, 1)
        maps = smoother.masks(grid, weights).detach().reshape(len(inputs), *positions)
        return broadcast_channels(maps, shape).expand_as(inputs).contiguous()


@dataclass(frozen=True)
class Smoother:
    """Grids of cells as smooth masks: m(u) = smax_v k(|u - v| / sigma) g(v), k(z) = exp(-2 max(0, z - 1/2)²) (eq. 9).

    size   height and width of the masks
    step   positions per cell, along both axes
    sigma  the kernel's width in positions
    """

    size: Size
    step: int
    sigma: Positive

    @property
    def cells(self) -> tuple[int, int]:
        """The number of cells along both axes."""
        return -(-self.size[0] // self.step), -(-self.size[1] // self.step)

    @property
    def reach(self) -> int:
        """The distance in cells at which a cell still affects a position."""
        return ceil(self.sigma / self.step)

    def weights(self) -> Tensor:
        """The kernel between each position and the cells around its own: (neighbours, H, W)."""
        around = torch.arange(-self.reach, self.reach + 1)
        down, right = (
            (place // self.step + around[:, None]) * self.step + (self.step - 1) / 2 - place
            for place in (torch.arange(size, dtype=torch.float64) for size in self.size)
        )
        distance = (down[:, None, :, None] ** 2 + right[None, :, None, :] ** 2).sqrt().flatten(0, 1)
        return torch.exp(-2 * (distance / self.sigma - 0.5).clamp(min=0) ** 2)

    def masks(self, grid: Tensor, weights: Tensor) -> Tensor:
        """Grids (N, 1, *cells) as masks (N, 1, H, W), both in [0, 1]."""
        near = functional.unfold(grid, 2 * self.reach + 1, padding=self.reach).reshape(len(grid), -1, *self.cells)
        near = near.repeat_interleave(self.step, 2).repeat_interleave(self.step, 3)[..., : self.size[0], : self.size[1]]
        weighted = weights * near
        return (weighted * (COLDNESS * weighted).softmax(1)).sum(1, keepdim=True)


def area_loss(masks: Tensor, area: float) -> Tensor:
    """The mean squared distance between a mask's sorted values and those of a binary mask of this `area`: (N, ...) -> (N,).

    >>> area_loss(torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 1.0, 0.0]]), area=0.25)
    tensor([0.0000, 0.2500])
    """
    ordered = masks.flatten(1).sort(dim=1).values
    count = ordered.shape[1]
    ideal = (torch.arange(count, device=masks.device) >= count - round(area * count)).to(masks)
    return ((ordered - ideal) ** 2).mean(1)


def blur_levels(images: Tensor, sigma: float) -> Tensor:
    """Images (N, C, H, W) blurred by Gaussians of width `sigma` down to zero: (N, LEVELS, C, H, W), the last one unblurred.

    Weights that fall outside of the image are shared inside it.
    """
    widths = torch.linspace(sigma, 0, LEVELS, dtype=torch.float64).clamp(min=1e-3)
    down, right = (blur_matrices(size, widths).to(images) for size in images.shape[-2:])
    return torch.einsum("lij,ncjk,lmk->nlcim", down, images, right)


def blur_matrices(size: int, widths: Tensor) -> Tensor:
    """Gaussian blur along an axis as matrices whose rows sum to one: (L,) -> (L, size, size).

    >>> blur_matrices(2, torch.tensor([1.0]))
    tensor([[[0.6225, 0.3775],
             [0.3775, 0.6225]]])
    """
    place = torch.arange(size)
    return torch.softmax(-((place - place[:, None]) ** 2) / (2 * widths.reshape(-1, 1, 1) ** 2), dim=-1)


def blend(levels: Tensor, masks: Tensor) -> Tensor:
    """The image where the mask is one, its strongest blur where the mask is zero, and linear between levels (eq. 3).

    >>> blend(torch.arange(8.0).reshape(1, 8, 1, 1, 1), torch.tensor([[[[0.25]]]])).item()
    1.75
    """
    place = masks * (LEVELS - 1)
    low = place.detach().floor().clamp(max=LEVELS - 2)
    index = low.long().unsqueeze(1).expand(-1, -1, *levels.shape[2:])
    below, above = levels.gather(1, index).squeeze(1), levels.gather(1, index + 1).squeeze(1)
    return below + (place - low) * (above - below)
