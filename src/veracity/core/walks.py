"""A walk says how to explore a space, by ask and tell.

A search is a walk that follows an objective: it asks, hears how bad what it asked for was, and asks again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from veracity.core.component import Component
from veracity.core.errors import SpecError
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


NUMBERS = 2**24
"""How many latent numbers the populations of samples that are searched together hold at most."""


@dataclass(frozen=True)
class Trace:
    """What a search keeps: row i says of sample `row[i]`, in its run `draw[i]` and at its step `level[i]`, each quantity (T,)."""

    row: Tensor
    draw: Tensor
    level: Tensor
    quantities: Mapping[str, Tensor]


class Searcher(Protocol):
    """One search under way over a group of samples.

    What it asked for comes back with its `merit` (R,), larger is worse for the explanation: at least 0 where the constraint
    is kept, and NaN where undefined; with what the score `seen` (R, Q) there; and, where `slopes` says that it wants them,
    with the merit's slopes along the elements (R, p).
    """

    @property
    def slopes(self) -> bool:
        """Whether it wants the merit's slopes along what it asks next."""
        ...

    def ask(self) -> Ask | None:
        """The next perturbations, or None when done; `draw` is the number of the evaluation within its sample."""
        ...

    def tell(self, merit: Tensor, seen: Tensor, slope: Tensor | None = None) -> None:
        """How bad what was asked for is, in its order."""
        ...

    def trace(self) -> Trace:
        """What is kept of the search."""
        ...

    def worst(self) -> tuple[Ask, Tensor]:
        """The worst perturbation found of each sample, one row each, with its merit; samples without any are left out."""
        ...


@dataclass(frozen=True, kw_only=True)
class Search(Walk, ABC):
    """A walk through any space by its Gaussian latents, led by the merit of a score that has one."""

    adaptive: ClassVar[bool] = True

    @property
    @abstractmethod
    def points(self) -> int:
        """How many points of one sample are held at once."""

    @abstractmethod
    def searcher(self, space: Space, samples: Tensor, seed: int, event: float, device: torch.device) -> Searcher:
        """Begin over these samples (their numbers in the data set); the event is a merit of at least `event`.

        What is drawn for a sample depends on the seed and its number alone, whatever other samples are searched with it.
        """

    @property
    def follows_slopes(self) -> bool:
        """Whether it needs the merit's slopes."""
        return False

    def without_slopes(self) -> Search | None:
        """The search for explainers and spaces without gradients: itself, unless it follows slopes; None if nothing is left."""
        return None if self.follows_slopes else self

    def together(self, space: Space) -> int:
        """How many samples are searched at once, so that memory does not grow with the data."""
        return max(1, NUMBERS // max(1, self.points * space.latents))

    def start(self, space: Space, samples: Tensor, seed: int, bounds: tuple[float, float]) -> Walker:
        """A search cannot be walked without an objective."""
        raise SpecError(
            f"The walk '{self.name}' searches for what hurts a robustness score, such as sol_f_hat, and this score only looks on: "
            "give it the walk 'monte_carlo'."
        )

    def sampling(self, space: Space) -> Sampling:
        """One result per sample."""
        return Sampling()
