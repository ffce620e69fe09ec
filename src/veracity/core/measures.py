"""What a measure is: a function of two batches of tensors to one number a sample, that knows how to be read."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any, ClassVar

from torch import Tensor

from veracity.core import fingerprint
from veracity.core.fingerprint.origin import ours
from veracity.core.registry import MEASURES
from veracity.core.settings import check_settings


class Direction(Enum):
    """Which way is more alike."""

    HIGHER = "higher"
    LOWER = "lower"


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A named comparison `(N, ...) x (N, ...) -> (N,)`, with its direction and range; undefined is NaN.

    `units` says whether its numbers are in the units of what it compares, so that they grow with both maps; if not given, those
    of a measure without an upper end are.
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
        """Compare row by row."""
        return self.function(a, b, **self.settings)

    @property
    def in_map_units(self) -> bool:
        """Whether multiplying both explanations by a number changes the measure.

        >>> Measure(name="gap", function=max, direction=Direction.LOWER, range=(0.0, math.inf)).in_map_units
        True
        """
        return math.isinf(self.range[1]) if self.units is None else self.units

    def using(self, **settings: Any) -> Measure:
        """The same measure with other settings."""
        return replace(self, settings={**self.settings, **check_settings(self.function, settings, f"measure '{self.name}'", given=2)})

    @classmethod
    def named(cls, spec: str | Mapping[str, Any]) -> Measure:
        """The registered measure of this name, or of {name, settings}."""
        found: Measure = MEASURES.build(spec)
        return found

    def spec(self) -> dict[str, Any]:
        """The measure as plain data; for a function from outside, a hash of its code too."""
        own = {} if ours(self.function) else {"code": fingerprint.of_value(self.function)}
        return {"name": self.name, **self.settings, **own}

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel to another process by name where there is one: a decorated function's own name means its measure."""
        if self.name in MEASURES and MEASURES[self.name].function is self.function:
            return Measure.named, ({"name": self.name, **self.settings},)
        return made, ({item.name: getattr(self, item.name) for item in fields(self)},)

    def summary(self) -> str:
        """The first sentence of the function's docstring."""
        return (inspect.getdoc(self.function) or "").split("\n\n")[0].replace("\n", " ")


def measure(
    name: str, *, direction: Direction, range: tuple[float, float], reference: str = "", units: bool | None = None
) -> Callable[[Callable[..., Tensor]], Measure]:
    """Turn a pure function of two batches into a registered measure."""

    def wrap(function: Callable[..., Tensor]) -> Measure:
        built = Measure(name=name, function=function, direction=direction, range=range, reference=reference, units=units)
        made: Measure = MEASURES.add(built)
        return made

    return wrap


def made(parts: dict[str, Any]) -> Measure:
    """A measure from its parts."""
    return Measure(**parts)
