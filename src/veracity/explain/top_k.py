"""Explanations cut to the features that they name first: ones at the k largest numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import Tensor, nn

from veracity.core.errors import SpecError
from veracity.core.explainers import Context, Explainer, Finisher, Frame
from veracity.core.inputs import Inputs
from veracity.core.registry import EXPLAINERS
from veracity.core.settings import Count
from veracity.explain.controls import RandomTopK
from veracity.explain.convert import as_explainer
from veracity.explain.masking import largest
from veracity.explain.wrapper import Wrapper


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class TopK(Finisher, Wrapper):
    """Ones at the `k` largest numbers of another explanation and zeros elsewhere: what a list of the k most important words says.

    Of equal numbers the first ones count. Numbers that do not exist, as behind the end of a text, are never chosen; a sample with
    fewer than k numbers gets ones at all of them. A map with NaN is NaN. Around a control it is a control. Its null is `RandomTopK` with
    the same k, which an audit with controls measures beside it.
    """

    name = "top_k"
    reference = "Hedström et al., Evaluating interpretable methods via geometric alignment of functional distortions (TMLR 2025), 5.1"
    explainer: Any = None
    k: Count = field(default=5, metadata={"named": True})

    signed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "explainer", None if self.explainer is None else as_explainer(self.explainer))

    @property
    def inner(self) -> Explainer:
        if self.explainer is None:
            raise SpecError("top_k needs an explainer to cut: pass TopK(explainer=...).")
        inner: Explainer = self.explainer
        return inner

    @property
    def source(self) -> Explainer:
        return self.inner

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        return self.finish(self.inner.explain(model, inputs, targets, context), context.present)

    def finish(self, maps: Tensor, present: Tensor | None) -> Tensor:
        own = present is not None and self.inner.frame is Frame.INPUT and present.shape == maps.shape
        return largest(maps, self.k, present if own else None)

    @classmethod
    def own_controls(
        cls, explainers: Mapping[str, Explainer], model: nn.Module, inputs: Inputs, seed: int, batch: int
    ) -> Mapping[str, Mapping[str, Explainer]]:
        """As many random numbers of the input, as the null of maps over it; and the controls of the inner explainers, cut too."""
        mine = {label: one for label, one in explainers.items() if isinstance(one, TopK) and one.frame is Frame.INPUT and not one.control}
        found = {label: {RandomTopK.name: RandomTopK(k=min(one.k, inputs.shape.numel()))} for label, one in mine.items()}
        return {**super().own_controls(explainers, model, inputs, seed, batch), **found}
