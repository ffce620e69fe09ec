"""Randomisation tests: an explanation of the model should change when the model, or the class that it explains, is replaced at random."""

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
    """A score of explanations before and after a part of what they explain was replaced at random.

    All samples share a randomised copy of the model, and one copy says nothing about others: by default there are five.
    """

    walk: Walk = field(default_factory=lambda: MonteCarlo(draws=5))

    @property
    @abstractmethod
    def instead(self) -> Space:
        """The random replacement."""

    def smoothing(self, subject: Subject) -> Smoothing | None:
        """The noise over which explanations are averaged: here none."""
        return None

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """For every explanation."""
        if subject.explainer is None:
            return ()
        space = self.instead.fit(subject.shape)
        return (Request(space, self.walk, self.shares(subject.explainer), smoothing=self.smoothing(subject)),)


@dataclass(frozen=True, kw_only=True)
class SurvivalScore(RandomisationScore, ABC):
    """The similarity of the explanations before and after, by a `measure`: the lower, the better.

    The default is Spearman's correlation of the flattened maps, which is undefined for constant ones. Signs count; `absolute` compares
    magnitudes.
    """

    measure: Measure | None = field(default_factory=lambda: spearman)
    absolute: bool = False

    @property
    def direction(self) -> Direction:
        """The opposite of the measure's."""
        return Direction.LOWER if self.compare.direction is Direction.HIGHER else Direction.HIGHER

    def observe(self, pair: Pair) -> Tensor:
        """The similarity of e and e', (R,)."""
        before, after = pair.before.explanation, pair.after.explanation
        return self.compare(after.abs(), before.abs()) if self.absolute else self.compare(after, before)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class MPRT(SurvivalScore):
    """How similar an explanation stays while the model's layers are randomised one after the other; lower is better (eq. 30).

        q = mean over l of rho(e, e_l),   e_l the explanation with l layers randomised, from the output down

    The model parameter randomisation test. `layers` is "mean", or "last" for the fully randomised model; the similarity at every level
    is stored. With `layers_in_step` above 1, l counts steps of so many layers, for deep networks. Quantus 0.6.0 includes the
    unrandomised model (similarity 1) in its average and compares magnitudes by default (`absolute`).
    """

    name = "mprt"
    title = "MPRT"
    figures = ("curve", "convergence")
    reference = "Adebayo et al., Sanity checks for saliency maps (NeurIPS 2018)"
    layer_order: str = "top_down"
    layers: str = "mean"
    layers_in_step: Count = 1

    @property
    def instead(self) -> Space:
        """Random layers."""
        check_levels(self.layers)
        return LayerRandomisation(direction=self.layer_order, step=self.layers_in_step)

    @property
    def assumption(self) -> Score:
        """The model's output changes with the same layers."""
        return ModelSensitivity(layer_order=self.layer_order, layers=self.layers, layers_in_step=self.layers_in_step, walk=self.walk)

    def values(self, measured: Measured) -> Array:
        """The mean over the levels, or the last one."""
        return across_levels(measured["value"], self.layers)

    def curve(self, shape: Sequence[int], levels: int) -> Curve:
        """The similarity by the number of randomised layers."""
        return Curve(
            quantity="value",
            places=np.arange(1.0, levels + 1),
            across="the number of randomised layers" if self.layers_in_step == 1 else f"steps of {self.layers_in_step} randomised layers",
            up="the mean similarity of explanations before and after",
            bounds=self.bounds,
        )


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class SmoothMPRT(MPRT):
    """MPRT from the input up, with explanations averaged over noise, which reduces the effect of shattered gradients (eq. 31).

        q = mean over l of rho(mean over i of e(x + n_i), mean over i of e_l(x + n_i)),   n_i ~ N(0, noise_magnitude^2)

    There are `nr_samples` draws of noise per sample, the same ones for e and for every e_l. In Quantus 0.6.0 the noise is relative to the
    sample's range, which makes no difference for inputs from 0 to 1, and one of the draws has no noise.
    """

    name = "smooth_mprt"
    title = "SmoothMPRT"
    reference = "Hedström et al., A fresh look at sanity checks for saliency maps (2024)"
    layer_order: str = "bottom_up"
    nr_samples: Count = 5
    noise_magnitude: Positive = 0.01

    def smoothing(self, subject: Subject) -> Smoothing:
        """The noise around the input."""
        noise = GaussianNoise(sigma=self.noise_magnitude).fit(subject.shape)
        return Smoothing(noise if subject.features is None else noise.over(subject.features), self.nr_samples)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class EfficientMPRT(RandomisationScore):
    """How much more complex the explanation becomes when all weights of the model are randomised, as a share; higher is better (eq. 32).

    (c(e') - c(e)) / c(e), where c is the entropy of the histogram of a map's values over `n_bins` equal bins, and e' is the explanation
    of the randomised model. Undefined for a constant e, since then c(e) = 0.
    """

    name = "efficient_mprt"
    title = "EfficientMPRT"
    reference = "Hedström et al., A fresh look at sanity checks for saliency maps (2024)"
    n_bins: Count = 100

    @property
    def instead(self) -> Space:
        """Random weights in all layers at once."""
        return FullRandomisation()

    direction = Direction.HIGHER
    bounds = (-1.0, math.inf)

    @property
    def assumption(self) -> Score:
        """The model's output changes with the same weights."""
        return ModelSensitivity(walk=self.walk)

    def observe(self, pair: Pair) -> Tensor:
        """(c(e') - c(e)) / c(e), (R,)."""
        before, after = (discrete_entropy(reading.explanation, bins=self.n_bins) for reading in (pair.before, pair.after))
        return (after - before) / before.masked_fill(before == 0, torch.nan)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class RandomLogit(SurvivalScore):
    """How similar the explanations of the target class and of a random other class are; lower is better.

    rho(e_c, e_k): an explanation that is the same for every class explains none of them. The default is Spearman's correlation, which
    works for any shape; Sixt et al. and Quantus 0.6.0 use the structural similarity of images: measure=ssim. Every sample draws its own
    class, so one draw is enough.
    """

    name = "random_logit"
    reference = "Sixt, Granz and Landgraf, When explanations lie: why many modified BP attributions fail (ICML 2020)"
    walk: Walk = field(default_factory=lambda: MonteCarlo(draws=1))

    @property
    def instead(self) -> Space:
        """Another class."""
        return OtherClass()
