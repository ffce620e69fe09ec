"""Rotations averaged out: what any image classifier says of an image, taken together over turned copies of it."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import affine_grid, grid_sample, log_softmax

from veracity.core.errors import InputError, SpecError


class RotationAveraged(nn.Module):
    """The mean of a network's log-probabilities over turns of the image: log p(c | x) = mean_k log softmax(f(R_k x))_c + const.

    R_k turns by 360 k / turns degrees. Turning the image by one of these angles only permutes the copies, so that the mean does
    not change: exactly where the turn moves whole pixels (quarter turns of square images, if `turns` is a multiple of four), and
    up to interpolation elsewhere. From images (N, C, H, W) to logits (N, classes), at the cost of `turns` passes.

    >>> from torch import nn
    >>> net = RotationAveraged(nn.Flatten(), turns=4)  # the "classes" are the four pixels: their mean is all that is left
    >>> net(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])).softmax(dim=1)
    tensor([[0.2500, 0.2500, 0.2500, 0.2500]])
    """

    reference = "Basu et al., Equi-tuning: group equivariant fine-tuning of pretrained models, AAAI 2023 (the mean over a group)"

    def __init__(self, network: nn.Module, turns: int = 8) -> None:
        super().__init__()
        if not isinstance(turns, int) or turns < 1:
            raise SpecError(f"RotationAveraged needs a whole number of turns, 1 or more, not {turns!r}.")
        self.network, self.turns = network, turns

    def forward(self, x: Tensor) -> Tensor:
        """Averaged log-probabilities (N, classes), one pass of the network over all turned copies."""
        copies = turned(x, self.turns)
        said = log_softmax(self.network(copies.flatten(0, 1)), dim=1)
        return said.reshape(len(x), self.turns, -1).mean(dim=1)


def turned(x: Tensor, turns: int) -> Tensor:
    """Images (N, C, H, W) turned anticlockwise by 360 k / turns degrees about their centres: (N, turns, C, H, W).

    Bilinear, zero outside the frame, as `veracity.Rotation`. All images of a batch share their angles, so they are read as the
    channels of one image, for which the weights of the interpolation are found once.

    >>> turned(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]), 4)[0, 1, 0].round(decimals=4)
    tensor([[2., 4.],
            [1., 3.]])
    """
    if x.ndim != 4:
        raise InputError(f"Turning images needs (samples, channels, height, width), not a tensor of shape {tuple(x.shape)}.")
    count, channels, height, width = x.shape
    angle = torch.arange(turns, dtype=torch.float64) * (2.0 * math.pi / turns)
    cos, sin = angle.cos(), angle.sin()
    rows = (cos, -sin * height / width, 0 * cos, sin * width / height, cos, 0 * cos)
    back = torch.stack(rows, dim=1).reshape(-1, 2, 3).to(device=x.device, dtype=x.dtype)
    grid = affine_grid(back, [turns, 1, height, width], align_corners=False).reshape(1, turns * height, width, 2)
    images = grid_sample(x.reshape(1, count * channels, height, width), grid, align_corners=False)
    return images.reshape(count, channels, turns, height, width).transpose(1, 2)
