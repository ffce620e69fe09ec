"""How far an explanation is moved by a small change of its input."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor

from veracity.core.measures import Measure
from veracity.core.registry import SCORES
from veracity.core.scores import Array, Defaults, Pair, Request, Score, Subject
from veracity.core.settings import Positive
from veracity.core.spaces import InputSpace
from veracity.core.walks import Walk
from veracity.interpret.assumptions import ModelRobustness
from veracity.interpret.common import Repeatable, largest, share_of
from veracity.measure import l2
from veracity.perturb import Ball
from veracity.walk import MonteCarlo


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
