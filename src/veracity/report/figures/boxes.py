"""Box plots: how an explainer's score spreads over the samples."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from veracity.core.wording import number
from veracity.report.figures.chart import LANE, ChartRow, Scale, colour_class, draw_chart, evenly, lane_centre, scale_for
from veracity.report.figures.ranking import RankingData, headings
from veracity.report.html import draw
from veracity.report.wording import word_of
from veracity.results import Series

POINTS = 400
REACH = 1.5
GOLDEN = (math.sqrt(5) - 1) / 2
HALF = LANE // 2


@dataclass(frozen=True, kw_only=True)
class Box:
    """Quartiles, whiskers (the furthest values within 1.5 interquartile ranges of the box) and the values themselves."""

    low: float
    first: float
    median: float
    third: float
    high: float
    count: int
    points: tuple[float, ...]


BoxRow = tuple[str, tuple[Box | None, ...]]


@dataclass(frozen=True, kw_only=True)
class BoxesData:
    """One box for each explainer and model under the ranking's headings, in its order; None if no sample has a value.

    `absent` says in a word why there is none, by explainer and model: undefined, failed, pending, or not run.
    """

    score: str
    models: tuple[str, ...]
    groups: tuple[tuple[str, tuple[BoxRow, ...]], ...]
    scale: Scale
    digits: int
    absent: Mapping[tuple[str, str], str] = field(default_factory=dict)

    @property
    def rows(self) -> tuple[BoxRow, ...]:
        """The rows of all groups."""
        return tuple(row for _, rows in self.groups for row in rows)


def boxes_data(series: Iterable[Series], ranking: RankingData) -> BoxesData:
    """Boxes of the values of every sample, in the order of the ranking."""
    boxes = {(one.explainer, one.model): box_of(one.per_sample) for one in series}
    groups = [
        (heading, tuple((item.explainer, tuple(boxes.get((item.explainer, model)) for model in ranking.models)) for item in items))
        for group in ranking.frames
        for heading, items in zip(headings(group, ranking), (group.explainers, group.controls), strict=True)
    ]
    return BoxesData(
        score=ranking.score,
        models=ranking.models,
        groups=tuple(groups),
        scale=scale_for([value for box in boxes.values() if box is not None for value in (*box.points, box.low, box.high)]),
        digits=ranking.digits,
        absent={
            (item.explainer, model): "not run" if one is None else "undefined" if one.settled else one.state
            for item in (*ranking.explainers, *ranking.controls)
            for model, one in zip(ranking.models, item.results, strict=True)
        },
    )


def box_of(values: NDArray[np.float64]) -> Box | None:
    """The box of the finite values; of very many, evenly spaced ranks stand for all as points.

    >>> box = box_of(np.array([0.0, 1.0, 2.0, 3.0, 100.0, np.nan]))
    >>> box.first, box.median, box.third, box.high, box.count
    (1.0, 2.0, 3.0, 3.0, 5)
    """
    finite = np.sort(values[np.isfinite(values)])
    if not len(finite):
        return None
    first, median, third = map(float, np.quantile(finite, [0.25, 0.5, 0.75]))
    reach = REACH * (third - first)
    inside = finite[(finite >= first - reach) & (finite <= third + reach)]
    return Box(
        low=min(float(inside[0]), first),
        first=first,
        median=median,
        third=third,
        high=max(float(inside[-1]), third),
        count=len(finite),
        points=tuple(map(float, finite[evenly(len(finite), POINTS)])),
    )


def draw_boxes(data: BoxesData) -> Markup:
    """The box plots as HTML with inline SVG."""
    groups = [(heading, [draw_row(*row, data) for row in rows]) for heading, rows in data.groups]
    label = f"Box plots of {word_of(data.score)}"
    return draw_chart(groups, data.scale, lanes=len(data.models), main="median", more="lowest value", label=label)


def draw_row(name: str, boxes: Sequence[Box | None], data: BoxesData) -> ChartRow:
    """One explainer's boxes and their medians, or why there are none."""
    readouts = [
        (data.absent.get((name, model), "undefined"), "")
        if box is None
        else (number(box.median, data.digits), number(box.points[0], data.digits))
        for model, box in zip(data.models, boxes, strict=True)
    ]
    return ChartRow(name=name, lanes=[draw_box(index, name, box, data) for index, box in enumerate(boxes) if box], readouts=readouts)


def draw_box(model: int, name: str, box: Box, data: BoxesData) -> Markup:
    """Points behind, then whiskers, the box and the median. Points are spread a little in height so that equal ones can be counted."""
    places = [(10 * data.scale.percent(value), HALF + 9.0 * ((index * GOLDEN) % 1.0 - 0.5)) for index, value in enumerate(box.points)]
    points = "".join(f"M{x:.0f} {height:.1f}h0" for x, height in places)
    middle, low, high, lowest = (number(value, data.digits) for value in (box.median, box.first, box.third, box.points[0]))
    title = f"{name} on {data.models[model]}: median {middle}, quartiles {low} and {high}, lowest {lowest}, {box.count} samples"
    return draw("box", box, lane_centre(model, len(data.models)), data.scale, points, title, colour_class(model))
