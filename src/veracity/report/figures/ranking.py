"""Charts of one score with its intervals: explainers between the random control and self-agreement, and the models themselves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from veracity.core.wording import interval, number
from veracity.engine.store.state import State
from veracity.report.figures import chart
from veracity.report.rows import frames_of
from veracity.report.wording import frame_title, title_of, word_of
from veracity.results import Row
from veracity.results.rows import digits_of

FLOOR = "M3 -6H0V6H3"
CEILING = "M-3 -6H0V6H-3"
NULL = "M0 -7V7"
AT_MOST = "M-6 0H-16M-12 -3.5L-16 0L-12 3.5"
"""An arrow from a mark towards lower values, for a value that is an upper bound."""
DRAWN = ("value", "low", "high", "draws_low", "draws_high", "self_agreement", "random_control", "null", "null_high", "published")
"""Every number that a row puts on the axis."""


@dataclass(frozen=True, kw_only=True)
class RankingRow:
    """One explainer: its result for each model, None if there is none."""

    explainer: str
    results: tuple[Row | None, ...]


@dataclass(frozen=True, kw_only=True)
class RankingFrame:
    """Explanations of one kind, best first, and the controls that are fair to them."""

    frame: str
    explainers: tuple[RankingRow, ...]
    controls: tuple[RankingRow, ...]


@dataclass(frozen=True, kw_only=True)
class RankingData:
    """One score of every explainer by kind of explanation, best first, controls apart."""

    score: str
    models: tuple[str, ...]
    frames: tuple[RankingFrame, ...]
    scale: chart.Scale
    digits: int
    level: str
    middle: str = "mean"
    in_map_units: bool = False

    @property
    def explainers(self) -> tuple[RankingRow, ...]:
        """All that are no controls, kind by kind."""
        return tuple(row for group in self.frames for row in group.explainers)

    @property
    def controls(self) -> tuple[RankingRow, ...]:
        """All controls, kind by kind."""
        return tuple(row for group in self.frames for row in group.controls)

    @property
    def order(self) -> tuple[str, ...]:
        """Every name as the page lists them: of each kind its explainers, then its controls."""
        return tuple(row.explainer for group in self.frames for row in (*group.explainers, *group.controls))


def ranking_data(rows: Sequence[Row], score: str, models: Sequence[str], level: str = "95 %") -> RankingData:
    """The ranking of one score: explainers of each kind in the order of their mean over the models."""
    mine = [row for row in rows if row.score == score and row.explainer]
    numbers = [getattr(row, name) for row in mine if row.settled for name in DRAWN]
    frames = []
    for frame in frames_of(mine):
        plain, controls = (rank_rows([row for row in mine if row.frame == frame and row.control is kind], models) for kind in (False, True))
        frames.append(RankingFrame(frame=frame, explainers=plain, controls=controls))
    return RankingData(
        score=score,
        models=tuple(models),
        frames=tuple(frames),
        scale=chart.scale_for(numbers),
        digits=digits_of(mine, *numbers),
        level=level,
        middle=mine[0].middle if mine else "mean",
        in_map_units=any(row.in_map_units for row in mine),
    )


def rank_rows(rows: Sequence[Row], models: Sequence[str]) -> tuple[RankingRow, ...]:
    """One row per explainer, best first, those without any number last.

    The order is that of the mean over models, each value taken relative to its model's mean, so that a missing cell
    neither helps nor harms. For a score in the map's own units, it is the run's.
    """
    cells = {(row.explainer, row.model): row for row in rows}
    level = {model: chart.mean_of([row.value for row in rows if row.model == model and row.defined]) for model in models}

    def order(name: str) -> tuple[bool, float]:
        if rows[0].in_map_units:
            return False, 0.0
        values = [row.value - level[row.model] for row in rows if row.explainer == name and row.defined]
        return not values, chart.mean_of(values) if rows[0].direction == "lower" else -chart.mean_of(values)

    names = sorted(dict.fromkeys(row.explainer for row in rows), key=order)
    return tuple(RankingRow(explainer=name, results=tuple(cells.get((name, model)) for model in models)) for name in names)


def headings(group: RankingFrame, data: RankingData) -> tuple[str, str]:
    """The headings of a kind's explainers and of its controls; empty with one kind and no controls."""
    if len(data.frames) > 1:
        return frame_title(group.frame), f"{frame_title(group.frame)}: controls"
    return "Explainers" if data.controls else "", "Controls"


def ranking_row(row: RankingRow, data: RankingData) -> chart.ChartRow:
    """One explainer: a lane and its numbers for each model."""
    heights = [chart.lane_centre(index, len(data.models)) for index in range(len(data.models))]
    lanes = [
        draw_lane(index, result, data.scale, y=heights[index], digits=data.digits)
        for index, result in enumerate(row.results)
        if result is not None
    ]
    return chart.ChartRow(name=row.explainer, lanes=lanes, readouts=[readout(result, data.digits) for result in row.results])


def draw_ranking(data: RankingData) -> Markup:
    """The ranking as HTML with inline SVG."""
    groups = [
        (heading, [ranking_row(row, data) for row in rows])
        for group in data.frames
        for heading, rows in zip(headings(group, data), (group.explainers, group.controls), strict=True)
    ]
    label = f"{'All explainers' if data.in_map_units else 'Ranking'} by {word_of(data.score)}"
    return chart.draw_chart(groups, data.scale, lanes=len(data.models), main=data.middle, more=f"{data.level} interval", label=label)


