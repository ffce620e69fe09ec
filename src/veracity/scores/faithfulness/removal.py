"""Further curves of the prediction while features are added or removed in the order of their relevance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from veracity.core.measures import Direction
from veracity.core.registry import SCORES
from veracity.core.scores import Array, Measured, Score
from veracity.core.settings import Count, NonNegative
from veracity.perturb.masks import OrderedMasks
from veracity.scores.common import Curve
from veracity.scores.faithfulness.curves import CurveScore
from veracity.scores.faithfulness.masked import ModelFaithfulness, levels_drawn


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class Monotonicity(CurveScore):
    """Whether the prediction never falls while features are added to the baseline, the least relevant first: 1 if it does not, else 0.

        1 if y_1 <= y_2 <= ... <= y_n,   y_k the prediction with the k least relevant steps of `features_in_step` features restored

    The relevance is the attribution with its sign; give maps of magnitudes to order by those. A fall of at most `tolerance` counts as
    none, because of rounding. A step that speaks against the class makes the prediction fall in any order, so nearly every map of a large
    image gets 0: few and large steps say more.

    Quantus 0.6.0 adds nothing. It replaces entries of the baseline by the baseline, so every prediction is the same and every map gets 1.
    """

    name = "monotonicity"
    reference = "Arya et al., One explanation does not fit all: a toolkit and taxonomy of AI explainability techniques (2019)"
    direction = Direction.HIGHER
    bounds = (0.0, 1.0)
    features_in_step: Count = 1
    tolerance: NonNegative = 1e-6

    @property
    def assumption(self) -> Score:
        """The model's distortion grows as more is masked, with the same step size."""
        return ModelFaithfulness(
            features_in_step=self.features_in_step, perturb_baseline=self.perturb_baseline, softmax=self.by_probability
        )

    def masks(self, shape: Sequence[int]) -> OrderedMasks:
        """All but the least relevant entries."""
        return OrderedMasks(features=self.features_in_step, insertion=True, ascending=True, baseline=self.filling)

    def curve(self, shape: Sequence[int], levels: int) -> Curve:
        """The prediction by the share of the input that is inserted."""
        return replace(super().curve(shape, levels), across="the share of the input that is inserted", masking=False)

    def values(self, measured: Measured) -> Array:
        """1 if the curve never falls, else 0: (samples, draws)."""
        return never_falls(measured["prediction"], self.tolerance)


def never_falls(curve: Array, tolerance: float) -> Array:
    """1 if curves (..., points) never fall by more than the tolerance from one point to the next, else 0; NaN if a point is undefined.

    The curve of a short sample ends with levels of NaN, which are not drawn.

    >>> never_falls(np.array([[0.1, 0.3, 0.3], [0.1, 0.3, 0.2], [0.1, np.nan, 0.3], [0.1, 0.2, np.nan]]), 0.0)
    array([ 1.,  0., nan,  1.])
    """
    _, drawn = levels_drawn(curve)
    step = np.diff(curve, axis=-1)
    fine = np.asarray(np.where(drawn[..., 1:], step >= -tolerance, True).all(axis=-1), dtype=np.float64)
    return np.where((np.isnan(curve) & drawn).any(axis=-1), np.nan, fine)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class Selectivity(CurveScore):
    """Area under the curve of the prediction while image patches are removed, the most relevant first; lower is better.

        mean height of y_0, y_1, ..., y_n,   y_k the prediction with the k most relevant patches at `perturb_baseline`

    by the trapezoidal rule: record the prediction, remove the most relevant feature, and repeat. Patches have side
    `patch_size` and cover all channels; in a table or a text every column or word is removed on its own. Quantus 0.6.0 returns the curve
    without y_0.
    """

    name = "selectivity"
    reference = "Montavon, Samek and Müller, Methods for interpreting and understanding deep neural networks (2018)"
    patch_size: Count = 8

    @property
    def assumption(self) -> Score:
        """The model's distortion grows as more patches are masked."""
        return ModelFaithfulness(patch_size=self.patch_size, perturb_baseline=self.perturb_baseline, softmax=self.by_probability)

    def masks(self, shape: Sequence[int]) -> OrderedMasks:
        """One patch more at each step, from none."""
        return OrderedMasks(features=1, patch=self.patch_size if len(shape) > 1 else 1, origin=True, baseline=self.filling)
