"""What all scores of misinterpretation share: where they look, what they see there, and how bad it is."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from veracity.core.errors import InputError, SpecError
from veracity.core.explainers import Explainer
from veracity.core.measures import Direction, Measure
from veracity.core.scores import Array, Defaults, Pair, Reads, Request, SampleNotes, Subject
from veracity.core.settings import Positive
from veracity.core.spaces import InputSpace, Space
from veracity.core.walks import Search, Walk
from veracity.core.wording import compact, count
from veracity.measure import pearson
from veracity.perturb import Ball
from veracity.scores.common import Repeatable
from veracity.walk import MonteCarlo, Strongest
from veracity.walk.gradient import has_slopes

PAPER = "Huang et al., SAFARI: versatile and efficient evaluations for robustness of interpretability, ICCV 2023"
NORMS = {"linf": "L-infinity", "l2": "L2", "l1": "L1"}
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
class SearchScore(SampleNotes, Repeatable, ABC):
    """A score of the worst that can happen, or of how likely it is, to a correctly classified input in a small space around it.

    The space is the ball of `radius` in `norm` ("linf", "l2", "l1"), cut to the `range` of the data ("data": from their smallest
    to their largest value), or any other `space` that is given. The label is the class predicted at the unperturbed input.
    """

    correct_only: ClassVar[bool] = True
    reference: ClassVar[str] = PAPER
    figures: ClassVar[tuple[str, ...]] = ("search", "profile")
    beside: ClassVar[tuple[str, ...]] = ()
    """Nothing: random maps are the most robust to one kind of misinterpretation, and the least to the other."""
    objective: ClassVar[str] = "prediction loss"
    """What a search changes, in words."""
    least: ClassVar[float] = -math.inf
    """The smallest merit of a point that keeps the constraint."""
    walk: Walk = field(default_factory=lambda: MonteCarlo(draws=1000))
    radius: Positive = 0.1
    norm: str = "linf"
    range: tuple[float, float] | str | None = "data"
    space: Space | None = None

    @property
    @abstractmethod
    def event(self) -> float:
        """From which merit on the event has happened."""

    @abstractmethod
    def merit(self, seen: Tensor) -> Tensor:
        """How bad what was observed (R, Q) is, (R,): below 0 where the constraint is broken, by how much; NaN where undefined."""

    @abstractmethod
    def smooth(self, seen: Tensor) -> Tensor:
        """A stand-in for the merit, (R,), that slopes towards the constraint and the objective at once."""

    def objective_at(self, merit: Array) -> Array:
        """The objective of points with this merit; NaN where the constraint is broken."""
        return np.where(np.isfinite(merit) & (merit >= self.least), merit, np.nan)

    def setting(self) -> str:
        """Where the walk looks."""
        where = f"within {compact(self.radius)} of the input ({NORMS.get(self.norm, self.norm)})" if self.space is None else "in its space"
        walks = [one.name.replace("_", " ") for one in (self.walk.parts() if isinstance(self.walk, Strongest) else [self.walk])]
        return f"Here the {'walk' if len(walks) == 1 else 'walks'} {' and '.join(walks)} looked {where}."

    def outcome(self, counts: Mapping[str, int]) -> str:
        """How the samples ended, and how many evaluations had no value."""
        said = self.endings(counts)
        said += [f"{counts[what]} {what}" for what in ("stuck", "stiff") if counts.get(what)]
        rest, broken = counts.get("undefined", 0) - counts.get("infeasible", 0), counts.get("undefined_draws", 0)
        said += [f"{rest} undefined"] if rest > 0 else []
        return ", ".join(said + ([count(broken, "undefined evaluation")] if broken else []))

    def endings(self, counts: Mapping[str, int]) -> list[str]:
        """How many samples ended as the score hopes for."""
        return []

    def around(self, subject: Subject) -> Space:
        """Where it looks."""
        space = self.space or Ball(radius=self.radius, norm=self.norm, range=self.range)
        return space.fit(subject.shape)

    def walked(self, explainer: Explainer | None, space: Space) -> Walk:
        """How: without slopes, where there are none."""
        from veracity.explain.differentiable import differentiable  # brings Captum along, which reading results does not need

        if not isinstance(self.walk, Search) or not self.walk.follows_slopes:
            return self.walk
        if isinstance(space, InputSpace) and has_slopes(space) and (explainer is None or differentiable(explainer) is not None):
            return self.walk
        left = self.walk.without_slopes()
        if left is None:
            what = f"'{explainer.name}' has" if explainer is not None and isinstance(space, InputSpace) else f"the space '{space.name}' has"
            raise SpecError(f"The walk '{self.walk.name}' follows slopes, and {what} none that are known: use the walk 'genetic'.")
        return left


@dataclass(frozen=True, kw_only=True)
class Misinterpretation(SearchScore, ABC):
    """An explanation that deceives: it changes while the label stays (F-hat), or stays while the label changes (F-tilde).

    Explanations are compared by the `measure` (Pearson's correlation), in absolute value unless `signed`, the class
    predicted at the perturbed input being explained if `follow`, else the target that was fixed before. What is seen of
    every perturbed input: the agreement with the unperturbed explanation, and the prediction loss J.
    """

    quantities: ClassVar[tuple[str, ...]] = ("agreement", "loss")
    before: ClassVar[frozenset[Reads]] = frozenset({Reads.EXPLANATION, Reads.SCORES})
    after: ClassVar[frozenset[Reads]] = frozenset({Reads.EXPLANATION, Reads.SCORES})
    objective: ClassVar[str] = "agreement"
    least: ClassVar[float] = 0.0
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

    def objective_at(self, merit: Array) -> Array:
        """The agreement with this badness.

        >>> from veracity.scores.robustness import SolHat, SolTilde
        >>> SolHat().objective_at(np.array([0.75, -0.1])), SolTilde().objective_at(np.array([1.75]))
        (array([0.25,  nan]), array([0.75]))
        """
        known = super().objective_at(merit)
        low, high = self.compare.range
        if self.compare.direction is Direction.LOWER:
            return known if self.kept else 1.0 / known - 1.0
        return high - known if self.kept else known + low

    def setting(self) -> str:
        """Where the walk looks, what it compares, and what the event is."""
        below = self.kept == (self.compare.direction is Direction.HIGHER)
        event = f"{'F-hat' if self.kept else 'F-tilde'} is an agreement {'below' if below else 'above'} {compact(self.threshold)}"
        return f"{super().setting()[:-1]}, comparing {'signed' if self.signed else 'absolute'} maps; {event}."

    @property
    def event(self) -> float:
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
