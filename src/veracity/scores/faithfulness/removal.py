"""Further curves of the prediction while features are added or removed in the order of their relevance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from veracity.core.errors import unknown
from veracity.core.explainers import Frame
from veracity.core.measures import Direction
from veracity.core.registry import SCORES
from veracity.core.scores import Array, Defaults, Measured, Pair, Request, Score, Subject
from veracity.core.settings import Count, NonNegative
from veracity.perturb.masks import OrderedMasks
from veracity.perturb.replaced import LinearImputation, Percentage, SegmentMasks
from veracity.scores.assumptions import same_prediction
from veracity.scores.common import Curve
from veracity.scores.faithfulness.curves import CurveScore
from veracity.scores.faithfulness.masked import BOTH, MODEL, Filling, ModelFaithfulness, levels_drawn, prediction
from veracity.walk import MonteCarlo


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class Monotonicity(CurveScore):
    """Whether the prediction never falls while features are added to the baseline, the least relevant first: 1 if it does not, else 0.

        1 if y_1 <= y_2 <= ... <= y_n,   y_k the prediction with the k least relevant steps of `features_in_step` features restored

    The relevance is the attribution with its sign; give maps of magnitudes to order by those. A fall of at most `tolerance` counts as
    none, because of rounding. A step that speaks against the class makes the prediction fall in any order, so nearly every map of a large
    image gets 0: few and large steps say more. The curve begins with the first step, as in AIX360, the toolkit of the paper: y_0, the
    prediction of the baseline alone, is not compared.

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


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class IROF(CurveScore):
    """Area over the curve of the prediction, as a share of the original one, while superpixels are removed, the most relevant first.

        1 - mean height of f(x_l) / f(x) over l = 0 ... L,   x_l the input with the l most relevant of its L superpixels at the baseline

    by the trapezoidal rule; higher is better. Superpixels are by SLIC, about `segments` of each sample; the relevance of one is the mean of
    the explanation over it. `perturb_baseline` is the sample's mean. Undefined if f(x) is not positive, which a logit may be: read
    probabilities.

    Quantus 0.6.0 takes the mean over a superpixel, too. It leaves out l = 0, does not divide by L, so that images with more superpixels
    score higher, and its curves of a batch end with a step down to 0 where another image has more superpixels.
    """

    name = "irof"
    title = "IROF"
    reference = "Rieger and Hansen, IROF: a low resource evaluation metric for explanation methods (2020)"
    direction = Direction.HIGHER
    before = BOTH
    quantities = ("ratio", "masked")
    fallback = "mean"
    segments: Count = 100

    @property
    def bounds(self) -> tuple[float, float]:
        """The prediction may rise without limit, as a share of a small one."""
        return (-math.inf, 1.0) if self.by_probability else (-math.inf, math.inf)

    @property
    def assumption(self) -> Score:
        """The model's distortion grows as more is masked, in patches of about the same size."""
        baseline: Filling = self.fallback if self.perturb_baseline is None else self.perturb_baseline
        return ModelFaithfulness(patch_size=None, perturb_baseline=baseline, softmax=self.by_probability)

    def masks(self, shape: Sequence[int]) -> SegmentMasks:
        """One superpixel more at each step, from none."""
        return SegmentMasks(features=1, segments=self.segments, origin=True, baseline=self.filling)

    def observe(self, pair: Pair) -> Tensor:
        """f(x_l) / f(x), NaN if f(x) is not positive, and the share of the entries that is masked: (R, 2)."""
        whole = prediction(pair.before, self.by_probability)
        ratio = prediction(pair.after, self.by_probability) / whole.masked_fill(whole <= 0.0, torch.nan)
        return torch.stack((ratio, pair.element.to(ratio.device).double().mean(dim=1)), dim=1)

    def curve(self, shape: Sequence[int], levels: int) -> Curve:
        """The share of the prediction that is left, by the number of removed superpixels."""
        up = f"the mean {self.predicted} of the explained class, as a share of the original one"
        places, bounds = np.arange(float(levels)), (0.0, math.inf) if self.by_probability else (-math.inf, math.inf)
        return Curve(quantity="ratio", places=places, across="the number of removed superpixels", up=up, bounds=bounds, masking=True)

    def values(self, measured: Measured) -> Array:
        """The area over the curve up to the first level at which everything is masked, (samples, draws)."""
        return area_over_ratio(measured["ratio"], measured["masked"])


