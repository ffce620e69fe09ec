"""A walk says how to explore a space, by ask and tell."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

from torch import Tensor

from veracity.core.component import Component
from veracity.core.spaces import Space


@dataclass(frozen=True)
class Ask:
    """Perturbations to evaluate: row i perturbs the block's sample `row[i]` as its draw `draw[i]`, at `level[i]`, by `element[i]`."""

    row: Tensor
    draw: Tensor
    level: Tensor
    element: Tensor

    def __len__(self) -> int:
        return len(self.row)

    def __getitem__(self, rows: slice | Tensor) -> Ask:
        return Ask(self.row[rows], self.draw[rows], self.level[rows], self.element[rows])


@dataclass(frozen=True)
class Sampling:
    """How the draws came about, which is what their interval depends on.

    `population` is the space's order when draws are distinct (the finite-population correction), None when they are
    independent. `exhaustive` draws have no error. Draws are `nested` in samples, or shared by all of them. `anytime`
    holds the confidence level of a walk that stopped by looking at its values; its intervals must be valid at any
    stopping time.
    """

    exhaustive: bool = False
    population: int | None = None
    anytime: float | None = None
    nested: bool = True

    def noisy(self) -> Sampling:
        """The same draws when each value carries fresh noise of its own: seeing every element no longer removes the error."""
        return replace(self, exhaustive=False, population=None)


class Walker(Protocol):
    """One walk under way over one block of samples."""

    def ask(self) -> Ask | None:
        """The next perturbations, or None when done."""
        ...

    def tell(self, values: Tensor) -> None:
        """The objective (R,) of what was asked, in its order; NaN where undefined."""
        ...


@dataclass(frozen=True, kw_only=True)
class Walk(Component, ABC):
    """A way through any space."""

    role = "walk"
    adaptive: ClassVar[bool] = False

    @abstractmethod
    def start(self, space: Space, samples: Tensor, seed: int, bounds: tuple[float, float]) -> Walker:
        """Begin over these samples (their numbers in the data set); `bounds` are the objective's range."""

    @abstractmethod
    def sampling(self, space: Space) -> Sampling:
        """What kind of draws these are."""

    @abstractmethod
    def length(self, space: Space) -> int:
        """How many draws a sample needs at most, each at every level of the space."""
