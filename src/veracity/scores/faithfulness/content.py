"""Properties of an explanation: it adds up (completeness), is sparse or simple; alike means predicted alike (sufficiency, consistency)."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import torch
from torch import Size, Tensor

from veracity.core.errors import InputError, unknown
from veracity.core.explainers import Frame
from veracity.core.features import group_sums
from veracity.core.measures import Direction
from veracity.core.registry import SCORES
from veracity.core.scores import Array, Defaults, Measured, Pair, Reads, Request, Score, Subject
from veracity.core.settings import Count
from veracity.core.walks import Walk
from veracity.measure.complexity import complexity, sparseness
from veracity.perturb import Redraw
from veracity.perturb.masks import FullMask
from veracity.perturb.swaps import OtherSample
from veracity.scores.assumptions import same_prediction
from veracity.scores.faithfulness.masked import MaskingScore, drop, over_entries
from veracity.walk import MonteCarlo


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class Completeness(MaskingScore):
    """Gap between the sum of the attributions and the change of the prediction from the baseline to the input, as a share of that change.

        |sum_i e_i - (f(x) - f(b))| / |f(x) - f(b)|

    b has every entry at `perturb_baseline`, which should be the explainer's own baseline: by default 0, and in a table with names its
    reference. A map without channels counts for each channel.
    relative=False gives the gap itself, in units of the score. A relative gap is undefined if f(x) = f(b).
    """

    name = "completeness"
    reference = "Sundararajan, Taly and Yan, Axiomatic attribution for deep networks (ICML 2017)"
    direction = Direction.LOWER
    bounds = (0.0, np.inf)
    in_map_units = True
    fallback = 0.0
    relative: bool = True

    def for_subject(self, subject: Subject) -> Self:
        """With the baseline that explainers take: the reference of a table with names, else 0."""
        named = subject.features is not None and subject.features.named
        return super().for_subject(subject if named else replace(subject, features=None))

    def masks(self, shape: Size) -> FullMask:
        """The baseline itself."""
        return FullMask(baseline=self.filling)

    def observe(self, pair: Pair) -> Tensor:
        """The explanation's sum and f(x) - f(b): (R, 2)."""
        explanation = over_entries(pair.before.explanation, pair.before.shape)
        return torch.stack((explanation.sum(dim=1), drop(pair, self.by_probability)), dim=1)

    def values(self, measured: Measured) -> Array:
        """The gap of each sample, (samples, 1)."""
        return gap(measured["attributed"][:, :, 0], measured["drop"][:, :, 0], self.relative)


def gap(attributed: Array, drop: Array, relative: bool) -> Array:
    """|attributed - drop|, divided by |drop| if `relative`; NaN if that is 0.

    >>> gap(np.array([1.5, 1.0]), np.array([-2.0, 0.0]), relative=True)
    array([1.75,  nan])
    """
    found: Array = np.abs(attributed - drop)
    return np.where(drop != 0.0, found / np.where(drop != 0.0, np.abs(drop), 1.0), np.nan) if relative else found


