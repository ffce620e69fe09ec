"""ResNet-18 (He et al. 2016) for small images, with a base width and dropout as the stability paper varies them (appendix E).

Four stages of two blocks, each stage twice as wide as the one before and, from the second on, of half its side. As for
CIFAR-10, the first convolution is 3x3 of stride 1 and no maxima follow it, so that images of 28 to 64 pixels keep 4 to 8 at the end.
The paper does not say where its dropout stands; here it stands before the linear layer.

| data set      | width | dropout | the paper's accuracy |
|---------------|-------|---------|----------------------|
| Fashion-MNIST | 26    | .4      | .92                  |
| EuroSAT       | 46    | .25     | .95                  |
| CIFAR-10      | 32    | .25     | .78                  |
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, ClassVar

from torch import Size, nn

from veracity.core.registry import TRAINERS
from veracity.core.settings import Count, Within
from veracity.demo import GlobalMean
from veracity.trainers.small_cnn import images
from veracity.trainers.trainer import BaseTrainer
from veracity_papers.zoo.resnet import Block

LAYER = "stage4"  # where Grad-CAM looks: the last maps


class Projected(Block):
    """A residual block whose shortcut is a 1x1 convolution with its normalisation where the width changes (option B)."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__(before, after)
        if before != after:
            self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride=2, bias=False), nn.BatchNorm2d(after))


def resnet18(shape: Size, classes: int, width: int = 64, dropout: float = 0.0) -> nn.Sequential:
    """18 layers with weights: from images (N, C, H, W) to logits (N, classes)."""
    channels, _, _ = images(shape, "resnet18", least=8)
    layers = OrderedDict[str, nn.Module](
        conv=nn.Conv2d(channels, width, 3, padding=1, bias=False), norm=nn.BatchNorm2d(width), relu=nn.ReLU()
    )
    widths = (width, width, 2 * width, 4 * width, 8 * width)
    for number, (before, after) in enumerate(pairwise(widths), start=1):
        layers[f"stage{number}"] = nn.Sequential(Projected(before, after), Projected(after, after))
    layers.update(pool=GlobalMean(), dropout=nn.Dropout(dropout), linear=nn.Linear(8 * width, classes))
    return nn.Sequential(layers)


@TRAINERS.add
@dataclass(frozen=True, kw_only=True)
class ResNet18(BaseTrainer):
    """ResNet-18 for small images, for a GPU; its defaults are the stability paper's for CIFAR-10.

    width     filters of the first convolution and stage, doubled from stage to stage
    dropout   before the linear layer
    """

    name: ClassVar[str] = "resnet18"
    reference: ClassVar[str] = "Fel, Vigouroux, Cadène and Serre, How good is your explanation? (WACV 2022), appendix E"
    width: Count = 32
    dropout: Annotated[float, Within(least=0, below=1)] = 0.25

    def build(self, shape: Size, classes: int) -> nn.Module:
        """The network, with fresh weights."""
        return resnet18(shape, classes, self.width, self.dropout)
