"""Rationales, the most relevant share of an input: what the prediction loses without them, with them alone, and word by word."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from torch import Tensor

from veracity.core.measures import Direction
from veracity.core.registry import SCORES
from veracity.core.scores import Array, Measured, Pair, Score
from veracity.perturb.masks import Percentage, ShareMasks
from veracity.scores.common import Curve
from veracity.scores.faithfulness.curves import CurveScore
from veracity.scores.faithfulness.estimates import SingleStepScore
from veracity.scores.faithfulness.masked import BOTH, ModelFaithfulness, drop
from veracity.statistics.correlation import kendall_correlation

BINS = (1.0, 5.0, 10.0, 20.0, 50.0)
"""The percentages of the benchmark."""


@dataclass(frozen=True, kw_only=True)
class RationaleScore(CurveScore, ABC):
    """The mean drop of the prediction over rationales of several sizes: the area over the perturbation curve (AOPC)."""

    reference: ClassVar[str] = "DeYoung et al., ERASER: a benchmark to evaluate rationalized NLP models (ACL 2020)"
    before = BOTH
    quantities: ClassVar[tuple[str, ...]] = ("drop",)
    percentages: tuple[Percentage, ...] = BINS

    @property
    def assumption(self) -> Score:
        """The model's distortion grows as more is masked, in ten steps."""
        return ModelFaithfulness(features_in_step=0.1, perturb_baseline=self.perturb_baseline, softmax=self.by_probability)

    @property
    def bounds(self) -> tuple[float, float]:
        """Those of a difference of probabilities, if the prediction is one."""
        return (-1.0, 1.0) if self.by_probability else (-math.inf, math.inf)

    def observe(self, pair: Pair) -> Tensor:
        """The drop of the prediction, (R,)."""
        return drop(pair, self.by_probability)

    def values(self, measured: Measured) -> Array:
        """The mean drop over the rationales, (samples, draws)."""
        return np.asarray(measured["drop"].mean(axis=-1))

    def curve(self, shape: Sequence[int], levels: int) -> Curve:
        """The drop of the prediction by the share of the input."""
        up = f"the mean drop of the {self.predicted} of the explained class"
        return replace(super().curve(shape, levels), up=up, bounds=self.bounds, masking=False)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class Comprehensiveness(RationaleScore):
    """Mean drop of the prediction without the most relevant share of the input, over several shares; higher is better.

        mean over percentages q of f(x) - f(x without its q % most relevant features)

    The AOPC form over `percentages`; a single one, such as percentages=(20,), gives comprehensiveness itself. Shares are rounded up, so
    every rationale has a word. Words are removed, other features are set to `perturb_baseline`. The paper's formula divides by one more,
    for the empty rationale, which loses nothing: percentages=(0, 1, 5, 10, 20, 50) gives that. Its code takes the mean, as here.
    """

    name = "comprehensiveness"
    direction = Direction.HIGHER

    def masks(self, shape: Sequence[int]) -> ShareMasks:
        """The most relevant share."""
        return ShareMasks(percentages=self.percentages, baseline=self.filling)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class RationaleSufficiency(RationaleScore):
    """Mean drop of the prediction with the most relevant share of the input alone, over several shares; lower is better.

        mean over percentages q of f(x) - f(the q % most relevant features of x alone)

    The sufficiency of ERASER in its AOPC form over `percentages`; a single one, such as percentages=(20,), gives sufficiency itself. Shares
    are rounded up. It may be negative, if the rest speaks against the class. `sufficiency` is another score, which compares samples.
    """

    name = "rationale_sufficiency"
    direction = Direction.LOWER

    def masks(self, shape: Sequence[int]) -> ShareMasks:
        """All but the most relevant share."""
        return ShareMasks(percentages=self.percentages, insertion=True, baseline=self.filling)

    def curve(self, shape: Sequence[int], levels: int) -> Curve:
        """The drop of the prediction by the share of the input that is kept."""
        return replace(super().curve(shape, levels), across="the share of the input that is kept")


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class TauLOO(SingleStepScore):
    """Kendall's rank correlation between each feature's attribution and the drop of the prediction when it alone is left out.

        tau-b over i of (e_i, f(x) - f(x without i))

    Features are words of a text, columns of a table, or entries; with `features_in_step` above 1, neighbours in the order of relevance are
    left out together. Pairs that are tied on either side agree with nothing (tau-b). Undefined for a constant explanation, and if
    leaving a feature out never matters. The prediction is the probability of the explained class, or its score if the models give no
    probability. `faithfulness_estimate` asks for a linear relation of the same numbers.
    """

    name = "tau_loo"
    title = "tau-LOO"
    reference = "Jain and Wallace, Attention is not explanation (NAACL 2019)"

    def values(self, measured: Measured) -> Array:
        """Kendall's tau over the steps, (samples, 1)."""
        return kendall_correlation(measured["attributed"], measured["drop"])
