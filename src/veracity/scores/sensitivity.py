"""How far an explanation is moved by a small change of its input.

How much a tensor changed in relation to what it was.

Robustness scores: how much an explanation changes with a little noise on its input, for the change of something else.

Stability of an explanation in relation to its input.

Stability of an explanation in relation to the model's output.

Stability of an explanation in relation to what the model makes of the input inside.

The local Lipschitz constant of an explanation, estimated.
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
from veracity.core.settings import NonNegative, Positive
from veracity.core.spaces import InputSpace
from veracity.core.walks import Walk
from veracity.measure import l2
from veracity.measure.rows import rows
from veracity.perturb import Ball
from veracity.perturb.noise import GaussianNoise
from veracity.scores.assumptions import ModelRobustness, kept
from veracity.scores.common import Repeatable, largest, share_of
from veracity.walk import MonteCarlo

ABSOLUTE = (
    "Here it is not divided by |e(x)|, so it is in each map's own units: a map that is 100 times larger moves 100 times further. Compare "
    "samples and models by it, not explainers."
)
"""What must be said of a relative score that was asked for without the division."""


@dataclass(frozen=True, kw_only=True)
class Sensitivity(Repeatable, ABC):
    """The relative change of an explanation, |e(x') - e(x)| / |e(x)|, at random inputs x' close by.

    With the l-infinity ball of radius .02, the Euclidean distance and ten draws (appendix G of the symmetry paper). It is undefined
    where e(x) = 0. relative=False is the definition of the paper, |e(x') - e(x)|: that is in the map's own units, so that it compares
    samples and models, not explainers. A `measure` without units, such as an angle, is taken as it is. With the `space`, walk and
    `follow` of another score, such as ln_p_f_hat by Monte Carlo, it looks at the same perturbed inputs.
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
        """Unless `relative`, as the measure."""
        return self.compare.in_map_units and not self.relative

    def setting(self) -> str:
        """What the value's units mean, if it is not relative."""
        return ABSOLUTE if self.in_map_units else ""

    @property
    def assumption(self) -> Score:
        """That the model keeps still in the same ball."""
        return ModelRobustness(radius=self.radius, norm=self.norm, walk=self.walk)

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """For every explanation, whatever the audit's symmetry."""
        if subject.explainer is None:
            return ()
        space = (self.space or Ball(radius=self.radius, norm=self.norm)).fit(subject.shape)
        return (Request(space, self.walk, self.shares(subject.explainer), follow=self.follow),)

    def observe(self, pair: Pair) -> Tensor:
        """|e(x') - e(x)| as a share of |e(x)|, or as it is."""
        distance = super().observe(pair)
        return share_of(distance, pair.before.explanation, self.compare) if self.relative and self.compare.in_map_units else distance


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class MaxSensitivity(Sensitivity):
    """The largest relative change of an explanation among random inputs close by, max over |x' - x| <= radius of |e(x') - e(x)| / |e(x)|.

    It is the number of Captum's `sensitivity_max` and of Quantus; relative=False is that of the paper. The maximum over draws is
    below the maximum over the ball, and grows with the number of draws: it compares explainers that got equally many, and bounds
    nothing.
    """

    name = "max_sensitivity"
    figures = ("convergence", "sensitivity")
    definition = (
        "How far a small change of the input can move an explanation, as a share of it: the largest |e(x') - e(x)| / |e(x)| among "
        "random inputs x' in a small ball around x."
    )

    def reduce(self, values: Array) -> Array:
        """The largest of each sample's draws."""
        return largest(values)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class AvgSensitivity(Sensitivity):
    """The mean relative change of an explanation among random inputs close by, mean over |x' - x| <= radius of |e(x') - e(x)| / |e(x)|.

    Unlike the maximum it does not grow with the number of draws. It shares its perturbations with `max_sensitivity`.
    """

    name = "avg_sensitivity"


FLOOR = 0.01
"""The smallest entry that counts by its own size, as a share of the root mean square of its sample."""

EPS_MIN = 1e-6
"""The smallest change that anything is divided by."""


def relative_change(before: Tensor, after: Tensor, *, floor: float = FLOOR, eps_min: float = EPS_MIN) -> Tensor:
    """The Euclidean norm of every entry's change as a share of that entry, |(a' - a) / a|, from (N, ...) and (N, ...) to (N,).

    An entry below `floor` times the root mean square of its sample counts as large as that, so that entries which happen to
    be next to nothing do not decide the whole. The number is free of the sample's scale, and undefined (NaN) where all of the
    sample is zero. With floor=0 every entry counts by itself, and `eps_min` stands for those that are exactly zero: the
    definition of Quantus 0.6.0.

    >>> before, after = torch.tensor([[3.0, 4.0, 0.0]]), torch.tensor([[3.3, 4.0, 0.001]])
    >>> relative_change(before, after), relative_change(before, after, floor=0.0)
    (tensor([0.1058], dtype=torch.float64), tensor([1000.0001], dtype=torch.float64))
    """
    a, b = rows(before, after)
    unit = a.abs()
    if floor > 0:
        unit = torch.maximum(unit, floor * a.square().mean(dim=1, keepdim=True).sqrt())
    share = (b - a) / unit.masked_fill(unit == 0, torch.nan if floor > 0 else eps_min)
    return share.square().sum(dim=1).sqrt()


def over(change: Tensor, other: Tensor, eps_min: float = EPS_MIN) -> Tensor:
    """One change (N,) as a multiple of another (N,), which counts as at least `eps_min`.

    >>> over(torch.tensor([2.0, 2.0]), torch.tensor([4.0, 0.0]), eps_min=0.5)
    tensor([0.5000, 4.0000])
    """
    return change / other.clamp(min=eps_min)


@dataclass(frozen=True, kw_only=True)
class NoiseScore(Repeatable, ABC):
    """The largest ratio of changes among inputs with Gaussian noise of standard deviation `sigma`: five draws of .001 (appendix A.8.1).

    The maximum grows with the number of draws, so that it compares explainers that got equally many. With the `space`, walk
    and `follow` of another score, such as ln_p_f_hat by Monte Carlo, it looks at the same perturbed inputs.
    """

    walk: Walk = field(default_factory=lambda: MonteCarlo(draws=5))
    sigma: Positive = 0.001
    space: InputSpace | None = None
    follow: bool = False

    direction = Direction.LOWER
    bounds = (0.0, math.inf)

    @property
    def assumption(self) -> Score:
        """That the model keeps still under the same noise."""
        return ModelRobustness(sigma=self.sigma, walk=self.walk)

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """For every explanation: the noise that all of these scores share."""
        if subject.explainer is None:
            return ()
        space = (self.space or GaussianNoise(sigma=self.sigma)).fit(subject.shape)
        return (Request(space, self.walk, self.shares(subject.explainer), self.looks_at, follow=self.follow),)

    @property
    def looks_at(self) -> str | None:
        """The layer that is read; None if none is."""
        return None

    def reduce(self, values: Array) -> Array:
        """The largest of each sample's draws."""
        return largest(values)


@dataclass(frozen=True, kw_only=True)
class RelativeStability(NoiseScore, ABC):
    """The relative change of an explanation over the change of something else, at the worst draw that keeps the prediction.

        max over x' with f(x') = f(x) of |(e(x') - e(x)) / e(x)| / max(|change|, eps_min)     (equations 27 to 29)

    with Euclidean norms. Draws that change the predicted class are left out; a sample without any other is undefined.
    Entries below `floor` times the root mean square of their map count as large as that (see `relative_change`); floor=0
    is the definition of Quantus 0.6.0, where an entry that happens to be near zero decides the score: on digits, with
    exact zeros around them, it calls random maps four times more stable than gradients, and floor=.01 three times less.
    """

    reference: ClassVar[str] = "Agarwal et al., Rethinking stability for attribution-based explanations (2022)"
    floor: NonNegative = FLOOR
    eps_min: Positive = EPS_MIN

    @property
    def in_map_units(self) -> bool:
        """With floor=0 alone, where `eps_min` stands for entries that are exactly zero."""
        return self.floor == 0

    @abstractmethod
    def moved(self, pair: Pair) -> Tensor:
        """The change that the explanation's is held against, (R,)."""

    def relative(self, pair: Pair, what: Reads) -> Tensor:
        """The relative change (R,) of what was read."""
        return relative_change(pair.before[what], pair.after[what], floor=self.floor, eps_min=self.eps_min)

    def observe(self, pair: Pair) -> Tensor:
        """The ratio of each draw, NaN where the prediction changed."""
        ratio = over(self.relative(pair, Reads.EXPLANATION), self.moved(pair), self.eps_min)
        return ratio.masked_fill(~kept(pair.before.output, pair.after.output), torch.nan)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class RelativeInputStability(RelativeStability):
    """RIS: the relative change of an explanation over the relative change of its input, at the worst kept draw (eq. 27).

    max over x' of |(e(x') - e(x)) / e(x)| / max(|(x' - x) / x|, eps_min), over draws with f(x') = f(x). Undefined where the
    whole input or its whole explanation is zero.
    """

    name = "relative_input_stability"
    before = after = frozenset({Reads.EXPLANATION, Reads.OUTPUT, Reads.INPUT})

    def moved(self, pair: Pair) -> Tensor:
        """|(x' - x) / x|."""
        return self.relative(pair, Reads.INPUT)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class RelativeOutputStability(RelativeStability):
    """ROS: the relative change of an explanation over the change of the logits, at the worst kept draw (eq. 29).

    max over x' of |(e(x') - e(x)) / e(x)| / max(|h(x') - h(x)|, eps_min), over draws with f(x') = f(x), with h all scores that
    the target picks from: the logits, unless a neuron is explained. Undefined where the whole explanation is zero.
    """

    name = "relative_output_stability"
    before = after = frozenset({Reads.EXPLANATION, Reads.OUTPUT, Reads.SCORES})

    def moved(self, pair: Pair) -> Tensor:
        """|h(x') - h(x)|."""
        return l2(pair.after.scores, pair.before.scores)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class RelativeRepresentationStability(RelativeStability):
    """RRS: the relative change of an explanation over the relative change of a layer's output, at the worst kept draw (eq. 28).

    max over x' of |(e(x') - e(x)) / e(x)| / max(|(L(x') - L(x)) / L(x)|, eps_min), over draws with f(x') = f(x), with L the
    output of `layer`, by default of the last one with weights before the logits. Undefined where all of e(x) or of L(x) is zero.
    """

    name = "relative_representation_stability"
    before = after = frozenset({Reads.EXPLANATION, Reads.OUTPUT, Reads.REPRESENTATION})
    layer: str | None = None

    @property
    def looks_at(self) -> str | None:
        """The layer."""
        return self.layer

    def for_subject(self, subject: Subject) -> Self:
        """With the last layer with weights before the model's last, unless another is given."""
        return self if self.layer is not None or len(subject.layers) < 2 else replace(self, layer=subject.layers[-2])

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """For every explanation, once there is a layer."""
        if subject.explainer is not None and self.layer is None:
            raise InputError(
                f"The score '{self.name}' needs a layer of the model: pass layer=..., by its name in model.named_modules(), "
                "for example the last one before the logits."
            )
        return super().requests(subject, defaults)

    def moved(self, pair: Pair) -> Tensor:
        """|(L(x') - L(x)) / L(x)|."""
        return self.relative(pair, Reads.REPRESENTATION)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class LocalLipschitz(NoiseScore):
    """The relative change of an explanation over the change of its input, at the worst draw.

        max over x' of |e(x') - e(x)| / (|e(x)| |x' - x|)

    Undefined where e(x) = 0. With relative=False it is the definition of the paper, max over x' of |e(x') - e(x)| / |x' - x|: a lower
    bound of the explanation's Lipschitz constant around x, for a linear explanation e(x) = A x below the spectral norm of A. That number
    is in the map's own units: it compares samples and models, not explainers.
    """

    name = "local_lipschitz"
    reference = "Alvarez-Melis and Jaakkola, On the robustness of interpretability methods (2018)"
    before = after = frozenset({Reads.EXPLANATION, Reads.INPUT})
    relative: bool = True

    @property
    def in_map_units(self) -> bool:
        """Unless `relative`."""
        return not self.relative

    def setting(self) -> str:
        """What the value's units mean, if it is not relative."""
        return ABSOLUTE if self.in_map_units else ""

    def observe(self, pair: Pair) -> Tensor:
        """|e(x') - e(x)| / |x' - x|, or its share of |e(x)|; undefined where the input did not change."""
        distance = l2(pair.after.input, pair.before.input)
        slope = l2(pair.after.explanation, pair.before.explanation) / distance.masked_fill(distance == 0, torch.nan)
        return share_of(slope, pair.before.explanation, l2) if self.relative else slope
