"""Does an explanation become more complex when the model becomes random?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from veracity.core.measures import Direction
from veracity.core.registry import SCORES
from veracity.core.scores import Defaults, Pair, Request, Score, Subject
from veracity.core.settings import Count
from veracity.core.spaces import Space
from veracity.interpret.assumptions import ModelSensitivity
from veracity.interpret.randomisation.base import RandomisationScore
from veracity.measure.complexity import discrete_entropy
from veracity.perturb.weights import FullRandomisation


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class EfficientMPRT(RandomisationScore):
    """The rise of an explanation's complexity when all of the model's weights become random (eq. 32): higher is better.

    (c(e') - c(e)) / c(e) with c the entropy of the histogram of a map's values over `n_bins` equal bins, and e' the
    explanation of the randomised model. Undefined where e is constant, since then c(e) = 0.
    """

    name = "efficient_mprt"
    reference = "Hedström et al., A fresh look at sanity checks for saliency maps (2024)"
    n_bins: Count = 100

    @property
    def instead(self) -> Space:
        """Random weights in all layers."""
        return FullRandomisation()

    direction = Direction.HIGHER
    bounds = (-1.0, math.inf)

    @property
    def assumption(self) -> Score:
        """That the model's output changes with the same weights."""
        return ModelSensitivity(walk=self.walk)

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """For every explanation: the randomised copies."""
        return super().requests(subject, defaults)

    def observe(self, pair: Pair) -> Tensor:
        """The rise (R,)."""
        before, after = (discrete_entropy(reading.explanation, bins=self.n_bins) for reading in (pair.before, pair.after))
        return relative_rise(before, after)


def relative_rise(before: Tensor, after: Tensor) -> Tensor:
    """(after - before) / before (N,), NaN where there was nothing before.

    >>> relative_rise(torch.tensor([2.0, 0.0]), torch.tensor([3.0, 1.0]))
    tensor([0.5000,    nan])
    """
    return (after - before) / before.masked_fill(before == 0, torch.nan)
