"""Residual networks for CIFAR-10 (He et al. 2016, section 4.2): the robustness paper's ResNet20, and a deeper one.

269,722 and 464,154 parameters; shortcuts without any (option A). They see images in [0, 1] and standardise them themselves. On
the 10,000 test images the public weights of 20 and 32 layers scored .9173 and .9263.
"""

from __future__ import annotations

import math
from collections import OrderedDict

from torch import Tensor, nn
from torch.nn.functional import pad

from veracity.core.errors import InputError
from veracity.demo import GlobalMean
from veracity.trainers.certified import bound
from veracity_papers.zoo.d4 import Standardise
from veracity_papers.zoo.storage import load_public

ORIGIN = "github.com/akamaster/pytorch_resnet_cifar10 (pretrained_models)"
FILES = {20: "resnet_cifar10/resnet20-12fca82f.th", 32: "resnet_cifar10/resnet32-d509ac18.th"}
DEPTHS = tuple(FILES)
MEANS, DEVIATIONS = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
LAYER = "stage3"  # where Grad-CAM looks: the last maps, 8x8
RANGE = (0.0, 1.0)
RADIUS = 0.03  # the robustness paper's ball


class Shortcut(nn.Module):
    """The features themselves; where a block halves the image, every other place, with zeros as new channels."""

    def __init__(self, stride: int, added: int) -> None:
        super().__init__()
        self.stride, self.added = stride, added

    def forward(self, x: Tensor) -> Tensor:
        """From (N, C, H, W) to (N, C + added, H / stride, W / stride)."""
        if self.added == 0:
            return x
        return pad(x[..., :: self.stride, :: self.stride], (0, 0, 0, 0, self.added // 2, self.added // 2))


class Block(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        stride = 1 if before == after else 2
        self.conv1 = nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)
        self.norm1, self.relu1 = nn.BatchNorm2d(after), nn.ReLU()
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norm2, self.relu2 = nn.BatchNorm2d(after), nn.ReLU()
        self.shortcut: nn.Module = Shortcut(stride, after - before)

    def forward(self, x: Tensor) -> Tensor:
        """Features (N, after, ...)."""
        inner = self.relu1(self.norm1(self.conv1(x)))
        out: Tensor = self.relu2(self.norm2(self.conv2(inner)) + self.shortcut(x))
        return out


@bound.register(Shortcut)
def _(layer: Shortcut) -> float:
    return 1.0


@bound.register(Block)
def _(layer: Block) -> float:
    inner = math.prod(bound(part) for part in (layer.conv1, layer.norm1, layer.relu1, layer.conv2, layer.norm2))
    return inner + bound(layer.shortcut)


def stage(before: int, after: int, blocks: int) -> nn.Sequential:
    """Blocks of one width; the first changes it, if it changes."""
    return nn.Sequential(Block(before, after), *(Block(after, after) for _ in range(blocks - 1)))


def resnet(depth: int = 20, classes: int = 10) -> nn.Sequential:
    """6n + 2 layers, untrained: from images (N, 3, 32, 32) in [0, 1] to logits (N, classes)."""
    if depth < 8 or depth % 6 != 2:
        raise InputError(f"A residual network for CIFAR-10 has 6n + 2 layers, such as 20 or 32, not {depth}.")
    blocks = (depth - 2) // 6
    return nn.Sequential(
        OrderedDict(
            standardise=Standardise(MEANS, DEVIATIONS),
            conv=nn.Conv2d(3, 16, 3, padding=1, bias=False),
            norm=nn.BatchNorm2d(16),
            relu=nn.ReLU(),
            stage1=stage(16, 16, blocks),
            stage2=stage(16, 32, blocks),
            stage3=stage(32, 64, blocks),
            pool=GlobalMean(),
            linear=nn.Linear(64, classes),
        )
    )


def pretrained(depth: int = 20) -> nn.Sequential:
    """The network of 20 or 32 layers with public weights, read from the data folder."""
    if depth not in FILES:
        raise InputError(f"There are public weights of {' and '.join(map(str, DEPTHS))} layers, not of {depth}.")
    return load_public(resnet(depth), FILES[depth], ORIGIN, within="state_dict")
