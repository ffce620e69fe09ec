"""Images as spectra, views of images, and the steps that change them: what feature visualisation is made of."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from veracity.core.randomness import Draws

COLOURS = (
    (0.56282854, 0.58447580, 0.58447580),
    (0.19482528, 0.00000000, -0.19482528),
    (0.04329450, -0.10823626, 0.06494176),
)
"""A square root of the covariance of ImageNet's colours: rows are decorrelated colours, columns red, green and blue (Horama)."""
SMALLEST_CROP = 8
"""Sides of crops in pixels, at least."""
CENTRES = 0.15
"""The standard deviation of the centres of crops around the middle, in sides of the image."""
EPSILON = 1e-4


def standardise(images: Tensor) -> Tensor:
    """Each image (C, ...) with mean 0 and standard deviation 1.

    >>> standardise(torch.tensor([[1.0, 2.0, 3.0]]))
    tensor([[-0.9999,  0.0000,  0.9999]])
    """
    flat = images.flatten(1)
    centred = flat - flat.mean(1, keepdim=True)
    return (centred / (centred.std(1, keepdim=True) + EPSILON)).reshape(images.shape)


def frequencies(height: int, width: int, like: Tensor) -> Tensor:
    """The frequency of each entry of a real image's spectrum, (height, width // 2 + 1), in cycles per pixel.

    >>> frequencies(2, 4, torch.zeros(0))
    tensor([[0.0000, 0.2500, 0.5000],
            [0.5000, 0.5590, 0.7071]])
    """
    down = torch.fft.fftfreq(height, device=like.device, dtype=like.dtype)
    across = torch.fft.rfftfreq(width, device=like.device, dtype=like.dtype)
    return torch.hypot(down[:, None], across[None, :])


def spectral_scale(height: int, width: int, decay: float, like: Tensor) -> Tensor:
    """1 / max(frequency, 1 / side)^decay for each entry of a spectrum."""
    return frequencies(height, width, like).clamp(min=1.0 / max(height, width)) ** -decay


def picture(spectrum: Tensor, size: tuple[int, int], span: float) -> Tensor:
    """Images (C, channels, H, W) with values within ±span from complex spectra (C, channels, H, W // 2 + 1).

    The inverse transform is standardised, three channels are taken as decorrelated colours, and a sigmoid bounds the values.
    """
    found = standardise(torch.fft.irfft2(spectrum, s=size, norm="ortho"))
    return span * (2.0 * torch.sigmoid(with_colours(found)) - 1.0)


def with_colours(images: Tensor) -> Tensor:
    """Decorrelated colours (C, 3, H, W) as red, green and blue; other numbers of channels stay as they are."""
    if images.shape[1] != 3:
        return images
    return torch.einsum("ckhw,kl->clhw", images, images.new_tensor(COLOURS))


def without_colours(images: Tensor) -> Tensor:
    """Red, green and blue (C, 3, H, W) as decorrelated colours: the inverse of `with_colours`."""
    if images.shape[1] != 3:
        return images
    return torch.einsum("ckhw,kl->clhw", images, torch.linalg.inv(images.new_tensor(COLOURS)))


def mean_amplitude(images: Tensor) -> Tensor:
    """The mean amplitude of the spectra of images (N, channels, H, W), in decorrelated colours: (channels, H, W // 2 + 1)."""
    parts = [torch.fft.rfft2(without_colours(part.float()), norm="ortho").abs().sum(0) for part in images.split(256)]
    return torch.stack(parts).sum(0) / len(images)


