"""A small fully convolutional one-stage detector: a heat map of centres for each class, sizes and offsets (after Zhou et al. 2019).

The network knows positions: two maps of coordinates are among its features (Liu et al. 2018), so nothing forces it to treat
all positions alike. It learns to, depending on how far the key object strays from the window's centre in training
(the NERO paper's "jitter", section 3.1). With the shipped weights for 0, 25, 50 and 100 % jitter, the most confident box of the key
digit's class overlaps the true one by .95, .94, .93 and .91 at the centre of 64 test scenes, and by .38, .67, .83 and .88 on
average over shifts.
"""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import Tensor, nn
from torch.nn.functional import max_pool2d

from veracity.core.errors import InputError, unknown
from veracity_papers.data.bccd import CLASSES as CELLS
from veracity_papers.data.mnist import CLASSES as DIGITS
from veracity_papers.zoo.storage import load_shipped

STRIDE = 8
JITTERS = (0, 25, 50, 100)
DATA = {"digits": (1, DIGITS), "cells": (3, CELLS)}
TOP, LEAST = 10, 0.05
"""How many detections are given, and the lowest score of one."""


class Residual(nn.Module):
    """A dilated 3x3 convolution with batch norm and ReLU, added to what it was given."""

    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=dilation, dilation=dilation, bias=False)
        self.norm, self.relu = nn.BatchNorm2d(width), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Features (N, width, H, W)."""
        out: Tensor = x + self.relu(self.norm(self.conv(x)))
        return out


class Placed(nn.Module):
    """Features (N, C, H, W) with two more channels: the places of columns and rows, from -1 to 1."""

    def forward(self, x: Tensor) -> Tensor:
        """(N, C + 2, H, W)."""
        rows, columns = (torch.linspace(-1, 1, side, device=x.device, dtype=x.dtype) for side in x.shape[-2:])
        places = torch.stack(torch.meshgrid(columns, rows, indexing="xy")).expand(len(x), -1, -1, -1)
        return torch.cat((x, places), dim=1)


class Detector(nn.Module):
    """From windows (N, channels, side, side) to boxes (N, top, 6): x0, y0, x1, y1, score, class, the most confident first.

    Centres are local maxima of the classes' heat maps, at every eighth pixel; what scores below `least` is NaN.
    """

    def __init__(
        self, channels: int, classes: int, *, widths: tuple[int, int, int] = (16, 32, 48), top: int = TOP, least: float = LEAST
    ) -> None:
        super().__init__()
        self.classes, self.top, self.least = classes, top, least
        a, b, c = widths
        self.trunk = nn.Sequential(
            OrderedDict(
                down1=downsample(channels, a),
                down2=downsample(a, b),
                down3=downsample(b, c - 2),
                placed=Placed(),
                near=Residual(c, 1),
                wide=Residual(c, 2),
                far=Residual(c, 4),
            )
        )
        self.heads = nn.Conv2d(c, classes + 4, 1)
        nn.init.constant_(self.heads.get_parameter("bias")[:classes], -3.0)

    def maps(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Heat (N, classes, H, W) as logits, sizes (N, 2, H, W) as logarithms of shares of the window, offsets (N, 2, H, W) in cells."""
        if x.ndim != 4 or x.shape[-1] != x.shape[-2] or x.shape[-1] % STRIDE:
            raise InputError(f"The detector sees square windows whose side is a multiple of {STRIDE}, not a batch of {tuple(x.shape)}.")
        heat, sizes, offsets = self.heads(self.trunk(x - 0.5)).split((self.classes, 2, 2), dim=1)
        return heat, sizes, offsets

    def forward(self, x: Tensor) -> Tensor:
        """The most confident boxes (N, top, 6), in pixels of the window."""
        heat, sizes, offsets = self.maps(x)
        return peaks(heat.sigmoid(), sizes, offsets, side=x.shape[-1], top=self.top, least=self.least)


def downsample(before: int, after: int) -> nn.Sequential:
    """A 3x3 convolution with stride 2, batch norm and ReLU."""
    return nn.Sequential(nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU())


def peaks(heat: Tensor, sizes: Tensor, offsets: Tensor, *, side: int, top: int, least: float) -> Tensor:
    """Boxes (N, top, 6) at the highest local maxima of the heat (N, C, H, W) in [0, 1], NaN below `least`; cut off at the window.

    >>> heat = torch.zeros(1, 1, 4, 4); heat[0, 0, 1, 2] = 0.5
    >>> peaks(heat, torch.full((1, 2, 4, 4), -2.0).exp().log(), torch.zeros(1, 2, 4, 4), side=32, top=1, least=0.1)[0, 0, 4:]
    tensor([0.5000, 0.0000])
    """
    classes, height, width = heat.shape[1:]
    kept = heat * (heat == max_pool2d(heat, 3, stride=1, padding=1))
    score, place = kept.flatten(1).topk(min(top, classes * height * width), dim=1)
    cell = place % (height * width)
    around = cell[:, None].expand(-1, 2, -1)
    shift, size = (part.flatten(2).gather(2, around).transpose(1, 2) for part in (offsets, sizes))
    grid = torch.stack((cell % width, cell // width), dim=2)
    centre = (grid + 0.5 + shift) * (side / width)
    half = size.clamp(max=0.7).exp() * side / 2
    box = torch.cat((centre - half, centre + half), dim=2).clamp(0, side)
    found = torch.cat((box, score[..., None], (place // (height * width))[..., None].to(box)), dim=2)
    return found.masked_fill((score < least)[..., None], torch.nan)


def build(data: str) -> Detector:
    """A detector for "digits" or "cells", untrained."""
    if data not in DATA:
        raise unknown("detection data", data, DATA)
    channels, classes = DATA[data]
    return Detector(channels, len(classes))


def pretrained(data: str, jitter: int) -> Detector:
    """The detector that `python -m veracity_papers.zoo.train_detector` trained on "digits" or "cells" with 0, 25, 50 or 100 % jitter."""
    return load_shipped(build(data), f"detector-{data}-{jitter}")
