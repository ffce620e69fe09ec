"""Train the CIFAR-10 networks and write their weights: python -m veracity_papers.zoo.train_cifar --epochs 40 --out DIR

Needs torch, numpy and safetensors only, and CIFAR-10 where VERACITY_DATA says (see `veracity_papers.data.cifar`). Minutes on a GPU.
Beside each network's weights it leaves half-precision checkpoints of the start of the training, on which the loss of a
symmetry can be watched.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import torch
from torch import Tensor

from veracity.trainers.training import accuracy, initialised, random_shift, train
from veracity_papers.data.cifar import cifar10
from veracity_papers.zoo.d4 import NAMES, build, random_d4
from veracity_papers.zoo.storage import save

MOMENTS = (0, 1, 2, 3, 5, 8, 13, 21)


def augmentation(name: str, x: Tensor, generator: torch.Generator) -> Tensor:
    """Small shifts for all; turns and mirror images for the augmented network."""
    moved = random_shift(3)(x, generator)
    return random_d4(moved, generator) if name == "augmented" else moved


def fit(name: str, out: Path, epochs: int, data: tuple[Tensor, ...], seed: int) -> dict[str, object]:
    """Train one network, write its weights and checkpoints, and return its accuracy."""
    x, y, x_test, y_test = data
    start = time.perf_counter()
    model = initialised(lambda: build(name), seed).to(x.device)

    def keep(done: int, rate: float) -> None:
        if done in MOMENTS:
            save(model.state_dict(), out / f"cifar-{name}.{MOMENTS.index(done)}.safetensors", half=True, epochs=done, rate=rate)

    train(
        model, x, y, epochs=epochs, batch=256, rate=5e-3, decay=0.02, seed=seed, checkpoint=keep, reduced=x.is_cuda,
        augment=lambda images, generator: augmentation(name, images, generator),
    )  # fmt: skip
    score = accuracy(model, x_test, y_test)
    save(model.state_dict(), out / f"cifar-{name}.safetensors", epochs=epochs, test_accuracy=round(score, 4), seed=seed)
    return {"model": name, "epochs": epochs, "test_accuracy": score, "seconds": round(time.perf_counter() - start, 1)}


def main() -> None:
    """Read the arguments, train, print one line per network."""
    parser = argparse.ArgumentParser(description="Train the CIFAR-10 networks.")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--networks", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=None, help="use only the first images of the training split")
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x, y = (part[: given.first].to(device) for part in cifar10("train"))
    x_test, y_test = (part.to(device) for part in cifar10("test"))
    for name in given.networks:
        sys.stdout.write(json.dumps(fit(name, given.out, given.epochs, (x, y, x_test, y_test), given.seed)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
