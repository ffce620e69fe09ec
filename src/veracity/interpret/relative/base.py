"""Robustness scores: how much an explanation changes with a little noise on its input, for the change of something else."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from veracity.core.measures import Direction
from veracity.core.scores import Array, Defaults, Pair, Reads, Request, Score, Subject
from veracity.core.settings import NonNegative, Positive
from veracity.core.spaces import InputSpace
from veracity.core.walks import Walk
from veracity.interpret.assumptions import ModelRobustness, kept
from veracity.interpret.common import Repeatable, largest
from veracity.interpret.relative.change import EPS_MIN, FLOOR, over, relative_change
from veracity.perturb.noise import GaussianNoise
from veracity.walk import MonteCarlo


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
