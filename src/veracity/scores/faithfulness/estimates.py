"""Correlation of attributions with drops of the prediction: feature by feature, and over random subsets of every size."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Size

from veracity.core.registry import SCORES
from veracity.core.scores import Array, Measured, Score
from veracity.core.settings import Count, Fraction
from veracity.perturb.masks import OrderedMasks, RandomSubsets
from veracity.scores.faithfulness.correlation import SubsetScore, constant_rows
from veracity.scores.faithfulness.masked import ModelFaithfulness
from veracity.statistics.correlation import pearson_correlation


@dataclass(frozen=True, kw_only=True)
class SingleStepScore(SubsetScore, ABC):
    """A correlation over the features of a sample, each of which is masked alone, or with its neighbours in the order of relevance."""

    features_in_step: Count = 1
    softmax: bool | None = None

    @property
    def assumption(self) -> Score:
        """The model's distortion grows as more is masked, with the same step size."""
        return ModelFaithfulness(
            features_in_step=self.features_in_step, perturb_baseline=self.perturb_baseline, softmax=self.by_probability
        )

    def masks(self, shape: Size) -> OrderedMasks:
        """One step after the other, each alone."""
        return OrderedMasks(features=self.features_in_step, alone=True, baseline=self.filling)

    def no_response(self, measured: Measured) -> NDArray[np.bool_]:
        """Samples whose explanation gives the same to every step, though the prediction does not drop by the same."""
        return constant_rows(measured["attributed"][:, 0]) & ~constant_rows(measured["drop"][:, 0])


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class FaithfulnessEstimate(SingleStepScore):
    """Correlation between each feature's attribution and the drop of the prediction without that feature.

        corr over i of (e_i, f(x) - f(x with x_i at the baseline))

    by Pearson. Every feature is masked alone. `features_in_step` masks so many features together, neighbours in the order of
    their relevance, which saves passes. The prediction is the probability of the explained class, or its score if the models give no
    probability. A linear model explained by its weights times (input - baseline) scores 1 with softmax=False; a constant explanation is
    undefined.
    """

    name = "faithfulness_estimate"
    figures = ("convergence",)
    reference = "Alvarez-Melis and Jaakkola, Towards robust interpretability with self-explaining neural networks (NeurIPS 2018)"

    def values(self, measured: Measured) -> Array:
        """Pearson's correlation over the steps, (samples, 1)."""
        return pearson_correlation(measured["attributed"], measured["drop"])


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class SensitivityN(SubsetScore):
    """Mean, over subset sizes n, of the correlation between the attribution of n random features and the drop without them.

        mean over n of corr over S, |S| = n, of (sum of e_i over i in S, f(x) - f(x with S at the baseline))

    by Pearson, per sample; an explanation has sensitivity-n if the two numbers are equal for all S. The paper shows the correlation for
    each n. Sizes go up to a share `n_max_percentage` of the features in `steps` steps, as equal as whole numbers allow, or in steps of
    `features_in_step`; every size has `nr_runs` subsets. The columns of one feature of a table count as one, and the features of a
    text are its own words. A draw grows one random order, so subsets of one size are independent and those of different sizes are not.
    Undefined for a constant explanation.

    Quantus 0.6.0 draws no subsets. It masks features in the order of their relevance, and correlates over the samples of a batch the
    attribution of the last step alone with the drop since the first.
    """

    name = "sensitivity_n"
    title = "sensitivity-n"
    figures = ("convergence",)
    reference = "Ancona et al., Towards better understanding of gradient-based attribution methods for deep neural networks (ICLR 2018)"
    n_max_percentage: Fraction = 0.8
    steps: Count = 10
    features_in_step: Count | None = None
    nr_runs: Count = 100

    @property
    def assumption(self) -> Score:
        """The model's distortion grows as more is masked, with the same step size."""
        step = self.features_in_step or min(1.0, self.n_max_percentage / self.steps)
        return ModelFaithfulness(features_in_step=step, perturb_baseline=self.perturb_baseline, softmax=self.by_probability)

    @property
    def draws(self) -> int:
        """The number of subsets of each size."""
        return self.nr_runs

    def masks(self, shape: Size) -> RandomSubsets:
        """Random subsets that grow, but for the whole, of which there is only one."""
        space = RandomSubsets(most=self.n_max_percentage, steps=self.steps, features=self.features_in_step, baseline=self.filling)
        return space.fit(shape).checked()

    def no_response(self, measured: Measured) -> NDArray[np.bool_]:
        """Samples whose explanation gives the same to all subsets of each size, though the prediction does not drop by the same."""
        levels = range(measured["drop"].shape[2])
        silent = np.stack([constant_rows(measured["attributed"][:, :, level]) for level in levels])
        still = np.stack([constant_rows(measured["drop"][:, :, level]) for level in levels])
        return np.asarray(silent.all(axis=0) & ~still.all(axis=0))

    def values(self, measured: Measured) -> Array:
        """The mean over sizes of Pearson's correlation over the draws, (samples, 1)."""
        found = pearson_correlation(measured["attributed"], measured["drop"], axis=1)
        defined = np.isfinite(found)
        count = defined.sum(axis=1, keepdims=True)
        return np.where(count > 0, np.where(defined, found, 0.0).sum(axis=1, keepdims=True) / np.maximum(count, 1), np.nan)
