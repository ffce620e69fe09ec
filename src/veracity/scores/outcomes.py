"""The four outcomes of a perturbation (Figure 2B): the prediction is kept or changed, and the explanation is kept or changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from veracity.core.errors import SpecError
from veracity.core.measures import Direction, Measure
from veracity.core.registry import SCORES
from veracity.core.scores import Array, Defaults, Measured, Pair, Reads, Request, Subject
from veracity.core.settings import Count, Positive
from veracity.measure import pearson
from veracity.perturb.weights import ParameterScaling
from veracity.scores.assumptions import PAPER, same_prediction
from veracity.scores.common import Repeatable, across_levels
from veracity.walk import MonteCarlo

READ = frozenset({Reads.EXPLANATION, Reads.OUTPUT})
QUADRANTS = ("both kept", "both changed", "explanation changed alone", "model changed alone")
"""TP, TN, and the two misaligned outcomes, of which the paper fails Assumption 2 and Assumption 1."""


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class AlignedOutcomes(Repeatable):
    """How often prediction and explanation are both kept or both changed, along a path of scaled weights (Figure 2B: TP + TN).

    At each of the `steps` levels of `draws` paths, the prediction is kept if the predicted class is the same, and the explanation if its
    similarity to the original one, by a `measure`, is at least `threshold`. The paper gives no threshold; with Pearson's correlation, maps
    that share less than a quarter of their variance count as different. The similarity is stored, so `result.quadrants()` counts the
    four outcomes for any threshold. A map that never changes is aligned wherever the prediction is kept: read the controls beside it.
    Undefined for a model without classes.

    sigma   the strength of the last level; None finds the one at which predictions agree with the original by chance only
    """

    name = "aligned_outcomes"
    title = "aligned outcomes"
    reference = f"{PAPER}, section 3.2 and Figure 2(B)"
    reads: ClassVar[Reads] = Reads.EXPLANATION
    before: ClassVar[frozenset[Reads] | None] = READ
    after: ClassVar[frozenset[Reads] | None] = READ
    figures: ClassVar[tuple[str, ...]] = ("outcomes", "convergence")
    quantities: ClassVar[tuple[str, ...]] = ("kept", "similarity")
    direction = Direction.HIGHER
    bounds = (0.0, 1.0)

    measure: Measure | None = field(default_factory=lambda: pearson)
    threshold: float = 0.5
    steps: Count = 5
    draws: Count = 5
    sigma: Positive | None = None

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """For every explanation, the path of Fast-GEF."""
        if self.compare.direction is not Direction.HIGHER:
            raise SpecError(f"The score '{self.name}' needs a similarity, such as pearson or ssim, not '{self.compare.name}', a distance.")
        if subject.explainer is None:
            return ()
        path = ParameterScaling(sigma=self.sigma, steps=self.steps)
        return (Request(path, MonteCarlo(draws=self.draws), self.shares(subject.explainer)),)

    def observe(self, pair: Pair) -> Tensor:
        """Whether the predicted class is kept, and the similarity of the explanations (R, 2)."""
        before, after = pair.before.output, pair.after.output
        alike = self.compare(pair.after.explanation, pair.before.explanation).double()
        kept = same_prediction(before, after).to(alike)
        lost = after.isnan().any(dim=1) if before.shape[1] > 1 else torch.ones_like(kept, dtype=torch.bool)
        return torch.stack((kept.masked_fill(lost, torch.nan), alike), dim=1)

    def values(self, measured: Measured) -> Array:
        """The share of the levels with an aligned outcome, (samples, draws)."""
        both, neither, _, _ = outcomes(measured, self.threshold)
        return across_levels(both + neither, "mean")


def outcomes(measured: Measured, threshold: float) -> tuple[Array, Array, Array, Array]:
    """Each outcome of `QUADRANTS` as 1 or 0, (samples, draws, levels); NaN where the similarity or the class is undefined.

    >>> found = outcomes(Measured({"kept": np.array([[[1.0, 0.0, 1.0]]]), "similarity": np.array([[[0.9, 0.9, np.nan]]])}), 0.5)
    >>> [part[0, 0].tolist() for part in found]
    [[1.0, 0.0, nan], [0.0, 0.0, nan], [0.0, 0.0, nan], [0.0, 1.0, nan]]
    """
    kept, alike = measured["kept"] == 1, measured["similarity"] >= threshold
    unknown = np.isnan(measured["kept"]) | np.isnan(measured["similarity"])
    found = (kept & alike, ~kept & ~alike, kept & ~alike, ~kept & alike)
    both, neither, explanation, model = (np.where(unknown, np.nan, one.astype(np.float64)) for one in found)
    return both, neither, explanation, model
