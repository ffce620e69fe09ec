"""The models themselves: how much their own output changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from veracity.report.figures.chart import ChartGroup, ChartRow, draw_chart, lane_centre
from veracity.report.figures.ranking import draw_lane, extent, readout
from veracity.report.figures.scale import Scale, key, scale_for
from veracity.report.view import Result, digits_of
from veracity.report.wording import title_of


@dataclass(frozen=True, kw_only=True)
class BehaviourData:
    """One score of every model, in the models' order, each with its accuracy in words."""

    score: str
    rows: tuple[tuple[int, Result, str], ...]
    scale: Scale
    digits: int
    level: str


def behaviour_data(
    rows: Sequence[Result], score: str, models: Sequence[str], accuracy: Mapping[str, float | None], level: str = "95 %"
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
