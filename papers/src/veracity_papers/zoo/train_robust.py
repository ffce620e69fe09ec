"""Train the networks of the robustness recipes.

    python -m veracity_papers.zoo.train_robust OUT [--only NAME ...] [--epochs N] [--device cuda]

The digits' LeNet and CIFAR-10's ResNet20 in the four schemes of the robustness paper's Table 5, and two other architectures.
Needs torch, numpy, pillow and safetensors only, and MNIST and CIFAR-10 where VERACITY_DATA says. A few minutes on a GPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from veracity.trainers.training import Augmentation, accuracy, initialised, random_crop, random_shift
from veracity_papers.data.cifar import cifar10
from veracity_papers.zoo import compact, lenet5, resnet
from veracity_papers.zoo.robust import PGD, GradientPenalty, HessianPenalty, Plain, Scheme, train_robust
from veracity_papers.zoo.scripts import command, halve, say, write

Split = tuple[Tensor, Tensor]


@dataclass(frozen=True, kw_only=True)
class Task:
    """A data set, as its networks see it: how it is read, varied and attacked."""

    read: Callable[[str], Split]
    augment: Augmentation
    attack: PGD
    rate: float
    decay: float


@dataclass(frozen=True, kw_only=True)
class Job:
    """One network to train."""

    task: Task
    build: Callable[[], nn.Module]
    scheme: Scheme
    epochs: int


DIGITS = Task(
    read=lenet5.digits, augment=random_shift(1), attack=PGD(radius=lenet5.RADIUS, range=lenet5.RANGE, steps=10), rate=3e-3, decay=0.0
)
PHOTOS = Task(read=cifar10, augment=random_crop(4), attack=PGD(radius=resnet.RADIUS, range=resnet.RANGE, steps=10), rate=5e-3, decay=0.02)
JOBS = {
    "robust-mnist-plain": Job(task=DIGITS, build=lenet5.lenet5, scheme=Plain(), epochs=20),
    "robust-mnist-gradient": Job(task=DIGITS, build=lenet5.lenet5, scheme=GradientPenalty(weight=0.01), epochs=20),
    "robust-mnist-hessian": Job(task=DIGITS, build=lenet5.lenet5, scheme=HessianPenalty(weight=0.1), epochs=20),
    "robust-mnist-pgd": Job(task=DIGITS, build=lenet5.lenet5, scheme=PGD(radius=0.1, range=(-1.0, 1.0), steps=5), epochs=20),
    "robust-cifar-plain": Job(task=PHOTOS, build=resnet.resnet, scheme=Plain(), epochs=24),
    "robust-cifar-gradient": Job(task=PHOTOS, build=resnet.resnet, scheme=GradientPenalty(weight=0.01), epochs=16),
    "robust-cifar-hessian": Job(task=PHOTOS, build=resnet.resnet, scheme=HessianPenalty(weight=0.01), epochs=12),
    "robust-cifar-pgd": Job(task=PHOTOS, build=resnet.resnet, scheme=PGD(radius=0.03, range=(0.0, 1.0), steps=4), epochs=16),
    "cifar-vgg": Job(task=PHOTOS, build=compact.vgg, scheme=Plain(), epochs=24),
    "cifar-mobile": Job(task=PHOTOS, build=compact.mobile, scheme=Plain(), epochs=24),
}


def with_changes(job: Job, epochs: int | None, weight: float | None) -> Job:
    """The job with other epochs and another weight of its penalty, where they are given."""
    scheme: Any = job.scheme
    heavier = hasattr(scheme, "weight") and weight is not None
    return replace(job, epochs=job.epochs if epochs is None else epochs, scheme=replace(scheme, weight=weight) if heavier else scheme)


def fit(name: str, job: Job, out: Path, *, first: int | None, device: str, seed: int, batch: int) -> dict[str, object]:
    """Train one network, write its weights in half precision, and return its accuracy, with and without attack."""
    x, y, x_test, y_test = (part[:first].to(device) for split in ("train", "test") for part in job.task.read(split))
    start = time.perf_counter()
    model = initialised(job.build, seed).to(device)

    def report(epoch: int, loss: float) -> None:
        say({"model": name, "epoch": epoch + 1, "of": job.epochs, "loss": round(loss, 4), "seconds": round(time.perf_counter() - start, 1)})

    train_robust(
        model, x, y, job.scheme, epochs=job.epochs, batch=batch, rate=job.task.rate, decay=job.task.decay, seed=seed,
        augment=job.task.augment, report=report, reduced=x.is_cuda and job.scheme == Plain(),
    )  # fmt: skip
    halve(model)
    worst = worst_cases(job.task.attack, model, x_test[:2000], y_test[:2000])
    samples = {"train": (x, y), "test": (x_test, y_test), "attacked": (worst, y_test[:2000])}
    scores = {f"{part}_accuracy": round(accuracy(model, *data), 4) for part, data in samples.items()}
    return write(model, name, out, start, scheme=repr(job.scheme), epochs=job.epochs, batch=batch, seed=seed, **scores)


def worst_cases(attack: PGD, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The worst cases that an attack finds around these inputs."""
    generator = torch.Generator(device=x.device).manual_seed(0)
    return torch.cat([attack.worst(model, part, labels, generator) for part, labels in zip(x.split(500), y.split(500), strict=True)])


def main() -> None:
    """Read the arguments, train, print one line per epoch and one per network."""
    parser = command("Train the networks of the robustness recipes.", JOBS, epochs=None, batch=256, first=None)
    parser.add_argument("--weight", type=float, default=None, help="of the penalty, where there is one")
    given = parser.parse_args()
    for name in given.only:
        job = with_changes(JOBS[name], given.epochs, given.weight)
        say(fit(name, job, given.out, first=given.first, device=given.device, seed=given.seed, batch=given.batch))


if __name__ == "__main__":
    main()
