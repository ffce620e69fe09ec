"""What a score of a run is, as the registered score says itself: what it measures, and what may stand beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from veracity.core.errors import VeracityError
from veracity.core.scores import Score
from veracity.interpret import Completeness, Infidelity, Likeness, LocalLipschitz
from veracity.interpret.build import as_read
from veracity.interpret.faithfulness.complexity import ShapeScore
from veracity.interpret.robustness import Hunted
from veracity.interpret.sensitivity import Sensitivity
from veracity.interpret.stability import MeGe, StabilityScore
from veracity.report.sampling import about
from veracity.report.wording import DEFINITIONS

FREE = frozenset({"rank_distance", "signed_rank_distance", "root_rank_distance", "spearman", "kendall", "pearson", "cosine"})
"""Measures that do not depend on the explanations' scale."""
DISTANCES = frozenset({"max_sensitivity", "avg_sensitivity"})
"""Scores in the explanation's own units, where a run does not say with which settings they were taken."""


def score_of(manifest: Mapping[str, Any], label: str) -> Score | None:
    """The score behind a label of the run, with its settings; None if nobody here knows it.

    >>> score_of({"score_specs": {"RIS": {"spec": {"name": "relative_input_stability", "sigma": 0.5}}}}, "RIS").sigma
    0.5
    """
    spec = about(manifest, label).get("spec")
    try:
        return as_read(spec) if spec else None
    except (VeracityError, TypeError):
        return None


def has_null(label: str, score: Score | None) -> bool:
    """Whether a score does not depend on the explanation's scale, so that random ones, which have one of their own, can stand beside.

    Not beside robustness: random maps are the most robust of all to one kind of misinterpretation, and the least to the other.
    """
    if isinstance(score, Hunted):
        return False
    if isinstance(score, MeGe):
        return score.compare.name in FREE
    if score is None:
        return label not in DISTANCES
    scaled = getattr(score, "relative", False) if isinstance(score, Sensitivity) else getattr(score, "scaled", False)
    return bool(scaled) or not isinstance(score, Sensitivity | LocalLipschitz | Infidelity | Completeness)


def has_ceiling(label: str, score: Score | None) -> bool:
    """Whether self-agreement is on the score's own scale: it is a likeness too."""
    return has_null(label, score) and (score is None or isinstance(score, Likeness))


def about_shape(score: Score | None) -> bool:
    """Whether a score looks at the explanation alone and says nothing of the model."""
    return isinstance(score, ShapeScore)


def definition(score: Score | None) -> str:
    """What a score is, in its own first words; "" if nobody here knows it."""
    return "" if score is None else (isinstance(score, Hunted | StabilityScore) and DEFINITIONS.get(score.name)) or type(score).summary()
