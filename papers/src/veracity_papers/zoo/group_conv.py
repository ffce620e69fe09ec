"""Convolutions that commute with the square's symmetries D4 (Cohen and Welling 2016).

A group convolution keeps one feature map for each of the eight turns and mirror images g of its filter,
[K_g]_h(u) = W[g^-1 h](g^-1 u), so that moving the image moves the maps and permutes them. Sides are odd and zeros surround the
maps, which keeps the centre in place.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d

from veracity.perturb.groups import Dihedral

ORDER = 8


class Lift(nn.Module):
    """A convolution of an image with a filter in all eight orientations: from (N, I, H, W) to (N, O, 8, H, W)."""

    orientations = 1

    def __init__(self, channels_in: int, channels_out: int, side: int = 3) -> None:
        super().__init__()
        fan = channels_in * self.orientations * side * side
        self.weight = nn.Parameter(torch.randn(channels_out, channels_in, self.orientations, side, side) * (2.0 / fan) ** 0.5)
        self.register_buffer("source", turned(side, self.orientations), persistent=False)

    def bank(self) -> Tensor:
        """The filters in every orientation: (O * 8, I * orientations, side, side)."""
        filters = self.weight.flatten(2)[:, :, self.get_buffer("source")]  # (O, I, 8, orientations, side, side)
        return filters.transpose(1, 2).flatten(2, 3).flatten(0, 1)

    def forward(self, x: Tensor) -> Tensor:
        """One map for each filter and orientation, of the input's size (zeros around it)."""
        maps: Tensor = conv2d(x.flatten(1, -3), self.bank(), padding=self.weight.shape[-1] // 2)
        return maps.reshape(len(x), -1, ORDER, *x.shape[-2:])


class GroupConv(Lift):
    """A convolution over places and orientations: from (N, I, 8, H, W) to (N, O, 8, H, W)."""

    orientations = ORDER


def turned(side: int, orientations: int) -> Tensor:
    """Where each entry of a filter in orientation g comes from: (8, orientations, side, side), flat over the last three.

    >>> turned(2, 1)[1, 0]  # a quarter turn anticlockwise
    tensor([[1, 3],
            [0, 2]])
    """
    group = Dihedral()
    g = torch.arange(ORDER)[:, None]
    grid = torch.arange(side * side).reshape(side, side)
    place = torch.stack([face.rot90(turns) for face in (grid, grid.fliplr()) for turns in range(4)])
    if orientations == 1:
        return place[:, None]
    h = torch.arange(ORDER)[:, None]
    before = group.compose(group.inverse(g).repeat_interleave(ORDER, dim=0), h.repeat(ORDER, 1)).reshape(ORDER, ORDER)
    return before[:, :, None, None] * side * side + place[:, None]
