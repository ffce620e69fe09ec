"""Train the networks for rotated samples: python -m veracity_papers.zoo.train_orbits digits|points --out OUT [--only NAME ...]

Three networks for MNIST digits, and two small PointNets for ModelNet's shapes. Data are read from the folder that VERACITY_DATA
names. Each takes a minute on a GPU. The PointNets see each training shape as eight clouds, each with other random points of its
surface.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from veracity.core.inputs import TensorInputs
from veracity.trainers.training import Augmentation, accuracy, initialised, train
from veracity_papers.data.mnist import mnist
from veracity_papers.data.modelnet import modelnet
from veracity_papers.zoo import orbit_digits, pointnet
from veracity_papers.zoo.scripts import halve, say, write

DRAWS = {"train": 8, "test": 1}


@dataclass(frozen=True, kw_only=True)
class RotationTask:
    """Networks to train on one data set: how to read and rotate it, and how to build each network.

    All networks but "plain" learn from rotated samples.
    """

    data: str
    names: tuple[str, ...]
    read: Callable[[str], tuple[Tensor, Tensor]]
    build: Callable[[str], nn.Module]
    rotate: Augmentation
    epochs: int
    batch: int
    rate: float
    decay: float = 0.0

    def weights(self, name: str) -> str:
        """The file name of one network's weights."""
        return f"orbit-{self.data}-{name}"


def fit(task: RotationTask, name: str, out: Path, *, epochs: int, first: int | None, device: str, seed: int) -> dict[str, object]:
    """Train one network, write its weights in half precision, and return its accuracy on upright and on rotated samples."""
    start = time.perf_counter()
    x, y, x_test, y_test = (part[:first].to(device) for split in ("train", "test") for part in task.read(split))
    model = initialised(lambda: task.build(name), seed).to(device)
    augment = None if name == "plain" else task.rotate
    train(model, x, y, epochs=epochs, batch=task.batch, rate=task.rate, decay=task.decay, seed=seed, augment=augment)
    halve(model)
    upright, rotated = (accuracy(model, images, y_test) for images in (x_test, task.rotate(x_test, torch.Generator().manual_seed(seed))))
    scores = {"test_accuracy": round(upright, 4), "turned_accuracy": round(rotated, 4)}
    return write(model, task.weights(name), out, start, epochs=epochs, batch=task.batch, seed=seed, **scores)


def clouds(split: str) -> tuple[Tensor, Tensor]:
    """Clouds (N, 256, 3) and labels (N,): every draw of points of every shape; the test split is that of `modelnet`."""
    drawn = [modelnet(split, seed=seed) for seed in range(DRAWS[split])]
    values = [one.inputs.tensor for one in drawn if isinstance(one.inputs, TensorInputs)]
    return torch.cat(values), torch.cat([one.labels for one in drawn])


TASKS: Mapping[str, RotationTask] = {
    "digits": RotationTask(
        data="mnist",
        names=orbit_digits.NAMES,
        read=mnist,
        build=orbit_digits.build,
        rotate=orbit_digits.random_rotation,
        epochs=20,
        batch=256,
        rate=1e-2,
    ),
    "points": RotationTask(
        data="modelnet",
        names=tuple(pointnet.NETWORKS),
        read=clouds,
        build=lambda name: pointnet.NETWORKS[name].build(),
        rotate=pointnet.random_turn,
        epochs=40,
        batch=64,
        rate=5e-3,
        decay=1e-2,
    ),
}


def main(given: list[str] | None = None, tasks: Mapping[str, RotationTask] = TASKS) -> None:
    """Read the command line, train, and print one line of JSON per network."""
    parser = argparse.ArgumentParser(description="Train the networks for rotated samples.")
    commands = parser.add_subparsers(dest="task", required=True)
    for label, task in tasks.items():
        command = commands.add_parser(label)
        command.add_argument("--out", type=Path, required=True, help="the folder to write the weights to")
        command.add_argument(
            "--only", nargs="+", choices=task.names, default=task.names, metavar="NAME", help=f"some of {', '.join(task.names)}"
        )
        command.add_argument("--epochs", type=int, default=task.epochs)
        command.add_argument("--seed", type=int, default=0)
        command.add_argument("--first", type=int, default=None, help="use only the first samples of each split")
        command.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    chosen = parser.parse_args(given)
    task = tasks[chosen.task]
    for name in chosen.only:
        say(fit(task, name, chosen.out, epochs=chosen.epochs, first=chosen.first, device=chosen.device, seed=chosen.seed))


if __name__ == "__main__":
    main()
