"""Many small plots side by side, one an explainer, by kind of explanation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from veracity.report.figures.scale import key
from veracity.report.wording import frame_title, in_order
from veracity.core.wording import count

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
