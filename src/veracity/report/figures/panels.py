"""Many small plots side by side: one per explainer, or one per search with a thin line per seed and a thick one for the middle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from markupsafe import Markup

from veracity.core.wording import number
from veracity.report.figures.chart import Axis, Scale, evenly, key
from veracity.report.figures.plane import NEUTRAL, Place, Plane, Spot, draw_paths, draw_plane, draw_spots, group
from veracity.report.html import draw
from veracity.report.wording import in_order

SHOWN = 12
HEIGHT = 220
SEEDS = 12
"""If there are more seeds than this, only some are drawn; the middle is that of all."""

Path = tuple[Place, ...]
Found = TypeVar("Found")
Item = TypeVar("Item")


@dataclass(frozen=True, kw_only=True)
class Facet:
    """One small plot: what it is of, its drawing, and what is said under it."""

    title: str
    frame: str
    drawing: Markup
    captions: tuple[Markup, ...] = ()


def draw_facets(facets: Sequence[Facet], shown: int = SHOWN, *, broad: bool = False) -> Markup:
    """The plots as HTML, under headings if there are several kinds; of very many, all but the first fold away.

    Plots with many lines are `broad`.
    """
    kinds = {frame: [item for item in facets if item.frame == frame] for frame in in_order(item.frame for item in facets)}
    return draw("facets", kinds, shown, broad)


def of_model(model: int, text: str | Markup, *, several: bool) -> Markup:
    """What is said about one model, with its mark if there are several."""
    return Markup("{}{}").format(key(model) if several else "", text)


def on_models(
    label: str, found: Mapping[tuple[str, str], Found], models: Sequence[str], make: Callable[[int, Found], Item]
) -> tuple[Item, ...]:
    """What `make(place of the model, found)` says of an explainer on each model that has something by (model, explainer)."""
    return tuple(make(index, found[model, label]) for index, model in enumerate(models) if (model, label) in found)


def draw_explainers(
    lines: Sequence[tuple[str, str, Sequence[Item]]],
    plane: Plane,
    what: str,
    *,
    paths: Callable[[Sequence[Item]], Sequence[Sequence[Place]]],
    parts: Callable[[str, Sequence[Item]], Iterable[Markup]],
    captions: Callable[[Sequence[Item]], Iterable[Markup]] = lambda items: (),
) -> Markup:
    """One plot per explainer (label, frame, items): the paths of all others of its kind behind, then its own parts."""
    facets = []
    for label, frame, items in lines:
        others = [path for other, kind, its in lines if kind == frame and other != label for path in paths(its)]
        content = Markup("").join([draw_paths(others, "behind", plane), *parts(label, items)])
        drawing = draw_plane(plane, content, f"{label}: {what}")
        facets.append(Facet(title=label, frame=frame, drawing=drawing, captions=tuple(captions(items))))
    return draw_facets(facets)


@dataclass(frozen=True, kw_only=True)
class Fan:
    """One subject: its name, its place among the others, the lines of its seeds, and their middle if there is one."""

    label: str
    index: int
    seeds: tuple[Path, ...]
    middle: Path

    @property
    def last(self) -> Place | None:
        """The end of the middle; None if there is none."""
        return next((place for place in reversed(self.middle) if np.isfinite(place).all()), None)


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One plot: what it is of, its subjects, its axes, and values on the axis across that matter."""

    title: str
    fans: tuple[Fan, ...]
    across: Axis
    up: Scale
    marks: tuple[float, ...] = ()
    captions: tuple[str, ...] = ()


def some_seeds(paths: Sequence[Path]) -> tuple[Path, ...]:
    """At most `SEEDS` of the lines, evenly spaced."""
    return tuple(paths[index] for index in evenly(len(paths), SEEDS))


def path(across: Iterable[float], up: Iterable[float]) -> Path:
    """A line from its two coordinates."""
    return tuple((float(x), float(y)) for x, y in zip(across, up, strict=True))


def draw_fans(panels: Sequence[Panel], what: str) -> Markup:
    """Every plot; `what` says in words what is drawn."""
    return draw_facets([draw_panel(panel, what) for panel in panels], broad=True)


def draw_panel(panel: Panel, what: str) -> Facet:
    """One plot: seeds behind, then what matters, then the middles and their ends."""

    def lines(paths: Iterable[Sequence[Place]], css: str) -> Markup:
        return draw_paths([[(panel.across.at(x), y) for x, y in path] for path in paths], css, plane)

    plane = Plane(across=panel.across.scale, up=panel.up, labels=panel.across.labels, height=HEIGHT)
    posts = [[(place, panel.up.low), (place, panel.up.high)] for place in panel.marks]
    parts = [group(fan.index, lines(fan.seeds, "seed")) for fan in panel.fans]
    parts += [group(NEUTRAL, lines(posts, "reference"))] if posts else []
    ends = []
    for fan in panel.fans:
        parts.append(group(fan.index, lines([fan.middle], "curve")))
        if fan.last is not None:
            x, y = fan.last
            parts.append(draw_spots([Spot(x=panel.across.at(x), y=y, title=f"{fan.label}: {number(y)}")], fan.index, plane))
            ends.append(f"{fan.label} ends at {number(y)}")
    drawing = draw_plane(plane, Markup("").join(parts), f"{panel.title}: {'; '.join([what, '; '.join(ends)] if ends else [what])}")
    return Facet(title=panel.title, frame="", drawing=drawing, captions=tuple(map(Markup.escape, panel.captions)))
