"""What robustness and sensitivity scores assume of the model, measured on the model itself (Assumptions 1 and 2, appendix A.5).

An explanation should keep still where the model does, and change where the model changes. A score that perturbs something
and looks at the explanation alone takes the model's part for granted; these scores look at it.

What masking takes for granted of the model: the more is masked, the further its answer moves away (Assumption 3).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor

from veracity.core.component import Component
from veracity.core.measures import Direction
from veracity.core.registry import SCORES
from veracity.core.scores import Array, Defaults, Measured, Pair, Reads, Request, Score, Subject, per_sample_mean
from veracity.core.sentences import tell
from veracity.core.settings import Count, NonNegative, Positive
from veracity.core.spaces import Space
from veracity.core.walks import Walk
from veracity.perturb.ball import Ball
from veracity.perturb.noise import GaussianNoise
from veracity.perturb.weights import FullRandomisation, LayerRandomisation
from veracity.scores.common import across_levels, check_levels, largest
from veracity.walk import MonteCarlo

PAPER = "Hedström et al., Evaluating interpretable methods via geometric alignment of functional distortions (TMLR 2025)"


@dataclass(frozen=True, kw_only=True)
class Assumption(Score, ABC):
    """A score of the model alone: 1 on a sample where the assumption holds, 0 where it does not.

    The model's distortion is the total variation distance between its probabilities before and after, and is kept of every
    draw and level. `assumes` and `verb` say it in words.
    """

    reads: ClassVar[Reads] = Reads.OUTPUT
    reference: ClassVar[str] = PAPER
    assumes: ClassVar[str] = ""
    verb: ClassVar[str] = "does"
    walk: Walk = field(default_factory=lambda: MonteCarlo(draws=5))
    tolerance: NonNegative = 0.1

    @property
    @abstractmethod
    def around(self) -> Space:
        """What is perturbed."""

    direction = Direction.HIGHER
    bounds = (0.0, 1.0)

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """Once a model, whatever the explainers."""
        return () if subject.explainer is not None else (Request(self.around.fit(subject.shape), self.walk),)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class ModelRobustness(Assumption):
    """Whether the model keeps its answer under every small change of the input that was drawn (Assumption 1): 1 or 0.

    It does if every draw, at every level, keeps the predicted class and moves the probabilities by a total variation
    distance of at most `tolerance`. The noise is Gaussian with standard deviation `sigma` in `levels` equal steps, or
    uniform in a ball of `radius` where one is given.
    """

    name = "model_robustness"
    assumes = "a stable model"
    verb = "is"
    quantities = ("distortion", "kept")
    sigma: Positive = 0.001
    levels: Count = 1
    radius: Positive | None = None
    norm: str = "linf"

    @property
    def around(self) -> Space:
        """The noise."""
        return GaussianNoise(sigma=self.sigma, levels=self.levels) if self.radius is None else Ball(radius=self.radius, norm=self.norm)

    def observe(self, pair: Pair) -> Tensor:
        """D_f, and whether the prediction is kept: (R, 2)."""
        moved = total_variation(pair.before.output, pair.after.output)
        same = kept(pair.before.output, pair.after.output).to(moved)
        return torch.stack((moved, same.masked_fill(moved.isnan(), torch.nan)), dim=1)

    def values(self, measured: Measured) -> Array:
        """Whether each draw left the model where it was, at all its levels."""
        moved, same = measured["distortion"], measured["kept"]
        holds = ((moved <= self.tolerance) & (same == 1)).all(axis=2)
        return np.where(np.isnan(moved).any(axis=2), np.nan, holds)

    def reduce(self, values: Array) -> Array:
        """Whether all draws did."""
        return -largest(-values)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class ModelSensitivity(Assumption):
    """Whether the model's answer changes when its weights are randomised (Assumption 2): 1 or 0.

    It does if the total variation distance between the probabilities, averaged over the randomised copies, exceeds
    `tolerance`. All weights are randomised at once, or layer by layer where there is a `layer_order` ("top_down" or
    "bottom_up"): then the "last" level counts, or the "mean" of all `layers`.
    """

    name = "model_sensitivity"
    assumes = "a model that changes with its weights"
    quantities = ("distortion",)
    layer_order: str | None = None
    layers: str = "last"

    @property
    def around(self) -> Space:
        """The randomised weights."""
        return FullRandomisation() if self.layer_order is None else LayerRandomisation(direction=self.layer_order)

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """Once a model, whatever the explainers."""
        check_levels(self.layers)
        return super().requests(subject, defaults)

    def observe(self, pair: Pair) -> Tensor:
        """D_f."""
        return total_variation(pair.before.output, pair.after.output)

    def values(self, measured: Measured) -> Array:
        """D_f of each copy."""
        return across_levels(measured["distortion"], self.layers)

    def reduce(self, values: Array) -> Array:
        """Whether it exceeds the tolerance on average."""
        mean = per_sample_mean(values)
        return np.where(np.isnan(mean), np.nan, mean > self.tolerance)


class Stated(Protocol):
    """An assumption that says in words what it assumes, such as "a stable model"."""

    @property
    def assumes(self) -> str:
        """The words."""
        ...


def sentence(score: Component, assumption: Stated, holds: int, n: int) -> str:
    """What a reader must know of a score whose assumption holds on `holds` of the `n` samples where that can be told.

    >>> print(sentence(ModelRobustness(), ModelRobustness(), holds=52, n=64))
    model_robustness assumes a stable model; on 12 of 64 samples it is not.
    """
    start, verb = f"{score.name} assumes {assumption.assumes}", getattr(assumption, "verb", "does")
    if n == 0:
        return tell("assumed.untold", start, assumed=1)
    if holds == n:
        return tell("assumed.all", start, n, verb, samples=n)
    return tell("assumed.some", start, n - holds, n, verb, samples=n)


def total_variation(before: Tensor, after: Tensor) -> Tensor:
    """The total variation distance between probabilities, sum |p - q| / 2, from (N, C) and (N, C) to (N,).

    It is the most that the probability of anything the model may predict has changed. Of outputs that are no probabilities
    it is half the sum of absolute differences.

    >>> total_variation(torch.tensor([[0.2, 0.8]]), torch.tensor([[0.5, 0.5]]))
    tensor([0.3000], dtype=torch.float64)
    """
    return 0.5 * (before.double() - after.double()).abs().sum(dim=1)


def kept(before: Tensor, after: Tensor) -> Tensor:
    """Whether outputs (N, C) predict the same class, (N,).

    >>> kept(torch.tensor([[0.4, 0.6], [0.4, 0.6]]), torch.tensor([[0.1, 0.9], [0.7, 0.3]]))
    tensor([ True, False])
    """
    return before.argmax(dim=1) == after.argmax(dim=1)
