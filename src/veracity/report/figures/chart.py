"""A chart of rows: a name, a strip with one lane a model, and the numbers beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from veracity.report.figures.scale import Scale, axis, colour_class, grid, key

LANE = 16
PAD = 5


@dataclass(frozen=True, kw_only=True)
class Readout:
    """The numbers beside one lane: the main one, and the one that a narrow screen leaves out."""

    main: str
    more: str = ""


@dataclass(frozen=True, kw_only=True)
class ChartRow:
    """One drawn row: its name, the drawing of each lane, and the numbers of each lane."""

    name: str
    lanes: Sequence[Markup]
    readouts: Sequence[Readout]


@dataclass(frozen=True, kw_only=True)
class ChartGroup:
    """Rows that belong together under a heading."""

    heading: str
    rows: Sequence[ChartRow]


def lane_centre(lane: int, lanes: int) -> float:
    """The height of a lane's middle, in pixels below the strip's middle.

    >>> lane_centre(0, 3), lane_centre(1, 3)
    (-16.0, 0.0)
    """
    return LANE * (lane - (lanes - 1) / 2)


def draw_chart(groups: Sequence[ChartGroup], scale: Scale, *, lanes: int, main: str, more: str, label: str) -> Markup:
    """The whole chart as HTML with one inline SVG a row."""
    head = Markup(
        '<div class="row head"><div class="name"></div>{axis}<div class="read"><span><b>{main}</b><i>{more}</i></span></div></div>'
    ).format(axis=axis(scale), main=main, more=more)
    body = Markup("").join(draw_group(group, scale, lanes) for group in groups if group.rows)
    foot = Markup('<div class="row foot"><div class="name"></div>{}<div class="read"></div></div>').format(axis(scale))
    return Markup('<div class="chart" role="group" aria-label="{}">{}{}{}</div>').format(label, head, body, foot)


def draw_group(group: ChartGroup, scale: Scale, lanes: int) -> Markup:
    """A heading, where there is one, and its rows."""
    heading = Markup('<div class="row group"><div class="name">{}</div>{}<div class="read"></div></div>').format(
        group.heading, strip(scale, Markup(""), 24)
    )
    rows = Markup("").join(draw_row(row, scale, lanes) for row in group.rows)
    return (heading if group.heading else Markup("")) + rows


def draw_row(row: ChartRow, scale: Scale, lanes: int) -> Markup:
    """A name, its strip and its numbers."""
    read = Markup("").join(Markup("<span><b>{}</b><i>{}</i></span>").format(item.main, item.more) for item in row.readouts)
    drawing = strip(scale, Markup("").join(row.lanes), 2 * PAD + LANE * lanes)
    return Markup('<div class="row"><div class="name">{}</div>{}<div class="read">{}</div></div>').format(row.name, drawing, read)


def strip(scale: Scale, content: Markup, height: int) -> Markup:
    """One row's drawing about its middle, with the axis' lines behind it."""
    frame = '<svg class="strip" width="100%" height="{0}" style="min-height:{0}px">{1}<svg y="50%" overflow="visible">{2}</svg></svg>'
    return Markup(frame).format(height, grid(scale), content)


def lane(model: int, title: str, content: Markup) -> Markup:
    """What belongs to one model, in its colour, with a text for those who point at it or listen."""
    return Markup('<g class="{}"><title>{}</title>{}</g>').format(colour_class(model), title, content)


def legend(models: Sequence[str]) -> Markup:
    """Which mark is which model; with one model there is nothing to tell apart."""
    items = Markup("").join(Markup("<li>{}{}</li>").format(key(index), name) for index, name in enumerate(models))
    return Markup('<ul class="legend">{}</ul>').format(items) if len(models) > 1 else Markup("")
