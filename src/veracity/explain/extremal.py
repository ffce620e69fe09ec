"""Extremal perturbations: the smooth mask of a given area that keeps the score highest when the rest is blurred."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import torch
from torch import Size, Tensor, nn
from torch.nn import functional

from veracity.core.errors import InputError
from veracity.core.explainers import BARE, Context, Cost
from veracity.core.registry import EXPLAINERS
from veracity.core.settings import Count, Inside, Positive
from veracity.explain.gradients import GradientBased
from veracity.explain.passes import by_rows, pick
from veracity.explain.patches import over_channels, space_of

COLDNESS = 20.0  # of the smooth maximum
LEVELS = 8  # of blur, from all to none
MOMENTUM = 0.9
START = 0.5  # of every cell
SCORE = 50.0  # the sum of the score's slopes in all cells at the start, which it is scaled to
FIRM, FIRMER = 3.0, 10_000.0  # the weight of the area at the start, and what it is multiplied by until the end


def blurred(images: Tensor, sigma: float) -> Tensor:
    """Images (N, C, H, W) blurred by Gaussians of width `sigma` down to zero: (N, LEVELS, C, H, W), the last as given.

    Weights outside of the image are shared out inside.
    """
    widths = torch.linspace(sigma, 0, LEVELS, dtype=torch.float64).clamp(min=1e-3)
    down, right = (gaussians(size, widths).to(images) for size in images.shape[-2:])
    return torch.einsum("lij,ncjk,lmk->nlcim", down, images, right)


def gaussians(size: int, widths: Tensor) -> Tensor:
    """Blur along an axis as matrices whose rows sum to one: (L,) -> (L, size, size).

    >>> gaussians(2, torch.tensor([1.0]))
    tensor([[[0.6225, 0.3775],
             [0.3775, 0.6225]]])
    """
    place = torch.arange(size)
    return torch.softmax(-((place - place[:, None]) ** 2) / (2 * widths.reshape(-1, 1, 1) ** 2), dim=-1)


def perturbed(levels: Tensor, masks: Tensor) -> Tensor:
    """The image where the mask is one, the strongest blur where it is zero, between them linear from level to level (eq. 3).

    >>> perturbed(torch.arange(8.0).reshape(1, 8, 1, 1, 1), torch.tensor([[[[0.25]]]])).item()
    1.75
    """
    place = masks * (LEVELS - 1)
    low = place.detach().floor().clamp(max=LEVELS - 2)
    index = low.long().unsqueeze(1).expand(-1, -1, *levels.shape[2:])
    below, above = levels.gather(1, index).squeeze(1), levels.gather(1, index + 1).squeeze(1)
    return below + (place - low) * (above - below)


@dataclass(frozen=True)
class Smoother:
    """Grids of cells as smooth masks: m(u) = smax_v k(|u - v| / sigma) g(v), k(z) = exp(-2 max(0, z - 1/2)²) (eq. 9).

    size   height and width of the masks
    step   positions a cell, along both axes
    sigma  the kernel's width in positions
    """

    size: Size
    step: int
    sigma: Positive

    @property
    def cells(self) -> tuple[int, int]:
        """Cells along both axes."""
        return -(-self.size[0] // self.step), -(-self.size[1] // self.step)

    @property
    def reach(self) -> int:
        """How many cells away a position is still heard."""
        return ceil(self.sigma / self.step)

    def weights(self) -> Tensor:
        """The kernel between each position and the cells around its own: (cells around, H, W)."""
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
        heard = weights * near
        return (heard * (COLDNESS * heard).softmax(1)).sum(1, keepdim=True)


def area_loss(masks: Tensor, area: float) -> Tensor:
    """The mean squared distance of a mask's sorted values to those of a mask that is one on `area` and else zero: (N, ...) -> (N,).

    >>> area_loss(torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 1.0, 0.0]]), area=0.25)
    tensor([0.0000, 0.2500])
    """
    ordered = masks.flatten(1).sort(dim=1).values
    count = ordered.shape[1]
    ideal = (torch.arange(count, device=masks.device) >= count - round(area * count)).to(masks)
    return ((ordered - ideal) ** 2).mean(1)


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class ExtremalPerturbation(GradientBased):
    """The mask m of a given `area` that maximises the score of the input kept where m is one and blurred elsewhere.

    max_m f(m ⊗ x) - λ mean((sort(m) - r_a)²) by `iterations` steps of gradient descent with momentum (eq. 5). m is a smooth
    maximum over at most `cells` cells along the longer side, `sigma` the width of its kernel and `blur` that of the strongest
    blur, as shares of that side. Published are 800 steps at rate .01 from a mask of ones, the input mirrored in every second
    step, and λ from 300 to 4900. Here nothing is mirrored, cells start at one half, and the first step has λ = 0, so that the
    score and not a tie decides what goes first; λ then grows from 3 to 30000 beside a score scaled to a fixed slope at the
    start, so that its unit does not matter. On MNIST's LeNet (logit 14, all blurred 1.4) the kept tenth scores 8.6, where the
    published start gives 1.6. Each row descends for itself.
    """

    name = "extremal_perturbation"
    reference = "Fong et al. 2019, arXiv:1910.08485"
    area: Inside = 0.1
    iterations: Count = 100
    cells: Count = 32
    sigma: Positive = 3 / 32
    blur: Positive = 3 / 32
    rate: Positive = 0.3

    @property
    def signed(self) -> bool:
        """Between zero and one."""
        return False

    def cost(self, shape: Size) -> Cost:
        """One pass each way for each step."""
        return Cost(forward=self.iterations, backward=self.iterations)

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise on settings that do not fit or a model without gradients."""
        if inputs.ndim < 3:
            raise InputError(f"{self.name} needs images (C, H, W) or series (C, T), but an input has shape {tuple(inputs.shape[1:])}.")
        return super().check(model, inputs, targets, context)

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Masks of the inputs' shape, the same in every channel."""
        return by_rows(lambda x, t, _: self.descended(model, x, t), inputs.detach(), targets, context.batch)

    def descended(self, model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        """The masks of these rows after all steps."""
        shape, space = inputs.shape[1:], space_of(inputs.shape[1:])
        images = inputs.reshape(len(inputs), -1, *[1] * (2 - len(space)), *space)
        size, side = images.shape[-2:], max(space)
        smoother = Smoother(size, ceil(side / self.cells), self.sigma * side)
        levels, weights = blurred(images, self.blur * side), smoother.weights().to(images)
        grid = images.new_full((len(images), 1, *smoother.cells), START)
        speed, unit = torch.zeros_like(grid), images.new_ones(len(images))
        for step in range(self.iterations):
            grid.requires_grad_()
            with torch.enable_grad():
                masks = smoother.masks(grid, weights)
                kept = pick(model(perturbed(levels, masks).reshape(inputs.shape)), targets)
                firm = FIRM * FIRMER ** (step / self.iterations) if step else 0.0
                loss = firm * area_loss(masks, self.area) - kept * unit
                (slope,) = torch.autograd.grad(loss.sum(), grid)
            if step == 0:
                reach = slope.abs().sum((1, 2, 3))
                unit = torch.where(reach > 0, SCORE / reach, 0.0)
                slope = slope * unit.reshape(-1, 1, 1, 1)
            speed = MOMENTUM * speed + (1 - MOMENTUM) * slope
            grid = (grid.detach() - self.rate * speed).clamp(0, 1)
        maps = smoother.masks(grid, weights).detach().reshape(len(inputs), *space)
        return over_channels(maps, shape).expand_as(inputs).contiguous()
