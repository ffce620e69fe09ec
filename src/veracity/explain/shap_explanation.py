"""Explanations that the shap library has computed already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Size, Tensor, nn

from veracity.core.errors import InputError
from veracity.core.explainers import BARE, Context, InputObserver
from veracity.explain.passes import Structure
from veracity.explain.precomputed import Precomputed, check_columns
from veracity.explain.shap_calls import Values, per_row
from veracity.explain.shap_outputs import ExplainedOutput, explained_output, margin_note, of_class

FEW = 32
"""How many rows show which output is explained."""


@dataclass(frozen=True, kw_only=True)
class GivenShap(Precomputed):
    """A `shap.Explanation`: values (samples, ..., classes) that were computed already, with the inputs they belong to."""

    name = "shap.Explanation"
    base: Tensor | None = None
    data: Tensor | None = None
    features: tuple[str, ...] | None = None
    shape: tuple[int, ...] = ()
    few: Tensor | None = field(default=None, metadata={"spec": False}, compare=False)
    explained: ExplainedOutput | None = field(default=None, metadata={"spec": False}, compare=False)

    @classmethod
    def of(cls, explanation: Any) -> GivenShap:
        """From shap's object; raises if it explains texts, whose tokens are not the units of ours."""
        names = explanation.feature_names
        nested = isinstance(names, (list, tuple)) and any(isinstance(one, (list, tuple, np.ndarray)) for one in names)
        if nested or getattr(getattr(explanation.values, "dtype", None), "kind", "") == "O":
            raise InputError(
                "This shap.Explanation is of texts, and shap cuts them into other tokens than the audit does: use the explainer "
                "'partition_shap' or 'kernel_shap', which give SHAP values of texts."
            )
        values = torch.as_tensor(np.array(explanation.values, dtype=np.float64))
        data, base = explanation.data, explanation.base_values
        numbers = np.asarray(data) if data is not None else None
        kept = None if numbers is None or numbers.dtype.kind not in "fiub" else torch.as_tensor(np.array(numbers, dtype=np.float64))
        shape = tuple(values.shape[1:] if numbers is None else numbers.shape[1:])
        features = tuple(str(name) for name in names) if names is not None and len(shape) == 1 and len(names) == shape[0] else None
        start = None if base is None else torch.as_tensor(np.array(base, dtype=np.float64))
        return cls(maps=values, base=start, data=kept, features=features, shape=shape)

    def prepare(self, inputs: Tensor) -> Self:
        """Raises if the values belong to other inputs, or to these in another order."""
        values = self.given
        if len(values) != len(inputs):
            raise InputError(
                f"The shap.Explanation has values for {len(values)} inputs, but there are {len(inputs)}: give one for each input, "
                "in their order."
            )
        if self.data is not None and self.data.shape == inputs.shape:
            near = torch.isclose(self.data.to(inputs.device), inputs.double(), rtol=1e-4, atol=1e-6).flatten(1).all(1)
            if not bool(near.all()):
                row = int((~near).nonzero()[0])
                raise InputError(
                    f"Sample {row} of the shap.Explanation is not sample {row} of the inputs (its .data differs): give the values in "
                    "the order of the inputs."
                )
        shape = tuple(inputs.shape[1:])
        if tuple(values.shape[1 : 1 + len(shape)]) != shape or values.ndim > len(shape) + 2:
            raise InputError(
                f"The shap.Explanation has values of shape {tuple(values.shape[1:])} each, but an input has shape {shape}: "
                "explain these inputs."
            )
        inner = self.explainer.prepare(inputs) if isinstance(self.explainer, InputObserver) else self.explainer
        return replace(self, shape=shape, few=inputs[:FEW], explainer=inner)

    def spread(self, maps: Tensor, shape: Size) -> Tensor:
        return maps

    def check_order(self, names: Sequence[str] | None, index: Sequence[Any] | None) -> None:
        if self.features is not None:
            check_columns(self.features, names)

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        explained = self.explained_by(model, inputs, context.structure)
        notes = [margin_note("The shap.Explanation", "shap")] if explained.margin else []
        of_class(self.name, self.given[: len(inputs)], inputs, targets, explained)
        notes += self.inner.check(model, inputs, targets, context)
        return notes if bool(torch.isfinite(self.given).all()) else [*notes, "The shap.Explanation contains NaN or infinity."]

    def specialise(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Self:
        found = super().specialise(model, inputs, targets, context)
        return replace(found, explained=self.explained_by(model, inputs, context.structure))

    def explained_by(self, model: nn.Module, inputs: Tensor, structure: Structure) -> ExplainedOutput:
        """Which output the values explain, from the first rows."""
        x = inputs if self.few is None or structure else self.few.to(inputs)
        rows, values = len(x), self.given[: len(x)]
        outputs = values.shape[-1] if values.ndim > x.ndim else 1
        base = None if self.base is None else per_row(self.base, len(self.given), outputs)[:rows]
        with torch.no_grad():
            scores = model(x, *structure)
        return explained_output("The shap.Explanation", Values(values, base), scores, x.shape[1:])

    def maps_for(self, model: str, samples: Tensor, targets: Tensor) -> Tensor:
        values = self.given[samples]
        like = torch.empty(len(samples), *self.shape, dtype=values.dtype)
        found: Tensor = of_class(self.name, values, like, targets, self.explained)
        return found
