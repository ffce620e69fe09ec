"""The method selection plane: stability and consistency against fidelity, one point an explainer (section 4.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from veracity.report.figures.facets import Facet, draw_facets
from veracity.report.figures.labels import draw_labels, placed
from veracity.report.figures.plane import Plane, Spot, draw_plane, draw_spots
from veracity.report.figures.scale import CIRCLE, Scale, colour_class, mark, tight_scale
from veracity.report.view import Result
from veracity.report.wording import title_of, word_of

HEIGHT = 260


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """One explainer: its fidelity and the score that stands against it."""

    explainer: str
    control: bool
    fidelity: Result
    score: Result


@dataclass(frozen=True, kw_only=True)
class SelectionPanel:
    """One score on one model against fidelity."""

    model: str
    place: int
    score: str
    points: tuple[Chosen, ...]
    up: Scale


@dataclass(frozen=True, kw_only=True)
class SelectionData:
    """Every panel, all with one axis across."""

    fidelity: str
    panels: tuple[SelectionPanel, ...]
    across: Scale
    several: bool


def selection_data(rows: Sequence[Result], fidelity: str, scores: Sequence[str], models: Sequence[str]) -> SelectionData:
    """Every explainer and control that has both numbers, on each model, for each of the scores."""
    cells = {(row.score, row.model, row.explainer): row for row in rows if row.explainer and row.defined}
    panels = []
    for place, model in enumerate(models):
        for score in scores:
            names = [label for found, held, label in cells if found == score and held == model and (fidelity, model, label) in cells]
            points = tuple(chosen(cells[fidelity, model, label], cells[score, model, label]) for label in names)
            up = tight_scale([value for item in points for value in ends(item.score)])
            panels += [SelectionPanel(model=model, place=place, score=score, points=points, up=up)] if len(points) > 1 else []
    every = [value for panel in panels for item in panel.points for value in ends(item.fidelity)]
    return SelectionData(fidelity=fidelity, panels=tuple(panels), across=tight_scale(every), several=len(models) > 1)


def chosen(fidelity: Result, score: Result) -> Chosen:
    """One point."""
    return Chosen(explainer=score.explainer, control=score.control, fidelity=fidelity, score=score)


def ends(row: Result) -> tuple[float, float, float]:
    """Every number that a row puts on an axis."""
    return row.value, row.low, row.high


def draw_selection(data: SelectionData) -> Markup:
    """One plot a model and score."""
    return draw_facets([draw_panel(panel, data) for panel in data.panels], broad=True)


def draw_panel(panel: SelectionPanel, data: SelectionData) -> Facet:
    """Points with both their intervals and their names; controls are rings."""
    plane = Plane(across=data.across, up=panel.up, height=HEIGHT)
    spots = [(item, spot(item, panel, data)) for item in panel.points]
    names = [(item.explainer, plane.across.percent(one.x), plane.top(one.y)) for item, one in spots]
    rings = [mark(plane.across.percent(one.x), plane.top(one.y), CIRCLE, "ring") for item, one in spots if item.control]
    parts = [
        draw_spots([one for item, one in spots], panel.place, plane),
        Markup('<g class="{}">{}</g>').format(colour_class(panel.place), Markup("").join(rings)),
        draw_labels(placed(names, HEIGHT)),
    ]
    title = f"{title_of(panel.score)} against {word_of(data.fidelity)}" + (f" on {panel.model}" if data.several else "")
    told = "; ".join(one.title for _, one in spots)
    return Facet(title=title, frame="", drawing=draw_plane(plane, Markup("").join(parts), f"{title}: {told}"))


def spot(item: Chosen, panel: SelectionPanel, data: SelectionData) -> Spot:
    """One explainer in words and numbers."""
    x, y = item.fidelity, item.score
    first, second = (f"{word_of(label)} {row.shown()} ({row.ends()})" for label, row in ((panel.score, y), (data.fidelity, x)))
    title = f"{item.explainer}{' (control)' if item.control else ''}: {first}, {second}"
    return Spot(x=x.value, y=y.value, low=y.low, high=y.high, left=x.low, right=x.high, title=title)
