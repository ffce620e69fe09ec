"""Prediction gaps: how far a prediction moves when noise is put on the features called important, or on all others."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from torch import Size, Tensor

from veracity.core.errors import InputError
from veracity.core.measures import Direction
from veracity.core.registry import SCORES
from veracity.core.scores import Array, Defaults, Measured, Pair, Request, Subject
from veracity.core.settings import Count, Portion, Positive
from veracity.perturb.noisy_features import NOISE, NoisyFeatures
from veracity.scores.common import Curve
from veracity.scores.faithfulness.curves import area
from veracity.scores.faithfulness.masked import BOTH, MODEL, Filling, MaskingScore, drop


@dataclass(frozen=True, kw_only=True)
class PredictionGap(MaskingScore, ABC):
    """The mean change of the prediction under noise on some features, averaged over numbers k of important ones.

    Features are ordered by the magnitude of their attribution. Amounts get Gaussian noise of `sigma` standard deviations of their column
    if the table has names, and of `sigma` itself if not; categories change their level with probability sqrt(2 / pi) sigma. `nr_samples`
    draws are averaged. k goes up to `k`, a number of features or their share rounded up, in at most `steps` equal steps: 1, 2, 3 and so
    on if `k` is no more than that, and every second or third number and so on if it is. The average over k is by the trapezoidal rule,
    as for an area under the curve. Words have no noise: in texts they are removed, once.
    """

    reference: ClassVar[str] = "Agarwal et al., OpenXAI: towards a transparent evaluation of model explanations (NeurIPS 2022)"
    before = BOTH
    after = MODEL
    quantities: ClassVar[tuple[str, ...]] = ("gap",)
    figures = ("curve", "convergence")
    others: ClassVar[bool] = False
    """Whether the noise is put on the unimportant features."""
    perturb_baseline: Filling = NOISE
    softmax: bool | None = None
    k: Portion = 0.25
    sigma: Positive = 0.1
    nr_samples: Count = 100
    steps: Count = 20

    @property
    def bounds(self) -> tuple[float, float]:
        """Those of a difference of probabilities, if the prediction is one."""
        return (0.0, 1.0) if self.by_probability else (0.0, math.inf)

    def for_subject(self, subject: Subject) -> Self:
        """With noise, or with the baseline that was given; words have no noise, and are removed."""
        if self.perturb_baseline != NOISE:
            return super().for_subject(subject)
        return self if subject.floor is None else replace(self, perturb_baseline=subject.floor)

    @property
    def draws(self) -> int:
        """The number of draws; one if nothing is random."""
        return self.nr_samples if self.perturb_baseline == NOISE else 1

    def masks(self, shape: Size) -> NoisyFeatures:
        """Noise on the k most important features, or on all others."""
        return NoisyFeatures(most=self.k, sigma=self.sigma, steps=self.steps, insertion=self.others, baseline=self.filling)

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """For maps over the input; raises if k is more than a sample has features."""
        features = subject.shape.numel() if subject.features is None else len(subject.features.names)
        if isinstance(self.k, int) and self.k > features:
            raise InputError(f"k={self.k} is more than the {features} features of a sample: give {self.name} a smaller k, or a share.")
        return super().requests(subject, defaults)

    def observe(self, pair: Pair) -> Tensor:
        """|f(x) - f(x')|, (R,)."""
        return drop(pair, self.by_probability).abs()

    def values(self, measured: Measured) -> Array:
        """The average over k, (samples, draws)."""
        return area(measured["gap"])

    def curve(self, shape: Sequence[int], levels: int) -> Curve:
        """The gap by k."""
        where = "unimportant" if self.others else "important"
        what = "probability" if self.by_probability else "score"
        places = np.arange(1.0, levels + 1)
        up = f"the mean change of the {what} of the explained class under noise on {where} features"
        return Curve(quantity="gap", places=places, across="the step in the number of important features", up=up, bounds=self.bounds)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class PGI(PredictionGap):
    """Mean change of the prediction under noise on the k most important features, averaged over k; higher is better.

        mean over k of E |f(x) - f(x with noise on its k features of largest |e_i|)|

    Prediction gap on important features. It grows with `sigma` and `k`, so compare explainers at the same settings.
    """

    name = "pgi"
    title = "PGI"
    direction = Direction.HIGHER


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class PGU(PredictionGap):
    """Mean change of the prediction under noise on all but the k most important features, averaged over k; lower is better.

        mean over k of E |f(x) - f(x with noise on all but its k features of largest |e_i|)|

    Prediction gap on unimportant features. It grows with `sigma` and falls with `k`, so compare explainers at the same settings.
    """

    name = "pgu"
    title = "PGU"
    direction = Direction.LOWER
    others = True
