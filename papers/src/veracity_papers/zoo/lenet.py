"""The LeNets of the faithfulness paper (Table 2; after LeCun et al. 1998), with its authors' weights for MNIST and FashionMNIST.

61,706 parameters, as published. The weights are read from the data folder. On the 10,000 test images, in [0, 1] without
padding, they scored .9877 and .8849 (the paper: .977 and .877).
"""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from veracity.core.errors import unknown
from veracity_papers.zoo.storage import load_public

ORIGIN = "github.com/annahedstroem/GEF (assets/models)"
FILES = {"mnist": "gef/mnist_lenet", "fashion-mnist": "gef/fmnist_lenet"}
NAMES = tuple(FILES)
LAYER = "conv2"  # where the paper's Grad-CAM looks


def lenet(classes: int = 10) -> nn.Sequential:
    """Two convolutions with pooling and three dense layers, untrained: from images (N, 1, 28, 28) to logits (N, classes)."""
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(1, 6, 5, padding=2),
            relu1=nn.ReLU(),
            pool1=nn.MaxPool2d(2),
            conv2=nn.Conv2d(6, 16, 5),
            relu2=nn.ReLU(),
            pool2=nn.MaxPool2d(2),
            flatten=nn.Flatten(),
            linear1=nn.Linear(16 * 5 * 5, 120),
            relu3=nn.ReLU(),
            linear2=nn.Linear(120, 84),
            relu4=nn.ReLU(),
            linear3=nn.Linear(84, classes),
        )
    )


def pretrained(name: str) -> nn.Sequential:
    """The network with its authors' weights for "mnist" or "fashion-mnist"."""
    if name not in FILES:
        raise unknown("LeNet", name, NAMES)
    return load_public(lenet(), FILES[name], ORIGIN)
