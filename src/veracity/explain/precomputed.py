"""Explanations that were made elsewhere, and perhaps the explainer that made them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import pandas as pd
import torch
from torch import Size, Tensor, nn

from veracity.core.errors import InputError
from veracity.core.explainers import BARE, Context, Cost, Explainer, Frame, GivenMaps
from veracity.core.inputs import Inputs
from veracity.core.registry import EXPLAINERS
from veracity.explain.maps import in_shape, is_table, map_tensor
from veracity.explain.wrapper import Wrapper, computed


@dataclass(frozen=True, kw_only=True)
class NoExplainer(Explainer):
    """The inner explainer of `Precomputed` if there are only maps: it can explain nothing else."""

    name = "no_explainer"
    structured = True
    signed = False

    def cost(self, shape: Size) -> Cost:
        return Cost()

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        raise InputError(
            "precomputed holds explanations of the unperturbed inputs only. Scores that explain anything else need the explainer, "
            "Precomputed(maps=..., explainer=...); pixel_flipping, faithfulness_correlation and complexity do not."
        )


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class Precomputed(GivenMaps, Wrapper):
    """Explanations of the audit's inputs that were made elsewhere: `maps` (samples, ...), in the order of the inputs.

    Maps are a tensor, an array, a DataFrame, or one of these per model, {"model": maps}. Axes of size one are repeated, and so is a
    map (H, W) along the channels. They are the explanations of the unperturbed inputs. The `explainer` explains everything else:
    perturbed inputs, other weights, other targets. Without one, only scores that need no further explanation can be measured.
    """

    name = "precomputed"
    maps: Any = None
    explainer: Explainer | None = None

    signed: ClassVar[bool] = computed(lambda self: any(bool((one < 0).any()) for one in self.sets.values()) or self.inner.signed)

    @property
    def inner(self) -> Explainer:
        return NoExplainer() if self.explainer is None else self.explainer

    @property
    def sets(self) -> dict[str, Tensor]:
        """The maps by model; one set for all models has the name ""."""
        if isinstance(self.maps, Mapping):
            return {str(name): map_tensor(maps) for name, maps in self.maps.items()}
        return {"": map_tensor(self.maps)}

    @property
    def given(self) -> Tensor:
        return next(iter(self.sets.values()))

    def maps_for(self, model: str, samples: Tensor, targets: Tensor) -> Tensor:
        sets = self.sets
        return (sets[""] if "" in sets else sets[model])[samples]

    @property
    def fixed(self) -> bool:
        return self.explainer is None

    def spec(self) -> dict[str, Any]:
        return replace(self, maps=self.given if "" in self.sets else self.sets).plain_spec()

    def plain_spec(self) -> dict[str, Any]:
        """The settings as plain data, once the maps are tensors."""
        return super().spec()

    @property
    def observes(self) -> bool:
        return True

    @classmethod
    def own_controls(
        cls, explainers: Mapping[str, Explainer], model: nn.Module, inputs: Inputs, seed: int, batch: int
    ) -> Mapping[str, Mapping[str, Explainer]]:
        """None: the given maps are no control's."""
        return {}

    def prepare(self, inputs: Tensor) -> Self:
        """With maps of the inputs' shape; raises if their number or shape does not fit."""
        for maps in self.sets.values():
            if len(maps) != len(inputs):
                raise InputError(
                    f"'{self.name}' has {len(maps)} maps for {len(inputs)} inputs: give one map for each input, in their order."
                )
        found = super().prepare(inputs)
        if self.frame is not Frame.INPUT:
            return found
        full = {name: self.spread(maps, inputs.shape[1:]) for name, maps in self.sets.items()}
        return replace(found, maps=full.get("", full))

    def spread(self, maps: Tensor, shape: Size) -> Tensor:
        """Maps of the inputs' shape; raises if they do not fit."""
        found = in_shape(maps, shape)
        if found is None:
            raise InputError(
                f"The maps of precomputed have shape {tuple(maps.shape[1:])} each, but an input has shape {tuple(shape)}: "
                "give maps of the inputs' shape; axes of size 1 and a missing channel axis are repeated."
            )
        return found

    def check_order(self, names: Sequence[str] | None, index: Sequence[Any] | None) -> None:
        """Raise if a DataFrame of maps has other columns or rows than the table of the inputs; rows that just count have no names."""
        tables = self.maps.values() if isinstance(self.maps, Mapping) else [self.maps]
        for table in (one for one in tables if is_table(one)):
            check_columns([str(name) for name in table.columns], names)
            if table.index.equals(pd.RangeIndex(len(table))) and isinstance(table.index, pd.RangeIndex):
                continue
            if index is not None and len(index) == len(table) and list(table.index) != list(index):
                row = next(row for row, (a, b) in enumerate(zip(table.index, index, strict=True)) if a != b)
                raise InputError(
                    f"Row {row} of the explanations is called {table.index.tolist()[row]!r}, and row {row} of the inputs {index[row]!r}: "
                    "give the explanations in the order of the inputs, maps.loc[inputs.index]."
                )

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise unless the maps fit the inputs; note NaN or infinity in them, and what the inner explainer notes."""
        for maps in self.sets.values():
            if len(maps) < len(inputs):
                raise InputError(
                    f"precomputed has maps for {len(maps)} inputs, but there are more: give one map per input, in their order."
                )
            if self.frame is Frame.INPUT:
                self.spread(maps, inputs.shape[1:])
        finite = all(bool(torch.isfinite(maps).all()) for maps in self.sets.values())
        notes = () if finite else ("The maps of precomputed contain NaN or infinity.",)
        return (*notes, *self.inner.check(model, inputs, targets, context))


def check_columns(found: Sequence[str], expected: Sequence[str] | None) -> None:
    """Raise if explanations have other features than the inputs, or the same in another order."""
    if expected is None or list(found) == list(expected):
        return
    if sorted(found) == sorted(expected):
        place = next(at for at, (a, b) in enumerate(zip(found, expected, strict=True)) if a != b)
        raise InputError(
            f"The explanations have the features in another order than the inputs: place {place} is '{found[place]}' and not "
            f"'{expected[place]}': sort them, maps[inputs.columns]."
        )
    odd = (sorted(set(found) - set(expected)) or sorted(set(expected) - set(found)) or [f"{len(found)} for {len(expected)}"])[0]
    raise InputError(f"The explanations have other features than the inputs: '{odd}' is in one of them only.")
