"""What an explainer is: one method, and what the engine must know to run it well."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any, ClassVar, Protocol, Self

import torch
from torch import Size, Tensor, nn

from veracity.core.component import Component
from veracity.core.errors import InputError
from veracity.core.features import Features
from veracity.core.inputs import Inputs
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
    FEATURES = "features"
    """Features of a layer: they stay the same under a symmetry of the input."""


@dataclass(frozen=True)
class Cost:
    """Model passes (in rows) that one explanation of one input needs; for foreign code, also the seconds that a trial took."""

    forward: int = 0
    backward: int = 0
    seconds: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.forward + other.forward, self.backward + other.backward, self.seconds + other.seconds)

    def __or__(self, other: Cost) -> Cost:
        """The cost of both, if they share their passes."""
        return Cost(max(self.forward, other.forward), max(self.backward, other.backward), max(self.seconds, other.seconds))

    def __mul__(self, times: int) -> Cost:
        return Cost(self.forward * times, self.backward * times, self.seconds * times)


class Need(Enum):
    """What an explainer may need besides a model and an input."""

    TRAINING = "training examples"
    CONCEPTS = "concepts"
    CHECKPOINTS = "checkpoints"


NEEDS = {Frame.TRAINING: frozenset({Need.TRAINING}), Frame.CONCEPTS: frozenset({Need.TRAINING, Need.CONCEPTS})}


class Answers(Protocol):
    """Answers that an explainer got from elsewhere, such as a language model, as plain data by key; nothing is asked twice."""

    def get(self, keys: Sequence[str], user: str = "") -> Mapping[str, Mapping[str, Any]]:
        """The answers that are known among these keys; `user` names the explainer that uses them."""
        ...

    def put(self, about: Mapping[str, Any], answers: Mapping[str, Mapping[str, Any]]) -> None:
        """Keep new answers with what they have in common."""
        ...


@dataclass(frozen=True)
class Context:
    """What an explainer gets besides model and inputs.

    draws      its random numbers, one row per input
    batch      how many model rows fit at once
    structure  parts (N, ...) of the inputs that are not explained: the model is called as model(inputs, *structure)
    learnt     the tensors that `learn` returned for this model
    training   the training data of the model, if the audit has it
    outputs    the kind of the model's outputs
    present    which values (N, ...) of the inputs exist; None if all do
    example    one unperturbed input (1, ...), for lessons
    original   scores (N, K) of the unperturbed model for these inputs, for an explainer that `contrasts`; None if this is that model
    inputs     the data set that the inputs come from, with the words of texts
    answers    what was asked before, if there is a run folder
    """

    draws: Draws
    batch: int
    structure: tuple[Tensor, ...] = ()
    learnt: Mapping[str, Tensor] = field(default_factory=dict)
    training: Training | None = None
    outputs: Outputs = Outputs.LOGITS
    present: Tensor | None = None
    example: Tensor | None = None
    original: Tensor | None = None
    inputs: Inputs | None = None
    answers: Answers | None = None

    def require_training(self, name: str) -> Training:
        """The training examples; raises if there are none."""
        if self.training is None:
            raise InputError(f"{name} needs training examples: pass Audit(training=(inputs, labels)).")
        return self.training

    def require_concepts(self, name: str) -> Training:
        """The training examples with their concepts; raises if there are none."""
        training = self.require_training(name)
        if not training.concepts:
            raise InputError(f"{name} needs concepts: pass Audit(concepts={{'name': ...}}) with labels, a mask or a function for each.")
        return training

    def require_learnt(self, name: str) -> Mapping[str, Tensor]:
        """The tensors that `learn` returned; raises if there are none."""
        if not self.learnt:
            raise InputError(f"{name} must learn about the model first: pass the result of learn(model, context) as Context(learnt=...).")
        return self.learnt


BARE = Context(Draws.of(0, torch.arange(0)), batch=512)
"""The context for a model and inputs alone."""


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
    local        whether its only forward pass is one of the inputs themselves, which gives their scores too
    signed       whether explanations may be negative, which decides the fair random control
    directed     whether signs, if there are any, speak for or against the explained output, and are not those of the input
    contrasts    whether it compares a perturbed model with the unperturbed one, whose scores it needs
    splits       whether it cuts the passes of all its inputs into calls of `context.batch` rows, all of them full but the last
    """

    role = "explainer"
    frame: ClassVar[Frame] = Frame.INPUT
    control: ClassVar[bool] = False
    stochastic: ClassVar[bool] = False
    categorical: ClassVar[bool] = False
    structured: ClassVar[bool] = False
    local: ClassVar[bool] = False
    signed: ClassVar[bool] = True
    directed: ClassVar[bool] = True
    contrasts: ClassVar[bool] = False
    splits: ClassVar[bool] = False

    @property
    def batch_dependent(self) -> bool:
        """Whether numbers may depend on the batch (foreign code that draws from the global random state)."""
        return False

    @property
    def needs(self) -> frozenset[Need]:
        """What the audit must provide: training examples and concepts, if explanations refer to them."""
        return NEEDS.get(self.frame, frozenset())

    @abstractmethod
    def cost(self, shape: Size) -> Cost:
        """Passes for one explanation of an input of this shape."""

    def rows_at_once(self, shape: Size) -> int:
        """Model rows of one explanation that can share a call; fewer than its cost if later rows depend on earlier ones."""
        cost = self.cost(shape)
        return max(cost.forward, cost.backward)

    @abstractmethod
    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Explanations of N inputs, (N, ...)."""

    def bind(self, reference: Tensor | None = None, space: InputSpace | None = None) -> Explainer:
        """The explainer with the audit's reference set and symmetry, if it needs them and has none of its own."""
        return self

    def over(self, features: Features | None) -> Self:
        """The explainer for inputs with these features; None for inputs that are no table.

        Groups of values are explained as one, and baselines that were left open become the table's reference. By default the
        explainers inside are changed.
        """
        return self.change_inside(lambda one: one.over(features))

    def with_data(self, inputs: Inputs, training: Training | None = None) -> Self:
        """The explainer once it knows the audited samples, and the training examples if there are any.

        By default the explainers inside are changed.
        """
        return self.change_inside(lambda one: one.with_data(inputs, training))

    def change_inside(self, change: Callable[[Explainer], Explainer]) -> Self:
        """The explainer with the explainers inside it changed."""
        changed = {name: new for name, value in inside(self).items() if (new := change(value)) is not value}
        return replace(self, **changed) if changed else self

    def specialise(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Explainer:
        """The explainer with settings that depend on the model: whether foreign code is random, the number of checkpoints."""
        return self

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise on misuse before anything runs; return notes for the reader of the result."""
        return ()

    @classmethod
    def own_controls(
        cls, explainers: Mapping[str, Explainer], model: nn.Module, inputs: Inputs, seed: int, batch: int
    ) -> Mapping[str, Mapping[str, Explainer]]:
        """Explainers that an audit measures beside some of this class, by their label and a suffix, from the first model and its inputs.

        The first one of each label is its null. Those that say nothing about the model are labelled by their settings. At most `batch`
        rows go through the model at once.
        """
        return {}

    @classmethod
    def meanings(
        cls, explainers: Mapping[str, Explainer], model: nn.Module, inputs: Inputs, batch: int
    ) -> Mapping[str, list[dict[str, Any]]]:
        """Records that show what the parts of explanations stand for, such as the texts on which a feature fires, by label."""
        return {}


def inside(explainer: Explainer) -> dict[str, Explainer]:
    """The explainers among the settings of another one, by their names."""
    return {item.name: value for item in fields(explainer) if isinstance(value := getattr(explainer, item.name), Explainer)}


def with_all_inside(explainer: Explainer) -> Iterator[Explainer]:
    """An explainer, those inside it, those inside them, and so on."""
    yield explainer
    for one in inside(explainer).values():
        yield from with_all_inside(one)


RANDOM_ENCODER = "random encoder"
"""The suffix of the control that is fair to features of a layer."""
FITTED = (RANDOM_ENCODER, "raw activations", "principal components")
"""The suffixes of all controls that are fitted beside features of a layer."""


def control_label(label: str, suffix: str) -> str:
    """The label of a control that belongs to one explainer.

    >>> control_label("layer 3", RANDOM_ENCODER)
    'layer 3: random encoder'
    """
    return f"{label}: {suffix}"


@dataclass(frozen=True, kw_only=True)
class Learner(Explainer, ABC):
    """An explainer that learns about a model before it explains: examples, concepts, images of classes.

    by_class  whether a lesson is about the classes that the audit explains. `context.draws` then has one row per class, with the
              number of the model's copy as its draw, and the lessons of perturbed copies are stored with the run as well, so that
              blocks of samples and explainers share them
    by_row    whether such a lesson treats its classes as rows that are independent of each other, in calls of all rows or a multiple
              of them, so that copies of a model can be learnt about together
    """

    by_class: ClassVar[bool] = False
    by_row: ClassVar[bool] = False

    @property
    def learns(self) -> bool:
        """Whether it learns; an explainer around another one learns only if the inner one does."""
        return True

    @property
    def lesson(self) -> Learner:
        """The explainer whose `learn` is called. Explainers that would learn the same name one of them, so it is learnt once."""
        return self

    @abstractmethod
    def learn(self, model: nn.Module, context: Context) -> Mapping[str, Tensor]:
        """Tensors about this model, computed once before any explanation, stored with the run and returned as `context.learnt`."""

    @property
    def shown(self) -> str | None:
        """The name of the tensor (classes, ...) of a lesson by class that reports draw as pictures; None if there is none."""
        return None

    def lesson_cost(self, shape: Size, classes: int) -> Cost:
        """Passes for one lesson about a number of classes, in rows; without those over training examples."""
        return Cost()

    def lesson_rows(self, shape: Size, classes: int) -> int:
        """The rows of one call of the model, in a lesson by row about a number of classes."""
        return classes

    def facts(self, learnt: Mapping[str, Tensor], context: Context) -> list[dict[str, Any]]:
        """Rows of plain data that describe what was learnt to a reader; a row may carry a `warning`."""
        return []


@dataclass(frozen=True, kw_only=True)
class LayerExplainer(Explainer, ABC):
    """An explainer that only reads the output of one `layer` in a pass of the inputs, so that those of several layers share a pass."""

    layer: str = ""

    @property
    @abstractmethod
    def place(self) -> str | None:
        """Where in the output it reads, such as the last token; explainers of one place share a pass. None shares nothing."""

    @abstractmethod
    def activations(self, model: nn.Module, layers: Sequence[str], inputs: Tensor, structure: tuple[Tensor, ...]) -> dict[str, Tensor]:
        """What is read of each layer, (N, ...), in one pass."""

    @abstractmethod
    def from_activations(self, h: Tensor) -> Tensor:
        """Explanations (N, ...) from what was read of the explainer's own layer."""


@dataclass(frozen=True, kw_only=True)
class Finisher(Explainer, ABC):
    """An explainer that only changes the explanations of another one, for the same model, inputs and targets: they are computed once for
    all that start from them."""

    @property
    @abstractmethod
    def source(self) -> Explainer:
        """The other explainer."""

    @abstractmethod
    def finish(self, maps: Tensor, present: Tensor | None) -> Tensor:
        """Explanations (N, ...) from those of the source; `present` (N, ...) says which values of the inputs exist, None if all do."""


@dataclass(frozen=True, kw_only=True)
class Inquirer(Explainer, ABC):
    """An explainer that asks somebody else, such as a language model, about what the model answers. The model is needed for the question
    only, so that questions about several copies of a model are asked together."""

    @abstractmethod
    def inquiry(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Any:
        """What it wants to know about these inputs."""

    @abstractmethod
    def settle(self, inquiries: Sequence[Any]) -> list[Tensor]:
        """The explanations (N, ...) of the inputs of each inquiry."""

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """The explanations (N, ...) of a single inquiry."""
        return self.settle([self.inquiry(model, inputs, targets, context)])[0]


def source_of(explainer: Explainer) -> Explainer:
    """The explainer that others only change; itself if nothing is changed."""
    return source_of(explainer.source) if isinstance(explainer, Finisher) else explainer


def finished(explainer: Explainer, maps: Tensor, present: Tensor | None) -> Tensor:
    """Explanations of an explainer from those of its `source_of`."""
    return explainer.finish(finished(explainer.source, maps, present), present) if isinstance(explainer, Finisher) else maps


def learner(explainer: Explainer | None) -> Learner | None:
    """The explainer, if it learns about a model."""
    return explainer if isinstance(explainer, Learner) and explainer.learns else None


@dataclass(frozen=True, kw_only=True)
class InputObserver(Explainer, ABC):
    """An explainer that looks at all unperturbed inputs of the audit before it explains any."""

    @property
    def observes(self) -> bool:
        """Whether it looks; an explainer around another one looks only if the inner one does."""
        return True

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
        """Whether there are only these maps, so that perturbed inputs and models cannot be explained."""

    def maps_for(self, model: str, samples: Tensor, targets: Tensor) -> Tensor:
        """The explanations of some samples of one model, for their targets."""
        return self.given[samples]


def maps_only(explainer: Explainer) -> bool:
    """Whether an explainer has only stored maps, so that it cannot explain perturbed inputs and models."""
    return isinstance(explainer, GivenMaps) and explainer.fixed
