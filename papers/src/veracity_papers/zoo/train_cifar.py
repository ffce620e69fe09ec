"""Train the CIFAR-10 networks and write their weights: python -m veracity_papers.zoo.train_cifar --epochs 40 --out DIR

Needs torch, numpy and safetensors only, and CIFAR-10 where VERACITY_DATA says (see `veracity_papers.data.cifar`). Minutes on a GPU.
Beside each network's weights it leaves half-precision checkpoints of the start of the training, on which the loss of a
symmetry can be watched.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import Tensor

from veracity.trainers.training import Augmentation, random_shift
from veracity_papers.data.cifar import cifar10
from veracity_papers.data.labelled import Labelled
from veracity_papers.zoo.d4 import NETWORKS, random_d4
from veracity_papers.zoo.train import fit

MOMENTS = (0, 1, 2, 3, 5, 8, 13, 21)


def augmentation(name: str) -> Augmentation:
    """Small shifts for all; turns and mirror images for the augmented network."""
    shift = random_shift(3)

    def both(x: Tensor, generator: torch.Generator) -> Tensor:
        return random_d4(shift(x, generator), generator)

    return both if name == "augmented" else shift


def main() -> None:
    """Read the arguments, train, print one line per network."""
    parser = argparse.ArgumentParser(description="Train the CIFAR-10 networks.")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=None, help="use only the first images of the training split")
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x, y = (part[: given.first].to(device) for part in cifar10("train"))
    x_test, y_test = (part.to(device) for part in cifar10("test"))
    for name in given.networks:
        network = NETWORKS[name]
        fit(
            network.weights, given.out, network.build, Labelled.of((x, y)), Labelled.of((x_test, y_test)), epochs=given.epochs,
            moments=MOMENTS, half=True, seed=given.seed, batch=256, rate=5e-3, decay=0.02, augment=augmentation(name), reduced=x.is_cuda,
        )  # fmt: skip


if __name__ == "__main__":
    main()
