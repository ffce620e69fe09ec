"""Robustness of interpretation: the worst explanation, and the worst prediction, that a search finds near an input.

F-hat: the label stays, but the explanation changes. F-tilde: the label changes, but the explanation stays. Both mislead the reader.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veracity.core.errors import InputError, SpecError
from veracity.core.explainers import Explainer
from veracity.core.measures import Direction, Measure
from veracity.core.registry import SCORES
from veracity.core.scores import Array, Defaults, Measured, Pair, Reads, Request, SampleNotes, Subject
from veracity.core.settings import Positive
from veracity.core.spaces import InputSpace, Space
from veracity.core.walks import Search, Walk
from veracity.core.wording import compact, count
from veracity.measure import pearson
from veracity.perturb import Ball
from veracity.scores.common import Repeatable, largest
from veracity.walk import MonteCarlo, Strongest
from veracity.walk.gradient import has_slopes

PAPER = "Huang et al., SAFARI: versatile and efficient evaluations for robustness of interpretability, ICCV 2023"
NORMS = {"linf": "L-infinity", "l2": "L2", "l1": "L1"}
MARGIN = 0.05
"""The margin that a smooth search keeps from the constraint, in units of the loss."""
TINY = 1e-12
"""Makes J = 0 a violation for F-hat."""


def loss(scores: Tensor, label: Tensor) -> Tensor:
    """The prediction loss J(x') = max over i != y of f_i(x') - f_y(x'), (R,): below 0 as long as the label stays.

    >>> loss(torch.tensor([[2.0, 5.0, 1.0]]), torch.tensor([1]))
    tensor([-3.])
    """
    if scores.shape[1] < 2:
        raise InputError("A score of misclassification needs a model with at least two outputs, one per class.")
    own = scores.gather(1, label[:, None])
    others = scores.scatter(1, label[:, None], -torch.inf).amax(dim=1)
    return others - own.squeeze(1)


@dataclass(frozen=True, kw_only=True)
class SearchScore(SampleNotes, Repeatable, ABC):
    """A score of the worst case near a correctly classified input, or of the probability of a bad case.

    The space is the ball of `radius` in `norm` ("linf", "l2", "l1"), clipped to the `range` of the data ("data": from their smallest to
    their largest value), or a given `space`. The label is the class predicted for the unperturbed input.
    """

    correct_only: ClassVar[bool] = True
    reference: ClassVar[str] = PAPER
    figures: ClassVar[tuple[str, ...]] = ("search", "profile")
    beside: ClassVar[tuple[str, ...]] = ()
    """None: random maps are the most robust against one kind of misinterpretation, and the least against the other."""
    objective: ClassVar[str] = "prediction loss"
    """What a search optimises, in words."""
    least: ClassVar[float] = -math.inf
    """The smallest merit of a point that satisfies the constraint."""
    walk: Walk = field(default_factory=lambda: MonteCarlo(draws=1000))
    radius: Positive = 0.1
    norm: str = "linf"
    range: tuple[float, float] | str | None = "data"
    space: Space | None = None

    @property
    @abstractmethod
    def event(self) -> float:
        """The smallest merit at which the event has happened."""

    @abstractmethod
    def merit(self, seen: Tensor) -> Tensor:
        """How bad the observed quantities (R, Q) are, (R,): minus the violation if the constraint is violated; NaN if undefined."""

    @abstractmethod
    def smooth(self, seen: Tensor) -> Tensor:
        """A replacement of the merit, (R,), whose gradient leads towards the constraint and the objective at once."""

    def objective_at(self, merit: Array) -> Array:
        """The objective of points with this merit; NaN if the constraint is violated."""
        return np.where(np.isfinite(merit) & (merit >= self.least), merit, np.nan)

    def setting(self) -> str:
        """Where the walk searches."""
        where = f"within {compact(self.radius)} of the input ({NORMS.get(self.norm, self.norm)})" if self.space is None else "in its space"
        walks = [one.name.replace("_", " ") for one in (self.walk.parts() if isinstance(self.walk, Strongest) else [self.walk])]
        return f"Here the {'walk' if len(walks) == 1 else 'walks'} {' and '.join(walks)} searched {where}."

    def outcome(self, counts: Mapping[str, int]) -> str:
        """How the search ended for the samples, and how many evaluations had no value."""
        said = self.endings(counts)
        said += [f"{counts[what]} {what}" for what in ("stuck", "stiff") if counts.get(what)]
        rest, broken = counts.get("undefined", 0) - counts.get("infeasible", 0), counts.get("undefined_draws", 0)
        said += [f"{rest} undefined"] if rest > 0 else []
        return ", ".join(said + ([count(broken, "undefined evaluation")] if broken else []))

    def endings(self, counts: Mapping[str, int]) -> list[str]:
        """For how many samples the search succeeded; here unknown."""
        return []

    def around(self, subject: Subject) -> Space:
        """The space around a sample."""
        return (self.space or Ball(radius=self.radius, norm=self.norm, range=self.range)).fit(subject.shape)

    def walk_on(self, space: Space, explainer: Explainer | None) -> Walk:
        """The walk, without its gradient steps if there are no gradients."""
        from veracity.explain.differentiable import differentiable  # brings Captum along, which reading results does not need

        if not isinstance(self.walk, Search) or not self.walk.follows_slopes:
            return self.walk
        if isinstance(space, InputSpace) and has_slopes(space) and (explainer is None or differentiable(explainer) is not None):
            return self.walk
        left = self.walk.without_slopes()
        if left is None:
            what = f"'{explainer.name}' has" if explainer is not None and isinstance(space, InputSpace) else f"the space '{space.name}' has"
            raise SpecError(f"The walk '{self.walk.name}' needs gradients, but {what} none: use the walk 'genetic'.")
        return left


@dataclass(frozen=True, kw_only=True)
class Misinterpretation(SearchScore, ABC):
    """A misleading explanation: it changes while the label stays (F-hat), or stays while the label changes (F-tilde).

    Explanations are compared by the `measure` (Pearson's correlation), in absolute value unless `signed`. `follow` explains the class
    predicted for the perturbed input instead of the original target. For every perturbed input, the score observes the agreement with
    the unperturbed explanation and the prediction loss J.
    """

    quantities: ClassVar[tuple[str, ...]] = ("agreement", "loss")
    before: ClassVar[frozenset[Reads]] = frozenset({Reads.EXPLANATION, Reads.SCORES})
    after: ClassVar[frozenset[Reads]] = frozenset({Reads.EXPLANATION, Reads.SCORES})
    objective: ClassVar[str] = "agreement"
    least: ClassVar[float] = 0.0
    same_label: ClassVar[bool]
    """Whether the event is F-hat, in which the label stays, rather than F-tilde."""
    measure: Measure | None = field(default_factory=lambda: pearson)
    threshold: float
    signed: bool = False
    follow: bool = True

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """For every explanation."""
        if subject.explainer is None:
            return ()
        space = self.around(subject)
        walk = self.walk_on(space, subject.explainer)
        return (Request(space, walk, self.shares(subject.explainer), follow=self.follow),)

    def observe(self, pair: Pair) -> Tensor:
        """Agreement and J, (R, 2); if the space moves the input's frame, the explanation should move along."""
        expected, found = (one if self.signed else one.abs() for one in (self.expected(pair), pair.after.explanation))
        label = pair.before.scores.argmax(dim=1)
        return torch.stack((self.compare(found, expected), loss(pair.after.scores, label).double()), dim=1)

    def expected(self, pair: Pair) -> Tensor:
        """The explanation before, moved along with the input."""
        return pair.move(pair.before.explanation)

    def badness(self, agreement: Tensor) -> Tensor:
        """A monotone function of the agreement, at least 0, that grows as the explanation becomes more misleading."""
        if self.compare.direction is Direction.LOWER:
            return agreement if self.same_label else 1.0 / (1.0 + agreement)
        low, high = self.compare.range
        return high - agreement if self.same_label else agreement - low

    def objective_at(self, merit: Array) -> Array:
        """The agreement with this badness.

        >>> SolHat().objective_at(np.array([0.75, -0.1])), SolTilde().objective_at(np.array([1.75]))
        (array([0.25,  nan]), array([0.75]))
        """
        known = super().objective_at(merit)
        low, high = self.compare.range
        if self.compare.direction is Direction.LOWER:
            return known if self.same_label else 1.0 / known - 1.0
        return high - known if self.same_label else known + low

    def setting(self) -> str:
        """Where the walk searches, what it compares, and what the event is."""
        below = self.same_label == (self.compare.direction is Direction.HIGHER)
        event = f"{'F-hat' if self.same_label else 'F-tilde'} is an agreement {'below' if below else 'above'} {compact(self.threshold)}"
        return f"{super().setting()[:-1]}, comparing {'signed' if self.signed else 'absolute'} maps; {event}."

    @property
    def event(self) -> float:
        """The badness of the threshold."""
        return float(self.badness(torch.tensor(self.threshold, dtype=torch.float64)))

    def feasible(self, seen_loss: Tensor) -> Tensor:
        """Whether the constraint holds: J < 0 for F-hat, J >= 0 for F-tilde."""
        return seen_loss < 0 if self.same_label else seen_loss >= 0

    def merit(self, seen: Tensor) -> Tensor:
        """The badness if the constraint holds, else minus the violation, so every feasible point ranks above every infeasible one."""
        agreement, lost = seen.unbind(1)
        violated = -lost - TINY if self.same_label else lost
        return torch.where(self.feasible(lost), self.badness(agreement), torch.where(lost.isnan(), torch.nan, violated))

    def smooth(self, seen: Tensor) -> Tensor:
        """The badness minus the violation, which includes a margin."""
        agreement, lost = seen.unbind(1)
        inside = lost if self.same_label else -lost
        return self.badness(agreement) - torch.relu(inside + MARGIN)


@dataclass(frozen=True, kw_only=True)
class Sol(Misinterpretation, ABC):
    """The agreement at the worst feasible point that was found, sol_F.

    A search finds a bound: more evaluations can only make it worse. A sample without a feasible point has no value; it is counted, and
    the share of the others is the feasibility rate.
    """

    figures: ClassVar[tuple[str, ...]] = ("search", "profile", "adversaries")
    walk: Walk = field(default_factory=Strongest)

    def endings(self, counts: Mapping[str, int]) -> list[str]:
        """For how many samples a feasible point was found.

        >>> SolHat().outcome({"n": 4, "undefined": 6, "infeasible": 6})
        '4 of 10 feasible'
        """
        searched = counts.get("n", 0) + counts.get("infeasible", 0)
        return [f"{counts.get('n', 0)} of {searched} feasible"] if searched else []

    @property
    def direction(self) -> Direction:
        """A lower agreement is worse for F-hat, a higher one for F-tilde."""
        return Direction.HIGHER if self.same_label == (self.compare.direction is Direction.HIGHER) else Direction.LOWER

    def values(self, measured: Measured) -> Array:
        """The worst feasible agreement of each sample, (samples, 1)."""
        agreement, lost = measured["agreement"], measured["loss"]
        feasible = self.feasible(torch.from_numpy(lost)).numpy() & np.isfinite(agreement)
        bad = self.badness(torch.from_numpy(agreement)).numpy()
        flat = np.where(feasible, bad, -np.inf).reshape(len(bad), -1)
        if flat.shape[1] == 0:
            return np.full((len(bad), 1), np.nan)
        place = flat.argmax(axis=1)
        found = agreement.reshape(len(bad), -1)[np.arange(len(bad)), place]
        return np.where(np.isfinite(flat.max(axis=1)), found, np.nan)[:, None]

    def remarks(self, measured: Measured) -> Mapping[str, NDArray[np.bool_]]:
        """Samples for which no feasible point was found, although every evaluation had a value."""
        searched = np.isfinite(measured["loss"]).any(axis=(1, 2))
        clear = np.isfinite(measured["agreement"]) | ~np.isfinite(measured["loss"])
        if "undefined" in measured.quantities:
            clear = np.nan_to_num(measured["undefined"]) == 0
        return {"infeasible": searched & clear.all(axis=(1, 2)) & ~np.isfinite(self.values(measured)[:, 0])}


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class SolHat(Sol):
    """Lowest similarity between the input's explanation and that of a nearby point with the same label, found by a search (sol F-hat).

    Lower is worse: near the input there is a point of the same class with a quite different explanation. The event F-hat is an agreement
    below `threshold`.
    """

    name = "sol_f_hat"
    title = "sol F-hat"
    definition = (
        "The worst misinterpretation found with an unchanged label (F-hat): the similarity between the explanation of the input and the "
        "most different explanation of a nearby point with the same label. A search finds a bound: the true worst case can only be worse."
    )
    same_label: ClassVar[bool] = True
    threshold: float = 0.4


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class SolTilde(Sol):
    """Highest similarity between the input's explanation and that of a nearby point with another label, found by a search (sol F-tilde).

    Higher is worse: near the input there is a point of another class with almost the same explanation. The event F-tilde is an
    agreement above `threshold`.
    """

    name = "sol_f_tilde"
    title = "sol F-tilde"
    definition = (
        "The worst misinterpretation found with a changed label (F-tilde): the similarity between the explanation of the input and the "
        "most similar explanation of a nearby point with another label. Samples without such a point have no value and are counted as "
        "not feasible."
    )
    same_label: ClassVar[bool] = False
    threshold: float = 0.6


@dataclass(frozen=True, kw_only=True)
class Misclassification(SearchScore, ABC):
    """A score of the prediction itself in the same space; it needs no explanation."""

    reads: ClassVar[Reads] = Reads.SCORES
    quantities: ClassVar[tuple[str, ...]] = ("loss",)
    event = 0.0

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """Once per model."""
        if subject.explainer is not None:
            return ()
        space = self.around(subject)
        return (Request(space, self.walk_on(space, None)),)

    def observe(self, pair: Pair) -> Tensor:
        """J, (R, 1)."""
        return loss(pair.after.scores, pair.before.scores.argmax(dim=1)).double()[:, None]

    def merit(self, seen: Tensor) -> Tensor:
        """J itself."""
        return seen[:, 0]

    smooth = merit


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class WorstLoss(Misclassification):
    """Largest margin by which another class beats the predicted one at a nearby point, found by a search; at least 0 means misclassified.

    J(x') = max over i != y of f_i(x') - f_y(x'). Read the worst cases of the explanations beside this worst case of the model.
    """

    name = "worst_loss"
    definition = (
        "The largest prediction loss found near the input: by how much the score of another class exceeds that of the predicted class. If "
        "it is at least 0, the point is misclassified."
    )
    direction = Direction.LOWER
    bounds = (-math.inf, math.inf)
    walk: Walk = field(default_factory=Strongest)

    def values(self, measured: Measured) -> Array:
        """The largest J of each sample, (samples, 1)."""
        return largest(measured["loss"].reshape(len(measured["loss"]), -1))[:, None]
