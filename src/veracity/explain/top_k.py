"""Explanations cut to the features that they name first: ones at the k largest numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from torch import Size, Tensor, nn

from veracity.core.errors import SpecError
from veracity.core.explainers import BARE, Context, Explainer, InputObserver
from veracity.core.registry import EXPLAINERS
from veracity.core.settings import Count
from veracity.core.spaces import InputSpace
from veracity.explain.convert import as_explainer
from veracity.explain.masking import largest
from veracity.explain.wrapper import Wrapper


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class TopK(InputObserver, Wrapper):
    """Ones at the `k` largest numbers of another explanation and zeros elsewhere: what a list of the k most important words says.

    Of equal numbers the first ones count. Numbers that do not exist, as behind the end of a text, are never chosen; a sample with
    fewer than k numbers gets ones at all of them. A map with NaN is NaN. Around a control it is a control.
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

    def bind(self, reference: Tensor | None = None, space: InputSpace | None = None) -> TopK:
        return replace(self, explainer=self.inner.bind(reference, space))

    def prepare(self, inputs: Tensor) -> TopK:
        return replace(self, explainer=self.inner.prepare(inputs)) if isinstance(self.inner, InputObserver) else self

    def specialise(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> TopK:
        return replace(self, explainer=self.inner.specialise(model, inputs, targets, context))

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        return self.inner.check(model, inputs, targets, context)

    def rows_at_once(self, shape: Size) -> int:
        return self.inner.rows_at_once(shape)

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        maps = self.inner.explain(model, inputs, targets, context)
        present = context.present if context.present is not None and context.present.shape == maps.shape else None
        return largest(maps, self.k, present)
