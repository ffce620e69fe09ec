"""Box plots: how an explainer's score spreads over the samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from markupsafe import Markup
from numpy.typing import NDArray

from veracity.core.wording import number
from veracity.report.figures.chart import LANE, ChartGroup, ChartRow, Readout, draw_chart, lane, lane_centre
from veracity.report.figures.ranking import RankingData, headings
from veracity.report.figures.scale import Scale, scale_for
from veracity.report.wording import word_of

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
    """One box for each explainer and model under the ranking's headings, in its order; None where no sample has a value.

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
        """All of them."""
        return tuple(row for _, rows in self.groups for row in rows)


def boxes_data(samples: pd.DataFrame, ranking: RankingData) -> BoxesData:
    """Boxes of the values of every sample, in the order of the ranking."""
    values = {
        (str(name[0]), str(name[1])): frame["value"].to_numpy(dtype=np.float64)
        for name, frame in samples.groupby(["explainer", "model"], sort=False)
    }
    boxes = {name: box for name, mine in values.items() if (box := box_of(mine)) is not None}

    def row(explainer: str) -> BoxRow:
        return explainer, tuple(boxes.get((explainer, model)) for model in ranking.models)

    groups = [
        (heading, tuple(row(item.explainer) for item in items))
        for group in ranking.frames
        for heading, items in zip(headings(group, ranking), (group.explainers, group.controls), strict=True)
    ]
    return BoxesData(
        score=ranking.score,
        models=ranking.models,
        groups=tuple(groups),
        scale=scale_for([value for box in boxes.values() for value in (*box.points, box.low, box.high)]),
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
    first, median, third = np.quantile(finite, [0.25, 0.5, 0.75])
    reach = REACH * (third - first)
    inside = finite[(finite >= first - reach) & (finite <= third + reach)]
    shown = finite[np.unique(np.linspace(0, len(finite) - 1, min(len(finite), POINTS)).round().astype(int))]
    return Box(
        low=float(min(inside[0], first)),
        first=float(first),
        median=float(median),
        third=float(third),
        high=float(max(inside[-1], third)),
        count=len(finite),
        points=tuple(float(value) for value in shown),
    )


def draw_boxes(data: BoxesData) -> Markup:
    """The box plots as HTML with inline SVG."""
    groups = [ChartGroup(heading=heading, rows=[draw_row(*row, data) for row in rows]) for heading, rows in data.groups]
    return draw_chart(
        groups, data.scale, lanes=len(data.models), main="median", more="lowest value", label=f"Box plots of {word_of(data.score)}"
    )


def draw_row(name: str, boxes: Sequence[Box | None], data: BoxesData) -> ChartRow:
    """One explainer's boxes and their medians."""
    lanes = [draw_box(index, name, box, data) for index, box in enumerate(boxes) if box is not None]
    absent = [data.absent.get((name, model), "undefined") for model in data.models]
    return ChartRow(name=name, lanes=lanes, readouts=[readout(box, data.digits, why) for box, why in zip(boxes, absent, strict=True)])


def readout(box: Box | None, digits: int, absent: str) -> Readout:
    """The numbers beside a box, or the word for why there is none."""
    return Readout(main=absent) if box is None else Readout(main=number(box.median, digits), more=number(box.points[0], digits))


def draw_box(model: int, name: str, box: Box, data: BoxesData) -> Markup:
    """Points behind, then whiskers, the box and the median."""
    y, scale, digits = lane_centre(model, len(data.models)), data.scale, data.digits
    first, third, median = scale.percent(box.first), scale.percent(box.third), scale.percent(box.median)
    whisker = Markup('<line class="whisker" x1="{}%" x2="{}%" y1="{}" y2="{}"/>')
    body = Markup('<rect class="box" x="{}%" width="{}%" y="{}" height="9"/><line class="median" x1="{}%" x2="{}%" y1="{}" y2="{}"/>')
    parts = [
        draw_points(box.points, y, scale),
        whisker.format(scale.percent(box.low), first, y, y),
        whisker.format(third, scale.percent(box.high), y, y),
        body.format(first, round(third - first, 2), y - 4.5, median, median, y - 5.5, y + 5.5),
    ]
    title = (
        f"{name} on {data.models[model]}: median {number(box.median, digits)}, quartiles {number(box.first, digits)} and "
        f"{number(box.third, digits)}, lowest {number(box.points[0], digits)}, {box.count} samples"
    )
    return lane(model, title, Markup("").join(parts))


def draw_points(points: Sequence[float], y: float, scale: Scale) -> Markup:
    """Values as dots in one path, spread a little in height so that equal ones stay countable."""
    places = [(10 * scale.percent(value), HALF + 9.0 * ((index * GOLDEN) % 1.0 - 0.5)) for index, value in enumerate(points)]
    path = "".join(f"M{x:.0f} {height:.1f}h0" for x, height in places)
    frame = '<svg y="{0}" width="100%" height="{1}" viewBox="0 0 1000 {1}" preserveAspectRatio="none" overflow="visible">{2}</svg>'
    return Markup(frame).format(y - HALF, 2 * HALF, Markup('<path class="points" d="{}"/>').format(path))
