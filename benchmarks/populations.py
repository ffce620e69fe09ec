"""Populations whose truth is known, for benchmarks/coverage.py: by their formula, or what a network gave on all samples and draws."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from veracity import Audit, OrbitEvaluation
from veracity.core.scores import Measured
from veracity.core.training import CrossTrained
from veracity.demo import digits
from veracity.orbits import RotationOrbit
from veracity.orbits.tasks.classification import Classification
from veracity.perturb import CyclicShift
from veracity.results import Result
from veracity.scores.gef import FastGEF
from veracity.trainers.training import initialised, train
from veracity.walk import Exhaustive
from veracity_papers.zoo.orbit_digits import digit_cnn

Array = NDArray[np.float64]
Generator = np.random.Generator

SIGMA = 1.1
COPIES = 100

DRAWN: dict[str, tuple[Callable[[Generator, int], Array], float, tuple[int, ...]]] = {
    "1 - lognormal": (lambda rng, n: 1 - rng.lognormal(0, SIGMA, n), 1 - math.exp(SIGMA**2 / 2), (10, 25, 50, 100)),
    "normal": (lambda rng, n: rng.normal(size=n), 0.0, (10, 25, 100)),
    "exponential": (lambda rng, n: rng.exponential(size=n), 1.0, (10, 25, 100)),
    "1, but for one sample in 50": (lambda rng, n: 1 - (rng.random(n) < 0.02) * rng.random(n), 0.99, (25, 100)),
}
"""Populations by their formula: n values, their mean, and the sizes to look at."""


def drawn_pairs(rng: Generator, samples: int, shift: float, pairs: int = 4, easy: float = 1.6) -> Measured:
    """Distances between explanations of models of which some are wrong on hard samples; `shift` moves those in S!=."""
    hard = rng.normal(size=(samples, 1))
    right = np.repeat(0.3 * rng.normal(size=(samples, 1)) + easy > hard, pairs, axis=1)
    other = 0.3 * rng.normal(size=(samples, pairs)) + easy > hard
    distance = rng.normal(size=(samples, 1)) + 0.5 * rng.normal(size=(samples, pairs)) + shift * (right != other)
    found = {"distance": 1 / (1 + np.exp(-distance)), "right": right, "other_right": other, "same": right == other}
    return Measured({name: np.asarray(values, dtype=np.float64)[:, :, None] for name, values in found.items()})


def rows_of(measured: Measured, order: NDArray[np.int64]) -> Measured:
    """Some samples."""
    return Measured({name: values[order] for name, values in measured.quantities.items()})


# Populations of real networks: measured once, then read from their folders.


def small_net(width: int = 32) -> nn.Module:
    """A digit classifier with one hidden layer."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))


def fit(inputs: torch.Tensor, targets: torch.Tensor, seed: int) -> nn.Module:
    """A small training that leaves some errors, for stability."""
    return train(initialised(partial(small_net, 12), seed), inputs, targets, epochs=6, seed=seed)


@cache
def audited(folder: Path) -> Result:
    """Faithfulness of a digit classifier: every kind of value that an audit averages, on 600 digits."""
    x, y = (torch.cat(parts)[:600] for parts in zip(digits("test", padding=0), digits("train", padding=0), strict=True))
    net = train(initialised(small_net, 0), *digits("train", padding=0), epochs=20)
    audit = Audit(
        models={"digits": net},
        inputs=x,
        targets=y,
        explainers=["gradient", "saliency", "input_x_gradient"],
        scores={
            "fast_gef": FastGEF(draws=COPIES),
            "faithfulness_correlation": "faithfulness_correlation",
            "relative_output_stability": "relative_output_stability",
            "equivariance": "equivariance",
        },
        symmetry=CyclicShift(axes=(-2, -1)),
        walk=Exhaustive(),
        controls=False,
    )
    return audit.run(str(folder / "digits"))


@cache
def stable(folder: Path) -> Result:
    """Stability of a digit classifier that errs: five folds of 1,347 digits."""
    x, y = digits("train", padding=0)
    audit = Audit(
        models={"digits": CrossTrained(fit=fit, folds=5)},
        inputs=x,
        targets=y,
        explainers=["saliency", "input_x_gradient"],
        scores=["mege", "reco", "reco_auc", "reco_ks"],
        controls=False,
    )
    return audit.run(str(folder / "stability"))


@cache
def turned(folder: Path) -> tuple[Array, Array]:
    """A digit classifier along rotations: confidence (450, 36), and distances from the output at the identity."""
    x, y = digits("train", padding=3)
    evaluation = OrbitEvaluation(
        models={"plain": train(initialised(partial(digit_cnn, side=14), 0), x, y, epochs=10)},
        inputs=digits("test", padding=3)[0],
        targets=digits("test", padding=3)[1],
        orbit=RotationOrbit(step=10),
        task=Classification(classes=tuple("0123456789")),
    )
    found = evaluation.run(str(folder / "orbits"))
    return np.asarray(found.values("plain", "confidence", "truth")), np.asarray(found.distances("plain"))