def resized_amplitude(amplitude: Tensor, channels: int, size: tuple[int, int]) -> Tensor:
    """An amplitude spectrum (k, h, w) for images of another size; averaged over its channels if there are other numbers of them."""
    fitting = amplitude if amplitude.shape[0] == channels else amplitude.mean(0, keepdim=True)
    shape = (size[0], size[1] // 2 + 1)
    if fitting.shape[1:] != shape:
        fitting = functional.interpolate(fitting[None], size=shape, mode="bilinear", align_corners=False, antialias=True)[0]
    return fitting.expand(channels, *shape)


def boxes(draws: Draws, sizes: tuple[float, float], side: int) -> Tensor:
    """Random square boxes (N, 3) in sides of an image: the centre's column and row, and the length of a side.

    Centres are normal around the middle. Lengths are uniform in `sizes`, and no box is smaller than 8 pixels.
    """
    centre = 0.5 + CENTRES * draws.normal(2, stream="crop centres")
    low, high = sizes
    length = (low + (high - low) * draws.uniform(1, stream="crop sizes")).clamp(min=SMALLEST_CROP / side)
    return torch.cat((centre, length), dim=1)


def crop(images: Tensor, where: Tensor) -> Tensor:
    """The boxes (N, 3) of images (N, channels, H, W), enlarged to the whole size; the border's value goes on beyond the border."""
    column, row, length = where.to(images).unbind(1)
    zero = torch.zeros_like(length)
    theta = torch.stack((torch.stack((length, zero, 2 * column - 1), 1), torch.stack((zero, length, 2 * row - 1), 1)), 1)
    grid = functional.affine_grid(theta, list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, padding_mode="border", align_corners=False)


def can_be_cropped(size: tuple[int, int], largest: float) -> bool:
    """Whether the largest box is at least 8 pixels wide.

    >>> can_be_cropped((28, 28), 0.25), can_be_cropped((32, 32), 0.25)
    (False, True)
    """
    return largest * min(size) >= SMALLEST_CROP


def blur(images: Tensor, width: float) -> Tensor:
    """A Gaussian blur of images (N, channels, H, W); mirrored at the borders, which are repeated, and cut at four widths."""
    radius = int(4.0 * width + 0.5)
    offset = torch.arange(-radius, radius + 1, device=images.device, dtype=images.dtype)
    kernel = torch.exp(-0.5 * (offset / width) ** 2)
    kernel = kernel / kernel.sum()
    for axis in (-2, -1):
        images = along(images, axis, lambda lines: functional.conv1d(lines, kernel[None, None]), radius)
    return images


def along(images: Tensor, axis: int, filtered: Callable[[Tensor], Tensor], radius: int) -> Tensor:
    """A filter of the lines along one axis, which are mirrored at both ends."""
    moved = images.movedim(axis, -1)
    count = moved.shape[-1]
    place = torch.arange(-radius, count + radius, device=images.device) % (2 * count)
    mirrored = moved[..., torch.where(place < count, place, 2 * count - 1 - place)]
    return filtered(mirrored.reshape(-1, 1, count + 2 * radius)).reshape(moved.shape).movedim(-1, axis)


def without_smallest(values: Tensor, sizes: Tensor, share: float) -> Tensor:
    """Values (N, ...) that are 0 where their sizes, which broadcast to them, lie below the given quantile of the row.

    >>> without_smallest(torch.tensor([[1.0, 2.0, 3.0, 4.0]]), torch.tensor([[1.0, 2.0, 3.0, 4.0]]), 0.5)
    tensor([[0., 0., 3., 4.]])
    """
    ordered = sizes.flatten(1).sort(1).values
    place = share * (ordered.shape[1] - 1)
    below, above = math.floor(place), math.ceil(place)
    limit = torch.lerp(ordered[:, below], ordered[:, above], place - below)
    return values.masked_fill((sizes < limit.reshape(-1, *[1] * (sizes.ndim - 1))).expand_as(values), 0.0)


class NAdam:
    """Nesterov's momentum in Adam (Dozat 2016), as in torch.optim.NAdam, which takes seconds to import.

    With the gradient g of step t, and mu_t = .9 (1 - .5 · .96^(.004 t)):
        m <- .9 m + .1 g,   v <- .999 v + .001 g²,   d = sqrt(v / (1 - .999^t)) + 1e-8
        x <- x - rate [(1 - mu_t) g / (1 - mu_1 ... mu_t) + mu_{t+1} m / (1 - mu_1 ... mu_{t+1})] / d
    """

    def __init__(self, like: Tensor, rate: float) -> None:
        self.rate, self.step, self.product = rate, 0, 1.0
        self.mean, self.square = torch.zeros_like(like), torch.zeros_like(like)

    def change(self, gradient: Tensor) -> Tensor:
        """What the next step adds to the parameters, which lowers the value whose gradient is given."""
        self.step += 1
        now, soon = (0.9 * (1.0 - 0.5 * 0.96 ** (0.004 * step)) for step in (self.step, self.step + 1))
        self.product *= now
        self.mean.lerp_(gradient, 0.1)
        self.square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        root = (self.square / (1.0 - 0.999**self.step)).sqrt_().add_(1e-8)
        ahead = gradient * ((1.0 - now) / (1.0 - self.product)) + self.mean * (soon / (1.0 - self.product * soon))
        change: Tensor = -self.rate * ahead / root
        return change
