"""Does the explanation, taken as a linear model, foretell what a perturbation of the input does to the prediction?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor

from veracity.core.measures import Direction
from veracity.core.registry import SCORES
from veracity.core.scores import Array, Defaults, Measured, Pair, Reads, Request, Score, Subject
from veracity.core.settings import Count, Portion, Positive
from veracity.core.spaces import InputSpace
from veracity.interpret.faithfulness.explained import BOTH, MODEL, drop, maps, over_entries
from veracity.perturb.masks import RandomMasks
from veracity.perturb.noise import GaussianNoise
from veracity.walk import MonteCarlo


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class Infidelity(Score):
    """The mean squared error of the explanation as a linear model of how the prediction reacts to perturbations I of the input.

        E over I of (I . e - (f(x) - f(x - I)))^2,   I = x - x'

    f is the explained score, or its probability with `softmax`. x' has `subset_size` random patches (or that share of them)
    of side `patch_size` at `perturb_baseline`, or, where `noise` is given, Gaussian noise of that standard deviation added.
    `scaled` multiplies e by the one factor a sample that makes the error smallest,
    beta = E[(I . e)(f(x) - f(x - I))] / E[(I . e)^2], so that explanations on different scales can be compared.

    It asks e for the slope of f: a map of contributions, such as integrated gradients, is not one.
    """

    name = "infidelity"
    reference = "Yeh et al., On the (in)fidelity and sensitivity of explanations (NeurIPS 2019)"
    before = BOTH | {Reads.INPUT}
    after = MODEL | {Reads.INPUT}
    quantities = ("attributed", "drop")
    n_perturb_samples: Count = 10
    patch_size: Count = 4
    subset_size: Portion = 1
    perturb_baseline: float | str = "black"
    noise: Positive | None = None
    scaled: bool = False
    softmax: bool = False

    direction = Direction.LOWER
    bounds = (0.0, np.inf)

    @property
    def in_map_units(self) -> bool:
        """Unless `scaled`: the error of a map that is 100 times larger is another."""
        return not self.scaled

    def suited(self, subject: Subject) -> Self:
        """Features of a vector are masked one by one, since their neighbours mean nothing."""
        return replace(self, patch_size=1) if len(subject.shape) == 1 else self

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """Random patches or noise, for maps over the input."""
        if not maps(subject):
            return ()
        walk = MonteCarlo(draws=self.n_perturb_samples)
        return (Request(self.perturbations().fit(subject.shape), walk),)

    def perturbations(self) -> InputSpace:
        """Where I comes from."""
        if self.noise is not None:
            return GaussianNoise(sigma=self.noise)
        return RandomMasks(size=self.subset_size, baseline=self.perturb_baseline, patch=self.patch_size)

    def observe(self, pair: Pair) -> Tensor:
        """I . e and f(x) - f(x - I): (R, 2)."""
        return torch.stack((foretold(pair), drop(pair, self.softmax)), dim=1)

    def values(self, measured: Measured) -> Array:
        """The squared error of each draw, (samples, draws)."""
        attributed, dropped = measured["attributed"][:, :, 0], measured["drop"][:, :, 0]
        error: Array = ((best_scale(attributed, dropped) if self.scaled else 1.0) * attributed - dropped) ** 2
        return error


def foretold(pair: Pair) -> Tensor:
    """I . e with I = x - x', (R,), in double precision."""
    here, there = pair.before.input, pair.after.input
    change = (here.double() - there.double()).flatten(1)
    return (change * over_entries(pair.before.explanation, here)).sum(dim=1)


def best_scale(attributed: Array, dropped: Array) -> Array:
    """The factor (samples, 1) that brings what was foretold closest to what happened, over the defined draws; 0 where nothing was.

    >>> best_scale(np.array([[1.0, 2.0], [0.0, 0.0]]), np.array([[2.0, 4.0], [1.0, 1.0]]))
    array([[2.],
           [0.]])
    """
    both = np.isfinite(attributed) & np.isfinite(dropped)
    a, d = np.where(both, attributed, 0.0), np.where(both, dropped, 0.0)
    square = (a * a).sum(axis=1, keepdims=True)
    found: Array = (a * d).sum(axis=1, keepdims=True) / np.where(square > 0.0, square, 1.0)
    return found