@dataclass(frozen=True, kw_only=True)
class ShapeScore(Score, ABC):
    """A score of the explanation alone: nothing is perturbed, and the model is not used.

    The values of one feature, such as the one-hot columns of a category, are added up first. `groups` is the feature of each value; the
    data set says it.
    """

    after = frozenset()
    in_summary = "nothing"
    groups: tuple[int, ...] | None = field(default=None, metadata={"unset": True})

    def for_subject(self, subject: Subject) -> Self:
        """With the groups of a table, for explanations of its values."""
        features, explainer = subject.features, subject.explainer
        if features is None or not features.grouped or explainer is None or explainer.frame is not Frame.INPUT:
            return self
        return replace(self, groups=tuple(features.groups.tolist()))

    def by_feature(self, maps: Tensor) -> Tensor:
        """Maps (R, ...) with one value per feature."""
        if self.groups is None:
            return maps
        flat = maps.flatten(1)
        if len(self.groups) != flat.shape[1] or min(self.groups, default=-1) < 0:
            raise InputError(
                f"The setting 'groups' of '{self.name}' names the feature of {len(self.groups)} values, but a map has {flat.shape[1]}: "
                "give one number from 0 for each value, or leave it out."
            )
        return group_sums(flat, torch.tensor(self.groups))

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """Every numerical explanation, once."""
        if subject.explainer is None or subject.explainer.categorical:
            return ()
        return (Request(Redraw(), MonteCarlo(draws=1)),)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class Sparseness(ShapeScore):
    """Gini index of the attributions' magnitudes: 0 if all features count equally, close to 1 if a single feature counts.

    It says nothing about the model: a sparse explanation may be wrong. Undefined for a zero explanation.
    """

    name = "sparseness"
    reference = "Chalasani et al., Concise explanations of neural networks using adversarial training (ICML 2020)"
    direction = Direction.HIGHER
    bounds = (0.0, 1.0)

    def observe(self, pair: Pair) -> Tensor:
        """The Gini index of |e|, (R,)."""
        return sparseness(self.by_feature(pair.before.explanation))


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class Complexity(ShapeScore):
    """Entropy of the features' shares of the total attribution: 0 if a single feature counts, log d if all d features count equally.

    In nats. It says nothing about the model: a simple explanation may be wrong. Undefined for a zero explanation.
    """

    name = "complexity"
    reference = "Bhatt, Weller and Moura, Evaluating and aggregating feature-based model explanations (IJCAI 2020)"
    direction = Direction.LOWER
    bounds = (0.0, math.inf)

    def observe(self, pair: Pair) -> Tensor:
        """The entropy of |e| / sum |e|, (R,)."""
        return complexity(self.by_feature(pair.before.explanation))


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class Sufficiency(Score):
    """Share of the samples with a similar explanation for which the model predicts the same class.

    Explanations are similar if their distance is at most `threshold`, with

        d(e, e') = |e / |e| - e' / |e'|| / 2,   0 for the same direction, 0.71 at right angles, 1 for opposite maps,

    which depends on these two samples only, not on the rest of the batch. `abs` compares magnitudes. The walk says how many other samples
    are drawn. Undefined if no explanation is similar. Compare it with the share of samples of the same class, which an explanation
    unrelated to the model reaches.
    """

    name = "sufficiency"
    reference = "Dasgupta, Frost and Moshkovitz, Framework for evaluating faithfulness of local explanations (ICML 2022)"
    before = after = frozenset({Reads.EXPLANATION, Reads.OUTPUT})
    quantities = ("distance", "same")
    direction = Direction.HIGHER
    bounds = (0.0, 1.0)
    walk: Walk = field(default_factory=lambda: MonteCarlo(draws=50))
    threshold: float = 0.6
    abs: bool = False

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """Other samples in place of each, for numerical explanations."""
        if subject.explainer is None or subject.explainer.categorical:
            return ()
        return (Request(OtherSample(), self.walk),)

    def observe(self, pair: Pair) -> Tensor:
        """The distance of the two explanations, and whether the predicted class is the same, NaN if there are no classes: (R, 2)."""
        here, there = pair.before.explanation, pair.after.explanation
        apart = distance(here.abs(), there.abs()) if self.abs else distance(here, there)
        same = same_prediction(pair.before.output, pair.after.output).to(apart)
        return torch.stack((apart, torch.full_like(same, torch.nan) if pair.before.output.shape[1] < 2 else same), dim=1)

    def values(self, measured: Measured) -> Array:
        """The share of similar samples with the same prediction, (samples, 1)."""
        return share_alike(measured["distance"][:, :, 0], measured["same"][:, :, 0], self.threshold)[:, None]


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class Consistency(Score):
    """Share of the samples with the same explanation for which the model predicts the same class.

        P over x' with d(e(x')) = d(e(x)) of f(x') = f(x)

    The discretisation d says when two explanations are the same: "top_n_sign" compares which `features` entries have the largest
    magnitudes, and their signs; "sign" the signs of all entries; "rank" the order of all entries. The walk says how many other samples are
    drawn. Undefined if no drawn sample has the same explanation, as is usual for maps of images: `sufficiency` asks for similar ones.
    Compare it with the share of samples of the same class, which an explanation unrelated to the model reaches.

    Quantus 0.6.0 takes the signs of the first five entries, whatever their size, and of magnitudes by default, so nearly all explanations
    are the same; and it scores 0 where no other sample is.
    """

    name = "consistency"
    reference = "Dasgupta, Frost and Moshkovitz, Framework for evaluating faithfulness of local explanations (ICML 2022)"
    before = after = frozenset({Reads.EXPLANATION, Reads.OUTPUT})
    quantities = ("apart", "same")
    direction = Direction.HIGHER
    bounds = (0.0, 1.0)
    walk: Walk = field(default_factory=lambda: MonteCarlo(draws=50))
    discretise: str = "top_n_sign"
    features: Count = 5

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """Other samples in place of each, for numerical explanations."""
        if self.discretise not in DISCRETISED:
            raise unknown(f"discretisation of score '{self.name}'", self.discretise, DISCRETISED)
        if subject.explainer is None or subject.explainer.categorical:
            return ()
        return (Request(OtherSample(), self.walk),)

    def observe(self, pair: Pair) -> Tensor:
        """0 if the explanations are the same, else 1, and whether the predicted class is the same, NaN without classes: (R, 2)."""
        code = DISCRETISED[self.discretise]
        here, there = (code(one.explanation.flatten(1), self.features) for one in (pair.before, pair.after))
        apart = (here != there).any(dim=1).double()
        same = same_prediction(pair.before.output, pair.after.output).to(apart)
        return torch.stack((apart, torch.full_like(same, torch.nan) if pair.before.output.shape[1] < 2 else same), dim=1)

    def values(self, measured: Measured) -> Array:
        """The share of samples with the same explanation that have the same prediction, (samples, 1)."""
        return share_alike(measured["apart"][:, :, 0], measured["same"][:, :, 0], 0.5)[:, None]


