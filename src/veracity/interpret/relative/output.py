"""Stability of an explanation in relation to the model's output."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from veracity.core.registry import SCORES
from veracity.core.scores import Pair, Reads
from veracity.interpret.relative.base import RelativeStability
from veracity.measure import l2

SEEN = frozenset({Reads.EXPLANATION, Reads.OUTPUT, Reads.SCORES})


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class RelativeOutputStability(RelativeStability):
    """ROS: the relative change of an explanation over the change of the logits, at the worst kept draw (eq. 29).

    max over x' of |(e(x') - e(x)) / e(x)| / max(|h(x') - h(x)|, eps_min), over draws with f(x') = f(x), with h all scores that
    the target picks from: the logits, unless a neuron is explained. Undefined where the whole explanation is zero.
    """

    name = "relative_output_stability"
    before = SEEN
    after = SEEN

    def moved(self, pair: Pair) -> Tensor:
        """|h(x') - h(x)|."""
        return l2(pair.after.scores, pair.before.scores)
