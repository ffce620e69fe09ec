"""Scores of the model alone: they check, per sample, what scores of explanations assume about the model.

A score of robustness expects the explanation to stay the same, which is fair only if the model stays the same (Assumption 1). A
randomisation test expects it to change, which is fair only if the model changes (Assumption 2). Masking expects the output to move
away as more is masked (Assumption 3, `faithfulness.masked`). Appendices A.1.4, A.5 and A.6 of the paper.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

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
from veracity.perturb import Ball, GaussianNoise, ParameterScaling
from veracity.perturb.weights import FullRandomisation, LayerRandomisation
from veracity.scores.common import across_levels, check_levels, largest
from veracity.walk import MonteCarlo

PAPER = "Hedström et al., Evaluating interpretable methods via geometric alignment of functional distortions (TMLR 2025)"


@dataclass(frozen=True, kw_only=True)
class Assumption(Score, ABC):
    """A score of the model alone: 1 for a sample on which the assumption holds, 0 for one on which it does not.

    The distortion of the model is stored for every draw and level. `assumes` names what is assumed, such as "a stable model";
    `verb` completes "on 12 of 64 samples it ... not".
    """

    reads: ClassVar[Reads] = Reads.OUTPUT
    reference: ClassVar[str] = PAPER
    assumes: ClassVar[str] = ""
    verb: ClassVar[str] = "does"
    direction = Direction.HIGHER
    bounds = (0.0, 1.0)
    walk: Walk = field(default_factory=lambda: MonteCarlo(draws=5))
    tolerance: NonNegative = 0.1

    @property
    @abstractmethod
    def around(self) -> Space:
        """The perturbations."""

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """Once per model, for all explainers."""
        return () if subject.explainer is not None else (Request(self.around.fit(subject.shape), self.walk),)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class ModelRobustness(Assumption):
    """Whether the model's prediction survives small random changes of the input: 1 if it does for every draw, else 0.

    A draw passes if it keeps the predicted class and moves the probabilities by a total variation distance of at most `tolerance`, at
    every level (Assumption 1). The noise is Gaussian with standard deviation `sigma` in `levels` equal steps, or uniform in a ball
    if a `radius` is given.
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
        """Gaussian noise, or a ball."""
        return GaussianNoise(sigma=self.sigma, levels=self.levels) if self.radius is None else Ball(radius=self.radius, norm=self.norm)

    def observe(self, pair: Pair) -> Tensor:
        """D_f, and whether the predicted class is the same: (R, 2)."""
        moved = total_variation(pair.before.output, pair.after.output)
        same = same_prediction(pair.before.output, pair.after.output).to(moved)
        return torch.stack((moved, same.masked_fill(moved.isnan(), torch.nan)), dim=1)

    def values(self, measured: Measured) -> Array:
        """1 for a draw that passes at all its levels, else 0."""
        moved, same = measured["distortion"], measured["kept"]
        holds = ((moved <= self.tolerance) & (same == 1)).all(axis=2)
        return np.where(np.isnan(moved).any(axis=2), np.nan, holds)

    def reduce(self, values: Array) -> Array:
        """1 if all draws pass."""
        return -largest(-values)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class ModelSensitivity(Assumption):
    """Whether the model's output changes when its weights are randomised: 1 if it does, else 0.

    It does if the total variation distance between the probabilities, averaged over randomised copies of the model, exceeds
    `tolerance` (Assumption 2). All weights are randomised at once, or layer by layer if there is a `layer_order` ("top_down" or
    "bottom_up"): then the "last" level counts, or the "mean" of all `layers`. `layers_in_step` layers are added at each level.
    """

    name = "model_sensitivity"
    assumes = "a model that changes with its weights"
    quantities = ("distortion",)
    layer_order: str | None = None
    layers: str = "last"
    layers_in_step: Count = 1

    @property
    def around(self) -> Space:
        """Random weights."""
        check_levels(self.layers)
        return FullRandomisation() if self.layer_order is None else LayerRandomisation(direction=self.layer_order, step=self.layers_in_step)

    def observe(self, pair: Pair) -> Tensor:
        """D_f (R,)."""
        return total_variation(pair.before.output, pair.after.output)

    def values(self, measured: Measured) -> Array:
        """D_f of each copy."""
        return across_levels(measured["distortion"], self.layers)

    def reduce(self, values: Array) -> Array:
        """1 if the mean exceeds the tolerance."""
        mean = per_sample_mean(values)
        return np.where(np.isnan(mean), np.nan, mean > self.tolerance)


