"""A figure with its words, and the signs of its legend."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from veracity.report.figures.ranking import RankingData


@dataclass(frozen=True, kw_only=True)
class Plot:
    """A figure: its title, what it says, how to read it, its keys and its drawing."""

    title: str
    sentences: tuple[Markup, ...]
    note: str
    keys: Markup
    drawing: Markup


def sign(content: str, text: str) -> Markup:
    """One entry of a legend."""
    drawing = '<svg class="sign" width="30" height="16" viewBox="-15 -8 30 16" aria-hidden="true"><g class="m1">{}</g></svg>'
    return Markup("<li>{}{}</li>").format(Markup(drawing).format(Markup(content)), text)


def signs(*items: Markup) -> Markup:
    """A legend of signs."""
    return Markup('<ul class="legend">{}</ul>').format(Markup("").join(items))


def explained(ranking: RankingData) -> dict[str, str]:
    """Every explainer that is no control with its frame, in the ranking's order."""
    return {row.explainer: group.frame for group in ranking.frames for row in group.explainers}
