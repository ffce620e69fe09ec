"""Does the explanation add up to what there is to explain?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from veracity.core.measures import Direction
from veracity.core.registry import SCORES
from veracity.core.scores import Array, Defaults, Measured, Pair, Reads, Request, Score, Subject
from veracity.interpret.faithfulness.explained import BOTH, MODEL, drop, maps, over_entries
from veracity.perturb.masks import FullMask
from veracity.walk import MonteCarlo


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class Completeness(Score):
    """How far the explanation's sum is from what the whole input adds to the prediction, as a share of it.

        |sum_i e_i - (f(x) - f(b))| / |f(x) - f(b)|

    f is the explained score, or its probability with `softmax`; b the input with every entry at `perturb_baseline`, which
    should be the explainer's own baseline. One map for all channels counts for each of them. Without `relative` the gap itself,
    in units of the score. A relative gap is undefined where f(x) = f(b).
    """

    name = "completeness"
    reference = "Sundararajan, Taly and Yan, Axiomatic attribution for deep networks (ICML 2017)"
    before = BOTH | {Reads.INPUT}
    after = MODEL
    quantities = ("attributed", "drop")
    perturb_baseline: float | str = 0.0
    relative: bool = True
    softmax: bool = False

    direction = Direction.LOWER
    bounds = (0.0, np.inf)

    @property
    def in_map_units(self) -> bool:
        """Yes: a map that is 100 times larger adds up to 100 times more."""
        return True

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """The baseline itself, for maps over the input."""
        if not maps(subject):
            return ()
        return (Request(FullMask(baseline=self.perturb_baseline).fit(subject.shape), MonteCarlo(draws=1)),)

    def observe(self, pair: Pair) -> Tensor:
        """The explanation's sum and f(x) - f(b): (R, 2)."""
        explanation = over_entries(pair.before.explanation, pair.before.input)
        return torch.stack((explanation.sum(dim=1), drop(pair, self.softmax)), dim=1)

    def values(self, measured: Measured) -> Array:
        """The gap of each sample, (samples, 1)."""
        return gap(measured["attributed"][:, :, 0], measured["drop"][:, :, 0], self.relative)


def gap(attributed: Array, drop: Array, relative: bool) -> Array:
    """|attributed - drop|, as a share of |drop| if `relative`; NaN where there is nothing to be a share of.

    >>> gap(np.array([1.5, 1.0]), np.array([-2.0, 0.0]), relative=True)
    array([1.75,  nan])
    """
    found: Array = np.abs(attributed - drop)
    return np.where(drop != 0.0, found / np.where(drop != 0.0, np.abs(drop), 1.0), np.nan) if relative else found
