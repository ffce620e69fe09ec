"""Charts of one score with its intervals: explainers between the random control and self-agreement, and the models themselves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from veracity.core.wording import interval, number
from veracity.engine.store.state import State
from veracity.report.figures.chart import ChartGroup, ChartRow, Readout, draw_chart, lane, lane_centre
from veracity.report.figures.scale import DIAMOND, Scale, key, mark, scale_for, shape_of
from veracity.report.rows import frames_of
from veracity.report.wording import frame_title, title_of, word_of
from veracity.results import Row
from veracity.results.rows import digits_of

FLOOR = "M3 -6H0V6H3"
CEILING = "M-3 -6H0V6H-3"
NULL = "M0 -7V7"
AT_MOST = "M-6 0H-16M-12 -3.5L-16 0L-12 3.5"
"""An arrow from a mark to where a value lies of which only the upper end is known."""


@dataclass(frozen=True, kw_only=True)
class RankedRow:
    """One explainer: its result for each model, None where there is none."""

    explainer: str
    results: tuple[Row | None, ...]


@dataclass(frozen=True, kw_only=True)
class RankedFrame:
    """Explanations of one kind, best first, and the controls that are fair to them."""

    frame: str
    explainers: tuple[RankedRow, ...]
    controls: tuple[RankedRow, ...]


@dataclass(frozen=True, kw_only=True)
class RankingData:
    """One score of every explainer by kind of explanation, best first, controls apart."""

    score: str
    models: tuple[str, ...]
    frames: tuple[RankedFrame, ...]
    scale: Scale
    digits: int
    level: str
    middle: str = "mean"
    in_map_units: bool = False

    @property
    def explainers(self) -> tuple[RankedRow, ...]:
        """All that are no controls, kind by kind."""
        return tuple(row for group in self.frames for row in group.explainers)

    @property
    def controls(self) -> tuple[RankedRow, ...]:
        """All controls, kind by kind."""
        return tuple(row for group in self.frames for row in group.controls)

    @property
    def order(self) -> tuple[str, ...]:
        """Every name as the page lists them: of each kind its explainers, then its controls."""
        return tuple(row.explainer for group in self.frames for row in (*group.explainers, *group.controls))


def ranking_data(rows: Sequence[Row], score: str, models: Sequence[str], level: str = "95 %") -> RankingData:
    """The ranking of one score: explainers of each kind in the order of their mean over the models."""
    mine = [row for row in rows if row.score == score and row.explainer]
    places = [number for row in mine if row.settled for number in extent(row)]
    return RankingData(
        score=score,
        models=tuple(models),
        frames=tuple(ranked_frame(frame, [row for row in mine if row.frame == frame], models) for frame in frames_of(mine)),
        scale=scale_for(places),
        digits=digits_of(mine, *places),
        level=level,
        middle=mine[0].middle if mine else "mean",
        in_map_units=any(row.in_map_units for row in mine),
    )


def ranked_frame(frame: str, rows: Sequence[Row], models: Sequence[str]) -> RankedFrame:
    """One kind of explanation."""
    explainers, controls = (ranked([row for row in rows if row.control is control], models) for control in (False, True))
    return RankedFrame(frame=frame, explainers=explainers, controls=controls)


def extent(row: Row) -> tuple[float, ...]:
    """Every number that a row puts on the axis."""
    return (
        row.value,
        row.low,
        row.high,
        row.draws_low,
        row.draws_high,
        row.self_agreement,
        row.random_control,
        row.null,
        row.null_high,
        row.published,
    )


def ranked(rows: Sequence[Row], models: Sequence[str]) -> tuple[RankedRow, ...]:
    """One row an explainer, best first, those without any number last.

    The order is that of the mean over models, each value taken relative to its model's mean, so that a missing cell
    neither helps nor harms. By a score in the map's own units, it is the run's.
    """
    cells = {(row.explainer, row.model): row for row in rows}
    names = list(dict.fromkeys(row.explainer for row in rows))
    lower = bool(rows) and rows[0].direction == "lower"

    level = {model: mean_of([row.value for row in rows if row.model == model and row.defined]) for model in models}

    def order(name: str) -> tuple[bool, float]:
        if rows[0].in_map_units:
            return False, 0.0
        values = [row.value - level[row.model] for row in rows if row.explainer == name and row.defined]
        return not values, mean_of(values) if lower else -mean_of(values)

    return tuple(
        RankedRow(explainer=name, results=tuple(cells.get((name, model)) for model in models)) for name in sorted(names, key=order)
    )


def mean_of(values: Sequence[float]) -> float:
    """The mean, NaN of nothing."""
    return math.fsum(values) / len(values) if values else math.nan


def draw_ranking(data: RankingData) -> Markup:
    """The ranking as HTML with inline SVG."""
    groups = [
        ChartGroup(heading=heading, rows=[draw_row(row, data) for row in rows])
        for group in data.frames
        for heading, rows in zip(headings(group, data), (group.explainers, group.controls), strict=True)
    ]
    return draw_chart(
        groups,
        data.scale,
        lanes=len(data.models),
        main=data.middle,
        more=f"{data.level} interval",
        label=f"{'All explainers' if data.in_map_units else 'Ranking'} by {word_of(data.score)}",
    )


def headings(group: RankedFrame, data: RankingData) -> tuple[str, str]:
    """What stands over a kind's explainers and over its controls; with one kind and no controls, nothing."""
    if len(data.frames) > 1:
        return frame_title(group.frame), f"{frame_title(group.frame)}: controls"
    return "Explainers" if data.controls else "", "Controls"


