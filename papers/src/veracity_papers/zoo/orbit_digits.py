"""Three networks for handwritten digits with one architecture, which rotations disturb much, less and hardly.

"plain" learnt from upright digits, "augmented" from digits at any angle, for as many steps, and "averaged" also from those,
through the mean of its log-probabilities over eight rotations, which costs eight passes. The shipped weights for MNIST (`python
-m veracity_papers.zoo.train_orbits digits`) scored .992, .970 and .985 on the 10,000 upright test digits, and .444, .974 and .988
on the same digits at random angles.
"""

from __future__ import annotations

import math
from collections import OrderedDict

import torch
from torch import Tensor, nn
from torch.nn.functional import affine_grid, grid_sample, log_softmax

from veracity.core.errors import InputError, SpecError, unknown
from veracity.perturb.groups import Rotation
from veracity.perturb.groups.rotations import TURN
from veracity_papers.zoo.storage import load_shipped


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
        copies = rotations(x, self.turns)
        said = log_softmax(self.network(copies.flatten(0, 1)), dim=1)
        return said.reshape(len(x), self.turns, -1).mean(dim=1)


def rotations(x: Tensor, turns: int) -> Tensor:
    """Images (N, C, H, W) turned anticlockwise by 360 k / turns degrees about their centres: (N, turns, C, H, W).

    Bilinear, zero outside the frame, as `veracity.groups.Rotation`. All images of a batch share their angles, so they are read as the
    channels of one image, for which the weights of the interpolation are found once.

    >>> rotations(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]), 4)[0, 1, 0].round(decimals=4)
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


NAMES = ("plain", "augmented", "averaged")
TURNS = 8
WIDTH = 16
LAYER = "relu3"  # where Grad-CAM looks in the plain and the augmented network: the last maps


def digit_cnn(side: int = 28, width: int = WIDTH, classes: int = 10) -> nn.Sequential:
    """Three convolutions of widths w, 2w, 2w, the first two of stride 2, and a linear layer: (N, 1, side, side) to (N, classes).

    With batch normalisation and ReLUs as the paper's (section 2.1), and small, since an orbit means many passes.
    """
    quarter = -(-side // 4)
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(1, width, 5, stride=2, padding=2, bias=False),
            norm1=nn.BatchNorm2d(width),
            relu1=nn.ReLU(),
            conv2=nn.Conv2d(width, 2 * width, 3, stride=2, padding=1, bias=False),
            norm2=nn.BatchNorm2d(2 * width),
            relu2=nn.ReLU(),
            conv3=nn.Conv2d(2 * width, 2 * width, 3, padding=1, bias=False),
            norm3=nn.BatchNorm2d(2 * width),
            relu3=nn.ReLU(),
            flatten=nn.Flatten(),
            linear=nn.Linear(2 * width * quarter * quarter, classes),
        )
    )


def build(name: str, side: int = 28, width: int = WIDTH, turns: int = TURNS) -> nn.Module:
    """One of the three networks, untrained; `turns` is how many the averaged one takes together."""
    if name not in NAMES:
        raise unknown("network for turned digits", name, NAMES)
    net = digit_cnn(side, width)
    return RotationAveraged(net, turns) if name == "averaged" else net


def random_rotation(x: Tensor, generator: torch.Generator) -> Tensor:
    """An augmentation: each image (N, ..., H, W) turned about its centre by a uniform angle."""
    angles = torch.rand(len(x), 1, generator=generator, dtype=torch.float64) * TURN
    return Rotation().act(angles.to(x.device), x)


def pretrained(name: str) -> nn.Module:
    """One of the three networks with the package's weights for MNIST, in evaluation mode: from (N, 1, 28, 28) in [0, 1] to logits."""
    return load_shipped(build(name), f"orbit-mnist-{name}")
