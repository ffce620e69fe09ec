"""What all scores of misinterpretation share: where they look, what they see there, and how bad it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from veracity.core.errors import InputError, SpecError
from veracity.core.explainers import Explainer
from veracity.core.measures import Direction, Measure
from veracity.core.scores import Defaults, Pair, Reads, Request, Subject
from veracity.core.settings import Positive
from veracity.core.spaces import InputSpace, Space
from veracity.core.walks import Search, Walk
from veracity.measure import pearson
from veracity.perturb import Ball
from veracity.scores.common import Repeatable
from veracity.walk import MonteCarlo
from veracity.walk.gradient import sloped

PAPER = "Huang et al., SAFARI: versatile and efficient evaluations for robustness of interpretability, ICCV 2023"
MARGIN = 0.05
"""How far inside the constraint a smooth search is drawn, in units of the loss."""


def loss(scores: Tensor, label: Tensor) -> Tensor:
    """The prediction loss J(x') = max over i != y of f_i(x') - f_y(x'), (R,): below 0 as long as the label is kept.

    >>> loss(torch.tensor([[2.0, 5.0, 1.0]]), torch.tensor([1]))
    tensor([-3.])
    """
    if scores.shape[1] < 2:
        raise InputError("A score of misclassification needs a model with at least two outputs: give it one for each class.")
    own = scores.gather(1, label[:, None])
    others = scores.scatter(1, label[:, None], -torch.inf).amax(dim=1)
    return others - own.squeeze(1)


@dataclass(frozen=True, kw_only=True)
class Hunted(Repeatable, ABC):
    """A score of the worst that can happen, or of how likely it is, to a correctly classified input in a small space around it.

    The space is the ball of `radius` in `norm` ("linf", "l2", "l1"), cut to the `range` of the data ("data": from their smallest
    to their largest value), or any other `space` that is given. The label is the class predicted at the unperturbed input.
    """

    seeds: ClassVar[bool] = True
    reference: ClassVar[str] = PAPER
    walk: Walk = field(default_factory=lambda: MonteCarlo(draws=1000))
    radius: Positive = 0.1
    norm: str = "linf"
    range: tuple[float, float] | str | None = "data"
    space: Space | None = None

    @property
    @abstractmethod
    def target(self) -> float:
        """From which merit on the event has happened."""

    @abstractmethod
    def merit(self, seen: Tensor) -> Tensor:
        """How bad what was observed (R, Q) is, (R,): below 0 where the constraint is broken, by how much; NaN where undefined."""

    @abstractmethod
    def smooth(self, seen: Tensor) -> Tensor:
        """A stand-in for the merit, (R,), that slopes towards the constraint and the objective at once."""

    def around(self, subject: Subject) -> Space:
        """Where it looks."""
        space = self.space or Ball(radius=self.radius, norm=self.norm, range=self.range)
        return space.fit(subject.shape)

    def walked(self, explainer: Explainer | None, space: Space) -> Walk:
        """How: without slopes, where there are none."""
        from veracity.explain.differentiable import differentiable  # brings Captum along, which reading results does not need

        if not isinstance(self.walk, Search) or not self.walk.follows_slopes:
            return self.walk
        if isinstance(space, InputSpace) and sloped(space) and (explainer is None or differentiable(explainer) is not None):
            return self.walk
        left = self.walk.blind()
        if left is None:
            what = f"'{explainer.name}' has" if explainer is not None and isinstance(space, InputSpace) else f"the space '{space.name}' has"
            raise SpecError(f"The walk '{self.walk.name}' follows slopes, and {what} none that are known: use the walk 'genetic'.")
        return left


@dataclass(frozen=True, kw_only=True)
class Misinterpretation(Hunted, ABC):
    """An explanation that deceives: it changes while the label stays (F-hat), or stays while the label changes (F-tilde).

    Explanations are compared by the `measure` (Pearson's correlation), in absolute value unless `signed`, the class
    predicted at the perturbed input being explained if `follow`, else the target that was fixed before. What is seen of
    every perturbed input: the agreement with the unperturbed explanation, and the prediction loss J.
    """

    quantities: ClassVar[tuple[str, ...]] = ("agreement", "loss")
    before: ClassVar[frozenset[Reads]] = frozenset({Reads.EXPLANATION, Reads.SCORES})
    after: ClassVar[frozenset[Reads]] = frozenset({Reads.EXPLANATION, Reads.SCORES})
    kept: ClassVar[bool]
    measure: Measure | None = field(default_factory=lambda: pearson)
    threshold: float
    signed: bool = False
    follow: bool = True

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """For every explanation."""
        if subject.explainer is None:
            return ()
        space = self.around(subject)
        walk = self.walked(subject.explainer, space)
        return (Request(space, walk, self.shares(subject.explainer), follow=self.follow),)

    def observe(self, pair: Pair) -> Tensor:
        """Agreement and J, (R, 2); where the space moves the input's frame, the explanation is expected to move along."""
        expected, found = (one if self.signed else one.abs() for one in (self.expected(pair), pair.after.explanation))
        label = pair.before.scores.argmax(dim=1)
        return torch.stack((self.compare(found, expected), loss(pair.after.scores, label).double()), dim=1)

    def expected(self, pair: Pair) -> Tensor:
        """The explanation before, moved with the input."""
        return pair.move(pair.before.explanation)

    def badness(self, agreement: Tensor) -> Tensor:
        """How far an agreement is from harmless, at least 0: monotone, without a pole."""
        if self.compare.direction is Direction.LOWER:
            return agreement if self.kept else 1.0 / (1.0 + agreement)
        low, high = self.compare.range
        return high - agreement if self.kept else agreement - low

    @property
    def target(self) -> float:
        """The badness of the threshold."""
        return float(self.badness(torch.tensor(self.threshold, dtype=torch.float64)))

    def feasible(self, seen_loss: Tensor) -> Tensor:
        """Where the constraint is kept: J < 0 for F-hat, J >= 0 for F-tilde."""
        return seen_loss < 0 if self.kept else seen_loss >= 0

    def merit(self, seen: Tensor) -> Tensor:
        """The badness where the constraint is kept; else minus the violation, so that every feasible point is worse than any other."""
        agreement, lost = seen.unbind(1)
        violated = -lost - TINY if self.kept else lost
        return torch.where(self.feasible(lost), self.badness(agreement), torch.where(lost.isnan(), torch.nan, violated))

    def smooth(self, seen: Tensor) -> Tensor:
        """The badness minus the violation, with a margin."""
        agreement, lost = seen.unbind(1)
        inside = lost if self.kept else -lost
        return self.badness(agreement) - torch.relu(inside + MARGIN)


TINY = 1e-12
"""So that J = 0 is a violation for F-hat."""