def draw_row(row: RankedRow, data: RankingData) -> ChartRow:
    """One explainer's lanes and numbers."""
    placed = [(index, result) for index, result in enumerate(row.results) if result is not None]
    lanes = [draw_lane(index, result, data.scale, y=lane_centre(index, len(data.models)), digits=data.digits) for index, result in placed]
    return ChartRow(name=row.explainer, lanes=lanes, readouts=[readout(result, data.digits) for result in row.results])


def readout(result: Row | None, digits: int) -> Readout:
    """The numbers beside a lane."""
    if result is None:
        return Readout(main="not run")
    if result.pending:
        return Readout(main="pending", more=result.so_far(digits))
    if result.state == State.FAILED:
        return Readout(main="failed")
    if not result.defined:
        return Readout(main="no response" if result.still else "undefined")
    return Readout(main=result.shown(digits), more=result.ends(digits))


def draw_lane(model: int, result: Row, scale: Scale, *, y: float, digits: int) -> Markup:
    """One model's marks on a row, from back to front: the room between the nulls, both intervals, the mean."""
    if not result.defined:
        return Markup("")
    place = scale.percent(result.value)
    parts = [
        draw_room(result.random_control, result.self_agreement, y, scale),
        mark(scale.percent(result.null), y, NULL, "null known") if math.isfinite(result.null) else Markup(""),
        draw_permuted(result, y, scale),
        span(result.low, result.high, y, scale, "population"),
        mark(scale.percent(result.published), y, DIAMOND, "ring") if math.isfinite(result.published) else Markup(""),
        span(result.draws_low, result.draws_high, y, scale, "draws"),
        mark(place, y, AT_MOST, "arrow") if result.bound else Markup(""),
        mark(place, y, shape_of(model), "dot"),
    ]
    return lane(model, describe(result, digits), Markup("").join(parts))


def draw_room(low: float, high: float, y: float, scale: Scale) -> Markup:
    """Brackets at the random control and the self-agreement, and the band between them where the score can say something."""
    band = Markup("")
    if math.isfinite(low) and math.isfinite(high) and high > low:
        left, right = scale.percent(low), scale.percent(high)
        band = Markup('<line class="room" x1="{}%" x2="{}%" y1="{}" y2="{}"/>').format(left, right, y, y)
    floor = mark(scale.percent(low), y, FLOOR, "null") if math.isfinite(low) else Markup("")
    ceiling = mark(scale.percent(high), y, CEILING, "null") if math.isfinite(high) else Markup("")
    return band + floor + ceiling


