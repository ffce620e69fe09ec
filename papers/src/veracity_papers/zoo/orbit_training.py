"""What the training scripts for orbits share: networks that learn from what is turned or not, scored upright and turned."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from veracity.trainers.training import Augmentation, accuracy, initialised, train
from veracity_papers.zoo.script import say
from veracity_papers.zoo.store import save


@dataclass(frozen=True, kw_only=True)
class Turned:
    """Networks to train on one data set: how it is read and turned, and how each network is built and its data varied."""

    data: str
    names: tuple[str, ...]
    read: Callable[[str], tuple[Tensor, Tensor]]
    build: Callable[[str], nn.Module]
    augmentation: Callable[[str], Augmentation | None]
    turn: Augmentation
    epochs: int
    batch: int
    rate: float
    decay: float = 0.0

    def weights(self, name: str) -> str:
        """What one network's weights are called."""
        return f"orbit-{self.data}-{name}"


def fit(task: Turned, name: str, out: Path, *, epochs: int, first: int | None, device: str, seed: int) -> dict[str, object]:
    """Train one network, write its weights in half precision, and say how they score on upright and on turned samples."""
    start = time.perf_counter()
    x, y, x_test, y_test = (part[:first].to(device) for split in ("train", "test") for part in task.read(split))
    model = initialised(lambda: task.build(name), seed).to(device)
    augment = task.augmentation(name)
    train(model, x, y, epochs=epochs, batch=task.batch, rate=task.rate, decay=task.decay, seed=seed, augment=augment)
    model.load_state_dict({key: value.half() if value.is_floating_point() else value for key, value in model.state_dict().items()})
    facts = {
        "epochs": epochs,
        "batch": task.batch,
        "seed": seed,
        "test_accuracy": round(accuracy(model, x_test, y_test), 4),
        "turned_accuracy": round(accuracy(model, task.turn(x_test, torch.Generator().manual_seed(seed)), y_test), 4),
    }
    save(model.state_dict(), out / f"{task.weights(name)}.safetensors", half=True, **facts)
    return {"model": task.weights(name), **facts, "seconds": round(time.perf_counter() - start, 1)}


def main(task: Turned) -> None:
    """Read the arguments, train, print one line of JSON a network."""
    parser = argparse.ArgumentParser(description=f"Train the networks for turned samples of {task.data}.")
    parser.add_argument("--out", type=Path, required=True, help="the folder to write the weights to")
    parser.add_argument(
        "--only", nargs="+", choices=task.names, default=task.names, metavar="NAME", help=f"some of {', '.join(task.names)}"
    )
    parser.add_argument("--epochs", type=int, default=task.epochs)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=None, help="use only the first samples of each split")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    given = parser.parse_args()
    for name in given.only:
        found = fit(task, name, given.out, epochs=given.epochs, first=given.first, device=given.device, seed=given.seed)
        say(found)
