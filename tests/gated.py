"""An audit that waits in the middle until it is let go on, so that tests can look at a run that is running, or was killed."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from orbit_small import images, labels, linear
from veracity import Audit
from veracity.perturb import Dihedral
from veracity.walk import Exhaustive

TRIED = 2
"""On so many inputs an explainer is tried before a run."""
GATE: list[Path] = []
"""The run folder that is waited in; it goes on once there is a file of its name and `.open`."""


def patient(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """An explainer that waits until the gate is open; not when it is only tried on two inputs."""
    while GATE and len(inputs) > TRIED and not GATE[0].with_suffix(".open").exists():
        time.sleep(0.02)
    return inputs.clone()


def broken(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """An explainer that fails, but not when it is only tried on two inputs."""
    if len(inputs) > TRIED:
        raise RuntimeError("no memory left")
    return inputs.clone()


def silent(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """An explainer whose maps are zero, so that no similarity with them has a value."""
    return torch.zeros_like(inputs)


def audit(**settings: Any) -> Audit:
    """Two models and four explainers: one is quick, one waits, one fails, and one is undefined."""
    given: dict[str, Any] = {
        "models": {"first": linear(0), "second": linear(1)},
        "inputs": images(),
        "targets": labels(),
        "symmetry": Dihedral(),
        "walk": Exhaustive(),
        "explainers": {"quick": "saliency", "silent": silent, "broken": broken, "patient": patient},
        "controls": False,
        "companions": False,
        "title": "A slow audit",
    }
    return Audit(**{**given, **settings})


def work(folder: Path, names: tuple[str, ...]) -> None:
    """Run the audit with these explainers."""
    torch.set_num_threads(1)
    GATE[:] = [folder]
    every = audit().explainers
    audit(explainers={name: every[name] for name in names}).run(folder, progress=False)  # type: ignore[call-overload]


def begin(folder: Path, *names: str) -> BaseProcess:
    """Run the audit in a process of its own."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["veracity.audit", "orbit_small"])
    process = context.Process(target=work, args=(folder, names or ("quick", "silent", "broken", "patient")))
    process.start()
    return process


def let_go(folder: Path) -> None:
    """Open the gate."""
    folder.with_suffix(".open").touch()


def waits(folder: Path, cells: int, seconds: float = 60.0) -> None:
    """Until so many cells are measured or failed."""
    ends = time.monotonic() + seconds
    while sum(len(list((folder / kind).glob("[!.]*"))) for kind in ("cells", "failed")) < cells:
        assert time.monotonic() < ends, "the audit does not come this far"
        time.sleep(0.02)
