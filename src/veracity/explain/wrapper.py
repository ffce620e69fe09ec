"""An explainer around another one. Unless it overrides something, it answers as the inner explainer does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Size, Tensor, nn

from veracity.core.explainers import Context, Cost, Explainer, Frame, Learner, Need, learner


def computed(function: Callable[[Any], Any]) -> Any:
    """A class attribute of the explainer protocol that an instance computes from its settings."""
    return property(function)


@dataclass(frozen=True, kw_only=True)
class Wrapper(Learner, ABC):
    """An explainer whose frame, kind, needs and lessons are those of its `inner` explainer."""

    frame: ClassVar[Frame] = computed(lambda self: self.inner.frame)
    control: ClassVar[bool] = computed(lambda self: self.inner.control)
    categorical: ClassVar[bool] = computed(lambda self: self.inner.categorical)
    structured: ClassVar[bool] = computed(lambda self: self.inner.structured)
    stochastic: ClassVar[bool] = computed(lambda self: self.inner.stochastic)
    signed: ClassVar[bool] = computed(lambda self: self.inner.signed)
    contrasts: ClassVar[bool] = computed(lambda self: self.inner.contrasts)
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
    def learns(self) -> bool:
        return learner(self.inner) is not None

    @property
    def lesson(self) -> Learner:
        inner = learner(self.inner)
        return self if inner is None else inner.lesson

    def cost(self, shape: Size) -> Cost:
        return self.inner.cost(shape)

    def learn(self, model: nn.Module, context: Context) -> Mapping[str, Tensor]:
        inner = learner(self.inner)
        return {} if inner is None else inner.learn(model, context)

    def facts(self, learnt: Mapping[str, Tensor], context: Context) -> list[dict[str, Any]]:
        inner = learner(self.inner)
        return [] if inner is None else inner.facts(learnt, context)

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        return self.inner.explain(model, inputs, targets, context)
