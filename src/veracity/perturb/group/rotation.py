"""Rotations of an image by any angle, with interpolation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import torch
from torch import Size, Tensor
from torch.nn import functional

from veracity.core.registry import GROUPS
from veracity.core.spaces import Representation
from veracity.perturb.group.action import lengths
from veracity.perturb.group.base import Group, paired

TURN = 2 * math.pi


@GROUPS.add
@dataclass(frozen=True, kw_only=True)
class Rotation(Group):
    """Rotations of an image about its centre by any angle, SO(2), bilinear and zero outside the frame.

    Elements (N, 1) are angles in [0, 2 pi), anticlockwise, float64. Angles form a group; the interpolated action is
    only close to one, so read every score beside `floor`, s[g^-1 g x, x].

    >>> turned = Rotation().act(torch.tensor([[math.pi / 2]]), torch.tensor([[[1., 2.], [3., 4.]]]))
    >>> turned.round(decimals=4)
    tensor([[[2., 4.],
             [1., 3.]]])
    """

    name = "so2"
    representation = Representation.APPROXIMATE
    reference = "Jaderberg et al., Spatial transformer networks, NeurIPS 2015 (the bilinear sampler)"

    def fit(self, shape: Size) -> Self:
        """The same group, if one sample has rows and columns."""
        lengths(self, shape, (-2, -1))
        return self

    @property
    def latents(self) -> int:
        """One, for the angle."""
        return 1

    def decode(self, latent: Tensor) -> Tensor:
        """The latent's quantile of a whole turn."""
        quantile: Tensor = torch.special.ndtr(latent.double())
        return (quantile * TURN).remainder(TURN)

    def identity(self, n: int) -> Tensor:
        """Angle 0."""
        return torch.zeros(n, 1, dtype=torch.float64)

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        """Angles add up."""
        return (g + h).remainder(TURN)

    def inverse(self, g: Tensor) -> Tensor:
        """Back by as much."""
        return (-g).remainder(TURN)

    def act(self, elements: Tensor, x: Tensor) -> Tensor:
        """Each output pixel reads the input at its own place turned back, between pixels bilinearly."""
        paired(self, elements, x)
        height, width = lengths(self, x.shape[1:], (-2, -1))
        if x.numel() == 0:
            return x
        angle = elements[:, 0].double()
        cos, sin = angle.cos(), angle.sin()
        rows = (cos, -sin * height / width, 0 * cos, sin * width / height, cos, 0 * cos)
        back = torch.stack(rows, dim=1).reshape(-1, 2, 3).to(device=x.device, dtype=x.dtype)
        images = x.reshape(len(x), math.prod(x.shape[1:-2]), height, width)
        grid = functional.affine_grid(back, list(images.shape), align_corners=False)
        return functional.grid_sample(images, grid, align_corners=False).reshape(x.shape)
