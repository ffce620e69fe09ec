"""Scores from what users write: an object, a name, or a name with settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from veracity.core.errors import SpecError
from veracity.core.measures import Measure
from veracity.core.registry import GROUPS, MEASURES, SCORES, SPACES, WALKS
from veracity.core.scores import Score
from veracity.core.spaces import Space
from veracity.core.walks import Walk

PARTS = {"measure": MEASURES, "space": GROUPS, "walk": WALKS}


def as_score(value: Any) -> Score:
    """A score whose measure, space and walk are objects too."""
    score = SCORES.build(value)
    if not isinstance(score, Score):
        raise SpecError(f"A score is a Score, a name or a table with a name, not {value!r}.")
    parts = {name: built(name, getattr(score, name)) for name in PARTS if written(getattr(score, name, None))}
    for name, kind in (("measure", Measure), ("space", Space), ("walk", Walk)):
        part = parts.get(name, getattr(score, name, None))
        if part is not None and not isinstance(part, kind):
            raise SpecError(f"The {name} of score '{score.name}' is an object, a name or a table with a name, not {part!r}.")
    return replace(score, **parts)


def built(name: str, part: str | Mapping[str, Any]) -> Any:
    """A part as an object, by its name."""
    called = part.get("name") if isinstance(part, Mapping) else part
    return (SPACES if name == "space" and called in SPACES else PARTS[name]).build(part)


def written(part: Any) -> bool:
    """Whether a part is still a name or a table."""
    return isinstance(part, (str, Mapping))
