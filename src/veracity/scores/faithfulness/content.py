"""Does the explanation add up to what there is to explain?

How much an explanation says: few features, or all of them a little.

Are samples that are explained alike also predicted alike?
"""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from veracity.core.measures import Direction
from veracity.core.registry import SCORES
from veracity.core.scores import Array, Defaults, Measured, Pair, Reads, Request, Score, Subject
from veracity.core.walks import Walk
from veracity.measure.complexity import complexity, sparseness
from veracity.perturb import Redraw
from veracity.perturb.masks import FullMask
from veracity.perturb.swaps import OtherSample
from veracity.scores.faithfulness.masked import BOTH, MODEL, drop, maps, over_entries
from veracity.walk import MonteCarlo


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class Completeness(Score):
    """How far the explanation's sum is from what the whole input adds to the prediction, as a share of it.

        |sum_i e_i - (f(x) - f(b))| / |f(x) - f(b)|

    f is the explained score, or its probability with `softmax`; b the input with every entry at `perturb_baseline`, which
    should be the explainer's own baseline. One map for all channels counts for each of them. Without `relative` the gap itself,
    in units of the score. A relative gap is undefined where f(x) = f(b).
    """

    name = "completeness"
    reference = "Sundararajan, Taly and Yan, Axiomatic attribution for deep networks (ICML 2017)"
    before = BOTH | {Reads.INPUT}
    after = MODEL
    quantities = ("attributed", "drop")
    perturb_baseline: float | str = 0.0
    relative: bool = True
    softmax: bool = False

    direction = Direction.LOWER
    bounds = (0.0, np.inf)

    @property
    def in_map_units(self) -> bool:
        """Yes: a map that is 100 times larger adds up to 100 times more."""
        return True

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """The baseline itself, for maps over the input."""
        if not maps(subject):
            return ()
        return (Request(FullMask(baseline=self.perturb_baseline).fit(subject.shape), MonteCarlo(draws=1)),)

    def observe(self, pair: Pair) -> Tensor:
        """The explanation's sum and f(x) - f(b): (R, 2)."""
        explanation = over_entries(pair.before.explanation, pair.before.input)
        return torch.stack((explanation.sum(dim=1), drop(pair, self.softmax)), dim=1)

    def values(self, measured: Measured) -> Array:
        """The gap of each sample, (samples, 1)."""
        return gap(measured["attributed"][:, :, 0], measured["drop"][:, :, 0], self.relative)


def gap(attributed: Array, drop: Array, relative: bool) -> Array:
    """|attributed - drop|, as a share of |drop| if `relative`; NaN where there is nothing to be a share of.

    >>> gap(np.array([1.5, 1.0]), np.array([-2.0, 0.0]), relative=True)
    array([1.75,  nan])
    """
    found: Array = np.abs(attributed - drop)
    return np.where(drop != 0.0, found / np.where(drop != 0.0, np.abs(drop), 1.0), np.nan) if relative else found