def draw_permuted(result: Row, y: float, scale: Scale) -> Markup:
    """From the mean to the 95 % quantile of what permuted labels score; nothing where they were not permuted."""
    if not math.isfinite(result.null_mean) or not math.isfinite(result.null_high):
        return Markup("")
    return span(result.null_mean, result.null_high, y, scale, "permuted") + mark(scale.percent(result.null_high), y, NULL, "null known")


def span(low: float, high: float, y: float, scale: Scale, css: str) -> Markup:
    """An interval as a line, to the edge of the axis where an end is not known; nothing where it is undefined."""
    if math.isnan(low) or math.isnan(high):
        return Markup("")
    line = Markup('<line class="{}" x1="{}%" x2="{}%" y1="{}" y2="{}"/>')
    return line.format(css, scale.percent(low), scale.percent(high), y, y)


def describe(result: Row, digits: int) -> str:
    """A lane in words."""
    parts = [
        f"{f'{result.explainer} on ' if result.explainer else ''}{result.model}: {result.shown(digits)}",
        f"interval {result.ends(digits)}",
    ]
    if not result.pooled:
        parts.append(f"over draws {interval(result.draws_low, result.draws_high, digits)}")
    if math.isfinite(result.random_control):
        parts.append(f"random control {number(result.random_control, digits)}")
    if math.isfinite(result.self_agreement):
        parts.append(f"self-agreement {number(result.self_agreement, digits)}")
    if math.isfinite(result.null):
        parts.append(f"known null {number(result.null, digits)}")
    if math.isfinite(result.p_value):
        parts.append(
            f"permuted labels {number(result.null_mean, digits)}, 95 % below {number(result.null_high, digits)}, p {result.p_value:.3f}"
        )
    if math.isfinite(result.published):
        parts.append(f"published {number(result.published, digits)}")
    parts += [result.outcome] if result.outcome else []
    return "; ".join(parts)


@dataclass(frozen=True, kw_only=True)
class BehaviourData:
    """One score of every model, in the models' order, each with its accuracy in words."""

    score: str
    rows: tuple[tuple[int, Row, str], ...]
    scale: Scale
    digits: int
    level: str


def behaviour_data(
    rows: Sequence[Row], score: str, models: Sequence[str], accuracy: Mapping[str, float | None], level: str = "95 %"
) -> BehaviourData:
    """The models' own score; a row that belongs to no model in particular comes last."""
    place = {name: index for index, name in enumerate(models)}
    mine = sorted((row for row in rows if row.score == score and not row.explainer), key=lambda row: place.get(row.model, len(place)))
    values = [value for row in mine if row.settled for value in extent(row)]
    return BehaviourData(
        score=score,
        rows=tuple((place.get(row.model, len(place)), row, percentage(accuracy.get(row.model))) for row in mine),
        scale=scale_for(values),
        digits=digits_of(mine, *values),
        level=level,
    )


def percentage(accuracy: float | None) -> str:
    """An accuracy in words; nothing where it was not measured.

    >>> percentage(0.9725)
    '97.2 % accurate'
    """
    return "" if accuracy is None or accuracy != accuracy else f"{100 * accuracy:.1f} % accurate"


def draw_behaviour(data: BehaviourData) -> Markup:
    """One row a model, or one for all where nothing tells them apart, as HTML with inline SVG."""
    shown = [(readout(result, data.digits), accuracy) for _, result, accuracy in data.rows]
    if len(shown) > 1 and len(set(shown)) == 1:
        _, result, accuracy = data.rows[0]
        everyone = replace(data, rows=((0, replace(result, model=""), accuracy),))
        return draw_behaviour(everyone)
    rows = [
        ChartRow(
            name=Markup("{}<span>{}</span> <small>{}</small>").format(
                key(index) if result.model else "", result.model or "every model", ", ".join(filter(None, (accuracy, result.outcome)))
            ),
            lanes=[draw_lane(index, result, data.scale, y=lane_centre(0, 1), digits=data.digits)],
            readouts=[readout(result, data.digits)],
        )
        for index, result, accuracy in data.rows
    ]
    groups = [ChartGroup(heading="", rows=rows)]
    middle = data.rows[0][1].middle if data.rows else "mean"
    return draw_chart(groups, data.scale, lanes=1, main=middle, more=f"{data.level} interval", label=title_of(data.score))
