"""Sensitivity scores: an explanation of the model should not survive the loss of what the model is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor

from veracity.core.measures import Direction, Measure
from veracity.core.scores import Defaults, Pair, Request, Smoothing, Subject
from veracity.core.spaces import Space
from veracity.core.walks import Walk
from veracity.interpret.common import Repeatable
from veracity.measure import spearman
from veracity.walk import MonteCarlo


@dataclass(frozen=True, kw_only=True)
class RandomisationScore(Repeatable, ABC):
    """A score of explanations before and after something random took the place of what they explain.

    All samples share a randomised copy of the model, so that one copy tells nothing of others: by default there are five.
    """

    walk: Walk = field(default_factory=lambda: MonteCarlo(draws=5))

    @property
    @abstractmethod
    def instead(self) -> Space:
        """What is put in its place."""

    def smoothing(self, subject: Subject) -> Smoothing | None:
        """What explanations are averaged over: here nothing."""
        return None

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """For every explanation."""
        if subject.explainer is None:
            return ()
        space = self.instead.fit(subject.shape)
        return (Request(space, self.walk, self.shares(subject.explainer), smoothing=self.smoothing(subject)),)


@dataclass(frozen=True, kw_only=True)
class SurvivalScore(RandomisationScore, ABC):
    """How alike an explanation still is to itself, by a `measure`: the less, the better.

    Spearman's correlation of the flattened maps unless another measure is given, undefined for constant ones. Signs count;
    with `absolute` magnitudes are compared.
    """

    measure: Measure | None = field(default_factory=lambda: spearman)
    absolute: bool = False

    @property
    def direction(self) -> Direction:
        """Against the measure's: what survives says little."""
        return Direction.LOWER if self.compare.direction is Direction.HIGHER else Direction.HIGHER

    def observe(self, pair: Pair) -> Tensor:
        """The similarity of e and e', (R,)."""
        before, after = pair.before.explanation, pair.after.explanation
        return self.compare(after.abs(), before.abs()) if self.absolute else self.compare(after, before)
