"""Stability of an explanation in relation to its input."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from veracity.core.registry import SCORES
from veracity.core.scores import Pair, Reads
from veracity.interpret.relative.base import RelativeStability

SEEN = frozenset({Reads.EXPLANATION, Reads.OUTPUT, Reads.INPUT})


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class RelativeInputStability(RelativeStability):
    """RIS: the relative change of an explanation over the relative change of its input, at the worst kept draw (eq. 27).

    max over x' of |(e(x') - e(x)) / e(x)| / max(|(x' - x) / x|, eps_min), over draws with f(x') = f(x). Undefined where the
    whole input or its whole explanation is zero.
    """

    name = "relative_input_stability"
    before = SEEN
    after = SEEN

    def moved(self, pair: Pair) -> Tensor:
        """|(x' - x) / x|."""
        return self.relative(pair, Reads.INPUT)
