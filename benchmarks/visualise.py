"""Feature visualisation over its bare passes: python -m benchmarks.visualise [cpu|cuda] [steps] [lenet,wide,resnet50]

A LeNet with ten classes, a wide network on images of 64 x 64 pixels with six crops, and torchvision's ResNet-50 at 224 x 224 pixels (on a
GPU). Bare: the forward and backward passes of as many rows, nothing else. Lesson: all classes of one model. Audit: Fast-GEF with 25 copies
(5 of ResNet-50) over the bare passes of 26 lessons, with what surrounds them; a GPU visualises the copies of a small network together.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.gpu_floor import set_precision
from benchmarks.timing import now, synchronise
from veracity import Audit
from veracity.core.explainers import Context
from veracity.core.randomness import Draws
from veracity.explain import DeepViz, Fourier, Maco, Visualisation
from veracity.scores import FastGEF
from veracity.trainers.training import initialised
from veracity_papers.zoo.lenet import lenet

CLASSES, LEVELS = 10, 5
DRAWS = {"lenet": 5, "wide": 5, "resnet50": 1}
"""Copies of a network per level."""
SHAPES = {"lenet": (1, 1, 28, 28), "wide": (1, 3, 64, 64), "resnet50": (1, 3, 224, 224)}


def wide() -> nn.Module:
    """A network whose passes are much work."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 5, padding=2), nn.ReLU(), nn.Conv2d(64, 128, 3, stride=2, padding=1), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, CLASSES))


def seconds(work: Callable[[], Any], device: torch.device) -> float:
    """How long some work takes, until the device has done it."""
    synchronise(device)
    start = now(device)
    work()
    synchronise(device)
    return now(device) - start


def bare(net: nn.Module, rows: int, like: Tensor, steps: int) -> None:
    """The passes of a trajectory and nothing else."""
    points = torch.rand(rows, *like.shape[1:], device=like.device)
    targets = torch.arange(rows, device=like.device) % CLASSES
    for _ in range(steps):
        leaf = points.detach().requires_grad_()
        torch.autograd.grad(net(leaf).gather(1, targets[:, None]).sum(), leaf)


def compare(net: nn.Module, like: Tensor, method: Visualisation, draws: int) -> dict[str, float]:
    """Seconds of bare passes, of a lesson and of an audit, and their ratios."""
    device, rows = like.device, CLASSES * method.views(like.shape)
    context = Context(Draws.of(0, torch.arange(CLASSES, device=device)), 16384, example=like)
    bare(net, rows, like, 3)
    method.learn(net, context)  # first calls also look for algorithms
    passes = seconds(lambda: bare(net, rows, like, method.steps), device)
    lesson = seconds(lambda: method.learn(net, context), device)
    audit = Audit(
        models={"net": net},
        inputs=torch.rand(64, *like.shape[1:]),
        targets=torch.arange(64) % CLASSES,
        target="label",
        explainers={"one": method},
        scores={"fast_gef": FastGEF(sigma=1.0, draws=draws, steps=LEVELS)},
        controls=False,
        companions=False,
    )
    with tempfile.TemporaryDirectory() as folder:
        whole = seconds(lambda: audit.run(folder, progress=False), device)
    every = passes * (LEVELS * draws + 1)
    return {"bare_s": passes, "lesson_s": lesson, "lesson_ratio": lesson / passes, "audit_s": whole, "audit_ratio": whole / every}


def network(name: str) -> nn.Module:
    """A network by name; torchvision is imported only if it is asked for."""
    if name == "resnet50":
        made: nn.Module = import_module("benchmarks.gpu_floor").network(name)
        return made
    return initialised({"lenet": lenet, "wide": wide}[name], seed=0).eval()


def main(device: str = "cpu", steps: str = "50", networks: str = "lenet,wide") -> None:
    """Print one line of JSON per network and method, in strict float32, as audits are."""
    set_precision("float32")
    for name in networks.split(","):
        net, like = network(name).to(device), torch.zeros(SHAPES[name], device=device)
        amplitude = torch.rand(like.shape[1], like.shape[2], like.shape[3] // 2 + 1) + 0.1
        for method in (Fourier(steps=int(steps)), Maco(steps=int(steps), amplitude=amplitude), DeepViz(steps=int(steps))):
            found = compare(net, like, method, DRAWS[name])
            print(json.dumps({"network": name, "method": method.name, "device": device, **found}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
