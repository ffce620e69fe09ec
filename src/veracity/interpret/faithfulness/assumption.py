"""What masking takes for granted of the model: the more is masked, the further its answer moves away (Assumption 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from torch import Tensor

from veracity.core.registry import SCORES
from veracity.core.scores import Array, Defaults, Measured, Pair, Reads, Request, Subject
from veracity.core.settings import Count, Portion
from veracity.core.walks import Walk
from veracity.interpret.assumptions import Assumption
from veracity.interpret.common import largest
from veracity.interpret.faithfulness.cells import cell_side
from veracity.interpret.faithfulness.explained import MODEL, drop
from veracity.perturb.masks import RandomOrderMasks
from veracity.walk import MonteCarlo


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class ModelFaithfulness(Assumption):
    """Whether the model's distortion grows as more and more of the input is masked, in random order (Assumption 3): 1 or 0.

        D_f^1 <= D_f^2 <= ... <= D_f^Z,   D_f^z = |f(x) - f(x with the first z steps masked)|

    on the explained score, or with `softmax` its probability. The order is random, so that the curve shows the model alone
    (appendix A.5). A real network is never exactly monotone: the assumption holds if D_f never falls by more than
    `tolerance` of its largest value below what it has reached before, however many steps the fall takes. Each step masks
    `features_in_step` more patches of side `patch_size` (or that share of them; patch_size=None makes about 9 x 9 patches). With
    several draws every order must pass.
    """

    name = "model_faithfulness"
    assumes = "a model that moves further away the more is masked"
    reads = Reads.SCORES
    before = MODEL
    after = MODEL
    quantities = ("distortion",)
    walk: Walk = field(default_factory=lambda: MonteCarlo(draws=1))
    features_in_step: Portion = 1
    patch_size: Count | None = 1
    perturb_baseline: float | str = "black"
    softmax: bool = False

    def suited(self, subject: Subject) -> Self:
        """With patches that fit the input."""
        return self if self.patch_size is not None else replace(self, patch_size=cell_side(subject.shape))

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """Once a model, whatever the explainers."""
        return () if subject.explainer is not None else (Request(self.suited(subject).around.fit(subject.shape), self.walk),)

    @property
    def around(self) -> RandomOrderMasks:
        """Masks that grow in a random order."""
        pace, baseline = self.features_in_step, self.perturb_baseline
        patch = 1 if self.patch_size is None else self.patch_size
        if isinstance(pace, int):
            return RandomOrderMasks(features=pace, patch=patch, baseline=baseline)
        return RandomOrderMasks(steps=round(1.0 / pace), patch=patch, baseline=baseline)

    def observe(self, pair: Pair) -> Tensor:
        """D_f (R,)."""
        return drop(pair, self.softmax).abs()

    def values(self, measured: Measured) -> Array:
        """1 where D_f grows within the tolerance, else 0: (samples, draws)."""
        return grows(measured["distortion"], self.tolerance)

    def reduce(self, values: Array) -> Array:
        """1 where it grows in every order that was drawn: the least over draws."""
        return -largest(-values)


def grows(distortion: Array, tolerance: float) -> Array:
    """1 where the values along the last axis never fall by more than `tolerance` of the largest below an earlier one, else 0.

    From (..., levels) to (...); NaN where a level is undefined. What never moves does not fall.

    >>> grows(np.array([[0.0, 1.0, 0.95, 2.0], [0.0, 1.0, 0.5, 2.0], [0.0, np.nan, 1.0, 2.0]]), 0.1)
    array([ 1.,  0., nan])
    """
    fall = (np.maximum.accumulate(distortion, axis=-1) - distortion).max(axis=-1)
    found = np.where(fall <= tolerance * distortion.max(axis=-1), 1.0, 0.0)
    return np.where(np.isnan(fall), np.nan, found)
