"""Two small networks for CIFAR-10, after VGG (Simonyan and Zisserman 2015) and MobileNetV2 (Sandler et al. 2018), with trained weights.

They stand in for architectures of the robustness paper's Table 8. They see images in [0, 1] and standardise them themselves; every
ReLU is a module used once. On the 10,000 test images the shipped weights scored .8945 and .8951 after 24 epochs.
"""

from __future__ import annotations

from collections import OrderedDict

from torch import Tensor, nn

from veracity.demo import GlobalMean
from veracity_papers.zoo.d4 import Standardise
from veracity_papers.zoo.storage import Shipped

LAYER = "last"  # where Grad-CAM looks in both: the last maps
PLAN = ((1, 16, 1, 1), (4, 24, 2, 1), (4, 32, 2, 2), (4, 64, 3, 2), (4, 96, 2, 1))  # expansion, width, blocks, stride


def convolution(before: int, after: int, side: int, *, stride: int = 1, groups: int = 1, active: bool = True) -> nn.Sequential:
    """A convolution, its normalisation and, if active, a ReLU."""
    layers = OrderedDict[str, nn.Module](
        conv=nn.Conv2d(before, after, side, stride=stride, padding=side // 2, groups=groups, bias=False), norm=nn.BatchNorm2d(after)
    )
    if active:
        layers["relu"] = nn.ReLU()
    return nn.Sequential(layers)


def vgg(classes: int = 10, widths: tuple[int, int, int] = (32, 64, 128), hidden: int = 64) -> nn.Sequential:
    """Three pairs of 3x3 convolutions, each halved by its maxima, and two dense layers: 419,242 parameters."""
    a, b, c = widths
    return nn.Sequential(
        OrderedDict(
            standardise=Standardise(),
            pair1=nn.Sequential(convolution(3, a, 3), convolution(a, a, 3)),
            pool1=nn.MaxPool2d(2),
            pair2=nn.Sequential(convolution(a, b, 3), convolution(b, b, 3)),
            pool2=nn.MaxPool2d(2),
            last=nn.Sequential(convolution(b, c, 3), convolution(c, c, 3)),
            pool3=nn.MaxPool2d(2),
            flatten=nn.Flatten(),
            linear1=nn.Linear(c * 4 * 4, hidden),
            relu=nn.ReLU(),
            linear2=nn.Linear(hidden, classes),
        )
    )


class Inverted(nn.Module):
    """An inverted residual: a 1x1 convolution that widens, a 3x3 one within each channel, a 1x1 one that narrows, no ReLU after it."""

    def __init__(self, before: int, after: int, expansion: int, stride: int) -> None:
        super().__init__()
        wide = before * expansion
        self.widen = convolution(before, wide, 1)
        self.filter = convolution(wide, wide, 3, stride=stride, groups=wide)
        self.narrow = convolution(wide, after, 1, active=False)
        self.beside = stride == 1 and before == after

    def forward(self, x: Tensor) -> Tensor:
        """Features (N, after, H / stride, W / stride), added to the given ones where the shapes agree."""
        out: Tensor = self.narrow(self.filter(self.widen(x)))
        return x + out if self.beside else out


def mobile(classes: int = 10, features: int = 256) -> nn.Sequential:
    """Inverted residuals of depthwise separable convolutions at full, half and a quarter of the side: 266,442 parameters."""
    blocks: list[nn.Module] = []
    before = 32
    for expansion, after, count, stride in PLAN:
        for number in range(count):
            blocks.append(Inverted(before, after, expansion, stride if number == 0 else 1))
            before = after
    return nn.Sequential(
        OrderedDict(
            standardise=Standardise(),
            stem=convolution(3, 32, 3),
            blocks=nn.Sequential(*blocks),
            last=convolution(before, features, 1),
            pool=GlobalMean(),
            linear=nn.Linear(features, classes),
        )
    )


NETWORKS = {"vgg": Shipped("cifar-vgg", vgg), "mobile": Shipped("cifar-mobile", mobile)}
"""Both with the weights that `python -m veracity_papers.zoo.train_robust` made, for images (N, 3, 32, 32) in [0, 1]."""
