"""Sensitivity and stability: how much an explanation changes when its input changes a little.

`max_sensitivity` and `avg_sensitivity` are relative to the explanation itself; `local_lipschitz` and the relative stabilities divide by
the change of the input, of the output, or of a layer.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import torch
from torch import Tensor

from veracity.core.errors import InputError
from veracity.core.measures import Direction, Measure
from veracity.core.registry import SCORES
from veracity.core.scores import Array, Defaults, Pair, Reads, Request, Score, Subject
from veracity.core.settings import Count, NonNegative, Positive
from veracity.core.spaces import InputSpace
from veracity.core.walks import Walk
from veracity.measure import l2
from veracity.measure.rows import rows
from veracity.perturb import Ball
from veracity.perturb.noise import GaussianNoise
from veracity.perturb.translation import Translation
from veracity.scores.assumptions import ModelRobustness, same_prediction
from veracity.scores.common import Repeatable, largest, share_of
from veracity.walk import Exhaustive, MonteCarlo

ABSOLUTE = (
    "Here it is not divided by |e(x)|, so it is in each map's own units: a map that is 100 times larger moves 100 times further. Compare "
    "samples and models by it, not explainers."
)
"""What the report says about a relative score without the division."""


@dataclass(frozen=True, kw_only=True)
class Sensitivity(Repeatable, ABC):
    """The relative change of an explanation, |e(x') - e(x)| / |e(x)|, at random inputs x' near x.

    The defaults are an l-infinity ball of radius 0.02, the Euclidean distance and ten draws (appendix G of the symmetry paper). Undefined
    if e(x) = 0. relative=False is the definition of the paper, |e(x') - e(x)|: it is in the map's own units, so it compares samples and
    models, not explainers. A `measure` without units, such as an angle, is never divided. With the `space`, walk and `follow` of another
    score, such as ln_p_f_hat by Monte Carlo, it uses the same perturbed inputs.
    """

    reference: ClassVar[str] = "Yeh et al., On the (in)fidelity and sensitivity of explanations, NeurIPS 2019"
    measure: Measure | None = field(default_factory=lambda: l2)
    walk: Walk = field(default_factory=lambda: MonteCarlo(draws=10))
    radius: Positive = 0.02
    norm: str = "linf"
    relative: bool = True
    space: InputSpace | None = None
    follow: bool = False

    @property
    def in_map_units(self) -> bool:
        """As the measure says, unless `relative`."""
        return self.compare.in_map_units and not self.relative

    def setting(self) -> str:
        """What the units mean, if the score is not relative."""
        return ABSOLUTE if self.in_map_units else ""

    @property
    def assumption(self) -> Score:
        """The model is stable in the same ball."""
        return ModelRobustness(radius=self.radius, norm=self.norm, walk=self.walk)

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """For every explanation."""
        if subject.explainer is None:
            return ()
        space = (self.space or Ball(radius=self.radius, norm=self.norm)).fit(subject.shape)
        return (Request(space, self.walk, self.shares(subject.explainer), follow=self.follow),)

    def observe(self, pair: Pair) -> Tensor:
        """|e(x') - e(x)|, divided by |e(x)| if `relative`."""
        distance = super().observe(pair)
        return share_of(distance, pair.before.explanation, self.compare) if self.relative and self.compare.in_map_units else distance


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class MaxSensitivity(Sensitivity):
    """Largest change of the explanation under small random changes of the input, as a share of the explanation's size.

    max over |x' - x| <= radius of |e(x') - e(x)| / |e(x)|, as in Captum's `sensitivity_max` and in Quantus; relative=False is the paper's
    definition. The maximum over draws is below the maximum over the ball and grows with the number of draws: compare explainers with
    equally many draws, and do not use it as a bound.
    """

    name = "max_sensitivity"
    figures = ("convergence", "sensitivity")
    definition = (
        "How much a small change of the input can change an explanation: the largest |e(x') - e(x)| / |e(x)| among random inputs x' in a "
        "small ball around x."
    )

    def reduce(self, values: Array) -> Array:
        """The largest draw of each sample."""
        return largest(values)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class AvgSensitivity(Sensitivity):
    """Average change of the explanation under small random changes of the input, as a share of the explanation's size.

    mean over |x' - x| <= radius of |e(x') - e(x)| / |e(x)|. Unlike the maximum, it does not grow with the number of draws. It shares its
    perturbations with `max_sensitivity`.
    """

    name = "avg_sensitivity"


FLOOR = 0.01
"""The smallest size of an entry that is divided by, as a share of the sample's root mean square."""

EPS_MIN = 1e-6
"""The smallest change that is divided by."""


def relative_change(before: Tensor, after: Tensor, *, floor: float = FLOOR, eps_min: float = EPS_MIN) -> Tensor:
    """The Euclidean norm of the relative changes of all entries, |(a' - a) / a|, from (N, ...) and (N, ...) to (N,).

    An entry smaller than `floor` times the root mean square of its sample is replaced by that number in the denominator, so entries near
    zero do not dominate. The result does not depend on the sample's scale; it is NaN for a sample that is zero everywhere. With floor=0
    there is no such lower limit, and `eps_min` replaces entries that are exactly zero: the definition of Quantus 0.6.0.

    >>> before, after = torch.tensor([[3.0, 4.0, 0.0]]), torch.tensor([[3.3, 4.0, 0.001]])
    >>> relative_change(before, after), relative_change(before, after, floor=0.0)
    (tensor([0.1058], dtype=torch.float64), tensor([1000.0001], dtype=torch.float64))
    """
    a, b = rows(before, after)
    unit = a.abs()
    if floor > 0:
        unit = torch.maximum(unit, floor * torch.linalg.vector_norm(a, dim=1, keepdim=True) / math.sqrt(a.shape[1]))
    share = (b - a).div_(unit.masked_fill_(unit == 0, torch.nan if floor > 0 else eps_min))
    found: Tensor = torch.linalg.vector_norm(share, dim=1)
    return found


@dataclass(frozen=True, kw_only=True)
class NoiseScore(Repeatable, ABC):
    """What Gaussian noise on the input does to an explanation: five draws with `sigma` = 0.001 (appendix A.8.1).

    With the `space`, walk and `follow` of another score, such as ln_p_f_hat by Monte Carlo, it uses the same perturbed inputs.
    """

    walk: Walk = field(default_factory=lambda: MonteCarlo(draws=5))
    sigma: Positive = 0.001
    space: InputSpace | None = None
    follow: bool = False

    @property
    def assumption(self) -> Score:
        """The model is stable under the same noise."""
        return ModelRobustness(sigma=self.sigma, walk=self.walk)

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """For every explanation: noise that all of these scores share."""
        if subject.explainer is None:
            return ()
        space = (self.space or GaussianNoise(sigma=self.sigma)).fit(subject.shape)
        return (Request(space, self.walk, self.shares(subject.explainer), follow=self.follow),)


@dataclass(frozen=True, kw_only=True)
class LargestRatio(NoiseScore, ABC):
    """The largest ratio of two changes under noise. The maximum grows with the number of draws: compare explainers with equally many."""

    direction = Direction.LOWER
    bounds = (0.0, math.inf)

    def reduce(self, values: Array) -> Array:
        """The largest draw of each sample."""
        return largest(values)


@dataclass(frozen=True, kw_only=True)
class RelativeStability(LargestRatio, ABC):
    """The relative change of an explanation divided by another change, at the worst draw that keeps the prediction.

        max over x' with f(x') = f(x) of |(e(x') - e(x)) / e(x)| / max(|change|, eps_min)     (equations 27 to 29)

    with Euclidean norms. Draws that change the predicted class are left out; a sample without any other draw is undefined. `floor` limits
    the influence of entries near zero (see `relative_change`). floor=0 is the definition of Quantus 0.6.0, in which a single entry near
    zero can dominate: on digits, which have exact zeros around them, it rates random maps four times more stable than gradients; with
    floor=0.01 they are three times less stable.
    """

    reference: ClassVar[str] = "Agarwal et al., Rethinking stability for attribution-based explanations (2022)"
    floor: NonNegative = FLOOR
    eps_min: Positive = EPS_MIN

    @property
    def in_map_units(self) -> bool:
        """With floor=0 only, where `eps_min` replaces entries that are exactly zero."""
        return self.floor == 0

    @abstractmethod
    def change(self, pair: Pair) -> Tensor:
        """The change that is divided by, (R,)."""

    def relative(self, pair: Pair, what: Reads) -> Tensor:
        """The relative change (R,) of a reading."""
        return relative_change(pair.before[what], pair.after[what], floor=self.floor, eps_min=self.eps_min)

    def observe(self, pair: Pair) -> Tensor:
        """The ratio of each draw, NaN if the prediction changed."""
        ratio = self.relative(pair, Reads.EXPLANATION) / self.change(pair).clamp(min=self.eps_min)
        return ratio.masked_fill(~same_prediction(pair.before.output, pair.after.output), torch.nan)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class RelativeInputStability(RelativeStability):
    """Largest ratio of the explanation's relative change to the input's relative change, under noise that keeps the prediction (eq. 27).

    RIS: max over x' of |(e(x') - e(x)) / e(x)| / max(|(x' - x) / x|, eps_min). Undefined if the input or its explanation is zero
    everywhere.
    """

    name = "relative_input_stability"
    before = after = frozenset({Reads.EXPLANATION, Reads.OUTPUT, Reads.INPUT})

    def change(self, pair: Pair) -> Tensor:
        """|(x' - x) / x|."""
        return self.relative(pair, Reads.INPUT)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class RelativeOutputStability(RelativeStability):
    """Largest ratio of the explanation's relative change to the change of the logits, under noise that keeps the prediction (eq. 29).

    ROS: max over x' of |(e(x') - e(x)) / e(x)| / max(|h(x') - h(x)|, eps_min), where h are all scores that the target is chosen from: the
    logits, unless a neuron is explained. Undefined if the explanation is zero everywhere.
    """

    name = "relative_output_stability"
    before = after = frozenset({Reads.EXPLANATION, Reads.OUTPUT, Reads.SCORES})

    def change(self, pair: Pair) -> Tensor:
        """|h(x') - h(x)|."""
        return l2(pair.after.scores, pair.before.scores)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class RelativeRepresentationStability(RelativeStability):
    """Largest ratio of the explanation's relative change to a layer's relative change, under noise that keeps the prediction (eq. 28).

    RRS: max over x' of |(e(x') - e(x)) / e(x)| / max(|(L(x') - L(x)) / L(x)|, eps_min), where L is the output of `layer`, by default the
    last layer with weights before the logits. Undefined if e(x) or L(x) is zero everywhere.
    """

    name = "relative_representation_stability"
    before = after = frozenset({Reads.EXPLANATION, Reads.OUTPUT, Reads.REPRESENTATION})
    layer: str | None = None

    def for_subject(self, subject: Subject) -> Self:
        """With the default layer, unless one is given."""
        return self if self.layer is not None or len(subject.layers) < 2 else replace(self, layer=subject.layers[-2])

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """For every explanation; raises without a layer."""
        if subject.explainer is not None and self.layer is None:
            if not subject.layers:
                raise InputError(
                    f"The score '{self.name}' watches a hidden layer, and model '{subject.model}' has no layers with weights: leave the "
                    "score out, or use relative_output_stability."
                )
            raise InputError(
                f"The score '{self.name}' needs a layer of the model: pass layer=..., by its name in model.named_modules(), "
                "for example the last one before the logits."
            )
        return tuple(replace(request, layer=self.layer) for request in super().requests(subject, defaults))

    def change(self, pair: Pair) -> Tensor:
        """|(L(x') - L(x)) / L(x)|."""
        return self.relative(pair, Reads.REPRESENTATION)


@dataclass(frozen=True, kw_only=True)
class RelativeOrAbsolute(Repeatable, ABC):
    """A score that divides by the size of the explanation if `relative`, and else is in the map's own units."""

    relative: bool = True

    @property
    def in_map_units(self) -> bool:
        """Unless `relative`."""
        return not self.relative

    def setting(self) -> str:
        """What the units mean, if the score is not relative."""
        return ABSOLUTE if self.in_map_units else ""


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class LocalLipschitz(RelativeOrAbsolute, LargestRatio):
    """Largest ratio of the explanation's relative change to the distance between the inputs, under small noise on the input.

        max over x' of |e(x') - e(x)| / (|e(x)| |x' - x|)

    Undefined if e(x) = 0. relative=False is the definition of the paper, max over x' of |e(x') - e(x)| / |x' - x|: a lower bound of the
    explanation's Lipschitz constant near x; for a linear explanation e(x) = A x it lies below the spectral norm of A. It is in the map's
    own units, so it compares samples and models, not explainers.
    """

    name = "local_lipschitz"
    reference = "Alvarez-Melis and Jaakkola, On the robustness of interpretability methods (2018)"
    before = after = frozenset({Reads.EXPLANATION, Reads.INPUT})

    def observe(self, pair: Pair) -> Tensor:
        """|e(x') - e(x)| / |x' - x|, divided by |e(x)| if `relative`; NaN if the input did not change."""
        distance = l2(pair.after.input, pair.before.input)
        slope = l2(pair.after.explanation, pair.before.explanation) / distance.masked_fill(distance == 0, torch.nan)
        return share_of(slope, pair.before.explanation, l2) if self.relative else slope


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class Continuity(RelativeOrAbsolute):
    """Largest ratio of the explanation's relative change to the distance between the inputs, while the input is moved sideways.

        max over x' of |e(x') - e(x)|_1 / (|e(x)|_1 |x' - x|_2)

    x' is x moved along its last axis by `nr_steps` distances, evenly spaced from its width to the left to its width to the right; what
    comes in is `perturb_baseline`. Undefined if e(x) = 0. relative=False is the definition of the paper, which does not divide by |e(x)|
    and is in the map's own units, so it compares samples and models, not explainers. The explanation is not moved along: an explanation
    that follows the object changes, too, and `equivariance` asks whether it follows. For images (C, H, W) and series (C, T).
    """

    name = "continuity"
    reference = "Montavon, Samek and Müller, Methods for interpreting and understanding deep neural networks (2018)"
    before = after = frozenset({Reads.EXPLANATION, Reads.INPUT})
    direction = Direction.LOWER
    bounds = (0.0, math.inf)
    nr_steps: Count = 28
    perturb_baseline: float | str = "black"

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """Every distance once, for every explanation."""
        if subject.explainer is None:
            return ()
        space = Translation(steps=self.nr_steps, baseline=self.perturb_baseline).fit(subject.shape)
        return (Request(space, Exhaustive(), self.shares(subject.explainer)),)

    def observe(self, pair: Pair) -> Tensor:
        """|e(x') - e(x)|_1 / |x' - x|_2, divided by |e(x)|_1 if `relative`; NaN if the input did not change."""
        distance = l2(pair.after.input, pair.before.input)
        slope = total_change(pair.after.explanation, pair.before.explanation) / distance.masked_fill(distance == 0, torch.nan)
        if not self.relative:
            return slope
        size = pair.before.explanation.flatten(1).double().abs().sum(dim=1)
        return slope / size.masked_fill(size == 0, torch.nan)

    def reduce(self, values: Array) -> Array:
        """The largest draw of each sample."""
        return largest(values)


def total_change(a: Tensor, b: Tensor) -> Tensor:
    """The sum of absolute differences (N,) of two explanations (N, ...), in double precision."""
    first, second = rows(a, b)
    return (first - second).abs().sum(dim=1)
