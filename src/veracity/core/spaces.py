"""Spaces of perturbations: each maps standard Gaussian latents to elements, which perturb an input, a model or a target."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, Self, TypeVar

import torch
from torch import Size, Tensor, nn

from veracity.core.component import Component
from veracity.core.errors import SpecError
from veracity.core.features import Features
from veracity.core.inputs import Signals
from veracity.core.randomness import Draws

T = TypeVar("T")


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
        """The space for inputs whose samples have this shape; raises if they do not fit."""
        return self

    @property
    def order(self) -> int | None:
        """The number of elements; None if it is infinite."""
        return None

    @property
    def levels(self) -> int:
        """The number of levels of each draw: steps of one path, from weak to strong."""
        return 1

    def at(self, elements: Tensor, level: Tensor) -> Tensor:
        """Elements (N, p) at their levels (N,); by default a level changes nothing."""
        return elements

    @property
    @abstractmethod
    def latents(self) -> int:
        """The number of standard Gaussian numbers that one element is made from."""

    @abstractmethod
    def decode(self, latent: Tensor) -> Tensor:
        """Elements (N, p) from Gaussian latents (N, latents); uniform if the latents are standard normal."""

    def sample(self, draws: Draws) -> Tensor:
        """Random elements (N, p), one per row of `draws`."""
        return self.decode(draws.normal(self.latents, stream="walk"))


def check_known(space: Space, value: T | None, what: str, how: str = "fit(shape) with one sample's shape") -> T:
    """A value that a space gets from the data or the model; raises as long as it is None."""
    if value is None:
        raise SpecError(f"The space '{space.name}' does not know {what} yet: call {how}.")
    return value


def check_level(space: Space, level: int) -> int:
    """A level of the space; raises if there is no such level."""
    if not 0 <= level < space.levels:
        known = f"levels 0 to {space.levels - 1}" if space.levels > 1 else "only level 0"
        raise SpecError(f"The space '{space.name}' has {known}, not {level}.")
    return level


@dataclass(frozen=True, kw_only=True)
class InputSpace(Space, ABC):
    """A space whose elements move the input, and with it whatever lives in the input's frame."""

    representation: ClassVar[Representation] = Representation.PERMUTATION
    moves_frame: ClassVar[bool] = True
    """Whether an explanation should move along with the input, as it should under shifts but not under noise."""

    @abstractmethod
    def act(self, elements: Tensor, x: Tensor) -> Tensor:
        """N elements (N, p) act on N signals (N, ...) in one differentiable call on the signals' device."""

    def move(self, elements: Tensor, signals: Signals) -> Signals:
        """N elements act on N samples; their structure stays, and so do values that do not exist."""
        return Signals(signals.blank(self.act(elements, signals.values)), signals.structure, signals.present)

    def check(self, x: Tensor) -> None:
        """Raise if these inputs make the space meaningless (say, if a shift would wrap visible pixels)."""

    def words(self, element: Tensor) -> str:
        """What one element (p,) does, in words; "" if there are none."""
        return ""