def area_over_ratio(ratio: Array, masked: Array) -> Array:
    """1 minus the mean height of curves (..., levels) by the trapezoidal rule, up to the first level at which all (1.0) is masked.

    >>> area_over_ratio(np.array([[1.0, 0.5, 0.0, 0.0]]), np.array([[0.0, 0.4, 1.0, 1.0]]))
    array([0.5])
    """
    whole = masked >= 1.0
    last = np.where(whole.any(axis=-1), np.argmax(whole, axis=-1), masked.shape[-1] - 1)
    inside = np.arange(1, masked.shape[-1]) <= last[..., None]
    height = np.where(inside, 0.5 * (ratio[..., 1:] + ratio[..., :-1]), 0.0).sum(axis=-1)
    return np.asarray(1.0 - height / np.maximum(last, 1))


ORDERS = {"morf": Direction.LOWER, "lerf": Direction.HIGHER}


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class ROAD(Score):
    """Share of removal rates at which the explained class is still predicted, while relevant positions are imputed from their neighbours.

        mean over percentages p of 1[argmax f(x without the p % most relevant positions) = c]

    Remove and debias. Removed positions, with all their channels, become a mean of their neighbours plus Gaussian noise of standard
    deviation `noise`, by one system of linear equations per image with the weights of the authors' code, so that the shape of the mask
    does not give the class away. The removal rates are `percentages` of the positions. The mean over samples is the mean accuracy over
    these rates; lower is better. With `order` "lerf" the least relevant go first, and higher is better. Undefined for a model without
    classes. For images (C, H, W) and series (C, T).

    Quantus 0.6.0 returns the mean accuracy at each percentage, and raises on images with several channels.
    """

    name = "road"
    title = "ROAD"
    figures = ("curve", "convergence")
    reference = "Rong et al., A consistent and efficient evaluation strategy for attribution methods (ICML 2022)"
    before = BOTH
    after = MODEL
    quantities = ("kept",)
    bounds = (0.0, 1.0)
    percentages: tuple[Percentage, ...] = (10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0)
    noise: NonNegative = 0.01
    order: str = "morf"

    @property
    def direction(self) -> Direction:
        """Lower for the most relevant first, higher for the least relevant first."""
        if self.order not in ORDERS:
            raise unknown(f"order of score '{self.name}'", str(self.order), ORDERS)
        return ORDERS[self.order]

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """For maps over the input."""
        if subject.explainer is None or subject.explainer.frame is not Frame.INPUT or subject.explainer.categorical:
            return ()
        ascending = self.direction is Direction.HIGHER
        space = LinearImputation(percentages=self.percentages, noise=self.noise, ascending=ascending).fit(subject.shape)
        return (Request(space, MonteCarlo(draws=1)),)

    def observe(self, pair: Pair) -> Tensor:
        """Whether the explained class is predicted, 1 or 0, (R,); NaN without classes."""
        after = pair.after
        if after.output.shape[1] < 2:
            return torch.full_like(after.scores[:, 0], torch.nan, dtype=torch.float64)
        if after.scores.shape[1] < 2:
            return same_prediction(pair.before.output, after.output).double()
        found = after.scores.argmax(dim=1) == after.target.to(after.scores.device)
        return found.double().masked_fill(after.scores.isnan().any(dim=1), torch.nan)

    def values(self, measured: Measured) -> Array:
        """The share of the percentages, (samples, draws)."""
        return np.asarray(measured["kept"].mean(axis=-1))

    def curve(self, shape: Sequence[int], levels: int) -> Curve:
        """The accuracy by the share of the input that is removed."""
        places = np.asarray(self.percentages, dtype=np.float64) / 100.0
        across, up = "the share of the input that is removed", "the share of samples whose explained class is predicted"
        fits = len(places) == levels
        return Curve(
            quantity="kept",
            places=places if fits else np.arange(1.0, levels + 1) / levels,
            across=across,
            up=up,
            bounds=(0.0, 1.0),
            masking=self.order == "morf",
        )
