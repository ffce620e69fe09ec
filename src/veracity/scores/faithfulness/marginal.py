"""What a prediction loses, on average, when features take random values of the data; three scores of Nguyen and Martínez.

The loss is e_S = E (f(x) - f(x with x_S random))^2 over values of the features in S. They are uniform in the range of the data, or come
from the reference set of a table.
"""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Size, Tensor

from veracity.core.measures import Direction
from veracity.core.registry import SCORES
from veracity.core.scores import Array, Measured, Pair, SampleNotes, Subject
from veracity.core.settings import Count, NonNegative, Positive
from veracity.perturb.masks import PatchMasks
from veracity.perturb.replaced import UNIFORM, RandomValues
from veracity.scores.faithfulness.correlation import constant_rows
from veracity.scores.faithfulness.masked import Filling, MaskingScore, drop, over_entries
from veracity.statistics.correlation import spearman_correlation


@dataclass(frozen=True, kw_only=True)
class MarginalScore(MaskingScore, ABC):
    """A score of attributions beside the loss of the prediction when features take `nr_samples` random values.

    `perturb_baseline` is "uniform"; any other baseline of masks makes one replacement, and `nr_samples` is then 1. So it is for texts,
    whose words are removed. The prediction is the probability of the explained class, or its score if the models give no probability.
    """

    reference: ClassVar[str] = "Nguyen and Martínez, On quantitative aspects of model interpretability (2020)"
    quantities: ClassVar[tuple[str, ...]] = ("attributed", "loss")
    figures: ClassVar[tuple[str, ...]] = ("convergence",)
    perturb_baseline: Filling = UNIFORM
    softmax: bool | None = None
    nr_samples: Count = 10

    def for_subject(self, subject: Subject) -> Self:
        """With the values of the data, or with the baseline that was given; words have no other values, and are removed."""
        if self.perturb_baseline != UNIFORM:
            return super().for_subject(subject)
        return self if subject.floor is None else replace(self, perturb_baseline=subject.floor)

    @property
    def draws(self) -> int:
        """The number of random values; one if nothing is random."""
        return self.nr_samples if self.perturb_baseline == UNIFORM else 1

    def observe(self, pair: Pair) -> Tensor:
        """The magnitude that the explanation gives to the replaced entries, and the squared change of the prediction: (R, 2)."""
        size = over_entries(pair.before.explanation, pair.before.shape).abs()
        given = torch.where(pair.element.to(size.device).isnan(), 0.0, size).sum(dim=1)
        return torch.stack((given, drop(pair, self.by_probability) ** 2), dim=1)


def mean_over_draws(measured: Measured) -> tuple[Array, Array]:
    """The attribution and the mean loss of each step, both (samples, levels); NaN where a draw is undefined."""
    return measured["attributed"][:, 0], np.asarray(measured["loss"].mean(axis=1))


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class MonotonicityCorrelation(SampleNotes, MarginalScore):
    """Rank correlation between the magnitude of each feature's attribution and the loss when that feature takes random values.

        Spearman's rho over i of (|e_i|, E (f(x) - f(x with x_i random))^2)

    A feature that matters more should be given more. With `features_in_step` above 1, neighbours in the order of relevance are replaced
    together. Undefined for a constant explanation, and if the prediction never changes. The paper leaves the loss open. The mean of
    squared changes over draws is also what Quantus 0.6.0 takes; it divides by f(x)^2, which is the same for all features of a sample
    and does not change ranks.
    """

    name = "monotonicity_correlation"
    direction = Direction.HIGHER
    bounds = (-1.0, 1.0)
    features_in_step: Count = 1

    def masks(self, shape: Size) -> RandomValues:
        """Every step alone."""
        return RandomValues(features=self.features_in_step, alone=True, baseline=self.filling)

    def no_response(self, measured: Measured) -> NDArray[np.bool_]:
        """Samples whose explanation gives the same to every step, though the losses differ."""
        given, loss = mean_over_draws(measured)
        return constant_rows(given) & ~constant_rows(loss)

    def values(self, measured: Measured) -> Array:
        """Spearman's correlation over the steps, (samples, 1)."""
        return spearman_correlation(*mean_over_draws(measured))[:, None]


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class NonSensitivity(MarginalScore):
    """Share of the features that are given nothing though the prediction depends on them, or something though it does not.

        |A_0 xor X_0| / d,   A_0 = {i: |e_i| <= eps max |e|},   X_0 = {i: E (f(x) - f(x with x_i random))^2 <= eps^2}

    `eps` is relative to the largest attribution of the map, and in units of the prediction for the loss. A zero explanation gives nothing
    to any feature. The paper and Quantus 0.6.0 count features; a share can be compared between inputs of different sizes.
    """

    name = "non_sensitivity"
    direction = Direction.LOWER
    bounds = (0.0, 1.0)
    features_in_step: Count = 1
    eps: Positive = 1e-5

    def masks(self, shape: Size) -> RandomValues:
        """Every step alone."""
        return RandomValues(features=self.features_in_step, alone=True, baseline=self.filling)

    def values(self, measured: Measured) -> Array:
        """The share of wrong steps, (samples, 1)."""
        given, loss = mean_over_draws(measured)
        return wrong_share(given, loss, self.eps)[:, None]


