"""What scores share: random numbers before and after a perturbation, reductions over draws and levels, and scores by their names."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from veracity.core.errors import SpecError, unknown
from veracity.core.explainers import Explainer
from veracity.core.measures import Measure
from veracity.core.registry import SCORES
from veracity.core.scores import Array, Defaults, Request, Score, Subject, per_sample_mean
from veracity.core.settings import short_repr
from veracity.core.spaces import InputSpace

LEVELS = ("mean", "last")


@dataclass(frozen=True, kw_only=True)
class Repeatable(Score, ABC):
    """A score of explanations before and after a perturbation.

    With `common_draws`, a random explainer uses the same random numbers for both, so its own noise does not count as an effect of the
    perturbation. Controls always draw new numbers: a random map that is drawn once would look perfectly stable.
    """

    common_draws: bool = True

    def shares(self, explainer: Explainer) -> bool:
        """Whether this explainer reuses its random numbers."""
        return self.common_draws and not explainer.control


@dataclass(frozen=True, kw_only=True)
class Curve:
    """How the curve of a score is drawn: the quantity, the positions (levels,) of its levels, labels of both axes, and its range.

    With `masking`, the curve should fall as more of the input is masked.
    """

    quantity: str
    places: Array
    across: str
    up: str
    bounds: tuple[float, float] = (-math.inf, math.inf)
    masking: bool = False


def share_of(distance: Tensor, explanation: Tensor, measure: Measure) -> Tensor:
    """Distances (N,) divided by the distance of the explanations (N, ...) from zero; NaN for an explanation that is zero.

    >>> from veracity.measure import l2
    >>> share_of(torch.tensor([1.0, 1.0]), torch.tensor([[3.0, 4.0], [0.0, 0.0]]), l2)
    tensor([0.2000,    nan], dtype=torch.float64)
    """
    length = measure(explanation, torch.zeros_like(explanation))
    return distance / length.masked_fill(length == 0, torch.nan)


def largest(values: Array) -> Array:
    """The maximum of the finite values along the last axis; NaN if there are none.

    >>> largest(np.array([[1.0, 3.0, np.nan], [np.nan, np.nan, np.nan]]))
    array([ 3., nan])
    """
    found = np.where(np.isfinite(values), values, -np.inf).max(axis=-1, initial=-np.inf)
    return np.where(np.isfinite(found), found, np.nan)


def across_levels(values: Array, which: str) -> Array:
    """Values (samples, draws, levels) reduced to (samples, draws): the "mean" of the defined levels, or the "last" level.

    >>> across_levels(np.array([[[1.0, np.nan, 0.0]]]), "mean"), across_levels(np.array([[[1.0, 0.5]]]), "last")
    (array([[0.5]]), array([[0.5]]))
    """
    check_levels(which)
    if which == "last":
        return values[:, :, -1]
    samples, draws, levels = values.shape
    return per_sample_mean(values.reshape(samples * draws, levels)).reshape(samples, draws)


def check_levels(which: str) -> None:
    """Raise unless `which` is a known choice of levels."""
    if which not in LEVELS:
        raise unknown("choice of layers", str(which), LEVELS)


def as_score(value: Any) -> Score:
    """A score from an object, a name, or a table with a name and settings."""
    score = SCORES.build(value)
    if not isinstance(score, Score):
        raise SpecError(f"A score is a Score, a name or a table with a name, not {short_repr(value)}.")
    return score


def as_read(spec: Mapping[str, Any]) -> Score:
    """The score of a stored run, for reading only: an unregistered space is represented by its name."""
    space = spec.get("space")
    foreign = isinstance(space, Mapping) and "code" in space
    return as_score({**spec, "space": Elsewhere(called=str(space["name"]))} if foreign else spec)  # type: ignore[index]


@dataclass(frozen=True, kw_only=True)
class Absent(Score):
    """Stands for a score of a stored run that is not installed here; `map_units` is what the run says about its units."""

    beside: ClassVar[tuple[str, ...]] = ("self_agreement", "random_control")
    map_units: bool = False

    @property
    def in_map_units(self) -> bool:
        """As stored."""
        return self.map_units

    @classmethod
    def summary(cls) -> str:
        """Empty: nothing is known about the score."""
        return ""

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """None: the score cannot be measured."""
        return ()


@dataclass(frozen=True, kw_only=True)
class Elsewhere(InputSpace):
    """Stands for a space of a stored run that is not registered here; it cannot be walked."""

    name = "elsewhere"
    called: str

    @property
    def latents(self) -> int:
        """Raises: the space is unknown."""
        raise SpecError(f"The space '{self.called}' of this run is not at hand: register it with SPACES.add to walk it again.")

    def decode(self, latent: Tensor) -> Tensor:
        """Raises, as `latents` does."""
        return torch.zeros(self.latents)

    def act(self, elements: Tensor, x: Tensor) -> Tensor:
        """Raises, as `latents` does."""
        return torch.zeros(self.latents)
