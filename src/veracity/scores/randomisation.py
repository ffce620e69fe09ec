"""Sensitivity scores: an explanation of the model should not survive the loss of what the model is.

Does an explanation survive the randomisation of the model's layers, one after the other?

The randomisation test with explanations that are averaged over noise.

Does an explanation become more complex when the model becomes random?

Does an explanation depend on which class it explains?
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from veracity.core.measures import Direction, Measure
from veracity.core.registry import SCORES
from veracity.core.scores import Array, Defaults, Measured, Pair, Request, Score, Smoothing, Subject
from veracity.core.settings import Count, Positive
from veracity.core.spaces import Space
from veracity.core.walks import Walk
from veracity.measure import spearman
from veracity.measure.complexity import discrete_entropy
from veracity.perturb.noise import GaussianNoise
from veracity.perturb.swaps import OtherClass
from veracity.perturb.weights import FullRandomisation, LayerRandomisation
from veracity.scores.assumptions import ModelSensitivity
from veracity.scores.common import Curve, Repeatable, across_levels, check_levels
from veracity.walk import MonteCarlo


@dataclass(frozen=True, kw_only=True)
class RandomisationScore(Repeatable, ABC):
    """A score of explanations before and after something random took the place of what they explain.

    All samples share a randomised copy of the model, so that one copy tells nothing of others: by default there are five.
    """

    walk: Walk = field(default_factory=lambda: MonteCarlo(draws=5))

    @property
    @abstractmethod
    def instead(self) -> Space:
        """What is put in its place."""

    def smoothing(self, subject: Subject) -> Smoothing | None:
        """What explanations are averaged over: here nothing."""
        return None

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """For every explanation."""
        if subject.explainer is None:
            return ()
        space = self.instead.fit(subject.shape)
        return (Request(space, self.walk, self.shares(subject.explainer), smoothing=self.smoothing(subject)),)


@dataclass(frozen=True, kw_only=True)
class SurvivalScore(RandomisationScore, ABC):
    """How alike an explanation still is to itself, by a `measure`: the less, the better.

    Spearman's correlation of the flattened maps unless another measure is given, undefined for constant ones. Signs count;
    with `absolute` magnitudes are compared.
    """

    measure: Measure | None = field(default_factory=lambda: spearman)
    absolute: bool = False

    @property
    def direction(self) -> Direction:
        """Against the measure's: what survives says little."""
        return Direction.LOWER if self.compare.direction is Direction.HIGHER else Direction.HIGHER

    def observe(self, pair: Pair) -> Tensor:
        """The similarity of e and e', (R,)."""
        before, after = pair.before.explanation, pair.after.explanation
        return self.compare(after.abs(), before.abs()) if self.absolute else self.compare(after, before)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class MPRT(SurvivalScore):
    """The model parameter randomisation test: how alike e is to the explanation e_l of the model with random layers (eq. 30).

        q = mean over l of rho(e, e_l),   l = the layers randomised so far, from the output down

    Lower is better. `layers` is "mean", or "last" for the model without any layer of its own left; the similarity at every
    level is kept. Quantus 0.6.0 counts the unrandomised model (similarity 1) into its average, and compares magnitudes
    unless told otherwise (`absolute`).
    """

    name = "mprt"
    title = "MPRT"
    figures = ("curve", "convergence")
    reference = "Adebayo et al., Sanity checks for saliency maps (NeurIPS 2018)"
    layer_order: str = "top_down"
    layers: str = "mean"

    @property
    def instead(self) -> Space:
        """Random layers."""
        return LayerRandomisation(direction=self.layer_order)

    @property
    def assumption(self) -> Score:
        """That the model's output changes with the same layers."""
        return ModelSensitivity(layer_order=self.layer_order, layers=self.layers, walk=self.walk)

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """For every explanation: the randomised copies."""
        check_levels(self.layers)
        return super().requests(subject, defaults)

    def values(self, measured: Measured) -> Array:
        """The mean over the layers, or the last of them."""
        return across_levels(measured["value"], self.layers)

    def curve(self, shape: Sequence[int], levels: int) -> Curve:
        """The similarity by the number of randomised layers."""
        return Curve(
            quantity="value",
            places=np.arange(1.0, levels + 1),
            across="how many layers are randomised",
            up="the mean similarity of explanations before and after",
            bounds=self.bounds,
        )


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class SmoothMPRT(MPRT):
    """The randomisation test from the input up, on explanations averaged over noise, so that shattered gradients count less (eq. 31).

        q = mean over l of rho(mean over i of e(x + n_i), mean over i of e_l(x + n_i)),   n_i ~ N(0, noise_magnitude^2)

    with `nr_samples` draws of noise a sample, the same ones for e and for every e_l. Lower is better. In Quantus 0.6.0 the
    noise is a share of the sample's range, which is the same for inputs from 0 to 1, and one of the draws is without noise.
    """

    name = "smooth_mprt"
    title = "SmoothMPRT"
    reference = "Hedström et al., A fresh look at sanity checks for saliency maps (2024)"
    layer_order: str = "bottom_up"
    nr_samples: Count = 5
    noise_magnitude: Positive = 0.01

    def smoothing(self, subject: Subject) -> Smoothing:
        """The noise around the input."""
        return Smoothing(GaussianNoise(sigma=self.noise_magnitude).fit(subject.shape), self.nr_samples)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class EfficientMPRT(RandomisationScore):
    """The rise of an explanation's complexity when all of the model's weights become random (eq. 32): higher is better.

    (c(e') - c(e)) / c(e) with c the entropy of the histogram of a map's values over `n_bins` equal bins, and e' the
    explanation of the randomised model. Undefined where e is constant, since then c(e) = 0.
    """

    name = "efficient_mprt"
    title = "EfficientMPRT"
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


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class RandomLogit(SurvivalScore):
    """The random logit test: how alike the explanations of the target and of another class, drawn at random, are: rho(e_c, e_k).

    Lower is better: an explanation that is the same for every class does not explain any. By Spearman's correlation, which
    any shape has, where Sixt et al. and Quantus 0.6.0 take the structural similarity of images: measure=ssim. Every sample has
    a class of its own, so that one draw is enough.
    """

    name = "random_logit"
    reference = "Sixt, Granz and Landgraf, When explanations lie: why many modified BP attributions fail (ICML 2020)"
    walk: Walk = field(default_factory=lambda: MonteCarlo(draws=1))

    @property
    def instead(self) -> Space:
        """Another class."""
        return OtherClass()
