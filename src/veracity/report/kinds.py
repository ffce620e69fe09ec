"""What a score of a run is, as the registered score says itself: what it measures, and what may stand beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from veracity.core.errors import VeracityError
from veracity.core.scores import Score
from veracity.report.sampling import about
from veracity.report.wording import DEFINITIONS
from veracity.scores import Likeness
from veracity.scores.common import as_read
from veracity.scores.faithfulness.content import ShapeScore
from veracity.scores.robustness import SearchScore
from veracity.scores.stability import StabilityScore


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


def in_map_units(manifest: Mapping[str, Any], label: str) -> bool:
    """Whether a score of the run is in the map's own units, so that no explainers are ranked by it.

    >>> in_map_units({"score_specs": {"lipschitz": {"spec": {"name": "local_lipschitz", "relative": False}}}}, "lipschitz")
    True
    """
    score = score_of(manifest, label)
    return bool(about(manifest, label).get("in_map_units")) if score is None else score.in_map_units


def has_null(score: Score | None) -> bool:
    """Whether random explanations, which have a scale of their own, can stand beside a score: it does not depend on that scale.

    Not beside robustness: random maps are the most robust of all to one kind of misinterpretation, and the least to the other.
    """
    return score is None or not (isinstance(score, SearchScore) or score.in_map_units)


def has_ceiling(score: Score | None) -> bool:
    """Whether self-agreement is on the score's own scale: it is a likeness too."""
    return has_null(score) and (score is None or isinstance(score, Likeness))


def about_shape(score: Score | None) -> bool:
    """Whether a score looks at the explanation alone and says nothing of the model."""
    return isinstance(score, ShapeScore)


def definition(score: Score | None) -> str:
    """What a score is, in its own first words; "" if nobody here knows it."""
    return (
        "" if score is None else (isinstance(score, SearchScore | StabilityScore) and DEFINITIONS.get(score.name)) or type(score).summary()
    )
