"""What becomes of the prediction as features are masked one after the other, in the order of their relevance?"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Size, Tensor

from veracity.core.errors import VeracityError, unknown
from veracity.core.measures import Direction
from veracity.core.registry import SCORES
from veracity.core.scores import Array, Defaults, Measured, Pair, Reads, Request, Score, Subject
from veracity.core.settings import Count, Positive
from veracity.perturb.masks import OrderedMasks
from veracity.scores.common import Curve
from veracity.scores.faithfulness.masked import BOTH, MODEL, ModelFaithfulness, drop, maps, prediction
from veracity.walk import MonteCarlo

ORDERS = {"morf": Direction.HIGHER, "lerf": Direction.LOWER}


@dataclass(frozen=True, kw_only=True)
class CurveScore(Score, ABC):
    """A score of the curve that the prediction runs through as the explanation's order is followed.

    The prediction is the probability of the explained class, or with softmax=False its score.
    """

    before = frozenset({Reads.EXPLANATION})
    after = MODEL
    quantities = ("prediction",)
    figures = ("curve", "convergence")
    perturb_baseline: float | str = "black"
    softmax: bool = True

    @abstractmethod
    def masks(self) -> OrderedMasks:
        """What is masked at each step."""

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """Every step once, for maps over the input."""
        return (Request(self.masks().fit(subject.shape), MonteCarlo(draws=1)),) if maps(subject) else ()

    @property
    def direction(self) -> Direction:
        """The sooner the prediction falls, the better the explanation knew."""
        return Direction.LOWER

    @property
    def bounds(self) -> tuple[float, float]:
        """A mean of probabilities, if the prediction is one."""
        return (0.0, 1.0) if self.softmax else (-math.inf, math.inf)

    def observe(self, pair: Pair) -> Tensor:
        """The prediction with this much masked, (R,)."""
        return prediction(pair.after, self.softmax)

    def values(self, measured: Measured) -> Array:
        """The area under the curve, (samples, draws)."""
        return area(measured["prediction"])

    def curve(self, shape: Sequence[int], levels: int) -> Curve:
        """The prediction by the share of the input that is masked."""
        return Curve(
            quantity=self.quantities[0],
            places=self.shares(shape, levels),
            across="the share of the input that is masked",
            up=f"the mean {self.predicted} of the explained class",
            bounds=(0.0, 1.0) if self.softmax else (-math.inf, math.inf),
            masking=True,
        )

    @property
    def predicted(self) -> str:
        """What the prediction is, in a word."""
        return "probability" if self.softmax else "score"

    def shares(self, shape: Sequence[int], levels: int) -> Array:
        """Which share of an input of this shape is masked at each level (levels,); evenly spaced if the masks do not fit the shape."""
        try:
            masks: Any = self.masks().fit(Size(shape))
            if masks.levels == levels:
                return np.asarray(masks.count(torch.arange(levels)).double().numpy() / masks.units, dtype=np.float64)
        except VeracityError:
            pass
        return np.arange(1.0, levels + 1) / levels


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class PixelFlipping(CurveScore):
    """The area under the curve of the prediction as the most relevant entries are replaced first (eq. 25).

        sum over i of (y_i + y_{i+1}) / 2 * dx,   y_i the prediction after step i = 1 ... n

    Each step replaces `features_in_step` more entries by `perturb_baseline`, to the last. By default dx = 1 / (n - 1): the
    area is a mean height, comparable between step sizes. dx=1 gives the sum itself, which grows with the number of steps.
    The unperturbed prediction is no part of the curve.
    """

    name = "pixel_flipping"
    reference = "Bach et al., On pixel-wise explanations for non-linear classifier decisions by layer-wise relevance propagation (2015)"
    features_in_step: Count = 1
    dx: Positive | None = None

    @property
    def assumption(self) -> Score:
        """That the model's distortion grows with what is masked, as much at a time."""
        return ModelFaithfulness(features_in_step=self.features_in_step, perturb_baseline=self.perturb_baseline, softmax=self.softmax)

    @property
    def bounds(self) -> tuple[float, float]:
        """A mean of probabilities; a sum of them, where dx is given."""
        return (0.0, math.inf) if self.softmax and self.dx is not None else super().bounds

    def masks(self) -> OrderedMasks:
        """The most relevant entries first, so many at a time."""
        return OrderedMasks(features=self.features_in_step, baseline=self.perturb_baseline)

    def values(self, measured: Measured) -> Array:
        """The area under the curve, (samples, draws)."""
        return area(measured["prediction"], self.dx)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class Deletion(CurveScore):
    """The area under the curve of the prediction over the share of entries deleted, the most relevant first.

    From the whole input to none of it in `steps` equal steps, both ends on the curve; what is deleted becomes
    `perturb_baseline`.
    """

    name = "deletion"
    reference = "Petsiuk, Das and Saenko, RISE: randomized input sampling for explanation of black-box models (BMVC 2018)"
    steps: Count = 50

    @property
    def assumption(self) -> Score:
        """That the model's distortion grows with what is masked, as much at a time."""
        return ModelFaithfulness(features_in_step=1.0 / self.steps, perturb_baseline=self.perturb_baseline, softmax=self.softmax)

    def masks(self) -> OrderedMasks:
        """The most relevant entries first."""
        return OrderedMasks(steps=self.steps, origin=True, baseline=self.perturb_baseline)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class Insertion(Deletion):
    """The area under the curve of the prediction over the share of entries inserted into the baseline, the most relevant first.

    Deletion's counterpart: from `perturb_baseline` alone to the whole input in `steps` equal steps, both ends on the curve.
    """

    name = "insertion"

    @property
    def direction(self) -> Direction:
        """The sooner the prediction rises, the better the explanation knew."""
        return Direction.HIGHER

    def curve(self, shape: Sequence[int], levels: int) -> Curve:
        """The prediction by the share of the input that is inserted."""
        return replace(super().curve(shape, levels), across="the share of the input that is inserted", masking=False)

    def masks(self) -> OrderedMasks:
        """All but the most relevant entries."""
        return OrderedMasks(steps=self.steps, origin=True, insertion=True, baseline=self.perturb_baseline)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class RegionPerturbation(CurveScore):
    """The area over the curve of the prediction as the most relevant regions are replaced first (eq. 26, with its minus).

        1 / (L + 1) sum over k = 1 ... L of (y_0 - y_k),   y_k the prediction with k regions replaced

    Regions are patches of side `patch_size` over all channels, at most `regions_evaluation` of them. With order="lerf" the
    least relevant go first, and the lower the better.
    """

    name = "region_perturbation"
    reference = "Samek et al., Evaluating the visualization of what a deep neural network has learned (TNNLS 2017)"
    before = BOTH
    quantities = ("drop",)
    patch_size: Count = 8
    regions_evaluation: Count = 100
    order: str = "morf"

    @property
    def assumption(self) -> Score:
        """That the model's distortion grows with the regions that are masked."""
        return ModelFaithfulness(patch_size=self.patch_size, perturb_baseline=self.perturb_baseline, softmax=self.softmax)

    @property
    def direction(self) -> Direction:
        """The prediction should fall soon without what is relevant, and late without what is not."""
        if self.order not in ORDERS:
            raise unknown(f"order of score '{self.name}'", str(self.order), ORDERS)
        return ORDERS[self.order]

    @property
    def bounds(self) -> tuple[float, float]:
        """A mean of differences of probabilities, if the prediction is one."""
        return (-1.0, 1.0) if self.softmax else (-math.inf, math.inf)

    def masks(self) -> OrderedMasks:
        """One region more at each step."""
        ascending = self.direction is Direction.LOWER
        return OrderedMasks(
            features=1,
            steps=self.regions_evaluation,
            patch=self.patch_size,
            ascending=ascending,
            baseline=self.perturb_baseline,
        )

    def observe(self, pair: Pair) -> Tensor:
        """How far the prediction has dropped, (R,)."""
        return drop(pair, self.softmax)

    def curve(self, shape: Sequence[int], levels: int) -> Curve:
        """How far the prediction has dropped, by the share of the input that is masked."""
        up = f"how far the {self.predicted} of the explained class has dropped"
        return replace(super().curve(shape, levels), up=up, bounds=self.bounds, masking=False)

    def values(self, measured: Measured) -> Array:
        """The area over the curve, (samples, draws)."""
        return area_over(measured["drop"])


def area(curve: Array, dx: float | None = None) -> Array:
    """The area under curves (..., points) by the trapezoidal rule, points dx apart; by default the curve has length 1.

    >>> area(np.array([[4.0, 2.0, 0.0]])), area(np.array([[4.0, 2.0, 0.0]]), dx=1.0)
    (array([2.]), array([4.]))
    """
    points = curve.shape[-1]
    if points == 1:
        return curve[..., 0] * (1.0 if dx is None else 0.0)
    sums: Array = 0.5 * (curve[..., 1:] + curve[..., :-1]).sum(axis=-1)
    return sums * (1.0 / (points - 1) if dx is None else dx)


def area_over(drops: Array) -> Array:
    """The mean drop along curves (..., L) and the start, which has none: their sum over L + 1.

    >>> area_over(np.array([[1.0, 2.0, 3.0]]))
    array([1.5])
    """
    return np.asarray(drops.sum(axis=-1) / (drops.shape[-1] + 1))
