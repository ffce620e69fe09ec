"""Walks: how a space is explored, by ask and tell. A search is a walk that maximises an objective."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from veracity.core.component import Component
from veracity.core.errors import SpecError
from veracity.core.spaces import Space


@dataclass(frozen=True)
class Ask:
    """Perturbations to evaluate: row i perturbs sample `row[i]` of the block by `element[i]`, as its draw `draw[i]` at `level[i]`."""

    row: Tensor
    draw: Tensor
    level: Tensor
    element: Tensor

    def __len__(self) -> int:
        return len(self.row)

    def to(self, device: torch.device) -> Ask:
        """The same perturbations, on this device."""
        return Ask(*(part.to(device, non_blocking=True) for part in (self.row, self.draw, self.level, self.element)))

    def __getitem__(self, rows: slice | Tensor) -> Ask:
        return Ask(self.row[rows], self.draw[rows], self.level[rows], self.element[rows])


@dataclass(frozen=True)
class Sampling:
    """How draws were made, which determines their interval.

    `population` is the order of the space if draws are distinct (for the finite-population correction), None if they are independent.
    `exhaustive` draws have no error. Draws are `nested` in samples, or shared by all samples. `anytime` is the confidence level of a
    walk that looks at its values to decide when to stop; its intervals must be valid at any stopping time.
    """

    exhaustive: bool = False
    population: int | None = None
    anytime: float | None = None
    nested: bool = True

    def noisy(self) -> Sampling:
        """The same draws for values with noise of their own, whose error remains even if every element is seen."""
        return replace(self, exhaustive=False, population=None)


class Walker(Protocol):
    """A walk in progress over one block of samples."""

    def ask(self) -> Ask | None:
        """The next perturbations, or None when done."""
        ...

    def tell(self, values: Tensor) -> None:
        """Take the objective (R,) of the last ask; NaN where undefined."""
        ...


MEMORY: ContextVar[int | None] = ContextVar("memory", default=None)
"""The bytes of a GPU that a run may use, which bounds the perturbations of one ask; None if nobody has said."""


@contextmanager
def within(memory: int | None) -> Iterator[None]:
    """Ask for perturbations that take a small part of so many bytes."""
    token = MEMORY.set(memory)
    try:
        yield
    finally:
        MEMORY.reset(token)


@dataclass(frozen=True, kw_only=True)
class Walk(Component, ABC):
    """A way to explore any space."""

    role = "walk"

    @abstractmethod
    def start(self, space: Space, samples: Tensor, seed: int, bounds: tuple[float, float]) -> Walker:
        """Start a walk over samples, given by their indices in the data set; `bounds` is the range of the objective."""

    @abstractmethod
    def sampling(self, space: Space) -> Sampling:
        """How draws are made in this space."""

    @abstractmethod
    def length(self, space: Space) -> int:
        """The largest number of draws per sample; each draw visits every level of the space."""


@dataclass(frozen=True, kw_only=True)
class AdaptiveWalk(Walk, ABC):
    """A walk whose next ask depends on the values that it was told, so it serves one score of one explainer at a time."""


NUMBERS = 2**24
"""The most latent numbers in the populations of all samples that are searched together."""


@dataclass(frozen=True)
class Trace:
    """The stored history of a search: row i holds each quantity (T,) for sample `row[i]`, in its run `draw[i]`, at its step `level[i]`."""

    row: Tensor
    draw: Tensor
    level: Tensor
    quantities: Mapping[str, Tensor]


class Searcher(Protocol):
    """A search in progress over a group of samples.

    It is told the `merit` (R,) of what it asked for, which is larger for worse explanations, at least 0 where the constraint holds,
    and NaN where undefined; the quantities that the score has `seen` (R, Q); and, if `slopes` is set, the slopes of the merit along
    the elements (R, p).
    """

    @property
    def slopes(self) -> bool:
        """Whether it needs the slopes of the merit for the next ask."""
        ...

    def ask(self) -> Ask | None:
        """The next perturbations, or None when done; `draw` is the number of the evaluation within its sample."""
        ...

    def tell(self, merit: Tensor, seen: Tensor, slope: Tensor | None = None) -> None:
        """Take the merit of the last ask."""
        ...

    def trace(self) -> Trace:
        """The history of the search."""
        ...

    def worst(self) -> tuple[Ask, Tensor]:
        """The worst perturbation found, and its merit, for each sample that has one."""
        ...


@dataclass(frozen=True, kw_only=True)
class Search(AdaptiveWalk, ABC):
    """A walk that maximises the merit of a score over the Gaussian latents of a space."""

    @property
    @abstractmethod
    def points(self) -> int:
        """The number of points per sample that are held at once."""

    @abstractmethod
    def searcher(self, space: Space, samples: Tensor, seed: int, event: float, device: torch.device) -> Searcher:
        """Start a search over samples, given by their indices in the data set; the event is a merit of at least `event`.

        The draws of a sample depend only on the seed and its index.
        """

    @property
    def follows_slopes(self) -> bool:
        """Whether it needs the slopes of the merit."""
        return False

    def without_slopes(self) -> Search | None:
        """Fallback for explainers and spaces without gradients: the search itself, or None if it needs slopes."""
        return None if self.follows_slopes else self

    def together(self, space: Space) -> int:
        """The number of samples that are searched at once, which bounds the memory."""
        return max(1, NUMBERS // max(1, self.points * space.latents))

    def start(self, space: Space, samples: Tensor, seed: int, bounds: tuple[float, float]) -> Walker:
        """Raise, because a search needs the merit of a score."""
        raise SpecError(
            f"The walk '{self.name}' searches for the worst case of a robustness score, such as sol_f_hat, and this score has none: "
            "give it the walk 'monte_carlo'."
        )

    def sampling(self, space: Space) -> Sampling:
        """One result per sample."""
        return Sampling()
