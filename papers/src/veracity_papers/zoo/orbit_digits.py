"""Three networks for handwritten digits of one architecture, which rotations disturb much, less and hardly.

"plain" learnt from upright digits, "augmented" from digits turned by any angle, for as many steps, and "averaged" from such digits
too, through the mean of its log-probabilities over eight turns, which costs eight passes. The shipped weights for MNIST
(`python -m veracity_papers.zoo.train_orbit_digits`) scored .992, .970 and .985 on the 10,000 upright test digits, .444, .974 and .988 on
the same digits turned at random.
"""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import Tensor, nn

from veracity.core.errors import unknown
from veracity.perturb.groups import Rotation
from veracity.perturb.groups.rotations import TURN
from veracity.trainers.training import Augmentation
from veracity_papers.zoo.rotation_averaged import RotationAveraged
from veracity_papers.zoo.store import facts, loaded

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


def augmentation(name: str) -> Augmentation | None:
    """How the digits that one of the three networks learns from are varied: all but the plain one's are turned."""
    return None if name == "plain" else random_rotation


def random_rotation(x: Tensor, generator: torch.Generator) -> Tensor:
    """An augmentation: each image (N, ..., H, W) turned about its centre by a uniform angle."""
    angles = torch.rand(len(x), 1, generator=generator, dtype=torch.float64) * TURN
    return Rotation().act(angles.to(x.device), x)


def pretrained(name: str) -> nn.Module:
    """One of the three networks with the package's weights for MNIST, in evaluation mode: from (N, 1, 28, 28) in [0, 1] to logits."""
    return loaded(build(name), shipped(name))


def score(name: str) -> float:
    """The share of MNIST's upright test digits that the shipped network reads rightly, as measured when it was trained."""
    return float(facts(shipped(name))["test_accuracy"])


def shipped(name: str) -> str:
    """What a network's weights are called."""
    return f"orbit-mnist-{name}"