@dataclass(frozen=True, kw_only=True)
class GraphSpace(InputSpace, ABC):
    """A space that moves the structure of graphs along with their nodes."""

    @abstractmethod
    def carry(self, elements: Tensor, structure: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """N elements act on the structure of N signals."""

    def move(self, elements: Tensor, signals: Signals) -> Signals:
        """N elements act on N samples, values and structure."""
        return Signals(self.act(elements, signals.values), self.carry(elements, signals.structure))


@dataclass(frozen=True, kw_only=True)
class GuidedSpace(InputSpace, ABC):
    """A space whose elements depend on a guide of each sample: its input and, with `by_explanation`, its explanation."""

    by_explanation: ClassVar[bool] = False

    @abstractmethod
    def guide(self, x: Tensor, explanation: Tensor | None) -> Tensor:
        """The guides of B samples (B, ...), computed once per block."""

    @abstractmethod
    def steer(self, elements: Tensor, guide: Tensor) -> Tensor:
        """N elements combined with the guides of their samples (N, ...)."""


@dataclass(frozen=True, kw_only=True)
class RangedSpace(InputSpace, ABC):
    """A space that stays within the range of the data, which must be known before elements can act."""

    @property
    @abstractmethod
    def needs_range(self) -> bool:
        """Whether the range of the data is still unknown."""

    @property
    def caveat(self) -> str | None:
        """A warning about how elements are distributed, for readers of the result; None if there is nothing to say."""
        return None

    @abstractmethod
    def within(self, low: float, high: float) -> Self:
        """The space for data whose smallest and largest values are these."""


@dataclass(frozen=True, kw_only=True)
class FeatureSpace(InputSpace, ABC):
    """A space that uses what the values of a sample mean, where the data set knows it."""

    @abstractmethod
    def over(self, features: Features) -> Self:
        """The space for samples with these features."""


@dataclass(frozen=True, kw_only=True)
class StrengthPath(Space, ABC):
    """A path of growing perturbations whose strength may be left open; then a calibration finds it for each model."""

    @abstractmethod
    def endpoint(self, sigma: float) -> Space | None:
        """The strong end of the path at this strength; None if the strength is not open."""

    @abstractmethod
    def with_strength(self, sigma: float) -> Self:
        """The path with this strength."""


def open_end(space: Space, sigma: float) -> Space | None:
    """The strong end of a path whose strength is still open, at this strength; None for every other space."""
    return space.endpoint(sigma) if isinstance(space, StrengthPath) else None


@dataclass(frozen=True, kw_only=True)
class Countable(Space, ABC):
    """A space with finitely many elements, whatever it acts on."""

    @property
    @abstractmethod
    def order(self) -> int:
        """The number of elements."""

    @abstractmethod
    def unrank(self, index: Tensor) -> Tensor:
        """Elements (N, p) by their numbers (N,) from 0 to order - 1; number 0 is the identity, if there is one."""

    def enumerate(self) -> Tensor:
        """Every element once, (order, p)."""
        return self.unrank(torch.arange(self.order))

    @property
    def latents(self) -> int:
        """One, for the number of the element."""
        return 1

    def decode(self, latent: Tensor) -> Tensor:
        """The element whose number is the latent's quantile."""
        quantile = torch.special.ndtr(latent.double()[:, 0])
        return self.unrank((quantile * self.order).long().clamp_(0, self.order - 1))


@dataclass(frozen=True, kw_only=True)
class FiniteSpace(Countable, InputSpace, ABC):
    """A space with finitely many elements that act on inputs."""


@dataclass(frozen=True, kw_only=True)
class TrainingSpace(Countable, ABC):
    """A space of models that were trained on other data. A draw is one model, shared by all samples.

    An element (N, 1) says which model replaces the one of the sample.
    """

    nested = False


@dataclass(frozen=True, kw_only=True)
class SampleSpace(Space, ABC):
    """A space whose elements replace a sample by another one of the data set, with its own target."""

    @abstractmethod
    def among(self, size: int, content: str) -> Self:
        """The space for a data set of `size` samples; `content` is a hash of samples and targets."""

    @abstractmethod
    def instead_of(self, samples: Tensor, elements: Tensor) -> Tensor:
        """Indices (N,) of the substituted samples."""


@dataclass(frozen=True, kw_only=True)
class TargetSpace(Space, ABC):
    """A space whose elements choose another output to explain; input and model stay the same."""

    @abstractmethod
    def retarget(self, elements: Tensor, targets: Tensor, classes: int) -> Tensor:
        """The outputs (N,) to explain instead of `targets` (N,), out of `classes`."""


@dataclass(frozen=True, kw_only=True)
class WeightSpace(Space, ABC):
    """A space whose elements change the model's parameters: a draw is one copy of the model, shared by all samples.

    Elements (N, 2) are the number of the copy and its level. A copy depends on (seed, draw, level) alone, so it can be made again
    at any time.
    """

    nested = False
    latents = 0

    def decode(self, latent: Tensor) -> Tensor:
        """Empty elements (N, 0), because the walk numbers the copies."""
        return torch.zeros(len(latent), 0, dtype=torch.int64)

    def at(self, elements: Tensor, level: Tensor) -> Tensor:
        """The numbers of the copies with their levels, (N, 2)."""
        return torch.cat((elements, level.reshape(-1, 1).to(elements)), dim=1)

    def of(self, model: nn.Module) -> Self:
        """The space for this model; raises if the model has nothing to change."""
        return self

    def starts(self, level: int) -> bool:
        """Whether a level is compared with the unperturbed model; if not, it is compared with the last level that `leads`."""
        return True

    def leads(self, level: int) -> bool:
        """Whether the levels after it are compared with this one, unless they are compared with the unperturbed model."""
        return True

    def explains(self, level: int) -> bool:
        """Whether explanations are read at a level."""
        return True

    def answers(self, level: int) -> bool:
        """Whether outputs are read at a level."""
        return True

    @abstractmethod
    def parameters(self, model: nn.Module, draw: int, level: int, seed: int) -> dict[str, Tensor]:
        """The changed parameters of one copy by name; the model itself is never changed."""
