"""Faithfulness by masking or perturbing subsets of the input: does the prediction change by as much as the explanation says?"""

from __future__ import annotations

import math
from abc import ABC
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Size, Tensor

from veracity.core.errors import InputError
from veracity.core.measures import Direction
from veracity.core.registry import SCORES
from veracity.core.scores import Array, Measured, Pair, Reads, SampleNotes, Score, Subject
from veracity.core.settings import Count, Portion, Positive
from veracity.core.spaces import InputSpace
from veracity.perturb.masks import RandomMasks
from veracity.perturb.noise import GaussianNoise
from veracity.scores.faithfulness.masked import MODEL, Filling, MaskingScore, ModelFaithfulness, attributed, cell_side, drop, over_entries
from veracity.statistics.correlation import pearson_correlation, spearman_correlation


@dataclass(frozen=True, kw_only=True)
class SubsetScore(SampleNotes, MaskingScore, ABC):
    """A correlation over random subsets: what the explanation gave to each, and how far the prediction dropped without it."""

    direction = Direction.HIGHER
    bounds = (-1.0, 1.0)

    def observe(self, pair: Pair) -> Tensor:
        """For each subset S, the sum of e over S and f(x) - f(x without S): (R, 2)."""
        explanation = over_entries(pair.before.explanation, pair.before.shape)
        return torch.stack((attributed(explanation, pair.element), drop(pair, self.by_probability)), dim=1)

    def no_response(self, measured: Measured) -> NDArray[np.bool_]:
        """Samples whose explanation gives the same to every subset, though the prediction does not drop by the same.

        Where both stay the same, as in a text of one word, there is nothing to respond to.
        """
        return constant_rows(measured["attributed"][:, :, 0]) & ~constant_rows(measured["drop"][:, :, 0])


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class FaithfulnessCorrelation(SubsetScore):
    """Correlation, over random subsets of features, between their total attribution and the drop of the prediction without them (eq. 24).

        corr over S of (sum of e_i over i in S, f(x) - f(x with S at the baseline))

    by Pearson. There are `nr_runs` subsets of `subset_size` entries per sample (a share of the entries if it is below 1). A linear model
    explained by its weights times (input - baseline) scores 1; an explanation that gives every subset the same is undefined.
    """

    name = "faithfulness_correlation"
    figures = ("convergence", "selection")
    reference = "Bhatt, Weller and Moura, Evaluating and aggregating feature-based model explanations (IJCAI 2020)"
    nr_runs: Count = 100
    subset_size: Portion = 0.25

    @property
    def assumption(self) -> Score:
        """The model's distortion grows as more is masked, with the same step size."""
        return ModelFaithfulness(features_in_step=self.subset_size, perturb_baseline=self.perturb_baseline, softmax=self.by_probability)

    @property
    def draws(self) -> int:
        """The number of subsets."""
        return self.nr_runs

    def masks(self, shape: Size) -> RandomMasks:
        """Random subsets of the entries."""
        size = math.prod(shape)
        if self.subset_size >= size:
            raise InputError(
                f"subset_size={self.subset_size} leaves nothing to choose from {size} features: "
                f"give {self.name} a smaller one, or a share such as subset_size=0.25."
            )
        return RandomMasks(size=self.subset_size, baseline=self.filling)

    def values(self, measured: Measured) -> Array:
        """Pearson's correlation over the draws, (samples, 1)."""
        return pearson_correlation(measured["attributed"][:, :, 0], measured["drop"][:, :, 0])[:, None]


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class MuF(FaithfulnessCorrelation):
    """Faithfulness correlation as in the stability paper: subsets of 15 % of the entries are set to 0 (eq. 7).

        muF = corr over S, |S| = 0.15 d, of (sum of e_i over i in S, f(x) - f(x with x_i = 0 for i in S))

    f is the explained logit. S is drawn from the d entries of the input, channels included, since eq. 7 draws from 1..d. The paper does
    not say how many subsets it drew, here `nr_runs`. `mu_fidelity` is the form with cells and ranks.
    """

    name = "mu_f"
    title = "muF"
    reference = "Bhatt, Weller and Moura (IJCAI 2020), as in Fel et al., How good is your explanation? (WACV 2022), 4.3 and eq. 7"
    subset_size: Portion = 0.15
    perturb_baseline: Filling = 0.0


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class MuFidelity(SubsetScore):
    """Rank correlation, over random sets of image patches, between their total attribution and the drop of the prediction without them.

    The faithfulness correlation with patches instead of single entries, since one pixel changes little, and with Spearman's
    correlation, which needs no linear relation. Patches have side `patch_size` and cover all channels; by default there are about 9 x 9.
    Per sample, `nr_samples` random sets of a share `subset_percent` of the patches are replaced by `perturb_baseline`.
    """

    name = "mu_fidelity"
    title = "MuFidelity"
    figures = ("convergence", "selection")
    reference = "Bhatt, Weller and Moura (IJCAI 2020), with cells and ranks as in Fel et al., Xplique (2022)"
    nr_samples: Count = 200
    subset_percent: Portion = 0.2
    patch_size: Count | None = None

    def for_subject(self, subject: Subject) -> Self:
        """With a patch size for the input, and a baseline for the data."""
        found = super().for_subject(subject)
        return found if self.patch_size is not None else replace(found, patch_size=cell_side(subject.shape))

    @property
    def assumption(self) -> Score:
        """The model's distortion grows as more patches are masked, with the same step size."""
        return ModelFaithfulness(
            features_in_step=self.subset_percent,
            patch_size=self.patch_size,
            perturb_baseline=self.perturb_baseline,
            softmax=self.by_probability,
        )

    @property
    def draws(self) -> int:
        """The number of sets."""
        return self.nr_samples

    def masks(self, shape: Size) -> RandomMasks:
        """Random sets of patches."""
        return RandomMasks(size=self.subset_percent, patch=self.patch_size or cell_side(shape), baseline=self.filling)

    def values(self, measured: Measured) -> Array:
        """Spearman's correlation over the draws, (samples, 1)."""
        return spearman_correlation(measured["attributed"][:, :, 0], measured["drop"][:, :, 0])[:, None]


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class Infidelity(MaskingScore):
    """Mean squared error of the explanation as a linear model of how the prediction responds to perturbations of the input.

        E over I of (I . e - (f(x) - f(x - I)))^2,   I = x - x'

    In x', `subset_size` random patches (or that share of them) of side `patch_size` are at `perturb_baseline`; or, if `noise` is given,
    x' has Gaussian noise of that standard deviation. `scaled` multiplies e by the factor that minimises the error of each sample,
    beta = E[(I . e)(f(x) - f(x - I))] / E[(I . e)^2], so explanations on different scales can be compared.

    It takes e for the slope of f. A map of contributions, such as integrated gradients, is not one.
    """

    name = "infidelity"
    reference = "Yeh et al., On the (in)fidelity and sensitivity of explanations (NeurIPS 2019)"
    after = MODEL | {Reads.INPUT}
    direction = Direction.LOWER
    bounds = (0.0, np.inf)
    n_perturb_samples: Count = 10
    patch_size: Count = 4
    subset_size: Portion = 1
    noise: Positive | None = None
    scaled: bool = False

    @property
    def in_map_units(self) -> bool:
        """Yes, unless `scaled`."""
        return not self.scaled

    def for_subject(self, subject: Subject) -> Self:
        """With single features for a vector, in which neighbours are not related, and a baseline for the data."""
        found = super().for_subject(subject)
        return replace(found, patch_size=1) if len(subject.shape) == 1 else found

    @property
    def draws(self) -> int:
        """The number of perturbations."""
        return self.n_perturb_samples

    def masks(self, shape: Size) -> InputSpace:
        """Random patches or noise."""
        if self.noise is not None:
            return GaussianNoise(sigma=self.noise)
        return RandomMasks(size=self.subset_size, baseline=self.filling, patch=self.patch_size)

    def observe(self, pair: Pair) -> Tensor:
        """I . e and f(x) - f(x - I): (R, 2)."""
        here, there = pair.before.input, pair.after.input
        change = (here.double() - there.double()).flatten(1)
        predicted = (change * over_entries(pair.before.explanation, pair.before.shape)).sum(dim=1)
        return torch.stack((predicted, drop(pair, self.by_probability)), dim=1)

    def values(self, measured: Measured) -> Array:
        """The squared error of each draw, (samples, draws)."""
        predicted, dropped = measured["attributed"][:, :, 0], measured["drop"][:, :, 0]
        error: Array = ((best_scale(predicted, dropped) if self.scaled else 1.0) * predicted - dropped) ** 2
        return error


def constant_rows(values: Array) -> NDArray[np.bool_]:
    """Whether the defined values of each row (samples, draws) are all the same, (samples,).

    >>> constant_rows(np.array([[1.0, 1.0, np.nan], [1.0, 2.0, np.nan]]))
    array([ True, False])
    """
    defined = np.isfinite(values)
    high, low = (np.where(defined, values, end).astype(np.float64) for end in (-np.inf, np.inf))
    return np.asarray(high.max(axis=1, initial=-np.inf) == low.min(axis=1, initial=np.inf))


def best_scale(predicted: Array, dropped: Array) -> Array:
    """The factor (samples, 1) on the predicted drops that minimises their squared error over the defined draws; 0 if all are 0.

    >>> best_scale(np.array([[1.0, 2.0], [0.0, 0.0]]), np.array([[2.0, 4.0], [1.0, 1.0]]))
    array([[2.],
           [0.]])
    """
    both = np.isfinite(predicted) & np.isfinite(dropped)
    a, d = np.where(both, predicted, 0.0), np.where(both, dropped, 0.0)
    square = (a * a).sum(axis=1, keepdims=True)
    found: Array = (a * d).sum(axis=1, keepdims=True) / np.where(square > 0.0, square, 1.0)
    return found
