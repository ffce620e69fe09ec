"""Prediction kept or changed, explanation kept or changed: four squares per explainer, with the outcomes' shares as areas (Figure 2B)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from veracity.core.registry import FIGURES
from veracity.core.wording import number
from veracity.report.figure import Figure, Plot, sign, signs
from veracity.report.figures.panels import Facet, draw_facets
from veracity.report.reading import RunReading
from veracity.results.quadrants import quadrants
from veracity.scores.outcomes import QUADRANTS

SIDE, HALF = 200, 100
CELLS = ((0, 0), (1, 1), (0, 1), (1, 0))
"""Column and row of each of `QUADRANTS`: across whether the prediction is kept, down whether the explanation is."""
ALIGNED, APART = "m3", "m2"


@dataclass(frozen=True, kw_only=True)
class Fourfold:
    """The shares of the four outcomes of one explainer on one model, with their intervals."""

    title: str
    frame: str
    shares: tuple[float, ...]
    ends: tuple[tuple[float, float], ...]


def draw_fourfold(item: Fourfold) -> Markup:
    """Four squares in a frame; their areas are the shares."""
    parts = [
        Markup('<line class="grid" x1="{0}" x2="{0}" y1="0" y2="{1}"/><line class="grid" y1="{0}" y2="{0}" x1="0" x2="{1}"/>').format(
            HALF, SIDE
        )
    ]
    for place, (share, (column, row)) in enumerate(zip(item.shares, CELLS, strict=True)):
        side = float(np.sqrt(share)) * (HALF - 8)
        x, y = (HALF * (at + 0.5) for at in (column, row))
        square = Markup('<g class="{}"><rect class="band" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/></g>')
        label = Markup('<text class="point" x="{:.0f}" y="{:.0f}" text-anchor="middle">{}</text>').format(x, y + 4, number(share, 2))
        parts.append(square.format(ALIGNED if place < 2 else APART, x - side / 2, y - side / 2, side, side) + label)
    names = [f"{name} {number(share, 2)}" for name, share in zip(QUADRANTS, item.shares, strict=True)]
    drawing = Markup('<svg class="plane" role="img" aria-label="{}" width="100%" viewBox="0 0 {} {}">{}</svg>')
    return drawing.format(f"{item.title}: {', '.join(names)}", SIDE, SIDE, Markup("").join(parts))


@FIGURES.add
class OutcomesFigure(Figure):
    """How often prediction and explanation are kept or changed together."""

    name = "outcomes"

    def data(self, reading: RunReading, label: str) -> tuple[Fourfold, ...] | None:
        """The shares of every explainer that is shown, and of the random controls."""
        table, frames = quadrants(reading.run, label), reading.explained(label)
        frames |= dict.fromkeys(reading.random_controls(label), next(iter(frames.values()), ""))
        found = []
        for (model, explainer), rows in table.groupby(["model", "explainer"], sort=False):
            if explainer in frames and rows["share"].notna().all():
                title = f"{explainer}, {model}" if len(reading.models) > 1 else str(explainer)
                ends = tuple(zip(rows["low"].tolist(), rows["high"].tolist(), strict=True))
                found.append(Fourfold(title=title, frame=frames[str(explainer)], shares=tuple(rows["share"].tolist()), ends=ends))
        return tuple(found) or None

    def plot(self, reading: RunReading, label: str, data: tuple[Fourfold, ...]) -> Plot:
        """One display per explainer."""

        def captions(item: Fourfold) -> tuple[Markup, ...]:
            told = zip(QUADRANTS, item.shares, item.ends, strict=True)
            texts = (f"{name} {number(share, 2)} ({number(low, 2)} to {number(high, 2)})" for name, share, (low, high) in told)
            return tuple(Markup("{}").format(text) for text in texts)

        return Plot(
            title="Kept or changed",
            note="Left: the predicted class is kept; right: it has changed. Above: the explanation is kept; below: it has changed. The "
            f"area of a square is the share of copies of the model, over all levels, samples and draws, with its {reading.level} interval.",
            keys=signs(
                sign(f'<g class="{ALIGNED}"><rect class="band" x="-8" y="-8" width="16" height="16"/></g>', "both kept, or both changed"),
                sign(f'<g class="{APART}"><rect class="band" x="-8" y="-8" width="16" height="16"/></g>', "one of them alone"),
            ),
            drawing=draw_facets(
                [Facet(title=one.title, frame=one.frame, drawing=draw_fourfold(one), captions=captions(one)) for one in data]
            ),
        )
