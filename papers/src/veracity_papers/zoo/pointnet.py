"""PointNet (Qi et al. 2017) without its transform nets: exactly invariant to the order of points, not at all to turning them.

Every point goes through the same layers, and each feature's maximum over the points is taken with `amax`, so tied points
share the gradient. A small one comes with the package's weights for three classes of ModelNet (`python -m
veracity_papers.zoo.train_orbits points`), learnt from upright shapes ("plain") and from shapes turned at random in space
("augmented"): on the 295 test shapes they scored 1.0 and .990 upright, .302 and .993 turned. `public` reads a large one, trained
by others on all forty classes, from the data folder: 1.0 among the three classes upright, .410 turned.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from veracity.core.errors import InputError
from veracity.perturb.groups import Rotations3D
from veracity_papers.data.modelnet import CLASSES
from veracity_papers.zoo.storage import Shipped, load_public

WIDTHS, HIDDEN = (32, 64, 128), (64,)
ORIGIN = "github.com/vinits5/learning3d (pretrained/exp_classifier)"
FILE = "pointcloud/learning3d_pointnet_modelnet40_best_model.t7"
PUBLIC_WIDTHS, PUBLIC_HIDDEN, PUBLIC_CLASSES = (64, 64, 64, 128, 1024), (512, 256), 40
AMONG_FORTY = (3, 8, 22)  # bench, chair and monitor in ModelNet40's order


class PointNet(nn.Module):
    """h = max_p phi(x_p), then rho(h): from clouds (N, P, features) to logits (N, classes).

    phi has one 1x1 convolution with batch normalisation and a ReLU for each of `widths`, rho one such dense layer for each of
    `hidden`, and a last one.

    >>> net = PointNet(classes=3).eval()
    >>> x = torch.arange(12.0).reshape(1, 4, 3)
    >>> torch.equal(net(x), net(x.flip(1)))
    True
    """

    reference = "Qi et al., PointNet: deep learning on point sets for 3D classification and segmentation, CVPR 2017"

    def __init__(self, classes: int, widths: tuple[int, ...] = WIDTHS, hidden: tuple[int, ...] = HIDDEN, features: int = 3) -> None:
        super().__init__()
        self.shared = nn.ModuleList(nn.Conv1d(before, after, 1) for before, after in zip((features, *widths[:-1]), widths, strict=True))
        self.shared_norms = nn.ModuleList(map(nn.BatchNorm1d, widths))
        self.shared_relus = nn.ModuleList(nn.ReLU() for _ in widths)
        self.dense = nn.ModuleList(
            nn.Sequential(nn.Linear(before, after), nn.BatchNorm1d(after), nn.ReLU())
            for before, after in zip((widths[-1], *hidden[:-1]), hidden, strict=True)
        )
        self.last = nn.Linear(hidden[-1], classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (N, classes)."""
        if x.ndim != 3:
            raise InputError(f"PointNet sees clouds (samples, points, coordinates), not a tensor of shape {tuple(x.shape)}.")
        maps = x.transpose(1, 2)
        for conv, norm, relu in zip(self.shared, self.shared_norms, self.shared_relus, strict=True):
            maps = relu(norm(conv(maps)))
        found = maps.amax(dim=2)
        for layer in self.dense:
            found = layer(found)
        logits: Tensor = self.last(found)
        return logits


class Among(nn.Module):
    """A classifier's outputs for some of its classes: from whatever it sees to (N, chosen)."""

    def __init__(self, network: nn.Module, chosen: tuple[int, ...]) -> None:
        super().__init__()
        self.network, self.chosen = network, chosen

    def forward(self, x: Tensor) -> Tensor:
        """The chosen columns, in the order given."""
        logits: Tensor = self.network(x)
        return logits[:, self.chosen]


def random_turn(x: Tensor, generator: torch.Generator) -> Tensor:
    """An augmentation: each cloud (N, P, 3) turned by a uniform rotation of space."""
    group = Rotations3D()
    latent = torch.randn(len(x), group.latents, generator=generator, dtype=torch.float64)
    return group.act(group.decode(latent), x)


NETWORKS = {name: Shipped(f"orbit-modelnet-{name}", partial(PointNet, len(CLASSES))) for name in ("plain", "augmented")}
"""The small networks for bench, chair and monitor, with the weights that `python -m veracity_papers.zoo.train_orbits points` made."""


def public() -> Among:
    """A PointNet for ModelNet40's forty classes with public weights, read from the data folder: its outputs for our three."""
    net = PointNet(PUBLIC_CLASSES, PUBLIC_WIDTHS, PUBLIC_HIDDEN)
    return Among(load_public(net, FILE, ORIGIN), AMONG_FORTY).eval()