@dataclass(frozen=True, kw_only=True)
class Growth(Assumption, ABC):
    """The share of a sample's paths along which the model's distortion grows from level to level.

        D_f^1 <= D_f^2 <= ... <= D_f^Z,   D_f^z = |f(x) - f'(x')| for the explained score

    A path passes if D_f never falls below an earlier value by more than `tolerance` of its maximum. `steps` is Z, and `sigma` is the
    strength at the last level; None finds the smallest strength at which predictions agree with the original ones by chance only.
    """

    assumes = "that the output of the model moves further from its original value the stronger the perturbation"
    reads = Reads.SCORES
    quantities = ("distortion",)
    steps: Count = 10
    sigma: Positive | None = None

    def observe(self, pair: Pair) -> Tensor:
        """D_f (R,)."""
        return (pair.after.score - pair.before.score).abs().double()

    def values(self, measured: Measured) -> Array:
        """1 if D_f grows along the path, else 0: (samples, draws)."""
        return grows(measured["distortion"], self.tolerance)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class InputGrowth(Growth):
    """How often the model's output moves steadily away as Gaussian noise on the input grows: the share of draws (Figure A.5)."""

    name = "input_growth"

    @property
    def around(self) -> GaussianNoise:
        """Noise of growing strength in one direction."""
        return GaussianNoise(sigma=self.sigma, levels=self.steps)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class WeightGrowth(Growth):
    """How often the model's output moves steadily away as noise on its weights grows: the share of draws (Figure A.1)."""

    name = "weight_growth"

    @property
    def around(self) -> ParameterScaling:
        """Weights scaled ever more strongly in one direction."""
        return ParameterScaling(sigma=self.sigma, steps=self.steps)


def sentence(score: Component, assumption: Score, holds: int, n: int) -> str:
    """On how many of `n` samples the assumption of a score fails, and what to do; it `holds` on the others.

    >>> print(sentence(ModelRobustness(), ModelRobustness(), holds=64, n=64))
    model_robustness assumes a stable model; on all 64 samples it is.
    """
    start, verb = f"{score.name} assumes {getattr(assumption, 'assumes', '')}", getattr(assumption, "verb", "does")
    if n == 0:
        return tell("assumed.untold", start, assumed=1)
    if n == 1:
        return tell("assumed.one", start, verb if holds else f"{verb} not", samples=n)
    if holds == n:
        return tell("assumed.all", start, n, verb, samples=n)
    if holds == 0:
        return tell("assumed.none", start, n, verb, samples=n)
    return tell("assumed.some", start, n - holds, n, verb, samples=n)


def total_variation(before: Tensor, after: Tensor) -> Tensor:
    """The total variation distance between probabilities, sum |p - q| / 2, from (N, C) and (N, C) to (N,).

    It is the largest change of the probability of any set of classes. For outputs that are not probabilities, it is half the sum of
    absolute differences.

    >>> total_variation(torch.tensor([[0.2, 0.8]]), torch.tensor([[0.5, 0.5]]))
    tensor([0.3000], dtype=torch.float64)
    """
    return 0.5 * (before.double() - after.double()).abs().sum(dim=1)


def same_prediction(before: Tensor, after: Tensor) -> Tensor:
    """Whether outputs (N, C) predict the same class, (N,).

    >>> same_prediction(torch.tensor([[0.4, 0.6], [0.4, 0.6]]), torch.tensor([[0.1, 0.9], [0.7, 0.3]]))
    tensor([ True, False])
    """
    return before.argmax(dim=1) == after.argmax(dim=1)


def grows(distortion: Array, tolerance: float) -> Array:
    """1 if values along the last axis never fall below an earlier one by more than `tolerance` of the maximum, else 0.

    From (..., levels) to (...); NaN if a level is undefined. Constant values pass.

    >>> grows(np.array([[0.0, 1.0, 0.95, 2.0], [0.0, 1.0, 0.5, 2.0], [0.0, np.nan, 1.0, 2.0]]), 0.1)
    array([ 1.,  0., nan])
    """
    fall = (np.maximum.accumulate(distortion, axis=-1) - distortion).max(axis=-1)
    return np.where(np.isnan(fall), np.nan, np.where(fall <= tolerance * distortion.max(axis=-1), 1.0, 0.0))
