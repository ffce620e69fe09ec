"""Rigid motions of an image: rotated about its centre, then shifted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import torch
from torch import Size, Tensor
from torch.nn import functional

from veracity.core.settings import Positive
from veracity.core.spaces import Representation
from veracity.perturb.groups.base import Group, check_pairs, lengths
from veracity.perturb.groups.rotations import TURN


@dataclass(frozen=True, kw_only=True)
class RigidMotion(Group):
    """Rotations of an image about its centre followed by shifts, SE(2), bilinear and zero outside the frame.

    (rho[a, t] x)(p) = x(R_a^-1 (p - t)) for elements (N, 3), float64: an angle in [0, 2 pi), anticlockwise, and shifts in pixels, to the
    right and down. The image is read once, so that what a rotation moves out of the frame can come back by the shift. Draws have shifts of
    up to `reach` pixels. Interpolation makes the action only approximately one of the group: compare every score with `floor`,
    s[g^-1 g x, x].

    >>> moved = RigidMotion().act(torch.tensor([[math.pi / 2, 1.0, 0.0]]), torch.tensor([[[1., 2.], [3., 4.]]]))
    >>> moved.round(decimals=4)
    tensor([[[0., 2.],
             [0., 1.]]])
    """

    name = "se2"
    representation = Representation.APPROXIMATE
    reference = "Jaderberg et al., Spatial transformer networks, NeurIPS 2015 (the bilinear sampler)"
    latents = 3
    reach: Positive = 4.0

    def fit(self, shape: Size) -> Self:
        """The same group; raises if samples do not have rows and columns."""
        lengths(self, shape, (-2, -1))
        return self

    def decode(self, latent: Tensor) -> Tensor:
        """The latents' quantiles, as an angle and shifts from -reach to reach."""
        quantile: Tensor = torch.special.ndtr(latent.double())
        return torch.cat(((quantile[:, :1] * TURN).remainder(TURN), (2.0 * quantile[:, 1:] - 1.0) * self.reach), dim=1)

    def identity(self, n: int) -> Tensor:
        """Angle and shifts of 0."""
        return torch.zeros(n, 3, dtype=torch.float64)

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        """The sum of the angles; g turns the shift of h."""
        return torch.cat(((g[:, :1] + h[:, :1]).remainder(TURN), g[:, 1:] + turned(h[:, 1:], g[:, 0])), dim=1)

    def inverse(self, g: Tensor) -> Tensor:
        """The opposite angle, and the opposite shift turned back."""
        return torch.cat(((-g[:, :1]).remainder(TURN), -turned(g[:, 1:], -g[:, 0])), dim=1)

    def act(self, elements: Tensor, x: Tensor) -> Tensor:
        """Each output pixel reads the input at its own position, shifted and rotated back."""
        check_pairs(self, elements, x)
        height, width = lengths(self, x.shape[1:], (-2, -1))
        if x.numel() == 0:
            return x
        angle, across, down = elements.double().unbind(dim=1)
        cos, sin = angle.cos(), angle.sin()
        right, below = 2.0 * across / width, 2.0 * down / height
        first = (cos, -sin * height / width, -cos * right + sin * height / width * below)
        second = (sin * width / height, cos, -sin * width / height * right - cos * below)
        back = torch.stack((*first, *second), dim=1).reshape(-1, 2, 3).to(device=x.device, dtype=x.dtype)
        images = x.reshape(len(x), math.prod(x.shape[1:-2]), height, width)
        grid = functional.affine_grid(back, list(images.shape), align_corners=False)
        return functional.grid_sample(images, grid, align_corners=False).reshape(x.shape)


def turned(shifts: Tensor, angles: Tensor) -> Tensor:
    """Shifts (N, 2), to the right and down, turned anticlockwise by angles (N,).

    >>> turned(torch.tensor([[1.0, 0.0]]), torch.tensor([math.pi / 2])).round(decimals=4)
    tensor([[-0., -1.]])
    """
    cos, sin = angles.cos(), angles.sin()
    across, down = shifts.unbind(dim=1)
    return torch.stack((cos * across + sin * down, cos * down - sin * across), dim=1)
