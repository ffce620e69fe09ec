"""The local Lipschitz constant of an explanation, estimated."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from veracity.core.registry import SCORES
from veracity.core.scores import Pair, Reads
from veracity.interpret.common import share_of
from veracity.interpret.relative.base import NoiseScore
from veracity.measure import l2

SEEN = frozenset({Reads.EXPLANATION, Reads.INPUT})


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class LocalLipschitz(NoiseScore):
    """The relative change of an explanation over the change of its input, at the worst draw.

        max over x' of |e(x') - e(x)| / (|e(x)| |x' - x|)

    Undefined where e(x) = 0. With relative=False it is the definition of the paper, max over x' of |e(x') - e(x)| / |x' - x|: a lower
    bound of the explanation's Lipschitz constant around x, for a linear explanation e(x) = A x below the spectral norm of A. That number
    is in the map's own units: it compares samples and models, not explainers.
    """

    name = "local_lipschitz"
    reference = "Alvarez-Melis and Jaakkola, On the robustness of interpretability methods (2018)"
    before = SEEN
    after = SEEN
    relative: bool = True

    @property
    def in_map_units(self) -> bool:
        """Unless `relative`."""
        return not self.relative

    def observe(self, pair: Pair) -> Tensor:
        """|e(x') - e(x)| / |x' - x|, or its share of |e(x)|; undefined where the input did not change."""
        distance = l2(pair.after.input, pair.before.input)
        slope = l2(pair.after.explanation, pair.before.explanation) / distance.masked_fill(distance == 0, torch.nan)
        return share_of(slope, pair.before.explanation, l2) if self.relative else slope
