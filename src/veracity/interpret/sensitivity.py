"""How far an explanation can be moved by a small change of its input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veracity.core.measures import Measure
from veracity.core.registry import SCORES
from veracity.core.scores import Defaults, Pair, Request, Score, Subject
from veracity.core.walks import Walk
from veracity.measure import l2
from veracity.perturb import Ball
from veracity.walk import MonteCarlo


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class MaxSensitivity(Score):
    """The largest change of an explanation among random inputs close by, Sens(e, x) = max over |x' - x| <= radius of |e(x') - e(x)|.

    With the l-infinity ball of radius .02, the Euclidean distance and ten draws (appendix G, and Captum's
    `sensitivity_max`). The maximum over draws is below the maximum over the ball, and grows with the number of draws: it
    compares explainers that got equally many, and bounds nothing. `relative` divides by |e(x)|, as Captum does, which
    makes it free of the explanation's scale; it is undefined where e(x) = 0. With `common_draws` a random explainer uses
    the same random numbers for e(x) and e(x'), so that its own noise is not taken for sensitivity.
    """

    name = "max_sensitivity"
    reference = "Yeh et al., On the (in)fidelity and sensitivity of explanations, NeurIPS 2019"
    measure: Measure | None = field(default_factory=lambda: l2)
    walk: Walk = field(default_factory=lambda: MonteCarlo(draws=10))
    radius: float = 0.02
    norm: str = "linf"
    relative: bool = False
    common_draws: bool = True

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """For every explanation, whatever the audit's symmetry."""
        if subject.explainer is None:
            return ()
        return (Request(Ball(radius=self.radius, norm=self.norm).fit(subject.shape), self.walk, self.common_draws),)

    def observe(self, pair: Pair) -> Tensor:
        """|e(x') - e(x)|, or its share of |e(x)|."""
        distance = super().observe(pair)
        if not self.relative:
            return distance
        length = self.compare(pair.before, torch.zeros_like(pair.before))
        return torch.where(length > 0, distance / length, torch.nan)

    def reduce(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The largest of each sample's draws."""
        return largest(values)


def largest(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The maximum of each row's finite values; NaN for a row without any.

    >>> largest(np.array([[1.0, 3.0, np.nan], [np.nan, np.nan, np.nan]]))
    array([ 3., nan])
    """
    found = np.where(np.isfinite(values), values, -np.inf).max(axis=1, initial=-np.inf)
    return np.where(np.isfinite(found), found, np.nan)