def readout(result: Row | None, digits: int) -> chart.Readout:
    """The numbers beside a lane, or why there are none."""
    if result is None:
        return "not run", ""
    if result.pending:
        return "pending", result.so_far(digits)
    if result.defined:
        return result.shown(digits), result.ends(digits)
    return "failed" if result.state == State.FAILED else "no response" if result.still else "undefined", ""


def draw_lane(model: int, result: Row, scale: chart.Scale, *, y: float, digits: int) -> Markup:
    """One model's marks on a row, from back to front: the room between the nulls, both intervals, the mean."""
    if not result.defined:
        return Markup("")

    def at(value: float, path: str, css: str) -> Markup:
        return chart.mark(scale.percent(value), y, path, css) if math.isfinite(value) else Markup("")

    floor, ceiling = result.random_control, result.self_agreement
    parts = [
        chart.span(floor, ceiling, y, scale, "room") if ceiling > floor else Markup(""),
        at(floor, FLOOR, "null"),
        at(ceiling, CEILING, "null"),
        at(result.null, NULL, "null known"),
    ]
    if math.isfinite(result.null_mean) and math.isfinite(result.null_high):
        parts += [chart.span(result.null_mean, result.null_high, y, scale, "permuted"), at(result.null_high, NULL, "null known")]
    parts += [
        chart.span(result.low, result.high, y, scale, "population"),
        at(result.published, chart.DIAMOND, "ring"),
        chart.span(result.draws_low, result.draws_high, y, scale, "draws"),
        at(result.value, AT_MOST, "arrow") if result.bound else Markup(""),
        at(result.value, chart.shape_of(model), "dot"),
    ]
    return chart.lane(model, describe(result, digits), Markup("").join(parts))


def describe(result: Row, digits: int) -> str:
    """A lane in words."""
    who = f"{result.explainer} on {result.model}" if result.explainer else result.model
    parts = [f"{who}: {result.shown(digits)}", f"interval {result.ends(digits)}"]
    if not result.pooled:
        parts.append(f"over draws {interval(result.draws_low, result.draws_high, digits)}")
    beside = {"random control": result.random_control, "self-agreement": result.self_agreement, "known null": result.null}
    parts += [f"{name} {number(value, digits)}" for name, value in beside.items() if math.isfinite(value)]
    if math.isfinite(result.p_value):
        ends = f"{number(result.null_mean, digits)}, 95 % below {number(result.null_high, digits)}"
        parts.append(f"permuted labels {ends}, p {result.p_value:.3f}")
    parts += [f"published {number(result.published, digits)}"] if math.isfinite(result.published) else []
    return "; ".join([*parts, *filter(None, [result.outcome])])


@dataclass(frozen=True, kw_only=True)
class BehaviourData:
    """One score of every model, in the models' order, each with its accuracy in words."""

    score: str
    rows: tuple[tuple[int, Row, str], ...]
    scale: chart.Scale
    digits: int
    level: str


def behaviour_data(
    rows: Sequence[Row], score: str, models: Sequence[str], accuracy: Mapping[str, float | None], level: str = "95 %"
) -> BehaviourData:
    """The models' own score; a row that belongs to no model in particular comes last."""
    place = {name: index for index, name in enumerate(models)}
    mine = sorted((row for row in rows if row.score == score and not row.explainer), key=lambda row: place.get(row.model, len(place)))
    numbers = [getattr(row, name) for row in mine if row.settled for name in DRAWN]
    return BehaviourData(
        score=score,
        rows=tuple((place.get(row.model, len(place)), row, percentage(accuracy.get(row.model))) for row in mine),
        scale=chart.scale_for(numbers),
        digits=digits_of(mine, *numbers),
        level=level,
    )


def percentage(accuracy: float | None) -> str:
    """An accuracy in words; nothing if it was not measured.

    >>> percentage(0.9725)
    '97.2 % accurate'
    """
    return "" if accuracy is None or accuracy != accuracy else f"{100 * accuracy:.1f} % accurate"


def draw_behaviour(data: BehaviourData) -> Markup:
    """One row per model, or one for all if they do not differ, as HTML with inline SVG."""
    shown = [(readout(result, data.digits), accuracy) for _, result, accuracy in data.rows]
    if len(shown) > 1 and len(set(shown)) == 1:
        _, result, accuracy = data.rows[0]
        return draw_behaviour(replace(data, rows=((0, replace(result, model=""), accuracy),)))
    rows = [
        chart.ChartRow(
            name=Markup("{}<span>{}</span> <small>{}</small>").format(
                chart.key(index) if result.model else "", result.model or "every model", ", ".join(filter(None, (accuracy, result.outcome)))
            ),
            lanes=[draw_lane(index, result, data.scale, y=chart.lane_centre(0, 1), digits=data.digits)],
            readouts=[readout(result, data.digits)],
        )
        for index, result, accuracy in data.rows
    ]
    middle = data.rows[0][1].middle if data.rows else "mean"
    return chart.draw_chart([("", rows)], data.scale, lanes=1, main=middle, more=f"{data.level} interval", label=title_of(data.score))
