"""Measures: functions that compare two batches of tensors, one number per sample, with a direction and a range."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from functools import partial
from typing import Any, ClassVar

from torch import Tensor

from veracity.core import fingerprint
from veracity.core.fingerprint.origin import in_this_package
from veracity.core.registry import MEASURES
from veracity.core.settings import check_settings


class Direction(Enum):
    """Which direction is better, or more similar."""

    HIGHER = "higher"
    LOWER = "lower"


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A named comparison (N, ...) x (N, ...) -> (N,) with its direction and range; NaN where undefined.

    `units` says whether the result has the units of the maps, so that it grows when both maps are scaled. By default, a measure
    without an upper bound does.
    """

    role: ClassVar[str] = "measure"
    name: str
    function: Callable[..., Tensor]
    direction: Direction
    range: tuple[float, float]
    reference: str = ""
    units: bool | None = None
    settings: dict[str, Any] = field(default_factory=dict)

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """Compare two batches row by row."""
        return self.function(a, b, **self.settings)

    @property
    def in_map_units(self) -> bool:
        """Whether scaling both explanations changes the measure.

        >>> Measure(name="gap", function=max, direction=Direction.LOWER, range=(0.0, math.inf)).in_map_units
        True
        """
        return math.isinf(self.range[1]) if self.units is None else self.units

    def using(self, **settings: Any) -> Measure:
        """The same measure with other settings."""
        return replace(self, settings={**self.settings, **check_settings(self.function, settings, f"measure '{self.name}'", given=2)})

    @classmethod
    def named(cls, spec: str | Mapping[str, Any]) -> Measure:
        """The registered measure of this name, or built from {name, settings}."""
        found: Measure = MEASURES.build(spec)
        return found

    def spec(self) -> dict[str, Any]:
        """The measure as plain data; for a function outside this package, a hash of its code too."""
        own = {} if in_this_package(self.function) else {"code": fingerprint.of_value(self.function)}
        return {"name": self.name, **self.settings, **own}

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle a registered measure by name, because the name of its function now refers to the measure."""
        if self.name in MEASURES and MEASURES[self.name].function is self.function:
            return registered, ({"name": self.name, **self.settings},)
        return partial(Measure, **{item.name: getattr(self, item.name) for item in fields(self)}), ()

    def summary(self) -> str:
        """The first sentence of the function's docstring."""
        return (inspect.getdoc(self.function) or "").split("\n\n")[0].replace("\n", " ")


def registered(spec: Mapping[str, Any]) -> Measure:
    """The registered measure of a spec; a function of its own, since cloudpickle would copy the code of a class method."""
    return Measure.named(spec)


def measure(
    name: str, *, direction: Direction, range: tuple[float, float], reference: str = "", units: bool | None = None
) -> Callable[[Callable[..., Tensor]], Measure]:
    """Turn a pure function of two batches into a registered measure."""

    def wrap(function: Callable[..., Tensor]) -> Measure:
        built = Measure(name=name, function=function, direction=direction, range=range, reference=reference, units=units)
        MEASURES.add(built)
        return built

    return wrap
