"""Faithfulness curves: how the prediction changes as features are masked one after the other, in the order of their relevance."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Size, Tensor

from veracity.core.errors import VeracityError, unknown
from veracity.core.measures import Direction
from veracity.core.registry import SCORES
from veracity.core.scores import Array, Measured, Pair, Reads, Score
from veracity.core.settings import Count, Positive
from veracity.perturb.masks import OrderedMasks
from veracity.scores.common import Curve
from veracity.scores.faithfulness.masked import BOTH, MaskingScore, ModelFaithfulness, drop, levels_drawn, prediction

ORDERS = {"morf": Direction.HIGHER, "lerf": Direction.LOWER}


@dataclass(frozen=True, kw_only=True)
class CurveScore(MaskingScore, ABC):
    """A score of the curve of the prediction while features are masked in the order of the explanation.

    The prediction is the probability of the explained class, or with softmax=False its score. By default it is the probability if all
    models give one, and else the score: of a regression, say, or of a segmentation.
    """

    before = frozenset({Reads.EXPLANATION})
    quantities: ClassVar[tuple[str, ...]] = ("prediction",)
    figures = ("curve", "convergence")
    softmax: bool | None = None

    @abstractmethod
    def masks(self, shape: Sequence[int]) -> OrderedMasks:
        """The masks at each step."""

    @property
    def direction(self) -> Direction:
        """Lower: the sooner the prediction falls, the better."""
        return Direction.LOWER

    @property
    def bounds(self) -> tuple[float, float]:
        """Those of a mean of probabilities, if the prediction is one."""
        return (0.0, 1.0) if self.by_probability else (-math.inf, math.inf)

    def observe(self, pair: Pair) -> Tensor:
        """The prediction at this step, (R,)."""
        return prediction(pair.after, self.by_probability)

    def values(self, measured: Measured) -> Array:
        """The area under the curve, (samples, draws)."""
        return area(measured["prediction"])

    def curve(self, shape: Sequence[int], levels: int) -> Curve:
        """The prediction by the share of the input that is masked."""
        return Curve(
            quantity=self.quantities[0],
            places=self.places(shape, levels),
            across="the share of the input that is masked",
            up=f"the mean {self.predicted} of the explained class",
            bounds=(0.0, 1.0) if self.by_probability else (-math.inf, math.inf),
            masking=True,
        )

    @property
    def predicted(self) -> str:
        """The kind of prediction, in a word."""
        return "probability" if self.by_probability else "score"

    def places(self, shape: Sequence[int], levels: int) -> Array:
        """The share of an input of this shape that is masked at each level (levels,); evenly spaced if the masks do not fit the shape."""
        try:
            masks: Any = self.masks(shape).fit(Size(shape))
            if masks.levels == levels:
                return np.asarray(masks.count(torch.arange(levels)).double().numpy() / masks.units, dtype=np.float64)
        except VeracityError:
            pass
        return np.arange(1.0, levels + 1) / levels


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class PixelFlipping(CurveScore):
    """Area under the curve of the prediction while pixels are replaced, the most relevant first; lower is better (eq. 25).

        sum over i of (y_i + y_{i+1}) / 2 * dx,   y_i the prediction after step i = 1 ... n

    Each step replaces `features_in_step` more entries by `perturb_baseline`, until none is left. By default dx = 1 / (n - 1): the area is
    a mean height, comparable between step sizes. dx=1 gives the sum itself, which grows with the number of steps. The curve does not
    include the unperturbed prediction.
    """

    name = "pixel_flipping"
    reference = "Bach et al., On pixel-wise explanations for non-linear classifier decisions by layer-wise relevance propagation (2015)"
    features_in_step: Count = 1
    dx: Positive | None = None

    @property
    def assumption(self) -> Score:
        """The model's distortion grows as more is masked, with the same step size."""
        return ModelFaithfulness(
            features_in_step=self.features_in_step, perturb_baseline=self.perturb_baseline, softmax=self.by_probability
        )

    @property
    def bounds(self) -> tuple[float, float]:
        """Those of a mean of probabilities, or of a sum if dx is given."""
        return (0.0, math.inf) if self.by_probability and self.dx is not None else super().bounds

    def masks(self, shape: Sequence[int]) -> OrderedMasks:
        """The most relevant entries first."""
        return OrderedMasks(features=self.features_in_step, baseline=self.filling)

    def values(self, measured: Measured) -> Array:
        """The area under the curve, (samples, draws)."""
        return area(measured["prediction"], self.dx)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class Deletion(CurveScore):
    """Area under the curve of the prediction while the input is deleted, the most relevant entries first; lower is better.

    From the whole input to `perturb_baseline` in `steps` equal steps, both ends included.
    """

    name = "deletion"
    reference = "Petsiuk, Das and Saenko, RISE: randomized input sampling for explanation of black-box models (BMVC 2018)"
    steps: Count = 50

    @property
    def assumption(self) -> Score:
        """The model's distortion grows as more is masked, with the same step size."""
        return ModelFaithfulness(features_in_step=1.0 / self.steps, perturb_baseline=self.perturb_baseline, softmax=self.by_probability)

    def masks(self, shape: Sequence[int]) -> OrderedMasks:
        """The most relevant entries first."""
        return OrderedMasks(steps=self.steps, origin=True, baseline=self.filling)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class Insertion(Deletion):
    """Area under the curve of the prediction while the input is inserted, the most relevant entries first; higher is better.

    From `perturb_baseline` to the whole input in `steps` equal steps, both ends included.
    """

    name = "insertion"
    direction = Direction.HIGHER

    def curve(self, shape: Sequence[int], levels: int) -> Curve:
        """The prediction by the share of the input that is inserted."""
        return replace(super().curve(shape, levels), across="the share of the input that is inserted", masking=False)

    def masks(self, shape: Sequence[int]) -> OrderedMasks:
        """All but the most relevant entries."""
        return OrderedMasks(steps=self.steps, origin=True, insertion=True, baseline=self.filling)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class RegionPerturbation(CurveScore):
    """Average drop of the prediction while image patches are replaced, the most relevant first; higher is better (eq. 26).

        1 / (L + 1) sum over k = 1 ... L of (y_0 - y_k),   y_k the prediction with k regions replaced

    Regions are patches of side `patch_size` over all channels, at most `regions_evaluation` of them. In a table or a text every column
    or word is a region of its own. With order="lerf" the least relevant go first, and lower is better.
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
        """The model's distortion grows as more regions are masked."""
        return ModelFaithfulness(patch_size=self.patch_size, perturb_baseline=self.perturb_baseline, softmax=self.by_probability)

    @property
    def direction(self) -> Direction:
        """Higher for the most relevant first, lower for the least relevant first."""
        if self.order not in ORDERS:
            raise unknown(f"order of score '{self.name}'", str(self.order), ORDERS)
        return ORDERS[self.order]

    @property
    def bounds(self) -> tuple[float, float]:
        """Those of a mean difference of probabilities, if the prediction is one."""
        return (-1.0, 1.0) if self.by_probability else (-math.inf, math.inf)

    def masks(self, shape: Sequence[int]) -> OrderedMasks:
        """One region more at each step."""
        steps, ascending, patch = self.regions_evaluation, self.direction is Direction.LOWER, self.patch_size if len(shape) > 1 else 1
        return OrderedMasks(features=1, steps=steps, patch=patch, ascending=ascending, baseline=self.filling)

    def observe(self, pair: Pair) -> Tensor:
        """The drop of the prediction, (R,)."""
        return drop(pair, self.by_probability)

    def curve(self, shape: Sequence[int], levels: int) -> Curve:
        """The drop of the prediction by the share of the input that is masked."""
        up = f"the mean drop of the {self.predicted} of the explained class"
        return replace(super().curve(shape, levels), up=up, bounds=self.bounds, masking=False)

    def values(self, measured: Measured) -> Array:
        """The area over the curve, (samples, draws)."""
        return area_over(measured["drop"])


def area(curve: Array, dx: float | None = None) -> Array:
    """The area under curves (..., points) by the trapezoidal rule with spacing dx; by default the whole curve has length 1.

    The curve of a short sample ends with levels of NaN, which are not drawn.

    >>> area(np.array([[4.0, 2.0, 0.0]])), area(np.array([[4.0, 2.0, 0.0]]), dx=1.0)
    (array([2.]), array([4.]))
    """
    points, drawn = levels_drawn(curve)
    sums: Array = np.where(drawn[..., 1:], 0.5 * (curve[..., 1:] + curve[..., :-1]), 0.0).sum(axis=-1)
    mean = np.where(points == 1, curve[..., 0], sums / np.maximum(points - 1, 1))
    return mean if dx is None else np.where(points == 1, 0.0 * curve[..., 0], sums * dx)


def area_over(drops: Array) -> Array:
    """The mean drop along curves (..., L), with a drop of 0 at the start: their sum divided by L + 1.

    >>> area_over(np.array([[1.0, 2.0, 3.0]]))
    array([1.5])
    """
    points, drawn = levels_drawn(drops)
    return np.asarray(np.where(drawn, drops, 0.0).sum(axis=-1) / (points + 1))
