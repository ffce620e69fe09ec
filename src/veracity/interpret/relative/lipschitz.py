"""The local Lipschitz constant of an explanation, estimated."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from veracity.core.registry import SCORES
from veracity.core.scores import Pair, Reads
from veracity.interpret.relative.base import NoiseScore
from veracity.measure import l2

SEEN = frozenset({Reads.EXPLANATION, Reads.INPUT})


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class LocalLipschitz(NoiseScore):
    """The change of an explanation over the change of its input, at the worst draw: max over x' of |e(x') - e(x)| / |x' - x|.

    A lower bound of the explanation's Lipschitz constant around x, in the explanation's own scale: it compares one
    explainer's samples, or explainers of one scale. For a linear explanation e(x) = A x it is below the spectral norm of A.
    """

    name = "local_lipschitz"
    reference = "Alvarez-Melis and Jaakkola, On the robustness of interpretability methods (2018)"
    before = SEEN
    after = SEEN

    def observe(self, pair: Pair) -> Tensor:
        """|e(x') - e(x)| / |x' - x|, undefined where the input did not change."""
        distance = l2(pair.after.input, pair.before.input)
        return l2(pair.after.explanation, pair.before.explanation) / distance.masked_fill(distance == 0, torch.nan)
