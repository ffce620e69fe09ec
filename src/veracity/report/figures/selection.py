"""Choosing a method: stability and consistency against fidelity, one point with its name per explainer (section 4.4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from veracity.core.registry import FIGURES
from veracity.report.figure import Plot, SharedFigure, line_sign, sign, signs
from veracity.report.figures.chart import CIRCLE, Scale, legend, mark, tight_scale
from veracity.report.figures.panels import Facet, draw_facets
from veracity.report.figures.plane import Plane, draw_plane, draw_spots, group, row_spot
from veracity.report.html import draw
from veracity.report.reading import RunReading
from veracity.report.wording import say, sentences, title_of, word_of
from veracity.results import Row

NARROW, BROAD = 260.0, 800.0
"""Between how many pixels the plane may be wide."""
LETTER, TALL = 6.4, 12.0
"""How many pixels a letter is wide, and a line of text high."""
LONGEST = 22
"""Letters of a name that are shown; the rest stands in the point's title."""
MARK = 6.0
"""How many pixels a point takes to each side."""


@dataclass(frozen=True)
class Box:
    """A rectangle that hangs on a place of the plane: `at` in percent across, and pixels left and right of it, top and bottom."""

    at: float
    left: float
    right: float
    top: float
    bottom: float

    def clear_of(self, other: Box) -> bool:
        """Whether the two do not meet at any width: one above the other, or beside it on the same side when narrow and when broad.

        >>> Box(10.0, 0.0, 40.0, 0.0, 12.0).clear_of(Box(30.0, 0.0, 40.0, 0.0, 12.0))
        True
        >>> Box(10.0, 0.0, 60.0, 0.0, 12.0).clear_of(Box(30.0, 0.0, 40.0, 0.0, 12.0))
        False
        """
        if self.bottom <= other.top or other.bottom <= self.top:
            return True
        before = [self.reach(width)[1] <= other.reach(width)[0] for width in (NARROW, BROAD)]
        after = [other.reach(width)[1] <= self.reach(width)[0] for width in (NARROW, BROAD)]
        return all(before) or all(after)

    def reach(self, width: float) -> tuple[float, float]:
        """From where to where it reaches, in pixels, on a plane so wide."""
        return self.at / 100 * width + self.left, self.at / 100 * width + self.right


@dataclass(frozen=True, kw_only=True)
class Label:
    """A name at (percent across, pixels down) plus an offset in pixels, with its anchor; `far` where a line has to lead to it."""

    text: str
    x: float
    y: float
    dx: float
    dy: float
    anchor: str
    far: bool

    @property
    def box(self) -> Box:
        """The rectangle of its letters."""
        wide, baseline = LETTER * len(self.text), self.y + self.dy
        left = self.dx if self.anchor == "start" else self.dx - wide
        return Box(self.x, left, left + wide, baseline - 0.8 * TALL, baseline + 0.2 * TALL)


def place_labels(points: Sequence[tuple[str, float, float]], height: float) -> list[Label]:
    """A label for each point (name, percent across, pixels down) of a plane so many pixels high, in their order.

    The nearest place is taken that covers no point and no label before it and stays on the plane; where none is left, the one
    that covers least.

    >>> [(label.dx, label.dy) for label in place_labels([("a", 10.0, 50.0), ("b", 11.0, 50.0)], 100.0)]
    [(-7.0, -5.0), (7.0, -5.0)]
    """
    dots = [Box(x, -MARK, MARK, y - MARK, y + MARK) for _, x, y in points]
    taken: list[Label] = []
    for index, (name, x, y) in enumerate(points):
        held = [*(dot for other, dot in enumerate(dots) if other != index), *(label.box for label in taken)]
        tried = list(candidates(shorten(name), x, y, height))
        taken.append(min(tried, key=lambda label: trouble(label, held, height)))
    return taken


def shorten(name: str) -> str:
    """A name, cut to the letters that fit.

    >>> shorten("my own explainer number three")
    'my own explainer numb…'
    """
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"


