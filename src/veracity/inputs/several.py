"""Samples that are several arrays by name, such as an image with a table, some explained and some carried along."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Size, Tensor, nn

from veracity.core import fingerprint
from veracity.core.errors import InputError, listed, unknown
from veracity.core.inputs import Signals, check_finite
from veracity.core.models import View, unwrap, weight_type


@dataclass(frozen=True, eq=False)
class SeveralInputs:
    """Samples of several arrays (N, ...) by name. The model gets all of them by name; in their order if it says no names.

    `explain` names the parts that are explained and perturbed: one name, several, or by default all parts in floating point. One part
    keeps its shape; several are laid out in one row per sample. The other parts are carried along unchanged.

    >>> two = SeveralInputs({"image": torch.zeros(5, 1, 8, 8), "age": torch.ones(5, 1)}, explain="image")
    >>> two.shape, [tuple(part.shape) for part in two.take(torch.arange(2)).structure]
    (torch.Size([1, 8, 8]), [(2, 1)])
    """

    parts: Mapping[str, Tensor]
    explain: str | tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if not self.parts:
            raise InputError("There are no inputs: pass at least one array by name, such as {'image': images}.")
        counts = {name: len(part) if part.ndim else 0 for name, part in self.parts.items()}
        first, size = next(iter(counts.items()))
        other = next((name for name, count in counts.items() if count != size), None)
        if other is not None:
            raise InputError(f"The part '{first}' has {size} samples, and '{other}' has {counts[other]}: give one row per sample in each.")
        for name in self.explained:
            if name not in self.parts:
                raise unknown("part of the inputs", name, self.parts)
            if not self.parts[name].is_floating_point():
                kind = str(self.parts[name].dtype).removeprefix("torch.")
                raise InputError(
                    f"The part '{name}' holds {kind}, which cannot be explained by small changes: name other parts in explain=."
                )
            check_finite(self.parts[name])
        if not self.explained:
            raise InputError(f"None of the parts {', '.join(self.parts)} is in floating point: convert the part to explain with .float().")

    @cached_property
    def explained(self) -> tuple[str, ...]:
        """The names of the explained parts."""
        if self.explain is None:
            return tuple(name for name, part in self.parts.items() if part.is_floating_point())
        return (self.explain,) if isinstance(self.explain, str) else tuple(self.explain)

    @property
    def carried(self) -> tuple[str, ...]:
        """The names of the parts that stay as they are."""
        return tuple(name for name in self.parts if name not in self.explained)

    @property
    def shape(self) -> Size:
        """The shape of the explained part; (values,) if there are several."""
        shapes = [self.parts[name].shape[1:] for name in self.explained]
        return shapes[0] if len(shapes) == 1 and shapes[0] else Size((sum(math.prod(shape) for shape in shapes),))

    def size(self) -> int:
        """The number of samples."""
        return len(self.parts[self.explained[0]])

    def take(self, index: Tensor) -> Signals:
        """Samples by index."""
        taken = {name: part[index.to(part.device)].detach() for name, part in self.parts.items()}
        rows = [taken[name].reshape(len(index), -1) for name in self.explained]
        values = torch.cat(rows, dim=1).reshape(len(index), *self.shape)  # in the finest of the parts' types
        return Signals(values, tuple(taken[name] for name in self.carried))

    def fingerprint(self) -> str:
        """A hash of the content and of what is explained."""
        return fingerprint.of_json(
            ["several", list(self.explained), {name: fingerprint.of_tensor(part) for name, part in self.parts.items()}]
        )

    def adapt(self, model: nn.Module) -> nn.Module:
        """The model as a module of the explained values and of the parts that are carried along.

        It gets numbers in floating point in the type of its weights, and as they are if it has no weights.
        """
        kind, explained = weight_type(model), {name: tuple(self.parts[name].shape[1:]) for name in self.explained}
        kinds = {name: kind or part.dtype for name, part in self.parts.items() if part.is_floating_point()}
        return PartsModel(model, explained, self.carried, kinds, *call_order(model, tuple(self.parts)))

    def to(self, kind: torch.dtype) -> SeveralInputs:
        """The same samples with all parts in floating point converted to one type."""
        return replace(self, parts={name: part.to(kind) if part.is_floating_point() else part for name, part in self.parts.items()})


class PartsModel(View):
    """A model of several arrays, as a function of one array of explained values and of carried ones."""

    carries_parts = True  # the structure is beside the explained values: they are an image or a table like any other

    def __init__(
        self,
        model: nn.Module,
        explained: dict[str, tuple[int, ...]],
        carried: tuple[str, ...],
        kinds: dict[str, torch.dtype],
        order: tuple[str, ...],
        by_name: bool,
    ) -> None:
        super().__init__(model)
        self.explained, self.carried, self.kinds, self.order, self.by_name = explained, carried, kinds, order, by_name

    def forward(self, values: Tensor, *structure: Tensor) -> Any:
        """The model's output for values (N, ...) and carried parts."""
        named = self.by_part(values, *structure)
        return self.model(**named) if self.by_name else self.model(*(named[name] for name in self.order))

    def by_part(self, values: Tensor, *structure: Tensor) -> dict[str, Tensor]:
        """The parts (N, ...) by name."""
        rows = values.reshape(len(values), -1).split([math.prod(shape) for shape in self.explained.values()], dim=1)
        shaped = [row.reshape(len(values), *shape) for row, shape in zip(rows, self.explained.values(), strict=True)]
        parts = {**dict(zip(self.explained, shaped, strict=True)), **dict(zip(self.carried, structure, strict=True))}
        return {name: part.to(self.kinds.get(name, part.dtype)) for name, part in parts.items()}


