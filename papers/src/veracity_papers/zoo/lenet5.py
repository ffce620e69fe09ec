"""The LeNet of the robustness paper (Table 5; after LeCun et al. 1998), with its authors' weights and with ours.

61,706 parameters, tanh and mean pooling. It sees digits of 32x32 in [-1, 1], as `digits` gives them. On the 10,000 test images
the authors' weights scored .9905 (the paper: .991), the shipped ones .9916 plain, .9905 with the gradient's penalty, .9922 with the
Hessian's and .9918 by PGD (Table 5: .991, .989, .989, .989); under attack in the ball of .1, .79, .86, .95 and .97 of 2,000 images.
"""

from __future__ import annotations

from collections import OrderedDict

from torch import Tensor, nn

from veracity_papers.data.mnist import mnist
from veracity_papers.zoo.storage import Shipped, load_public

ORIGIN = "github.com/havelhuang/Eval_XAI_Robustness (checkpoints)"
FILE = "eval_xai_robustness/LeNet-mnist"
LAYER = "conv2"  # where Grad-CAM looks: the last convolution whose map has more than one place
RANGE = (-1.0, 1.0)
RADIUS = 0.1  # the paper's ball


def lenet5(classes: int = 10) -> nn.Sequential:
    """Three convolutions with mean pooling and two dense layers, untrained: from images (N, 1, 32, 32) to logits (N, classes)."""
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(1, 6, 5),
            tanh1=nn.Tanh(),
            pool1=nn.AvgPool2d(2),
            conv2=nn.Conv2d(6, 16, 5),
            tanh2=nn.Tanh(),
            pool2=nn.AvgPool2d(2),
            conv3=nn.Conv2d(16, 120, 5),
            tanh3=nn.Tanh(),
            flatten=nn.Flatten(),
            linear1=nn.Linear(120, 84),
            tanh4=nn.Tanh(),
            linear2=nn.Linear(84, classes),
        )
    )


def digits(split: str = "test") -> tuple[Tensor, Tensor]:
    """MNIST as this network sees it: images (N, 1, 32, 32) in [-1, 1] and labels (N,)."""
    return mnist(split, size=32, range=RANGE)


def pretrained() -> nn.Sequential:
    """The network with its authors' weights, read from the data folder."""
    return load_public(lenet5(), FILE, ORIGIN, within="state")


ROBUST = {scheme: Shipped(f"robust-mnist-{scheme}", lenet5) for scheme in ("plain", "gradient", "hessian", "pgd")}
"""The network trained in each scheme of `veracity_papers.zoo.robust` (`python -m veracity_papers.zoo.train_robust`)."""