def candidates(text: str, x: float, y: float, height: float) -> Iterator[Label]:
    """Places for a name, nearest first: beside the point and off its bars, then further up and down with a line that leads there."""
    for dx, dy, anchor in ((7.0, -5.0, "start"), (7.0, 13.0, "start"), (-7.0, -5.0, "end"), (-7.0, 13.0, "end")):
        yield Label(text=text, x=x, y=y, dx=dx, dy=dy, anchor=anchor, far=False)
    for step in range(1, int(height // TALL) + 1):
        for dy in (-TALL * step, TALL * step):
            for dx, anchor in ((12.0, "start"), (-12.0, "end")):
                yield Label(text=text, x=x, y=y, dx=dx, dy=dy + 4.0, anchor=anchor, far=True)


def trouble(label: Label, held: Sequence[Box], height: float) -> int:
    """How many boxes a label covers; leaving the plane, when that is narrow, counts as much as all of them."""
    left, right = label.box.reach(NARROW)
    off = left < 0 or right > NARROW or label.box.top < -TALL or label.box.bottom > height
    return sum(not label.box.clear_of(box) for box in held) + (len(held) + 1) * off


HEIGHT = 260


@dataclass(frozen=True, kw_only=True)
class SelectionPanel:
    """One score on one model against fidelity: both rows of each explainer, fidelity first."""

    model: str
    place: int
    score: str
    points: tuple[tuple[Row, Row], ...]
    up: Scale


@dataclass(frozen=True, kw_only=True)
class SelectionData:
    """Every panel, all with one axis across."""

    fidelity: str
    panels: tuple[SelectionPanel, ...]
    across: Scale
    several: bool


def selection_data(rows: Sequence[Row], fidelity: str, scores: Sequence[str], models: Sequence[str]) -> SelectionData:
    """Every explainer and control that has both numbers, on each model, for each of the scores."""
    cells = {(row.score, row.model, row.explainer): row for row in rows if row.explainer and row.defined}
    panels = []
    for place, model in enumerate(models):
        for score in scores:
            names = [label for found, held, label in cells if found == score and held == model and (fidelity, model, label) in cells]
            points = tuple((cells[fidelity, model, label], cells[score, model, label]) for label in names)
            up = tight_scale([value for _, row in points for value in (row.value, row.low, row.high)])
            panels += [SelectionPanel(model=model, place=place, score=score, points=points, up=up)] if len(points) > 1 else []
    every = [value for panel in panels for row, _ in panel.points for value in (row.value, row.low, row.high)]
    return SelectionData(fidelity=fidelity, panels=tuple(panels), across=tight_scale(every), several=len(models) > 1)


def draw_selection(data: SelectionData) -> Markup:
    """One plot per model and score."""
    return draw_facets([draw_panel(panel, data) for panel in data.panels], broad=True)


def draw_panel(panel: SelectionPanel, data: SelectionData) -> Facet:
    """Points with both their intervals and their names; controls are rings."""
    plane = Plane(across=data.across, up=panel.up, height=HEIGHT)
    spots, names, rings = [], [], []
    for x, y in panel.points:
        first, second = (f"{word_of(label)} {row.shown()} ({row.ends()})" for label, row in ((panel.score, y), (data.fidelity, x)))
        title = f"{y.explainer}{' (control)' if y.control else ''}: {first}, {second}"
        spots.append(replace(row_spot(x.value, y, title), left=x.low, right=x.high))
        place = plane.across.percent(x.value), plane.top(y.value)
        names.append((y.explainer, *place))
        rings += [mark(*place, CIRCLE, "ring")] if y.control else []
    parts = [
        draw_spots(spots, panel.place, plane),
        group(panel.place, Markup("").join(rings)),
        draw("point_labels", place_labels(names, HEIGHT)),
    ]
    title = f"{title_of(panel.score)} against {word_of(data.fidelity)}" + (f" on {panel.model}" if data.several else "")
    told = "; ".join(one.title for one in spots)
    return Facet(title=title, frame="", drawing=draw_plane(plane, Markup("").join(parts), f"{title}: {told}"))


@FIGURES.add
class SelectionFigure(SharedFigure):
    """Scores of stability against one of fidelity, where both were measured."""

    name = "selection"

    def data(self, reading: RunReading, labels: Sequence[str]) -> SelectionData | None:
        """Up: the first of each kind of pooled score. Across: the first score of samples."""
        kinds = {reading.score(label).name: label for label in reversed(labels) if reading.score(label).pooled}
        up = [label for label in labels if label in kinds.values()]
        fidelity = next((label for label in labels if not reading.score(label).pooled), "")
        found = selection_data(reading.rows, fidelity, up, reading.models)
        return found if fidelity and found.panels else None

    def plot(self, reading: RunReading, labels: Sequence[str], data: SelectionData) -> Plot:
        """One plot per model and score."""
        up = dict.fromkeys(word_of(panel.score) for panel in data.panels)
        return Plot(
            title="Choosing a method",
            sentences=tuple(sentences(say("stable.selection", explainers=max(len(panel.points) for panel in data.panels)))),
            note=(
                f"Across: {word_of(data.fidelity)}. Up: {' or '.join(up)}. Bars are {reading.level} intervals, "
                "each of its own number: whether two explainers differ, their paired differences say."
            ),
            keys=legend(reading.models)
            + signs(
                line_sign("ends", "explainer", dot=True), sign('<circle class="ring" r="4.2"/>', "control, which never looks at a model")
            ),
            drawing=draw_selection(data),
        )
