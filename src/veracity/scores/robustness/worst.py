"""Worst cases: the most deceptive explanation, and the worst prediction, that a search finds close to an input."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veracity.core.measures import Direction
from veracity.core.registry import SCORES
from veracity.core.scores import Array, Defaults, Measured, Pair, Reads, Request, Subject
from veracity.core.walks import Walk
from veracity.scores.common import largest
from veracity.scores.robustness.base import Misinterpretation, SearchScore, loss
from veracity.walk import Strongest


@dataclass(frozen=True, kw_only=True)
class Sol(Misinterpretation, ABC):
    """The agreement at the worst feasible point found, sol_F.

    A search finds a bound, never the worst: more evaluations can only make it worse. A sample for which no feasible point
    was found has no value; it is counted, and the share of the others is the feasibility rate.
    """

    figures: ClassVar[tuple[str, ...]] = ("search", "profile", "adversaries")
    walk: Walk = field(default_factory=Strongest)

    def endings(self, counts: Mapping[str, int]) -> list[str]:
        """For how many samples a feasible point was found.

        >>> SolHat().outcome({"n": 4, "undefined": 6, "infeasible": 6})
        '4 of 10 feasible'
        """
        n = counts.get("n", 0)
        asked = n + counts.get("infeasible", 0)
        return [f"{n} of {asked} feasible"] if asked else []

    @property
    def direction(self) -> Direction:
        """An explanation that can be made different (F-hat), or that can stay alike (F-tilde), is worse."""
        alike = self.compare.direction
        return alike if self.kept else {Direction.HIGHER: Direction.LOWER, Direction.LOWER: Direction.HIGHER}[alike]

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
        """Samples that were searched in vain, where every evaluation could tell."""
        searched = np.isfinite(measured["loss"]).any(axis=(1, 2))
        clear = np.isfinite(measured["agreement"]) | ~np.isfinite(measured["loss"])
        if "undefined" in measured.quantities:
            clear = np.nan_to_num(measured["undefined"]) == 0
        return {"infeasible": searched & clear.all(axis=(1, 2)) & ~np.isfinite(self.values(measured)[:, 0])}


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class SolHat(Sol):
    """The agreement of the most different explanation found at a point with the same label: sol_F-hat.

    Lower is worse: close to the input there is a point that the model takes for the same class, explained quite otherwise.
    The event F-hat is an agreement below `threshold`.
    """

    name = "sol_f_hat"
    title = "sol F-hat"
    definition = (
        "The worst misinterpretation found that leaves the label as it is (F-hat): how alike the explanations of the input and of the "
        "most differently explained point close to it are. A search finds a bound: the true worst case can only be worse."
    )
    kept: ClassVar[bool] = True
    threshold: float = 0.4


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class SolTilde(Sol):
    """The agreement of the most similar explanation found at a point with another label: sol_F-tilde.

    Higher is worse: close to the input there is a point that the model takes for another class, explained as if nothing had
    happened. The event F-tilde is an agreement above `threshold`.
    """

    name = "sol_f_tilde"
    title = "sol F-tilde"
    definition = (
        "The worst misinterpretation found that changes the label (F-tilde): how alike the explanations of the input and of the most "
        "similarly explained point of another class close to it are. Samples around which no point of another class was found have no "
        "value and are counted as not feasible."
    )
    kept: ClassVar[bool] = False
    threshold: float = 0.6


@dataclass(frozen=True, kw_only=True)
class Misclassification(SearchScore, ABC):
    """The model's side: what happens to the prediction itself in the same space; it needs no explanation."""

    reads: ClassVar[Reads] = Reads.SCORES
    quantities: ClassVar[tuple[str, ...]] = ("loss",)

    @property
    def event(self) -> float:
        """J = 0: another class has caught up."""
        return 0.0

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """Once a model."""
        if subject.explainer is not None:
            return ()
        space = self.around(subject)
        return (Request(space, self.walked(None, space)),)

    def observe(self, pair: Pair) -> Tensor:
        """J, (R, 1)."""
        return loss(pair.after.scores, pair.before.scores.argmax(dim=1)).double()[:, None]

    def merit(self, seen: Tensor) -> Tensor:
        """J itself."""
        return seen[:, 0]

    def smooth(self, seen: Tensor) -> Tensor:
        """J itself."""
        return seen[:, 0]


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class WorstLoss(Misclassification):
    """The largest prediction loss J(x') = max over i != y of f_i(x') - f_y(x') found close to the input; at least 0: misclassified.

    A worst case of the model itself, beside which those of its explanations are read.
    """

    name = "worst_loss"
    definition = (
        "The largest prediction loss found close to the input: by how much the score of another class exceeds that of the predicted "
        "one. From 0 on the point is misclassified."
    )
    direction = Direction.LOWER
    bounds = (-math.inf, math.inf)
    walk: Walk = field(default_factory=Strongest)

    def values(self, measured: Measured) -> Array:
        """The largest J of each sample, (samples, 1)."""
        return largest(measured["loss"].reshape(len(measured["loss"]), -1))[:, None]
