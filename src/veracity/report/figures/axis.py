"""An axis of a plot that is logarithmic where its values ask for it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from veracity.report.figures.scale import TINY, Scale, tight_scale
from veracity.core.wording import compact

WIDE = 20.0
"""Values whose largest is that many times the smallest need a logarithmic axis."""
DECADES = 2.5
"""From here on only powers of ten are ticks."""


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A scale with the texts of its ticks; of a logarithmic one the scale is that of the exponents."""

    scale: Scale
    labels: tuple[str, ...]
    log: bool = False

    def at(self, value: float) -> float:
        """Where a value lies on the scale; what has no logarithm lies at the lower end.

        >>> log_axis(1.0, 100.0).at(10.0), log_axis(1.0, 100.0).at(0.0)
        (1.0, 0.0)
        """
        if not self.log or math.isnan(value):
            return value
        return max(math.log10(value), self.scale.low) if value > 0 else self.scale.low


def axis_for(values: Iterable[float], *, parts: int = 3) -> Axis:
    """An axis that holds the finite values: from zero, or logarithmic where they are positive and span a wide range.

    >>> axis_for([0.5, 2.0]).labels, axis_for([0.5, 300.0]).labels
    (('0', '1', '2'), ('0.1', '1', '10', '100', '1000'))
    """
    finite = [value for value in values if math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=1.0)
    if low > 0 and high > WIDE * low:
        return log_axis(low, high)
    scale = from_zero(finite, parts=parts)
    return Axis(scale=scale, labels=tuple(compact(tick) for tick in scale.ticks))


def from_zero(values: Iterable[float], *, parts: int = 4) -> Scale:
    """A linear axis from zero, or from below where values are negative, that holds the finite values; up to 1 if none is above zero.

    >>> from_zero([3.0]).ticks, from_zero([0.0]).ticks
    ((0.0, 1.0, 2.0, 3.0), (0.0, 0.5, 1.0))
    """
    finite = [value for value in values if math.isfinite(value)]
    return tight_scale([0.0, *finite] if max(finite, default=0.0) > TINY else [0.0, 1.0, *finite], parts=parts)


def log_axis(low: float, high: float) -> Axis:
    """A logarithmic axis from one round number to another that holds all in between: powers of ten, or also 2 and 5 times those.

    >>> log_axis(3.7, 98.0).labels
    ('2', '5', '10', '20', '50', '100')
    """
    factors = (1.0,) if math.log10(high / low) >= DECADES else (1.0, 2.0, 5.0)
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    places = [float(f"{factor}e{power}") for power in powers for factor in factors]
    first = max(place for place in places if place <= low * (1 + 1e-9))
    last = min(place for place in places if place >= high * (1 - 1e-9))
    ticks = [place for place in places if first <= place <= last]
    scale = Scale(math.log10(ticks[0]), math.log10(ticks[-1]), tuple(math.log10(tick) for tick in ticks))
    return Axis(scale=scale, labels=tuple(compact(tick) for tick in ticks), log=True)
