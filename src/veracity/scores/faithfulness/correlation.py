"""Is the model's answer to masking some features proportional to what the explanation gave them?

Fidelity as the stability paper measures it, beside which it reads MeGe and ReCo.

Does the explanation, taken as a linear model, foretell what a perturbation of the input does to the prediction?
"""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veracity.core.errors import InputError
from veracity.core.measures import Direction
from veracity.core.registry import SCORES
from veracity.core.scores import Array, Defaults, Measured, Pair, Reads, Request, SampleNotes, Score, Subject
from veracity.core.settings import Count, Portion, Positive
from veracity.core.spaces import InputSpace
from veracity.perturb.masks import RandomMasks
from veracity.perturb.noise import GaussianNoise
from veracity.scores.faithfulness.masked import BOTH, MODEL, ModelFaithfulness, attributed, cell_side, drop, maps, over_entries
from veracity.statistics.correlation import pearson_correlation, spearman_correlation
from veracity.walk import MonteCarlo


@dataclass(frozen=True, kw_only=True)
class SubsetScore(SampleNotes, ABC):
    """A score of random subsets: what the explanation gave each, and how far the prediction dropped without it."""

    before = BOTH | {Reads.INPUT}
    after = MODEL
    quantities = ("attributed", "drop")
    perturb_baseline: float | str = "black"
    softmax: bool = False

    direction = Direction.HIGHER
    bounds = (-1.0, 1.0)

    def observe(self, pair: Pair) -> Tensor:
        """Of each subset S, the sum of e over S and f(x) - f(x without S): (R, 2)."""
        explanation = over_entries(pair.before.explanation, pair.before.input)
        return torch.stack((attributed(explanation, pair.element), drop(pair, self.softmax)), dim=1)

    def no_response(self, measured: Measured) -> NDArray[np.bool_]:
        """Samples whose explanation gives every subset the same."""
        return still(measured["attributed"][:, :, 0])


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class FaithfulnessCorrelation(SubsetScore):
    """Pearson's correlation, over random subsets S of the features, of what S was given and of what its loss costs (eq. 24).

        corr over S of (sum of e_i over i in S, f(x) - f(x with S at the baseline))

    f is the explained score, or its probability with `softmax`. Of each sample `nr_runs` subsets of `subset_size` entries
    (a share of them, if it is below 1) are replaced by `perturb_baseline`. A linear model explained by its weights times
    (input - baseline) scores 1; an explanation without variance is undefined.
    """

    name = "faithfulness_correlation"
    figures = ("convergence", "selection")
    reference = "Bhatt, Weller and Moura, Evaluating and aggregating feature-based model explanations (IJCAI 2020)"
    nr_runs: Count = 100
    subset_size: Portion = 0.25

    @property
    def assumption(self) -> Score:
        """That the model's distortion grows with what is masked, as much at a time."""
        return ModelFaithfulness(features_in_step=self.size, perturb_baseline=self.perturb_baseline, softmax=self.softmax)

    @property
    def size(self) -> int | float:
        """How many entries a subset has, or which share of them."""
        return self.subset_size

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """Random subsets, for maps over the input."""
        if not maps(subject):
            return ()
        size = math.prod(subject.shape)
        if self.size >= size:
            raise InputError(
                f"subset_size={self.subset_size} leaves nothing to choose from {size} features: "
                f"give {self.name} a smaller one, or a share such as subset_size=0.25."
            )
        space = RandomMasks(size=self.size, baseline=self.perturb_baseline).fit(subject.shape)
        return (Request(space, MonteCarlo(draws=self.nr_runs)),)

    def values(self, measured: Measured) -> Array:
        """Pearson's correlation over the draws, (samples, 1)."""
        return pearson_correlation(measured["attributed"][:, :, 0], measured["drop"][:, :, 0])[:, None]


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class MuFidelity(SubsetScore):
    """Spearman's correlation, over random subsets of the cells of a grid, of what they were given and of what their loss costs.

    The faithfulness correlation with cells in place of single entries, since one pixel alone changes little, and with
    ranks, which ask for no straight line. Cells are patches of side `patch_size` over all channels, by default such that
    there are about 9 x 9; of each sample `nr_samples` times a share of `subset_percent` is replaced by `perturb_baseline`.
    """

    name = "mu_fidelity"
    title = "MuFidelity"
    figures = ("convergence", "selection")
    reference = "Bhatt, Weller and Moura (IJCAI 2020), with cells and ranks as in Fel et al., Xplique (2022)"
    nr_samples: Count = 200
    subset_percent: Portion = 0.2
    patch_size: Count | None = None

    def for_subject(self, subject: Subject) -> Self:
        """With cells that fit the input."""
        return self if self.patch_size is not None else replace(self, patch_size=cell_side(subject.shape))

    @property
    def assumption(self) -> Score:
        """That the model's distortion grows with the cells that are masked, as many at a time."""
        return ModelFaithfulness(
            features_in_step=self.size,
            patch_size=self.patch_size,
            perturb_baseline=self.perturb_baseline,
            softmax=self.softmax,
        )

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """Random subsets of the cells, for maps over the input."""
        if not maps(subject):
            return ()
        space = RandomMasks(size=self.size, patch=self.patch_size or cell_side(subject.shape), baseline=self.perturb_baseline)
        return (Request(space.fit(subject.shape), MonteCarlo(draws=self.nr_samples)),)

    @property
    def size(self) -> int | float:
        """Which share of the cells a subset has."""
        return self.subset_percent

    def values(self, measured: Measured) -> Array:
        """Spearman's correlation over the draws, (samples, 1)."""
        return spearman_correlation(measured["attributed"][:, :, 0], measured["drop"][:, :, 0])[:, None]


