"""Input invariance: a constant that is added to the input, and taken away by the model, should not change an explanation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from veracity.core.measures import Direction
from veracity.core.registry import SCORES
from veracity.core.scores import Array, Defaults, Measured, Pair, Request, Subject
from veracity.core.settings import Positive
from veracity.measure import l2
from veracity.perturb.compensated import CompensatedShift
from veracity.scores.common import Repeatable, share_of
from veracity.walk import MonteCarlo


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class InputInvariance(Repeatable):
    """Whether an explanation stays the same when a constant is added to the input and the model takes it away: 1 if it does, else 0.

        1 if |e'(x + m) - e(x)| <= tolerance |e(x)|,   e' the explanation of f' with f'(x + m) = f(x)

    The two models predict the same everywhere, so an explanation of the prediction has no reason to change. Gradients pass; gradient times
    input does not. `input_shift` is the constant m. The bias of the first layer takes it away, or the entrance of the model where that is
    not exact; rules for layers, such as those of LRP, notice the shift in the first case only. `tolerance` is for rounding. Undefined if
    e(x) = 0.

    Quantus 0.6.0 changes the bias of the first convolution by the smallest value of its response to the shift. If this convolution pads the
    image, that is another response than in the middle, and the two models differ. Its tolerance is in the map's own units.
    """

    name = "input_invariance"
    reference = "Kindermans et al., The (un)reliability of saliency methods (2019)"
    quantities = ("change",)
    direction = Direction.HIGHER
    bounds = (0.0, 1.0)
    input_shift: float = -1.0
    tolerance: Positive = 1e-3

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """The only shift, for numerical explanations."""
        if subject.explainer is None or subject.explainer.categorical:
            return ()
        return (Request(CompensatedShift(shift=self.input_shift), MonteCarlo(draws=1), self.shares(subject.explainer)),)

    def observe(self, pair: Pair) -> Tensor:
        """|e' - e| / |e|, (R,)."""
        return share_of(l2(pair.after.explanation, pair.before.explanation), pair.before.explanation, l2)

    def values(self, measured: Measured) -> Array:
        """1 within the tolerance, else 0, (samples, draws)."""
        change = measured["change"][:, :, 0]
        return np.where(np.isnan(change), np.nan, change <= self.tolerance)
