"""What an explainer is: one method, and what the engine must know to run it well."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from torch import Size, Tensor, nn

from veracity.core.component import Component
from veracity.core.draws import Draws


class Frame(Enum):
    """Where an explanation lives, which decides what "unchanged" means when the input moves."""

    INPUT = "input"
    TRAINING = "training set"
    CONCEPTS = "concepts"
    OUTPUT = "output"
    GLOBAL = "global"


@dataclass(frozen=True)
class Cost:
    """Model passes (in rows) that one explanation of one input needs."""

    forward: int = 0
    backward: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.forward + other.forward, self.backward + other.backward)

    def __mul__(self, times: int) -> Cost:
        return Cost(self.forward * times, self.backward * times)


@dataclass(frozen=True)
class Context:
    """What an explainer gets besides model and inputs: its random numbers, and how many model rows fit at once."""

    draws: Draws
    batch: int


@dataclass(frozen=True, kw_only=True)
class Explainer(Component, ABC):
    """Turns (model, inputs, targets) into explanations, one a row.

    `model` maps (N, ...) to scores (N, K); `targets` (N,) picks the score that row is explained for. Rows are
    independent: no row's explanation may depend on which other rows are in the batch.
    """

    frame: ClassVar[Frame] = Frame.INPUT
    control: ClassVar[bool] = False
    stochastic: ClassVar[bool] = False

    @property
    def signed(self) -> bool:
        """Whether maps may be negative: decides which random control is the fair null."""
        return True

    @property
    def batch_dependent(self) -> bool:
        """Whether numbers may depend on the batch (foreign code that draws from the global random state)."""
        return False

    @abstractmethod
    def cost(self, shape: Size) -> Cost:
        """Passes for one explanation of an input of this shape."""

    @abstractmethod
    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Explanations of N inputs, (N, ...)."""

    def bind(self, reference: Tensor | None) -> Explainer:
        """The explainer with the audit's reference set, if it needs one and has none."""
        return self

    def settled(self, model: nn.Module, inputs: Tensor, targets: Tensor) -> Explainer:
        """The explainer with what only a trial on this model can tell (foreign code: whether it is random)."""
        return self

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor) -> Sequence[str]:
        """Raise on misuse before anything runs; return what the reader of the result must know."""
        return ()
