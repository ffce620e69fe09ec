"""Plots of many seeds at once: a thin line a seed, a thick one for their middle, one colour and mark for each of several subjects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from veracity.report.figures.axis import Axis
from veracity.report.figures.facets import Facet, draw_facets
from veracity.report.figures.plane import NEUTRAL, Place, Plane, Spot, draw_paths, draw_plane, draw_spots, group
from veracity.report.figures.scale import Scale
from veracity.core.wording import number

HEIGHT = 220
SEEDS = 12
"""Of more seeds than this only some are drawn; the middle is that of all."""

Path = tuple[Place, ...]


@dataclass(frozen=True, kw_only=True)
class Fan:
    """One subject: its name, its place among the others, the lines of its seeds, and their middle where there is one."""

    label: str
    index: int
    seeds: tuple[Path, ...]
    middle: Path

    @property
    def last(self) -> Place | None:
        """Where the middle ends; None if there is none."""
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


def shown(paths: Sequence[Path]) -> tuple[Path, ...]:
    """At most so many of the seeds' lines, evenly spaced over them."""
    chosen = np.unique(np.linspace(0, max(len(paths) - 1, 0), min(len(paths), SEEDS)).round().astype(int))
    return tuple(paths[index] for index in chosen) if paths else ()


def path(across: Iterable[float], up: Iterable[float]) -> Path:
    """A line from its two coordinates."""
    return tuple((float(x), float(y)) for x, y in zip(across, up, strict=True))


def draw_fans(panels: Sequence[Panel], what: str) -> Markup:
    """Every plot; `what` says in words what is drawn."""
    return draw_facets([draw_panel(panel, what) for panel in panels], broad=True)


def draw_panel(panel: Panel, what: str) -> Facet:
    """One plot: seeds behind, then what matters, then the middles and their ends."""
    plane = Plane(across=panel.across.scale, up=panel.up, labels=panel.across.labels, height=HEIGHT)
    posts = [[(place, panel.up.low), (place, panel.up.high)] for place in panel.marks]
    parts = [group(fan.index, draw_paths(on_axis(fan.seeds, panel), "seed", plane)) for fan in panel.fans]
    parts.append(group(NEUTRAL, draw_paths(on_axis(posts, panel), "reference", plane)) if posts else Markup(""))
    for fan in panel.fans:
        parts.append(group(fan.index, draw_paths(on_axis([fan.middle], panel), "curve", plane)))
        if fan.last is not None:
            x, y = fan.last
            parts.append(draw_spots([Spot(x=panel.across.at(x), y=y, title=f"{fan.label}: {number(y)}")], fan.index, plane))
    ends = "; ".join(f"{fan.label} ends at {number(fan.last[1])}" for fan in panel.fans if fan.last is not None)
    drawing = draw_plane(plane, Markup("").join(parts), f"{panel.title}: {what}{'; ' if ends else ''}{ends}")
    return Facet(title=panel.title, frame="", drawing=drawing, captions=tuple(Markup.escape(text) for text in panel.captions))


def on_axis(paths: Iterable[Sequence[Place]], panel: Panel) -> list[list[Place]]:
    """Lines in the coordinates of the axis across."""
    return [[(panel.across.at(x), y) for x, y in path] for path in paths]
