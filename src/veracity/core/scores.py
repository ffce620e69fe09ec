"""What a score is: it declares what it needs, observes pairs, and reduces; it never loops over a model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Size, Tensor

from veracity.core.component import Component
from veracity.core.errors import SpecError
from veracity.core.explainers import Explainer
from veracity.core.measures import Measure
from veracity.core.spaces import InputSpace
from veracity.core.walks import Walk


class Reads(Enum):
    """What a score compares before and after the perturbation."""

    EXPLANATION = "explanation"
    OUTPUT = "output"
    INPUT = "input"


@dataclass(frozen=True)
class Subject:
    """What is scored: a model, and an explainer of it unless the score is about the model alone."""

    model: str
    explainer: Explainer | None
    shape: Size


@dataclass(frozen=True)
class Request:
    """Perturb by `space` along `walk`. With `common_draws` the explainer reuses its random numbers of e(x)."""

    space: InputSpace
    walk: Walk
    common_draws: bool = False


@dataclass(frozen=True)
class Pair:
    """N rows before and after a perturbation: what was read (an explanation or an output), and how it should move along.

    In the input's frame `move` is what happened to the input; elsewhere nothing moves (rho' is the identity).
    """

    before: Tensor
    after: Tensor
    move: Callable[[Tensor], Tensor]
    undo: Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Defaults:
    """The audit's choices for scores that were given by name only."""

    space: InputSpace | None
    walk: Walk


@dataclass(frozen=True, kw_only=True)
class Score(Component, ABC):
    """A number with a direction and a range, per sample where that is defined."""

    reads: ClassVar[Reads] = Reads.EXPLANATION
    measure: Measure | None = None

    def suited(self, subject: Subject) -> Score:
        """The score as it is measured on this subject: here as it is."""
        return self

    @property
    def compare(self) -> Measure:
        """The measure, once there is one."""
        if self.measure is None:
            raise SpecError(f"The score '{self.name}' has no measure: give it one, such as measure=cosine.")
        return self.measure

    @abstractmethod
    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """Which perturbations of this subject the score needs; none if it does not apply."""

    def expected(self, pair: Pair) -> Tensor:
        """What a perfect subject would show after the perturbation: here what it showed before."""
        return pair.before

    def observe(self, pair: Pair) -> Tensor:
        """One scalar a row, NaN where undefined: here how alike what was found is to what was expected."""
        return self.compare(pair.after, self.expected(pair))

    def reduce(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """From values (samples, draws), NaN where undefined or not drawn, to one value a sample: here their mean."""
        return per_sample_mean(values)

    def about(self) -> dict[str, Any]:
        """What a reader of the results needs: the spec, and whether samples are plain means of their draws."""
        return {"spec": self.spec(), "reduce": "mean" if type(self).reduce is Score.reduce else "own"}


def per_sample_mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of each row's finite values; NaN for a row without any."""
    count = np.isfinite(values).sum(axis=1)
    total = np.where(np.isfinite(values), values, 0.0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
