"""The MedCNN of the faithfulness paper (Table 2; the small network of MedMNIST, Yang et al. 2023), trained on PneumoniaMNIST.

The paper has it for the colour images of DermaMNIST (234,967 parameters) and PathMNIST; with one channel and two classes it has
234,034. It has batch norms, whose running means and variances are buffers. The shipped weights scored .8542 on the 624 test
images, of which .625 show pneumonia (the paper's, on DermaMNIST: .732).
"""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from veracity_papers.zoo.storage import Shipped

LAYER = "pool5"  # where the paper's Grad-CAM looks
BLOCKS = ((16, 0, False), (16, 0, True), (64, 0, False), (64, 0, False), (64, 1, True))
HIDDEN = 128


def med_cnn(channels: int = 1, classes: int = 2) -> nn.Sequential:
    """Five convolutions with batch norm, two poolings, three dense layers, untrained: from (N, channels, 28, 28) to (N, classes)."""
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    before = channels
    for number, (width, padding, pooled) in enumerate(BLOCKS, start=1):
        layers[f"conv{number}"] = nn.Conv2d(before, width, 3, padding=padding)
        layers[f"norm{number}"], layers[f"relu{number}"] = nn.BatchNorm2d(width), nn.ReLU()
        if pooled:
            layers[f"pool{number}"] = nn.MaxPool2d(2)
        before = width
    layers["flatten"] = nn.Flatten()
    layers["linear1"], layers["relu6"] = nn.Linear(64 * 4 * 4, HIDDEN), nn.ReLU()
    layers["linear2"], layers["relu7"] = nn.Linear(HIDDEN, HIDDEN), nn.ReLU()
    layers["linear3"] = nn.Linear(HIDDEN, classes)
    return nn.Sequential(layers)


PNEUMONIA = Shipped("pneumonia-med-cnn", med_cnn)
"""The network for chest X-rays, with the weights that `python -m veracity_papers.zoo.train pneumonia` made."""
