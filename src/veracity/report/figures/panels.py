"""Many small plots side by side: one per explainer, or one per search with a thin line per seed and a thick one for the middle."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from veracity.core.wording import count, number
from veracity.report.figures.plane import NEUTRAL, Place, Plane, Spot, draw_paths, draw_plane, draw_spots, group
from veracity.report.figures.scale import Axis, Scale, key
from veracity.report.wording import frame_title, in_order

SHOWN = 12


@dataclass(frozen=True, kw_only=True)
class Facet:
    """One small plot: what it is of, its drawing, and what is said under it."""

    title: str
    frame: str
    drawing: Markup
    captions: tuple[Markup, ...] = ()


def draw_facets(facets: Sequence[Facet], shown: int = SHOWN, *, broad: bool = False) -> Markup:
    """The plots as HTML, under headings where there are several kinds; of very many, all but the first fold away.

    Those that hold many lines are `broad`.
    """
    frames = in_order(item.frame for item in facets)
    parts = []
    for frame in frames:
        mine = [item for item in facets if item.frame == frame]
        heading = Markup('<h4 class="kind">{}</h4>').format(frame_title(frame)) if len(frames) > 1 else Markup("")
        rest = Markup("<details><summary>{}</summary>{}</details>").format(
            count(len(mine) - shown, "more plot"), draw_grid(mine[shown:], broad)
        )
        parts += [heading, draw_grid(mine[:shown], broad), rest if len(mine) > shown else Markup("")]
    return Markup("").join(parts)


def draw_grid(facets: Sequence[Facet], broad: bool) -> Markup:
    """Plots beside and under one another."""
    css = "facets broad" if broad else "facets"
    return Markup('<div class="{}">{}</div>').format(css, Markup("").join(draw_facet(item) for item in facets))


def draw_facet(facet: Facet) -> Markup:
    """One plot."""
    said = Markup("").join(Markup("<p>{}</p>").format(text) for text in facet.captions)
    return Markup('<figure class="facet"><figcaption>{}</figcaption>{}<div>{}</div></figure>').format(facet.title, facet.drawing, said)


def of_model(model: int, text: str | Markup, *, several: bool) -> Markup:
    """What is said about one model, with its mark where there are several."""
    return Markup("{}{}").format(key(model) if several else "", text)


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