@dataclass(frozen=True, kw_only=True)
class ShapeScore(Score, ABC):
    """A score of the explanation as it is: nothing is perturbed, no pass is made."""

    after = frozenset()
    in_summary = "nothing"

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """Every explanation made of numbers, once."""
        if subject.explainer is None or subject.explainer.categorical:
            return ()
        return (Request(Redraw(), MonteCarlo(draws=1)),)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class Sparseness(ShapeScore):
    """How unevenly an explanation is spread: the Gini index of its magnitudes, 0 for equal ones, nearly 1 for a single one.

    It says nothing of the model: a sparse explanation may be wrong. A zero explanation is undefined.
    """

    name = "sparseness"
    reference = "Chalasani et al., Concise explanations of neural networks using adversarial training (ICML 2020)"

    direction = Direction.HIGHER
    bounds = (0.0, 1.0)

    def observe(self, pair: Pair) -> Tensor:
        """The Gini index of |e|, (R,)."""
        return sparseness(pair.before.explanation)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class Complexity(ShapeScore):
    """How many features share an explanation: the entropy of their shares of its magnitude, in nats, log d where all d are equal.

    It says nothing of the model: a simple explanation may be wrong. A zero explanation is undefined.
    """

    name = "complexity"
    reference = "Bhatt, Weller and Moura, Evaluating and aggregating feature-based model explanations (IJCAI 2020)"

    direction = Direction.LOWER
    bounds = (0.0, math.inf)

    def observe(self, pair: Pair) -> Tensor:
        """The entropy of |e| / sum |e|, (R,)."""
        return complexity(pair.before.explanation)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class Sufficiency(Score):
    """Of the other samples whose explanation is close to this one's, the share for which the model predicts the same class.

    Close is a distance of at most `threshold`, with

        d(e, e') = |e / |e| - e' / |e'|| / 2,   0 for the same direction, .71 at right angles, 1 for opposite maps,

    which depends on the two samples alone, not on whoever else is in the batch. `abs` compares magnitudes. The walk says
    how many others are asked. Undefined where no explanation is close. Hold it against the share of samples of the same
    class: that is what an explanation unrelated to the model gets.
    """

    name = "sufficiency"
    reference = "Dasgupta, Frost and Moshkovitz, Framework for evaluating faithfulness of local explanations (ICML 2022)"
    before = frozenset({Reads.EXPLANATION, Reads.OUTPUT})
    after = frozenset({Reads.EXPLANATION, Reads.OUTPUT})
    quantities = ("distance", "same")
    walk: Walk = field(default_factory=lambda: MonteCarlo(draws=50))
    threshold: float = 0.6
    abs: bool = False

    direction = Direction.HIGHER
    bounds = (0.0, 1.0)

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """Other samples in place of each, for explanations made of numbers."""
        if subject.explainer is None or subject.explainer.categorical:
            return ()
        return (Request(OtherSample(), self.walk),)

    def observe(self, pair: Pair) -> Tensor:
        """The distance of the two explanations, and whether the predicted class is the same: (R, 2)."""
        here, there = pair.before.explanation, pair.after.explanation
        return torch.stack((distance(here.abs(), there.abs()) if self.abs else distance(here, there), same_class(pair)), dim=1)

    def values(self, measured: Measured) -> Array:
        """The share of close samples that are predicted alike, (samples, 1)."""
        return share_alike(measured["distance"][:, :, 0], measured["same"][:, :, 0], self.threshold)[:, None]


def distance(a: Tensor, b: Tensor) -> Tensor:
    """Half the distance (N,) of two batches of explanations (N, ...) brought to length 1; NaN if one is zero.

    >>> distance(torch.tensor([[1.0, 0.0]]), torch.tensor([[-2.0, 0.0]]))
    tensor([1.], dtype=torch.float64)
    """
    apart: Tensor = torch.linalg.vector_norm(directions(a) - directions(b), dim=1)
    return apart / 2.0


def directions(e: Tensor) -> Tensor:
    """Explanations (N, ...) flattened and brought to length 1, (N, d), in double precision; NaN where one is zero."""
    flat = e.flatten(1).double()
    length: Tensor = torch.linalg.vector_norm(flat, dim=1, keepdim=True)
    return flat / length


def same_class(pair: Pair) -> Tensor:
    """1 where the likeliest class is the same before and after, else 0; NaN where the output has no classes: (R,)."""
    here, there = pair.before.output, pair.after.output
    if here.shape[1] < 2:
        return here.new_full((len(here),), torch.nan, dtype=torch.float64)
    return (here.argmax(dim=1) == there.argmax(dim=1)).double()


def share_alike(distance: Array, same: Array, threshold: float) -> Array:
    """The mean of `same` over the draws within the threshold, from two arrays (samples, draws) to (samples,); NaN if there is none.

    >>> share_alike(np.array([[0.1, 0.2, 0.9], [0.9, np.nan, 0.8]]), np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 1.0]]), 0.6)
    array([0.5, nan])
    """
    near = (distance <= threshold) & np.isfinite(same)
    count = near.sum(axis=1)
    return np.where(count > 0, np.where(near, same, 0.0).sum(axis=1) / np.maximum(count, 1), np.nan)
