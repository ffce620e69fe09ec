"""Networks with the symmetries of the square, D4: group convolutions, residual networks, and four trained ones for CIFAR-10.

A group convolution (Cohen and Welling 2016) has one feature map per element g of D4, [K_g]_h(u) = W[g^-1 h](g^-1 u). So
transforming the image transforms the maps and permutes them. Kernel sides are odd, and maps are padded with zeros, so the centre
stays in place.

Pooling in 2x2 windows commutes with D4 on even sides only (a 3x3 window of stride 2 on odd sides only), so a 32x32 image is
halved to 16, 8 and 4. The mean over places and orientations then makes the rest exactly invariant.

The CIFAR-10 networks stand in for the symmetry paper's E(2)-WideResNets (Table 11). "d4" is exactly invariant; "relaxed" starts
so and may unlearn it; "augmented" and "standard" are ordinary residual networks, trained with and without random elements of D4.
The paper's Equiv layer is "lift", its Inv layer "pool". On the 10,000 test images the shipped weights scored .8493, .8844, .7783
and .8528 after 30 epochs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d

from veracity.demo import GlobalMean
from veracity.perturb.groups import Dihedral
from veracity.trainers.certified import bound
from veracity_papers.zoo.storage import Shipped, checkpoint_names, facts

ORDER = 8


class Lift(nn.Module):
    """A convolution of an image with a filter in all eight orientations: from (N, I, H, W) to (N, O, 8, H, W)."""

    orientations = 1

    def __init__(self, channels_in: int, channels_out: int, side: int = 3) -> None:
        super().__init__()
        fan = channels_in * self.orientations * side * side
        self.weight = nn.Parameter(torch.randn(channels_out, channels_in, self.orientations, side, side) * (2.0 / fan) ** 0.5)
        self.register_buffer("source", filter_sources(side, self.orientations), persistent=False)

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


def filter_sources(side: int, orientations: int) -> Tensor:
    """Where each entry of a filter in orientation g comes from: (8, orientations, side, side), flat over the last three.

    >>> filter_sources(2, 1)[1, 0]  # a quarter turn anticlockwise
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


MEANS, DEVIATIONS = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


class Standardise(nn.Module):
    """Colour channels with the data's means and deviations taken out."""

    def __init__(self, means: Sequence[float] = MEANS, deviations: Sequence[float] = DEVIATIONS) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(means)[:, None, None], persistent=False)
        self.register_buffer("deviation", torch.tensor(deviations)[:, None, None], persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """From [0, 1] to about [-2, 2]."""
        return (x - self.get_buffer("mean")) / self.get_buffer("deviation")


@bound.register(Standardise)
def _(layer: Standardise) -> float:
    return 1.0 / float(layer.get_buffer("deviation").double().min())


class OrientationMean(nn.Module):
    """The mean over places alone: orientations stay apart, as (N, C * 8)."""

    def forward(self, x: Tensor) -> Tensor:
        """From (N, C, 8, H, W) to (N, C * 8)."""
        return x.mean(dim=(-2, -1)).flatten(1)


class Residual(nn.Module):
    """Two convolutions beside a shortcut, which is a 1x1 convolution where the width changes."""

    def __init__(self, kit: Kit, channels_in: int, channels_out: int) -> None:
        super().__init__()
        self.conv1, self.norm1, self.relu1 = kit.conv(channels_in, channels_out, 3), kit.norm(channels_out), nn.ReLU()
        self.conv2, self.norm2, self.relu2 = kit.conv(channels_out, channels_out, 3), kit.norm(channels_out), nn.ReLU()
        self.shortcut = nn.Identity() if channels_in == channels_out else kit.conv(channels_in, channels_out, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Features of the same size, (N, O, ...)."""
        inner = self.relu1(self.norm1(self.conv1(x)))
        out: Tensor = self.relu2(self.norm2(self.conv2(inner)) + self.shortcut(x))
        return out


@dataclass(frozen=True)
class Kit:
    """The layers that a residual network is made of."""

    lift: Callable[[int, int], nn.Module]
    conv: Callable[[int, int, int], nn.Module]
    norm: Callable[[int], nn.Module]
    halve: Callable[[], nn.Module]


GROUP = Kit(lift=Lift, conv=GroupConv, norm=nn.BatchNorm3d, halve=lambda: nn.AvgPool3d((1, 2, 2)))
ORDINARY = Kit(
    lift=lambda before, after: nn.Conv2d(before, after, 3, padding=1, bias=False),
    conv=lambda before, after, side: nn.Conv2d(before, after, side, padding=side // 2, bias=False),
    norm=nn.BatchNorm2d,
    halve=lambda: nn.AvgPool2d(2),
)


def residual_net(kit: Kit, widths: tuple[int, int, int], classes: int, pool: nn.Module, features: int) -> nn.Sequential:
    """Lift, then residual blocks at half, a quarter and an eighth of the side, a pool and a linear layer.

    The equivariant layer of fixed size is "lift", the invariant one (where the kit and the pool make it so) "pool".
    """
    a, b, c = widths
    return nn.Sequential(
        OrderedDict(
            standardise=Standardise(),
            lift=kit.lift(3, a),
            norm=kit.norm(a),
            relu=nn.ReLU(),
            halve1=kit.halve(),
            block1=Residual(kit, a, a),
            halve2=kit.halve(),
            block2=Residual(kit, a, b),
            block3=Residual(kit, b, b),
            halve3=kit.halve(),
            block4=Residual(kit, b, c),
            pool=pool,
            linear=nn.Linear(features, classes),
        )
    )


def d4_resnet(classes: int, widths: tuple[int, int, int] = (8, 16, 24)) -> nn.Sequential:
    """Exactly D4-invariant on sides that are multiples of eight."""
    return residual_net(GROUP, widths, classes, GlobalMean(), widths[-1])


def relaxed_resnet(classes: int, widths: tuple[int, int, int] = (8, 16, 24)) -> nn.Sequential:
    """The same network, free to weigh orientations differently: invariant when it is made, and as far as training leaves it so."""
    net = residual_net(GROUP, widths, classes, OrientationMean(), widths[-1] * ORDER)
    weight = net.get_parameter("linear.weight")
    with torch.no_grad():
        weight.copy_(weight[:, ::ORDER].repeat_interleave(ORDER, dim=1))
    return net


def ordinary_resnet(classes: int, widths: tuple[int, int, int] = (24, 48, 72)) -> nn.Sequential:
    """The same plan with ordinary convolutions and about as many weights: not invariant."""
    return residual_net(ORDINARY, widths, classes, GlobalMean(), widths[-1])


def random_d4(x: Tensor, generator: torch.Generator) -> Tensor:
    """An augmentation: each image turned and mirrored at random."""
    elements = torch.randint(0, ORDER, (len(x), 1), generator=generator)
    return Dihedral().act(elements.to(x.device), x)


NETWORKS = {
    name: Shipped(f"cifar-{name}", partial(build, 10), "pool", "lift")
    for name, build in {"d4": d4_resnet, "relaxed": relaxed_resnet, "augmented": ordinary_resnet, "standard": ordinary_resnet}.items()
}
"""The four trained networks by name, from `python -m veracity_papers.zoo.train_cifar`; "standard" has no checkpoints."""


def evolution(name: str) -> dict[str, int]:
    """The shipped moments of a training, by name for `veracity_papers.zoo.storage.state`, with the epochs done: eight of "relaxed"."""
    return {one: int(facts(one)["epochs"]) for one in checkpoint_names(NETWORKS[name].weights)}
