"""An explainer around another one. Unless it overrides something, it answers as the inner explainer does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from torch import Size, Tensor, nn

from veracity.core.explainers import BARE, Context, Cost, Explainer, Frame, InputObserver, Learner, Need, learner
from veracity.core.inputs import Inputs
from veracity.core.spaces import InputSpace


def computed(function: Callable[[Any], Any]) -> Any:
    """A class attribute of the explainer protocol that an instance computes from its settings."""
    return property(function)


@dataclass(frozen=True, kw_only=True)
class Wrapper(InputObserver, Learner, ABC):
    """An explainer whose frame, kind, needs and lessons are those of its `inner` explainer."""

    frame: ClassVar[Frame] = computed(lambda self: self.inner.frame)
    control: ClassVar[bool] = computed(lambda self: self.inner.control)
    categorical: ClassVar[bool] = computed(lambda self: self.inner.categorical)
    structured: ClassVar[bool] = computed(lambda self: self.inner.structured)
    stochastic: ClassVar[bool] = computed(lambda self: self.inner.stochastic)
    signed: ClassVar[bool] = computed(lambda self: self.inner.signed)
    directed: ClassVar[bool] = computed(lambda self: self.inner.directed)
    contrasts: ClassVar[bool] = computed(lambda self: self.inner.contrasts)
    splits: ClassVar[bool] = computed(lambda self: self.inner.splits)
    by_class: ClassVar[bool] = computed(lambda self: (one := learner(self.inner)) is not None and one.by_class)
    by_row: ClassVar[bool] = computed(lambda self: (one := learner(self.inner)) is not None and one.by_row)

    @property
    @abstractmethod
    def inner(self) -> Explainer:
        """The explainer inside."""

    @property
    def batch_dependent(self) -> bool:
        return self.inner.batch_dependent

    @property
    def needs(self) -> frozenset[Need]:
        return self.inner.needs

    @property
    def observes(self) -> bool:
        return isinstance(self.inner, InputObserver) and self.inner.observes

    @property
    def learns(self) -> bool:
        return learner(self.inner) is not None

    @property
    def lesson(self) -> Learner:
        inner = learner(self.inner)
        return self if inner is None else inner.lesson

    def cost(self, shape: Size) -> Cost:
        return self.inner.cost(shape)

    def rows_at_once(self, shape: Size) -> int:
        return self.inner.rows_at_once(shape)

    def lesson_cost(self, shape: Size, classes: int) -> Cost:
        inner = learner(self.inner)
        return Cost() if inner is None else inner.lesson_cost(shape, classes)

    def bind(self, reference: Tensor | None = None, space: InputSpace | None = None) -> Self:
        return self.change_inside(lambda one: one.bind(reference, space))

    def prepare(self, inputs: Tensor) -> Self:
        return self.change_inside(lambda one: one.prepare(inputs) if isinstance(one, InputObserver) else one)

    def specialise(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Self:
        return self.change_inside(lambda one: one.specialise(model, inputs, targets, context))

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        return self.inner.check(model, inputs, targets, context)

    @classmethod
    def own_controls(
        cls, explainers: Mapping[str, Explainer], model: nn.Module, inputs: Inputs, seed: int, batch: int
    ) -> Mapping[str, Mapping[str, Explainer]]:
        """Those of the inner explainers, each inside the same explainer."""
        every = [kind.own_controls(mine, model, inputs, seed, batch) for kind, mine in inner_by_class(explainers).items()]
        controls = {label: own for found in every for label, own in found.items()}
        return {label: {suffix: instead(explainers[label], one) for suffix, one in own.items()} for label, own in controls.items()}

    @classmethod
    def meanings(
        cls, explainers: Mapping[str, Explainer], model: nn.Module, inputs: Inputs, batch: int
    ) -> Mapping[str, list[dict[str, Any]]]:
        """Those of the inner explainers."""
        every = [kind.meanings(mine, model, inputs, batch) for kind, mine in inner_by_class(explainers).items()]
        return {label: records for found in every for label, records in found.items()}

    def learn(self, model: nn.Module, context: Context) -> Mapping[str, Tensor]:
        inner = learner(self.inner)
        return {} if inner is None else inner.learn(model, context)

    def facts(self, learnt: Mapping[str, Tensor], context: Context) -> list[dict[str, Any]]:
        inner = learner(self.inner)
        return [] if inner is None else inner.facts(learnt, context)

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        return self.inner.explain(model, inputs, targets, context)


def instead(explainer: Explainer, other: Explainer) -> Explainer:
    """An explainer around another one than before."""
    return explainer.change_inside(lambda _: other)


def inner_by_class(explainers: Mapping[str, Explainer]) -> dict[type[Explainer], dict[str, Explainer]]:
    """The explainers inside, for each class of them, by the label of the one around."""
    inner = {label: one.inner for label, one in explainers.items() if isinstance(one, Wrapper)}
    return {kind: {label: one for label, one in inner.items() if type(one) is kind} for kind in map(type, inner.values())}
