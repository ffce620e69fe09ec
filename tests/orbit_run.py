"""A small orbit evaluation for tests of the interface: two untrained linear models on digits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from veracity import OrbitEvaluation
from veracity.demo import digits
from veracity.orbits import Classification, RotationOrbit
from veracity.trainers.training import initialised

HOSTILE = "</script><script>alert(1)</script>"
"""A class name that would run as a script wherever it is not escaped."""
CLASSES = ("zero", HOSTILE, *map(str, range(2, 10)))


def linear() -> nn.Module:
    """One layer from pixels to classes."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))


def evaluation(samples: int = 12, step: float = 45.0, **settings: Any) -> OrbitEvaluation:
    """Two models along the rotations of some digits."""
    x, y = digits("test", padding=0)
    models = {f"seed {seed}": initialised(linear, seed=seed) for seed in (0, 1)}
    given = {"models": models, "inputs": x[:samples], "targets": y[:samples], "title": "Turned digits", "explainers": ["saliency"]}
    return OrbitEvaluation(**{**given, "orbit": RotationOrbit(step=step), "task": Classification(classes=CLASSES), **settings})


def measured(folder: Path, **settings: Any) -> OrbitEvaluation:
    """The evaluation of a folder that holds its run."""
    made = evaluation(**settings)
    made.run(folder, progress=False)
    return made


def moved(made: OrbitEvaluation, sample: int, degrees: float) -> torch.Tensor:
    """One input, turned."""
    orbit = made.orbit.fit(torch.Size([1, 8, 8]))
    inputs = made.prepare().inputs
    return orbit.space.move(orbit.locate(torch.tensor([[degrees]], dtype=torch.float64)), inputs.take(torch.tensor([sample]))).values
