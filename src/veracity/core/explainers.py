"""What an explainer is: one method, and what the engine must know to run it well."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar

import torch
from torch import Size, Tensor, nn

from veracity.core.component import Component
from veracity.core.randomness import Draws
from veracity.core.spaces import InputSpace
from veracity.core.targets import Outputs
from veracity.core.training import Training


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

    def __or__(self, other: Cost) -> Cost:
        """What suffices for both, if they share their passes."""
        return Cost(max(self.forward, other.forward), max(self.backward, other.backward))

    def __mul__(self, times: int) -> Cost:
        return Cost(self.forward * times, self.backward * times)


class Need(Enum):
    """What an explainer must be given besides a model and an input."""

    TRAINING = "training examples"
    CONCEPTS = "concepts"
    CHECKPOINTS = "checkpoints"


NEEDS = {Frame.TRAINING: frozenset({Need.TRAINING}), Frame.CONCEPTS: frozenset({Need.TRAINING, Need.CONCEPTS})}


@dataclass(frozen=True)
class Context:
    """What an explainer gets besides model and inputs.

    draws      its random numbers, one row per input
    batch      how many model rows fit at once
    structure  what belongs to the inputs but is not explained, each part (N, ...): the model is called as model(inputs, *structure)
    learnt     what `learn` found out about this model
    training   what the model learnt from, where the audit was given it
    outputs    what the model's outputs are
    """

    draws: Draws
    batch: int
    structure: tuple[Tensor, ...] = ()
    learnt: Mapping[str, Tensor] = field(default_factory=dict)
    training: Training | None = None
    outputs: Outputs = Outputs.LOGITS

    @property
    def seed(self) -> int:
        """The audit's seed."""
        return self.draws.seed


BARE = Context(Draws.of(0, torch.arange(0)), batch=512)
"""The context where there is nothing but a model and inputs."""


@dataclass(frozen=True, kw_only=True)
class Explainer(Component, ABC):
    """Turns (model, inputs, targets) into explanations, one per row.

    `model` maps (N, ...) to scores (N, K); `targets` (N,) picks the score that row is explained for. Rows are
    independent: no row's explanation may depend on which other rows are in the batch.

    frame        where its explanations live
    control      whether it says nothing about the model
    stochastic   whether it draws random numbers
    categorical  whether explanations are categories, or fractions of them, rather than amounts
    structured   whether it explains inputs with a structure
    local        whether its only forward pass is one of the inputs themselves, so that it sees their scores
    signed       whether explanations may be negative, which decides which random control is the fair null
    """

    role = "explainer"
    frame: ClassVar[Frame] = Frame.INPUT
    control: ClassVar[bool] = False
    stochastic: ClassVar[bool] = False
    categorical: ClassVar[bool] = False
    structured: ClassVar[bool] = False
    local: ClassVar[bool] = False
    signed: ClassVar[bool] = True

    @property
    def batch_dependent(self) -> bool:
        """Whether numbers may depend on the batch (foreign code that draws from the global random state)."""
        return False

    @property
    def needs(self) -> frozenset[Need]:
        """What the audit must bring along: training examples, and concepts, for explanations that refer to them."""
        return NEEDS.get(self.frame, frozenset())

    @abstractmethod
    def cost(self, shape: Size) -> Cost:
        """Passes for one explanation of an input of this shape."""

    @abstractmethod
    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Explanations of N inputs, (N, ...)."""

    def bind(self, reference: Tensor | None = None, space: InputSpace | None = None) -> Explainer:
        """The explainer with the audit's reference set and symmetry, if it needs them and has none of its own."""
        return self

    def settled(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Explainer:
        """The explainer with what only a trial on this model can tell (foreign code: whether it is random)."""
        return self

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise on misuse before anything runs; return what the reader of the result must know."""
        return ()


@dataclass(frozen=True, kw_only=True)
class Learner(Explainer, ABC):
    """An explainer that finds out something about a model before it explains: examples, concepts."""

    @property
    def learns(self) -> bool:
        """Whether it does; an explainer around another one learns only if that one does."""
        return True

    @property
    def lesson(self) -> Learner:
        """Whose `learn` is called, so that explainers that learn the same do so once: here its own."""
        return self

    @abstractmethod
    def learn(self, model: nn.Module, context: Context) -> Mapping[str, Tensor]:
        """What is found out about a model once, before any explanation; stored with the run and handed back as `context.learnt`."""

    def facts(self, learnt: Mapping[str, Tensor], context: Context) -> list[dict[str, Any]]:
        """What a reader must know about what was learnt, as rows of plain data; a row may carry a `warning`."""
        return []


def learner(explainer: Explainer | None) -> Learner | None:
    """The explainer, if it learns about a model."""
    return explainer if isinstance(explainer, Learner) and explainer.learns else None


@dataclass(frozen=True, kw_only=True)
class InputObserver(Explainer, ABC):
    """An explainer that looks at all unperturbed inputs of the audit before it explains any."""

    @abstractmethod
    def prepare(self, inputs: Tensor) -> Explainer:
        """The explainer once it has seen the inputs (samples, ...)."""


@dataclass(frozen=True, kw_only=True)
class GivenMaps(Explainer, ABC):
    """An explainer whose explanations of the unperturbed inputs were made elsewhere."""

    @property
    @abstractmethod
    def given(self) -> Tensor:
        """Those explanations, (samples, ...)."""

    @property
    @abstractmethod
    def fixed(self) -> bool:
        """Whether there is nothing that could explain a perturbed input or model."""


def maps_only(explainer: Explainer) -> bool:
    """Whether an explainer is maps alone, which nothing could make for a perturbed input or model."""
    return isinstance(explainer, GivenMaps) and explainer.fixed