def still(values: Array) -> NDArray[np.bool_]:
    """Rows (samples, draws) whose defined values are all the same, (samples,).

    >>> still(np.array([[1.0, 1.0, np.nan], [1.0, 2.0, np.nan]]))
    array([ True, False])
    """
    defined = np.isfinite(values)
    high, low = (np.where(defined, values, end).astype(np.float64) for end in (-np.inf, np.inf))
    return np.asarray(high.max(axis=1, initial=-np.inf) == low.min(axis=1, initial=np.inf))


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class MuF(FaithfulnessCorrelation):
    """Pearson's correlation, over random subsets S of 15 % of the entries, of what S was given and of what setting it to 0 costs (eq. 7).

        muF = corr over S, |S| = 0.15 d, of (sum of e_i over i in S, f(x) - f(x with x_i = 0 for i in S))

    f is the explained logit and S is drawn from the d entries of the input, channel by channel, since eq. 7 draws from 1..d. It
    is `faithfulness_correlation` with the paper's share and baseline; the paper does not say how many subsets it drew, here
    `nr_runs`. `mu_fidelity` is the form with cells and ranks.
    """

    name = "mu_f"
    title = "muF"
    reference = "Bhatt, Weller and Moura (IJCAI 2020), as in Fel et al., How good is your explanation? (WACV 2022), 4.3 and eq. 7"
    subset_size: Portion = 0.15
    perturb_baseline: float | str = 0.0


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class Infidelity(Score):
    """The mean squared error of the explanation as a linear model of how the prediction reacts to perturbations I of the input.

        E over I of (I . e - (f(x) - f(x - I)))^2,   I = x - x'

    f is the explained score, or its probability with `softmax`. x' has `subset_size` random patches (or that share of them)
    of side `patch_size` at `perturb_baseline`, or, where `noise` is given, Gaussian noise of that standard deviation added.
    `scaled` multiplies e by the one factor a sample that makes the error smallest,
    beta = E[(I . e)(f(x) - f(x - I))] / E[(I . e)^2], so that explanations on different scales can be compared.

    It asks e for the slope of f: a map of contributions, such as integrated gradients, is not one.
    """

    name = "infidelity"
    reference = "Yeh et al., On the (in)fidelity and sensitivity of explanations (NeurIPS 2019)"
    before = BOTH | {Reads.INPUT}
    after = MODEL | {Reads.INPUT}
    quantities = ("attributed", "drop")
    n_perturb_samples: Count = 10
    patch_size: Count = 4
    subset_size: Portion = 1
    perturb_baseline: float | str = "black"
    noise: Positive | None = None
    scaled: bool = False
    softmax: bool = False

    direction = Direction.LOWER
    bounds = (0.0, np.inf)

    @property
    def in_map_units(self) -> bool:
        """Unless `scaled`: the error of a map that is 100 times larger is another."""
        return not self.scaled

    def for_subject(self, subject: Subject) -> Self:
        """Features of a vector are masked one by one, since their neighbours mean nothing."""
        return replace(self, patch_size=1) if len(subject.shape) == 1 else self

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """Random patches or noise, for maps over the input."""
        if not maps(subject):
            return ()
        walk = MonteCarlo(draws=self.n_perturb_samples)
        return (Request(self.perturbations().fit(subject.shape), walk),)

    def perturbations(self) -> InputSpace:
        """Where I comes from."""
        if self.noise is not None:
            return GaussianNoise(sigma=self.noise)
        return RandomMasks(size=self.subset_size, baseline=self.perturb_baseline, patch=self.patch_size)

    def observe(self, pair: Pair) -> Tensor:
        """I . e and f(x) - f(x - I): (R, 2)."""
        return torch.stack((foretold(pair), drop(pair, self.softmax)), dim=1)

    def values(self, measured: Measured) -> Array:
        """The squared error of each draw, (samples, draws)."""
        attributed, dropped = measured["attributed"][:, :, 0], measured["drop"][:, :, 0]
        error: Array = ((best_scale(attributed, dropped) if self.scaled else 1.0) * attributed - dropped) ** 2
        return error


def foretold(pair: Pair) -> Tensor:
    """I . e with I = x - x', (R,), in double precision."""
    here, there = pair.before.input, pair.after.input
    change = (here.double() - there.double()).flatten(1)
    return (change * over_entries(pair.before.explanation, here)).sum(dim=1)


def best_scale(attributed: Array, dropped: Array) -> Array:
    """The factor (samples, 1) that brings what was foretold closest to what happened, over the defined draws; 0 where nothing was.

    >>> best_scale(np.array([[1.0, 2.0], [0.0, 0.0]]), np.array([[2.0, 4.0], [1.0, 1.0]]))
    array([[2.],
           [0.]])
    """
    both = np.isfinite(attributed) & np.isfinite(dropped)
    a, d = np.where(both, attributed, 0.0), np.where(both, dropped, 0.0)
    square = (a * a).sum(axis=1, keepdims=True)
    found: Array = (a * d).sum(axis=1, keepdims=True) / np.where(square > 0.0, square, 1.0)
    return found
