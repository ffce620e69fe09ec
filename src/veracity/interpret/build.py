"""Scores from what users write: an object, a name, or a name with settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from veracity.core.errors import SpecError
from veracity.core.registry import SCORES
from veracity.core.scores import Score
from veracity.core.settings import shown
from veracity.core.spaces import InputSpace


def as_score(value: Any) -> Score:
    """A score from an object, a name or a table with a name."""
    score = SCORES.build(value)
    if not isinstance(score, Score):
        raise SpecError(f"A score is a Score, a name or a table with a name, not {shown(value)}.")
    return score


def as_read(spec: Mapping[str, Any]) -> Score:
    """The score of a stored run, which is only read: a space from outside that nobody registered is known by its name alone."""
    space = spec.get("space")
    foreign = isinstance(space, Mapping) and "code" in space
    return as_score({**spec, "space": Elsewhere(called=str(space["name"]))} if foreign else spec)  # type: ignore[index]


@dataclass(frozen=True, kw_only=True)
class Elsewhere(InputSpace):
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

    def act(self, elements: Tensor, x: Tensor) -> Tensor:
        """Nobody knows."""
        return torch.zeros(self.unknown())

    def unknown(self) -> int:
        """Raise: it cannot be walked."""
        raise SpecError(f"The space '{self.called}' of this run is not at hand: register it with SPACES.add to walk it again.")
