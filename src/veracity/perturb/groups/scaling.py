"""Zooming an image in and out about its centre."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import torch
from torch import Size, Tensor
from torch.nn import functional

from veracity.core.registry import GROUPS
from veracity.core.settings import Positive
from veracity.core.spaces import Representation
from veracity.perturb.groups.base import Group, check_pairs, lengths


@GROUPS.add
@dataclass(frozen=True, kw_only=True)
class Scaling(Group):
    """An image enlarged or shrunk about its centre, bilinear and zero outside the frame.

    Elements (N, 1) are logarithms of factors, float64: above 0 enlarges. Draws have factors from 1 / (1 + `reach`) to 1 + `reach`, uniform
    in the logarithm. Logarithms add up and form a group, but enlarging pushes the border out of the frame, and shrinking loses detail: the
    action is only approximately one. Compare every score with `floor`, s[g^-1 g x, x].

    >>> Scaling().act(torch.tensor([[math.log(2.0)]]), torch.arange(16.0).reshape(1, 4, 4))
    tensor([[[ 3.7500,  4.2500,  4.7500,  5.2500],
             [ 5.7500,  6.2500,  6.7500,  7.2500],
             [ 7.7500,  8.2500,  8.7500,  9.2500],
             [ 9.7500, 10.2500, 10.7500, 11.2500]]])
    """

    name = "scaling"
    representation = Representation.APPROXIMATE
    reference = "Jaderberg et al., Spatial transformer networks, NeurIPS 2015 (the bilinear sampler)"
    latents = 1
    reach: Positive = 1.0

    def fit(self, shape: Size) -> Self:
        """The same group; raises if samples do not have rows and columns."""
        lengths(self, shape, (-2, -1))
        return self

    def decode(self, latent: Tensor) -> Tensor:
        """The latent's quantile, from -ln(1 + reach) to ln(1 + reach)."""
        quantile: Tensor = torch.special.ndtr(latent.double())
        return (2.0 * quantile - 1.0) * math.log1p(self.reach)

    def identity(self, n: int) -> Tensor:
        """The logarithm of 1."""
        return torch.zeros(n, 1, dtype=torch.float64)

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        """The product of the factors."""
        return g + h

    def inverse(self, g: Tensor) -> Tensor:
        """The inverse factor."""
        return -g

    def act(self, elements: Tensor, x: Tensor) -> Tensor:
        """Each output pixel reads the input at its own position divided by the factor, from the centre."""
        check_pairs(self, elements, x)
        height, width = lengths(self, x.shape[1:], (-2, -1))
        if x.numel() == 0:
            return x
        shrunk = (-elements[:, 0].double()).exp()
        rows = (shrunk, 0 * shrunk, 0 * shrunk, 0 * shrunk, shrunk, 0 * shrunk)
        back = torch.stack(rows, dim=1).reshape(-1, 2, 3).to(device=x.device, dtype=x.dtype)
        images = x.reshape(len(x), math.prod(x.shape[1:-2]), height, width)
        grid = functional.affine_grid(back, list(images.shape), align_corners=False)
        return functional.grid_sample(images, grid, align_corners=False).reshape(x.shape)