def top_n_sign(maps: Tensor, n: int) -> Tensor:
    """The signs of the n entries with the largest magnitudes of each row (N, d), and 0 elsewhere.

    >>> top_n_sign(torch.tensor([[3.0, -5.0, 1.0]]), 2)
    tensor([[ 1., -1.,  0.]])
    """
    largest = maps.abs().topk(min(n, maps.shape[1]), dim=1).indices
    return torch.zeros_like(maps).scatter(1, largest, maps.sign().gather(1, largest))


DISCRETISED: dict[str, Callable[[Tensor, int], Tensor]] = {
    "top_n_sign": top_n_sign,
    "sign": lambda maps, n: maps.sign(),
    "rank": lambda maps, n: maps.argsort(dim=1, descending=True, stable=True),
}
"""What two explanations (N, d) must share to be the same."""


def distance(a: Tensor, b: Tensor) -> Tensor:
    """Half the distance (N,) between explanations (N, ...) scaled to length 1; NaN if one is zero.

    >>> distance(torch.tensor([[1.0, 0.0]]), torch.tensor([[-2.0, 0.0]]))
    tensor([1.], dtype=torch.float64)
    """
    flat = [e.flatten(1).double() for e in (a, b)]
    one, other = (e / torch.linalg.vector_norm(e, dim=1, keepdim=True) for e in flat)
    apart: Tensor = torch.linalg.vector_norm(one - other, dim=1)
    return apart / 2.0


def share_alike(distance: Array, same: Array, threshold: float) -> Array:
    """The mean of `same` over the draws within the threshold, from two arrays (samples, draws) to (samples,); NaN if there are none.

    >>> share_alike(np.array([[0.1, 0.2, 0.9], [0.9, np.nan, 0.8]]), np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 1.0]]), 0.6)
    array([0.5, nan])
    """
    near = (distance <= threshold) & np.isfinite(same)
    count = near.sum(axis=1)
    return np.where(count > 0, np.where(near, same, 0.0).sum(axis=1) / np.maximum(count, 1), np.nan)
