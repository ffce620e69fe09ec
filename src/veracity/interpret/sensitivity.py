"""How far an explanation is moved by a small change of its input."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from veracity.core.measures import Measure
from veracity.core.registry import SCORES
from veracity.core.scores import Array, Defaults, Pair, Request, Score, Subject
from veracity.core.spaces import InputSpace
from veracity.core.walks import Walk
from veracity.interpret.assumptions import ModelRobustness
from veracity.interpret.common import Repeatable, largest
from veracity.measure import l2
from veracity.perturb import Ball
from veracity.walk import MonteCarlo


@dataclass(frozen=True, kw_only=True)
class Sensitivity(Repeatable, ABC):
    """The change of an explanation, |e(x') - e(x)|, at random inputs x' close by.

    With the l-infinity ball of radius .02, the Euclidean distance and ten draws (appendix G of the symmetry paper).
    `relative` divides by |e(x)|, which makes it free of the explanation's scale; it is undefined where e(x) = 0. With the
    `space`, walk and `follow` of another score, such as ln_p_f_hat by Monte Carlo, it looks at the same perturbed inputs.
    """

    reference: ClassVar[str] = "Yeh et al., On the (in)fidelity and sensitivity of explanations, NeurIPS 2019"
    measure: Measure | None = field(default_factory=lambda: l2)
    walk: Walk = field(default_factory=lambda: MonteCarlo(draws=10))
    radius: float = 0.02
    norm: str = "linf"
    relative: bool = False
    space: InputSpace | None = None
    follow: bool = False

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
        """|e(x') - e(x)|, or its share of |e(x)|."""
        distance = super().observe(pair)
        if not self.relative:
            return distance
        before = pair.before.explanation
        length = self.compare(before, torch.zeros_like(before))
        return torch.where(length > 0, distance / length, torch.nan)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class MaxSensitivity(Sensitivity):
    """The largest change of an explanation among random inputs close by, Sens(e, x) = max over |x' - x| <= radius of |e(x') - e(x)|.

    The maximum over draws is below the maximum over the ball, and grows with the number of draws: it compares explainers
    that got equally many, and bounds nothing. With `relative` it is the number of Captum's `sensitivity_max` and of Quantus.
    """

    name = "max_sensitivity"

    def reduce(self, values: Array) -> Array:
        """The largest of each sample's draws."""
        return largest(values)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class AvgSensitivity(Sensitivity):
    """The mean change of an explanation among random inputs close by, mean over |x' - x| <= radius of |e(x') - e(x)|.

    Unlike the maximum it does not grow with the number of draws. It shares its perturbations with `max_sensitivity`.
    """

    name = "avg_sensitivity"
