"""Do explanations stay when the sample was not among what the model learnt from?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from veracity.core.registry import SCORES
from veracity.core.scores import Array, Measured
from veracity.interpret.stability.base import StabilityScore
from veracity.interpret.stability.generalisability import mean_generalisability
from veracity.interpret.stability.sets import ALIKE


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class MeGe(StabilityScore):
    """Mean generalisability: MeGe = 1 / (1 + mean of S=), near 1 where an explanation hardly depends on having seen the sample (eq. 5).

    S= holds the distances between explanations of models that are both right. With distances of at most 1, as the default's,
    it cannot fall below .5. An explanation that ignores the model is perfectly stable: read it beside a score of fidelity.
    Its chance level is the random control's, since permuted labels leave it nearly as it is.
    """

    name = "mege"
    bounds = (0.0, 1.0)

    def pool(self, measured: Measured, weights: Array) -> Array:
        """MeGe (B,) under weights (B, samples)."""
        return mean_generalisability(*self.sets(measured), weights)

    def values(self, measured: Measured) -> Array:
        """The distances of S=."""
        distance, member = self.sets(measured)
        return np.where(member == ALIKE, distance, np.nan)
