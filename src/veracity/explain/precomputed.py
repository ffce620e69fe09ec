"""Explanations that were made elsewhere, and perhaps the explainer that made them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Size, Tensor, nn

from veracity.core.errors import InputError, SpecError
from veracity.core.explainers import BARE, Context, Cost, Explainer, Frame, GivenMaps, InputObserver, Learner, Need, learner
from veracity.core.registry import EXPLAINERS
from veracity.core.spaces import InputSpace
from veracity.explain.foreign import computed


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class Precomputed(GivenMaps, InputObserver, Learner):
    """Explanations of the audit's inputs that were made elsewhere: `maps` (samples, ...), in the inputs' order.

    They stand for the explanations of the unperturbed inputs. With an `explainer` that explains anything else: perturbed
    inputs, other weights, other targets. Without one, only scores that explain nothing anew can be measured.
    """

    name = "precomputed"
    maps: Tensor | None = None
    explainer: Explainer | None = None

    frame: ClassVar[Frame] = computed(lambda self: Frame.INPUT if self.explainer is None else self.explainer.frame)
    control: ClassVar[bool] = computed(lambda self: self.explainer is not None and self.explainer.control)
    categorical: ClassVar[bool] = computed(lambda self: self.explainer is not None and self.explainer.categorical)
    structured: ClassVar[bool] = computed(lambda self: self.explainer is None or self.explainer.structured)
    stochastic: ClassVar[bool] = computed(lambda self: self.explainer is not None and self.explainer.stochastic)

    @property
    def given(self) -> Tensor:
        """The maps, (samples, ...)."""
        if not isinstance(self.maps, Tensor) or self.maps.ndim < 2 or self.maps.is_complex():
            what = f"shape {tuple(self.maps.shape)}" if isinstance(self.maps, Tensor) else type(self.maps).__name__
            raise SpecError(f"precomputed needs maps, a real tensor (samples, ...) with an explanation of each input, not {what}.")
        return self.maps.detach()

    @property
    def fixed(self) -> bool:
        """Whether there is nothing but the maps."""
        return self.explainer is None

    @property
    def signed(self) -> bool:
        """Whether any map is negative somewhere, or the explainer's may be."""
        return bool((self.given < 0).any()) or (self.explainer is not None and self.explainer.signed)

    @property
    def batch_dependent(self) -> bool:
        """As the inner one is."""
        return self.explainer is not None and self.explainer.batch_dependent

    @property
    def learns(self) -> bool:
        """As the inner one does."""
        return learner(self.explainer) is not None

    @property
    def needs(self) -> frozenset[Need]:
        """What the inner one needs."""
        return frozenset() if self.explainer is None else self.explainer.needs

    @property
    def lesson(self) -> Learner:
        """The inner explainer's."""
        inner = learner(self.explainer)
        return self if inner is None else inner.lesson

    def cost(self, shape: Size) -> Cost:
        """The inner explainer's."""
        return Cost() if self.explainer is None else self.explainer.cost(shape)

    def bind(self, reference: Tensor | None = None, space: InputSpace | None = None) -> Precomputed:
        """With the audit's reference set and symmetry for the inner explainer."""
        return self if self.explainer is None else replace(self, explainer=self.explainer.bind(reference, space))

    def prepare(self, inputs: Tensor) -> Precomputed:
        """Around the prepared inner explainer."""
        inner = self.explainer
        return replace(self, explainer=inner.prepare(inputs)) if isinstance(inner, InputObserver) else self

    def settled(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Precomputed:
        """Around the settled inner explainer."""
        return self if self.explainer is None else replace(self, explainer=self.explainer.settled(model, inputs, targets, context))

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise unless the maps fit the inputs; say if they hold NaN or infinity; then what the inner explainer says."""
        maps = self.given
        if len(maps) < len(inputs):
            raise InputError(
                f"precomputed has maps of {len(maps)} inputs, but there are more: give one map for each input, in their order."
            )
        if self.frame is Frame.INPUT and maps.shape[1:] != inputs.shape[1:]:
            raise InputError(
                f"The maps of precomputed have shape {tuple(maps.shape[1:])} each, but an input has shape {tuple(inputs.shape[1:])}: "
                "give maps of the inputs' shape, with a channel axis where the inputs have one."
            )
        odd = "The maps of precomputed hold NaN or infinity."
        said = () if self.explainer is None else self.explainer.check(model, inputs, targets, context)
        return (*(() if bool(torch.isfinite(maps).all()) else (odd,)), *said)

    def learn(self, model: nn.Module, context: Context) -> Mapping[str, Tensor]:
        """What the inner explainer learns."""
        inner = learner(self.explainer)
        return {} if inner is None else inner.learn(model, context)

    def facts(self, learnt: Mapping[str, Tensor], context: Context) -> list[dict[str, Any]]:
        """What the inner explainer says."""
        inner = learner(self.explainer)
        return [] if inner is None else inner.facts(learnt, context)

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """The inner explainer's explanations."""
        if self.explainer is None:
            raise InputError(
                "precomputed holds explanations of the unperturbed inputs alone, so that scores which explain anew need the explainer "
                "itself, Precomputed(maps=..., explainer=...); pixel_flipping, faithfulness_correlation and complexity do not."
            )
        return self.explainer.explain(model, inputs, targets, context)
