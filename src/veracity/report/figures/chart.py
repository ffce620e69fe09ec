"""The parts that all figures share: axes, marks and colours of models, legends, and a chart with one row per explainer or model.

Horizontal places are percentages of the drawing's width and vertical ones pixels, so a figure fits a phone and a wide screen without
scaling its text. An axis is logarithmic if its values ask for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from veracity.core.wording import compact
from veracity.report.html import draw

COLOURS = 6
TINY = 1e-30
WIDE = 20.0
"""Values whose largest is this many times the smallest need a logarithmic axis."""
DECADES = 2.5
"""From this many decades on, only powers of ten are ticks."""
CIRCLE = "M-4.2 0a4.2 4.2 0 1 0 8.4 0a4.2 4.2 0 1 0 -8.4 0Z"
SQUARE = "M-3.7 -3.7H3.7V3.7H-3.7Z"
DIAMOND = "M0 -5.2L5.2 0L0 5.2L-5.2 0Z"
TRIANGLE = "M0 -4.8L4.8 3.8H-4.8Z"
FLAG = "M0 4.8L4.8 -3.8H-4.8Z"
CROSS = "M-1.7 -4.6H1.7V-1.7H4.6V1.7H1.7V4.6H-1.7V1.7H-4.6V-1.7H-1.7Z"
SHAPES = (CIRCLE, SQUARE, DIAMOND, TRIANGLE, FLAG, CROSS)
LANE = 16
PAD = 5


@dataclass(frozen=True)
class Scale:
    """A linear axis.

    >>> Scale(0.0, 2.0, (0.0, 1.0, 2.0)).percent(0.5)
    25.0
    """

    low: float
    high: float
    ticks: tuple[float, ...]

    def percent(self, value: float) -> float:
        """The place of a value, from 0 to 100."""
        return round(100.0 * min(max((value - self.low) / (self.high - self.low), 0.0), 1.0), 2)


SHARES = Scale(0.0, 1.0, (0.0, 0.2, 0.4, 0.6, 0.8, 1.0))


def ends_of(values: Iterable[float]) -> tuple[float, float]:
    """The least and the largest finite value; 0 and 1 if there is none."""
    finite = [value for value in values if math.isfinite(value)]
    return min(finite, default=0.0), max(finite, default=1.0)


def round_scale(low: float, high: float, parts: int) -> Scale:
    """An axis of about this many parts, from one round tick to another, that holds both values."""
    step = nice_step((high - low) / parts)
    first, last = math.floor(low / step + 1e-6), math.ceil(high / step - 1e-6)
    ticks = tuple(float(f"{index * step:.10g}") for index in range(first, last + 1))
    return Scale(ticks[0], ticks[-1], ticks)


def scale_for(values: Iterable[float], parts: int = 8) -> Scale:
    """An axis that holds zero and the finite values; similarities between 0 and 1 always get the whole unit interval.

    >>> scale_for([0.3, 0.9]).ticks
    (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    >>> scale_for([-0.31, 1.0]).ticks
    (-0.4, -0.2, 0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    """
    low, high = ends_of(values)
    low, high = min(low, 0.0), 1.0 if 0.2 < high <= 1.0 + 1e-6 else max(high, 0.0)
    return round_scale(low, low + 1.0 if high - low < TINY else high, parts)


def tight_scale(values: Iterable[float], *, parts: int = 4, least: float = 0.0) -> Scale:
    """An axis that holds the finite values and hardly more; it extends downwards until it is `least` wide.

    >>> tight_scale([0.93, 0.99]).ticks
    (0.92, 0.94, 0.96, 0.98, 1.0)
    >>> tight_scale([1.0]).ticks, tight_scale([0.9999, 1.0], least=0.02).ticks
    ((0.9, 0.95, 1.0), (0.98, 0.985, 0.99, 0.995, 1.0))
    """
    low, high = ends_of(values)
    size = max(abs(low), abs(high))
    low = min(low, high - least)
    if high - low < 1e-9 * size or high - low < TINY:
        low, parts = high - 0.1 * (size if size > TINY else 1.0), 2
    return round_scale(low, high, parts)


def exact_scale(low: float, high: float) -> Scale:
    """An axis from one value to another, with round ticks in between.

    >>> exact_scale(1.0, 50.0).ticks
    (1.0, 20.0, 40.0, 50.0)
    """
    near = 0.07 * (high - low)
    inner = tuple(tick for tick in tight_scale([low, high]).ticks if low + near < tick < high - near)
    return Scale(low, high, (low, *inner, high))


def from_zero(values: Iterable[float], *, parts: int = 4) -> Scale:
    """An axis from zero, or from below if some values are negative, that holds the finite values; up to 1 if none is positive.

    >>> from_zero([3.0]).ticks, from_zero([0.0]).ticks
    ((0.0, 1.0, 2.0, 3.0), (0.0, 0.5, 1.0))
    """
    finite = [value for value in values if math.isfinite(value)]
    return tight_scale([0.0, *finite] if max(finite, default=0.0) > TINY else [0.0, 1.0, *finite], parts=parts)


def nice_step(step: float) -> float:
    """The first of 1, 2, 5 times a power of ten that is no smaller.

    >>> nice_step(0.17), nice_step(3.0)
    (0.2, 5.0)
    """
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= step * (1 - 1e-9))


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A scale with the texts of its ticks; the scale of a logarithmic axis is that of the exponents."""

    scale: Scale
    labels: tuple[str, ...]
    log: bool = False

    def at(self, value: float) -> float:
        """The place of a value on the scale; a value without a logarithm lies at the lower end.

        >>> log_axis(1.0, 100.0).at(10.0), log_axis(1.0, 100.0).at(0.0)
        (1.0, 0.0)
        """
        if not self.log or math.isnan(value):
            return value
        return max(math.log10(value), self.scale.low) if value > 0 else self.scale.low


def plain_axis(scale: Scale) -> Axis:
    """A linear axis with plain numbers."""
    return Axis(scale=scale, labels=tuple(map(compact, scale.ticks)))


def axis_for(values: Iterable[float], *, parts: int = 3) -> Axis:
    """An axis that holds the finite values: from zero, or logarithmic if they are positive and span a wide range.

    >>> axis_for([0.5, 2.0]).labels, axis_for([0.5, 300.0]).labels
    (('0', '1', '2'), ('0.1', '1', '10', '100', '1000'))
    """
    finite = [value for value in values if math.isfinite(value)]
    low, high = ends_of(finite)
    return log_axis(low, high) if low > 0 and high > WIDE * low else plain_axis(from_zero(finite, parts=parts))


def log_axis(low: float, high: float) -> Axis:
    """A logarithmic axis from one round number to another that holds both values: powers of ten, or also 2 and 5 times those.

    >>> log_axis(3.7, 98.0).labels
    ('2', '5', '10', '20', '50', '100')
    """
    factors = (1.0,) if math.log10(high / low) >= DECADES else (1.0, 2.0, 5.0)
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    places = [float(f"{factor}e{power}") for power in powers for factor in factors]
    first = max(place for place in places if place <= low * (1 + 1e-9))
    last = min(place for place in places if place >= high * (1 - 1e-9))
    ticks = [place for place in places if first <= place <= last]
    logs = tuple(map(math.log10, ticks))
    return Axis(scale=Scale(logs[0], logs[-1], logs), labels=tuple(map(compact, ticks)), log=True)


def evenly(count: int, most: int) -> NDArray[np.int64]:
    """At most so many of `count` places, evenly spaced, the first and the last among them.

    >>> evenly(9, 3), evenly(2, 3)
    (array([0, 4, 8]), array([0, 1]))
    """
    return np.unique(np.linspace(0, max(count - 1, 0), min(count, most)).round().astype(np.int64))


def mean_of(values: Sequence[float]) -> float:
    """The mean, NaN of nothing."""
    return math.fsum(values) / len(values) if values else math.nan


def colour_class(model: int) -> str:
    """The CSS class that sets a model's colour."""
    return f"m{model % COLOURS + 1}"


def shape_of(model: int) -> str:
    """The outline of a model's mark, so that colour is never the only difference."""
    return SHAPES[(model + model // COLOURS) % len(SHAPES)]


def mark(percent: float, y: float, path: str, css: str) -> Markup:
    """A small outline at a place."""
    return Markup('<svg x="{}%" y="{}" overflow="visible"><path class="{}" d="{}"/></svg>').format(percent, y, css, path)


def span(low: float, high: float, y: float, scale: Scale, css: str) -> Markup:
    """An interval as a line; an unknown (infinite) end reaches the edge of the axis, and an undefined interval is not drawn."""
    if math.isnan(low) or math.isnan(high):
        return Markup("")
    line = Markup('<line class="{}" x1="{}%" x2="{}%" y1="{}" y2="{}"/>')
    return line.format(css, scale.percent(low), scale.percent(high), y, y)


def key(model: int) -> Markup:
    """A model's mark for legends and headings."""
    return Markup(
        '<svg class="key {}" width="12" height="12" viewBox="-6 -6 12 12" aria-hidden="true"><path class="dot" d="{}"/></svg>'
    ).format(colour_class(model), shape_of(model))


def legend(models: Sequence[str], *, always: bool = False) -> Markup:
    """Which mark is which model; empty for a single model, unless it is shown `always`."""
    items = Markup("").join(Markup("<li>{}{}</li>").format(key(index), name) for index, name in enumerate(models))
    return Markup('<ul class="legend">{}</ul>').format(items) if always or len(models) > 1 else Markup("")


Readout = tuple[str, str]
"""The numbers beside one lane: the main one, and the one that a narrow screen leaves out."""


@dataclass(frozen=True, kw_only=True)
class ChartRow:
    """One row: its name, the drawing of each lane (one per model), and the numbers of each lane."""

    name: str
    lanes: Sequence[Markup]
    readouts: Sequence[Readout]


def lane_centre(lane: int, lanes: int) -> float:
    """The height of a lane's middle, in pixels below the strip's middle.

    >>> lane_centre(0, 3), lane_centre(1, 3)
    (-16.0, 0.0)
    """
    return LANE * (lane - (lanes - 1) / 2)


def draw_chart(groups: Sequence[tuple[str, Sequence[ChartRow]]], scale: Scale, *, lanes: int, main: str, more: str, label: str) -> Markup:
    """The whole chart as HTML, rows under their headings with one inline SVG each."""
    return draw("chart", groups, scale, 2 * PAD + LANE * lanes, main, more, label)


def lane(model: int, title: str, content: Markup) -> Markup:
    """What belongs to one model, in its colour, with a text for those who point at it or listen."""
    return Markup('<g class="{}"><title>{}</title>{}</g>').format(colour_class(model), title, content)
