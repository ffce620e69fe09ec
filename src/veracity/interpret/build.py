"""Scores from what users write: an object, a name, or a name with settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

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


def as_read(spec: Mapping[str, Any]) -> Score:
    """The score of a stored run, which is only read: a space from outside that nobody registered is known by its name alone."""
    space = spec.get("space")
    foreign = isinstance(space, Mapping) and "code" in space
    return as_score({**spec, "space": Elsewhere(called=str(space["name"]))} if foreign else spec)  # type: ignore[index]


@dataclass(frozen=True, kw_only=True)
class Elsewhere(Space):
    """A space that a run was made with and that is not at hand."""

    name = "elsewhere"
    called: str

    @property
    def latents(self) -> int:
        """Unknown."""
        return self.unknown()

    def decode(self, latent: Tensor) -> Tensor:
        """Nobody knows."""
        return torch.zeros(self.unknown())

    def unknown(self) -> int:
        """Raise: it cannot be walked."""
        raise SpecError(f"The space '{self.called}' of this run is not at hand: register it with SPACES.add to walk it again.")


def built(name: str, part: str | Mapping[str, Any]) -> Any:
    """A part as an object, by its name."""
    called = part.get("name") if isinstance(part, Mapping) else part
    return (SPACES if name == "space" and called in SPACES else PARTS[name]).build(part)


def written(part: Any) -> bool:
    """Whether a part is still a name or a table."""
    return isinstance(part, (str, Mapping))
