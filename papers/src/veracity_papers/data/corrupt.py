"""Corrupted images, standing for a shift of the distribution (after Hendrycks and Dietterich 2019).

All take images (N, C, H, W) in [0, 1] and a severity from 1 to 5, and give images of the same shape in [0, 1]. The settings
are our own, chosen for small images.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, conv2d, pad

from veracity.core.errors import InputError, unknown
from veracity.core.randomness import Draws

DEVIATIONS = (0.04, 0.06, 0.08, 0.12, 0.16)
WIDTHS = (0.4, 0.6, 0.8, 1.1, 1.5)
CONTRASTS = (0.75, 0.55, 0.4, 0.25, 0.15)
LIGHTS = (0.08, 0.16, 0.24, 0.32, 0.4)
BLOCKS = (2, 3, 4, 6, 8)


def corrupt(images: Tensor, kind: str, severity: int, draws: Draws | None = None) -> Tensor:
    """The images corrupted in one of the KINDS; `draws` has one row an image, and by default its number is its sample's.

    >>> corrupt(torch.full((1, 1, 2, 2), 0.5), "brightness", 5)
    tensor([[[[0.9000, 0.9000],
              [0.9000, 0.9000]]]])
    """
    if kind not in KINDS:
        raise unknown("corruption", kind, KINDS)
    if severity not in range(1, 6):
        raise InputError(f"A corruption's severity is a whole number from 1 to 5, not {severity!r}.")
    if images.ndim != 4 or not images.is_floating_point():
        raise InputError(f"Corruptions need images (N, C, H, W) in floating point, not {images.dtype} {tuple(images.shape)}.")
    rows = Draws.of(0, torch.arange(len(images))) if draws is None else draws
    return KINDS[kind](images, severity - 1, rows).clamp(0.0, 1.0)


def gaussian_noise(images: Tensor, level: int, draws: Draws) -> Tensor:
    """Independent normal noise on every pixel; an image's noise belongs to its draw, whatever the batch."""
    noise = draws.normal(*images.shape[1:], stream="corrupt.gaussian_noise")
    return images + DEVIATIONS[level] * noise.to(images)


def blur(images: Tensor, level: int, draws: Draws) -> Tensor:
    """A Gaussian blur, with the image mirrored at its edges."""
    width = WIDTHS[level]
    reach = min(int(3 * width) + 1, min(images.shape[-2:]) - 1)
    window = torch.exp(-0.5 * (torch.arange(-reach, reach + 1, dtype=torch.float64) / width) ** 2)
    window = (window / window.sum()).to(images)
    planes = pad(images.flatten(0, 1)[:, None], (reach,) * 4, mode="reflect")
    return conv2d(conv2d(planes, window[None, None, :, None]), window[None, None, None, :]).reshape(images.shape)


def contrast(images: Tensor, level: int, draws: Draws) -> Tensor:
    """Every pixel nearer to its image's mean."""
    mean = images.mean(dim=(1, 2, 3), keepdim=True)
    return mean + CONTRASTS[level] * (images - mean)


def brightness(images: Tensor, level: int, draws: Draws) -> Tensor:
    """The same light added to every pixel."""
    return images + LIGHTS[level]


def pixelate(images: Tensor, level: int, draws: Draws) -> Tensor:
    """Larger pixels: the mean over each block, and over what there is of it at the far edges."""
    height, width = images.shape[-2:]
    block = BLOCKS[level]
    coarse: Tensor = avg_pool2d(images, block, ceil_mode=True)
    return coarse.repeat_interleave(block, dim=2).repeat_interleave(block, dim=3)[:, :, :height, :width]


KINDS: dict[str, Callable[[Tensor, int, Draws], Tensor]] = {
    "gaussian_noise": gaussian_noise,
    "blur": blur,
    "contrast": contrast,
    "brightness": brightness,
    "pixelate": pixelate,
}
