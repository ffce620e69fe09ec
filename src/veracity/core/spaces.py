"""A space says what can vary: from a standard Gaussian latent to a perturbation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, Self

import torch
from torch import Size, Tensor, nn

from veracity.core.component import Component
from veracity.core.inputs import Signals
from veracity.core.randomness import Draws


class Representation(Enum):
    """How a space moves a signal (Definitions D.1 and D.2 of the symmetry paper); guarantees depend on it."""

    PERMUTATION = "permutation"
    ORTHOGONAL = "orthogonal"
    APPROXIMATE = "approximate"


@dataclass(frozen=True, kw_only=True)
class Space(Component, ABC):
    """Perturbations, as tensors of shape (N, p): one element per row.

    `nested` says whether a draw belongs to one sample (True) or is shared by all of them (crossed).
    """

    role = "space"
    nested: ClassVar[bool] = True

    def fit(self, shape: Size) -> Self:
        """The space for inputs of this shape (one sample's, without the batch axis); raises if it does not fit."""
        return self

    @property
    def order(self) -> int | None:
        """How many elements there are; None if there is no end to them."""
        return None

    @property
    def levels(self) -> int:
        """At how many levels each draw is visited: steps of one path, from weak to strong."""
        return 1

    def at(self, elements: Tensor, level: Tensor) -> Tensor:
        """Drawn elements (N, p) at their levels (N,): here the elements themselves."""
        return elements

    @property
    def caveat(self) -> str | None:
        """What a reader must know about how elements are drawn: here nothing."""
        return None

    @property
    @abstractmethod
    def latents(self) -> int:
        """How many standard Gaussian numbers make one element."""

    @abstractmethod
    def decode(self, latent: Tensor) -> Tensor:
        """Elements (N, p) from Gaussian latents (N, latents); uniform if the latents are standard normal."""

    def drawn(self, draws: Draws) -> Tensor:
        """The random elements (N, p) that belong to N rows: those of their standard normal latents."""
        return self.decode(draws.normal(self.latents, stream="walk"))

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Uniform elements (count, p), drawn independently."""
        return self.decode(torch.randn(count, self.latents, generator=generator, dtype=torch.float64))


@dataclass(frozen=True, kw_only=True)
class InputSpace(Space, ABC):
    """A space whose elements move the input, and with it whatever lives in the input's frame."""

    representation: ClassVar[Representation] = Representation.PERMUTATION
    moves_frame: ClassVar[bool] = True
    """Whether what lives in the input's frame moves along with the input; noise, say, moves nothing."""

    @abstractmethod
    def act(self, elements: Tensor, x: Tensor) -> Tensor:
        """N elements (N, p) act on N signals (N, ...) in one differentiable call on the signals' device."""

    def move(self, elements: Tensor, signals: Signals) -> Signals:
        """N elements act on N samples; their structure stays."""
        return Signals(self.act(elements, signals.values), signals.structure)

    def check(self, x: Tensor) -> None:
        """Raise if these inputs make the space meaningless (say, if a shift would wrap visible pixels)."""

    def words(self, element: Tensor) -> str:
        """What one element (p,) does, for people; "" where there are no words for it."""
        return ""


@dataclass(frozen=True, kw_only=True)
class GraphSpace(InputSpace, ABC):
    """A space that moves the structure of graphs along with their nodes; plain tensors make no sense for it."""

    @abstractmethod
    def carry(self, elements: Tensor, structure: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """N elements act on the structure of N signals."""

    def move(self, elements: Tensor, signals: Signals) -> Signals:
        """N elements act on N samples, values and structure."""
        return Signals(self.act(elements, signals.values), self.carry(elements, signals.structure))


@dataclass(frozen=True, kw_only=True)
class GuidedSpace(InputSpace, ABC):
    """A space whose elements become concrete by a guide of each sample: its input and, if `by_explanation`, its explanation."""

    by_explanation: ClassVar[bool] = False

    @abstractmethod
    def guide(self, x: Tensor, explanation: Tensor | None) -> Tensor:
        """The guides of B samples (B, ...), found once per block."""

    @abstractmethod
    def steer(self, elements: Tensor, guide: Tensor) -> Tensor:
        """N elements made concrete by the guides of their samples (N, ...)."""


@dataclass(frozen=True, kw_only=True)
class RangedSpace(InputSpace, ABC):
    """A space that stays within the range of the data, which it learns before it is walked."""

    @property
    @abstractmethod
    def needs_range(self) -> bool:
        """Whether it still waits for the range of the data."""

    @abstractmethod
    def within(self, low: float, high: float) -> Self:
        """The space for data whose smallest and largest values are these."""


@dataclass(frozen=True, kw_only=True)
class StrengthPath(Space, ABC):
    """A path of growing perturbations whose strength may be left open; a calibration finds it for each model."""

    @abstractmethod
    def endpoint(self, sigma: float) -> Space | None:
        """The strong end of the path alone, at this strength, if the strength is open; else None."""

    @abstractmethod
    def with_strength(self, sigma: float) -> Self:
        """The path with the strength that was found."""


def open_end(space: Space, sigma: float) -> Space | None:
    """The strong end of a path whose strength is still open, at this strength; None for every other space."""
    return space.endpoint(sigma) if isinstance(space, StrengthPath) else None


@dataclass(frozen=True, kw_only=True)
class Countable(Space, ABC):
    """A space that can be counted out, whatever it acts on."""

    @property
    @abstractmethod
    def order(self) -> int:
        """How many elements there are."""

    @abstractmethod
    def unrank(self, index: Tensor) -> Tensor:
        """Elements (N, p) by their number (N,), from 0 to order - 1; number 0 is the identity where there is one."""

    def enumerate(self) -> Tensor:
        """Every element once, (order, p)."""
        return self.unrank(torch.arange(self.order))

    @property
    def latents(self) -> int:
        """One latent is enough to number the elements."""
        return 1

    def decode(self, latent: Tensor) -> Tensor:
        """The element whose number is the latent's quantile."""
        quantile = torch.special.ndtr(latent.double()[:, 0])
        return self.unrank((quantile * self.order).long().clamp_(0, self.order - 1))


@dataclass(frozen=True, kw_only=True)
class FiniteSpace(Countable, InputSpace, ABC):
    """A space of inputs that can be counted out."""


@dataclass(frozen=True, kw_only=True)
class TrainingSpace(Countable, ABC):
    """A space whose elements change what the model learnt from: a draw is another trained model, shared by all samples.

    The models themselves are artefacts of the run; an element (N, 1) says which of them takes the place of the sample's own.
    """

    nested = False


@dataclass(frozen=True, kw_only=True)
class SampleSpace(Space, ABC):
    """A space whose elements put other samples of the data set, with their own targets, in the place of each one."""

    @abstractmethod
    def among(self, size: int, content: str) -> Self:
        """The space for a data set of this many samples; `content` is a hash of samples and targets."""

    @abstractmethod
    def instead_of(self, samples: Tensor, elements: Tensor) -> Tensor:
        """The numbers (N,) of the samples that N elements put in the place of these."""


@dataclass(frozen=True, kw_only=True)
class TargetSpace(Space, ABC):
    """A space whose elements choose another output to explain; input and model stay."""

    @abstractmethod
    def retarget(self, elements: Tensor, targets: Tensor, classes: int) -> Tensor:
        """The outputs (N,) to explain instead of `targets` (N,), out of `classes`."""


@dataclass(frozen=True, kw_only=True)
class WeightSpace(Space, ABC):
    """A space whose elements change the model's parameters: a draw is one copy of the model, shared by all samples.

    Elements (N, 2) are the number of the copy and its level. A copy is regenerated from (seed, draw, level) alone, so that
    none needs to be kept.
    """

    nested = False

    @property
    def latents(self) -> int:
        """None: a copy is known by its number."""
        return 0

    def decode(self, latent: Tensor) -> Tensor:
        """Empty elements (N, 0): the walk numbers the copies."""
        return torch.zeros(len(latent), 0, dtype=torch.int64)

    def at(self, elements: Tensor, level: Tensor) -> Tensor:
        """(N, 2): the copies' numbers with their levels."""
        return torch.cat((elements, level.reshape(-1, 1).to(elements)), dim=1)

    def of(self, model: nn.Module) -> Self:
        """The space for this model; raises if the model has nothing to change."""
        return self

    def starts(self, level: int) -> bool:
        """Whether a level is compared with the unperturbed model; else with the last level that leads, along a path."""
        return True

    def leads(self, level: int) -> bool:
        """Whether the levels after it are compared with this one, where they do not start anew."""
        return True

    def explains(self, level: int) -> bool:
        """Whether explanations are read at a level."""
        return True

    def answers(self, level: int) -> bool:
        """Whether outputs are read at a level."""
        return True

    @abstractmethod
    def perturbed(self, model: nn.Module, draw: int, level: int, seed: int) -> dict[str, Tensor]:
        """The parameters of one copy by name, those that stay left out; the model itself is never changed."""