def wrong_share(given: Array, loss: Array, eps: float) -> Array:
    """The share (samples,) of the defined steps (samples, levels) for which exactly one of attribution and loss is nothing.

    >>> wrong_share(np.array([[2.0, 0.0, 1.0, 0.0]]), np.array([[0.5, 0.5, 0.0, 0.0]]), 1e-5)
    array([0.5])
    """
    defined = np.isfinite(given) & np.isfinite(loss)
    largest = np.where(defined, given, 0.0).max(axis=1, keepdims=True, initial=0.0)
    wrong = ((given <= eps * largest) != (loss <= eps**2)) & defined
    count = defined.sum(axis=1)
    return np.where(count > 0, wrong.sum(axis=1) / np.maximum(count, 1), np.nan)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class EffectiveComplexity(MarginalScore):
    """Share of the features that is needed to keep the prediction while all others take random values, the most relevant kept first.

        k / d,   k the smallest number with sqrt(E (f(x) - f(x with all but the k largest |e_i| random))^2) <= eps

    `eps` is how far the prediction may move, in its own units. The share is searched in `steps` steps, from all features down to the first
    step at which the prediction is lost. A map that names the features that matter needs few. An explanation that orders nothing, such as
    a constant map, keeps features in the order of the input. The paper counts features; a share can be compared between inputs of different
    sizes.

    Quantus 0.6.0 counts attributions above a threshold and does not ask the model; `sparseness` and `complexity` are scores of the map
    alone.
    """

    name = "effective_complexity"
    direction = Direction.LOWER
    bounds = (0.0, 1.0)
    eps: NonNegative = 0.1
    steps: Count = 20

    def masks(self, shape: Size) -> RandomValues:
        """All but the most relevant entries, from none kept to all."""
        return RandomValues(steps=self.steps, insertion=True, origin=True, baseline=self.filling)

    def observe(self, pair: Pair) -> Tensor:
        """The share of the features that is kept, and the squared change of the prediction: (R, 2)."""
        kept = pair.element.isnan().double()
        if isinstance(pair.space, PatchMasks):  # the columns of one feature are kept together, and count as one
            kept = (pair.space.unit_sums(kept) > 0).double()
        kept = kept.mean(dim=1).to(pair.after.scores.device)
        return torch.stack((kept, drop(pair, self.by_probability) ** 2), dim=1)

    def values(self, measured: Measured) -> Array:
        """The smallest share that is enough, (samples, 1)."""
        kept, loss = mean_over_draws(measured)
        return needed_share(kept, loss, self.eps)[:, None]


def needed_share(kept: Array, loss: Array, eps: float) -> Array:
    """The smallest kept share (samples,) from which on the loss stays within eps^2, from curves (samples, levels) that rise to all.

    The curve of a short sample ends with levels of NaN, which are not drawn. Keeping everything loses nothing.

    >>> needed_share(np.array([[0.0, 0.5, 1.0]] * 2), np.array([[0.5, 0.0, 0.0], [0.0, 0.5, 0.0]]), 0.1)
    array([0.5, 1. ])
    """
    lost = loss > eps**2
    last = np.where(lost.any(axis=1), lost.shape[1] - np.argmax(lost[:, ::-1], axis=1), 0)
    following = np.concatenate((kept, np.ones((len(kept), 1))), axis=1)
    found = np.take_along_axis(following, last[:, None], axis=1)[:, 0]
    found = np.where(np.isnan(found), 1.0, found)
    return np.where(np.isnan(kept).all(axis=1) | np.isnan(loss[:, 0]), np.nan, found)