def in_order(parts: Sequence[Any]) -> dict[str, Any]:
    """Parts without names, which a model takes in their order.

    >>> in_order("ab")
    {'input_0': 'a', 'input_1': 'b'}
    """
    return {f"input_{place}": part for place, part in enumerate(parts)}


def required_names(model: nn.Module) -> set[str]:
    """The names of what a model cannot be called without; empty if it says none."""
    inner: Any = unwrap(model)
    known = getattr(inner, "signature", None)
    if not isinstance(known, inspect.Signature):
        if hasattr(inner, "input_names"):
            return set(inner.input_names or ())
        try:
            known = inspect.signature(inner.forward)
        except (TypeError, ValueError):
            return set()
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {one.name for one in known.parameters.values() if one.default is one.empty and one.kind not in several}


def call_order(model: nn.Module, names: Sequence[str]) -> tuple[tuple[str, ...], bool]:
    """In which order a model takes parts of these names, and whether it takes them by name; raises if it does not know a name.

    The order is that of the parts if they have no names of their own, if the model says none, or if there is only one.
    """
    given, inner = tuple(names), unwrap(model)
    function = getattr(inner, "signature", None)
    open_ended = isinstance(function, inspect.Signature) and any(one.kind is one.VAR_KEYWORD for one in function.parameters.values())
    if open_ended and required_names(model) <= set(given):
        return given, True
    own: Sequence[str] | None = getattr(inner, "input_names", None)
    needed, anything, by_name = set(own or ()), False, own is None
    if own is None and not hasattr(inner, "input_names"):
        try:
            parameters = inspect.signature(inner.forward).parameters.values()
        except (TypeError, ValueError):
            return given, False
        if not any(one.kind is one.VAR_POSITIONAL for one in parameters):
            own = [one.name for one in parameters if one.kind is not one.VAR_KEYWORD]
        anything = any(one.kind is one.VAR_KEYWORD for one in parameters)
        needed = {one.name for one in parameters if one.default is one.empty and one.name in (own or ())}
    if anything and needed <= set(given):
        return given, True
    if own is None:
        return given, False
    if by_name and needed <= set(given) <= set(own):
        return given, True
    if not by_name and set(given) == set(own[: len(given)]):
        return tuple(own[: len(given)]), False
    if given == tuple(in_order(given)) or len(given) == len(own) == 1:
        return given, False
    strange = [name for name in given if name not in own]
    what = f"does not know {listed(strange)}" if strange else f"needs {listed([name for name in own if name not in given])} too"
    raise InputError(
        f"The inputs are called {listed(given)}, but the model takes {listed(own)} and {what}: give the arrays the model's names, or pass "
        "a tuple of arrays in its order."
    )
