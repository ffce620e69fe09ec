"""Train the ECG networks and write their weights: python -m veracity_papers.zoo.train_ecg OUT [EPOCHS]

Needs the extra "ecg". Minutes on one CPU core a network.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from veracity.trainers.training import random_shift
from veracity_papers.data.ecg import LENGTH, ecg
from veracity_papers.zoo.script import arguments, fit
from veracity_papers.zoo.series import NAMES, build


def started(name: str, mean: float, deviation: float) -> nn.Sequential:
    """A network with He's initial weights, as if its input had mean 0 and deviation 1: the first convolution takes both out."""
    net = build(name)
    for layer in net:
        if isinstance(layer, nn.Conv1d | nn.Linear):
            nn.init.kaiming_normal_(layer.get_parameter("weight"))
            nn.init.zeros_(layer.get_parameter("bias"))
    weight, bias = (net.get_submodule("conv1").get_parameter(part) for part in ("weight", "bias"))
    with torch.no_grad():
        weight.div_(deviation)
        bias.sub_(mean * weight.sum(dim=(1, 2)))
    return net


def main(out: Path, epochs: int) -> None:
    """Train, score on the test split, save, with checkpoints: five of the small invariant network, two of the others."""
    train, test = ecg("train"), ecg("test")
    values = train.inputs.take(torch.arange(len(train))).values
    for name in NAMES:
        made = partial(started, name, float(values.mean()), float(values.std()))
        augment = random_shift(LENGTH // 2, axes=(-1,)) if name == "augmented-cnn" else None
        small = name == "all-cnn"
        kept: dict[str, Any] = {"keep": 5 if small else 2, "half": not small}
        fit(f"ecg-{name}", out, made, train, test, epochs=epochs, batch=64, rate=5e-3, augment=augment, **kept)


if __name__ == "__main__":
    main(*arguments(sys.argv, epochs=12))
