"""Distances between the explanations of two models, S= beside S!=, as histograms on shared bins (Figures 5 and 10)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from veracity.core.registry import FIGURES
from veracity.core.scores import Array
from veracity.core.wording import number
from veracity.report.figure import Plot, SharedFigure, line_sign, sign, signs
from veracity.report.figures.chart import Scale, from_zero
from veracity.report.figures.panels import Facet, draw_facets
from veracity.report.figures.plane import Plane, draw_paths, draw_plane, line, stretch
from veracity.report.reading import RunReading
from veracity.report.wording import as_json, say, sentences, word_of
from veracity.scores.distance_sets import balance

Sets = Mapping[tuple[str, str], tuple[Array, Array]]
"""By (model, explainer): the distances in S= and in S!=."""

BINS = 40
SAME, DIFFER = "S=", "S\N{NOT EQUAL TO}"
SET_COLOURS = ("l3", "l2")
"""The colours of S= and of S!=; no model has them."""


@dataclass(frozen=True, kw_only=True)
class Histogram:
    """One explainer on one model: the share of each set in each bin, its size and mean, and where ReCo cuts; NaN of an empty set."""

    explainer: str
    model: str
    frame: str
    same: tuple[float, ...]
    differ: tuple[float, ...]
    sizes: tuple[int, int]
    means: tuple[float, ...]
    cut: float
    consistency: float


@dataclass(frozen=True, kw_only=True)
class HistogramsData:
    """Every explainer on every model; `edges` of the bins, which all share."""

    edges: tuple[float, ...]
    panels: tuple[Histogram, ...]
    models: tuple[str, ...]
    across: Scale


def histograms_data(sets: Sets, models: Sequence[str], frames: Mapping[str, str], bins: int = BINS) -> HistogramsData:
    """From the distances of each explainer on each model; `frames` names the explainers to show, in their order."""
    shown = [(label, model) for label in frames for model in models if (model, label) in sets]
    kept = {(label, model): [part[np.isfinite(part)] for part in sets[model, label]] for label, model in shown}
    filled = {name: both for name, both in kept.items() if any(len(part) for part in both)}
    across = from_zero([float(end) for both in filled.values() for part in both if len(part) for end in (part.min(), part.max())], parts=5)
    edges = np.linspace(across.low, across.high, bins + 1)
    panels = []
    for (label, model), (same, differ) in filled.items():
        cut, consistency = best_cut(same, differ)
        panels.append(
            Histogram(
                explainer=label,
                model=model,
                frame=frames[label],
                same=shares(same, edges),
                differ=shares(differ, edges),
                sizes=(len(same), len(differ)),
                means=tuple(float(part.mean()) if len(part) else math.nan for part in (same, differ)),
                cut=cut,
                consistency=consistency,
            )
        )
    return HistogramsData(edges=tuple(map(float, edges)), panels=tuple(panels), models=tuple(models), across=across)


def shares(values: Array, edges: Array) -> tuple[float, ...]:
    """The share of the values in each bin, zeros of none; the last bin holds its right edge too.

    >>> shares(np.array([0.1, 0.2, 0.6, 1.0]), np.array([0.0, 0.5, 1.0]))
    (0.5, 0.5)
    """
    return tuple(float(part) for part in np.histogram(values, edges)[0] / max(len(values), 1))


def best_cut(same: Array, differ: Array) -> tuple[float, float]:
    """gamma*, the smallest threshold at which TPR + TNR - 1 is largest, and ReCo, its value there (eq. 6); NaN where it is undefined.

    >>> best_cut(np.array([0.1, 0.2, 0.4]), np.array([0.3, 0.5, 0.6]))
    (0.2, 0.75)
    """
    gammas = np.unique(np.concatenate([same, differ]))
    tallies = [np.searchsorted(np.sort(part), gammas, side="right").astype(np.float64)[None] for part in (same, differ)]
    found = balance(*tallies)[0]
    if not np.isfinite(found).any():
        return math.nan, math.nan
    best = int(np.nanargmax(found))
    return float(gammas[best]), float(found[best])


def draw_histograms(data: HistogramsData) -> Markup:
    """One plot per explainer and model: S= filled, S!= as a line, and gamma* as a vertical line."""
    return draw_facets([draw_panel(panel, data) for panel in data.panels])


def draw_panel(panel: Histogram, data: HistogramsData) -> Facet:
    """One plot, on a scale of its own upwards: the outlines of both histograms, from the ground to the ground."""
    plane = Plane(across=data.across, up=from_zero([*panel.same, *panel.differ], parts=3))
    parts = []
    for colour, css, size, heights in zip(SET_COLOURS, ("area", "curve"), panel.sizes, (panel.same, panel.differ), strict=True):
        corners = [(edge, height) for place, height in enumerate(heights) for edge in data.edges[place : place + 2]]
        closed = line([(data.edges[0], 0.0), *corners, (data.edges[-1], 0.0)], plane)
        outline = stretch(Markup('<path class="{}" d="{}"/>').format(css, closed), plane)
        parts += [Markup('<g class="{}">{}</g>').format(colour, outline)] if size else []
    parts.append(draw_paths([[(panel.cut, plane.up.low), (panel.cut, plane.up.high)]], "reference", plane))
    title, told = f"{panel.explainer} on {panel.model}" if len(data.models) > 1 else panel.explainer, captions(panel)
    drawing = draw_plane(plane, Markup("").join(parts), f"{title}: {'; '.join(told)}")
    return Facet(title=title, frame=panel.frame, drawing=drawing, captions=tuple(map(Markup.escape, told)))


def captions(panel: Histogram) -> list[str]:
    """How large the sets are, where they lie, and how well a threshold tells them apart."""
    sets = zip((SAME, DIFFER), panel.sizes, panel.means, strict=True)
    said = [f"{name}: {size:,} pairs, mean {number(middle)}" if size else f"{name} is empty" for name, size, middle in sets]
    cut = f"ReCo {number(panel.consistency)} at \N{GREEK SMALL LETTER GAMMA}* = {number(panel.cut)}"
    return [*said, cut if math.isfinite(panel.cut) else "ReCo is undefined"]


@FIGURES.add
class HistogramsFigure(SharedFigure):
    """S= beside S!= of every explainer, one figure for scores that share their sets."""

    name = "histograms"

    def data(self, reading: RunReading, labels: Sequence[str]) -> list[tuple[list[str], HistogramsData]] | None:
        """Scores that share their sets, and the distances in them."""
        found = []
        for alike in sharing_sets(reading, labels):
            frames = {row.explainer: row.frame for row in reading.of(alike[0]) if not row.control}
            found.append((alike, histograms_data(reading.sets(alike[0]), reading.models, frames)))
        return [(alike, one) for alike, one in found if one.panels] or None

    def plot(self, reading: RunReading, labels: Sequence[str], data: list[tuple[list[str], HistogramsData]]) -> tuple[Plot, ...]:
        """One figure for each choice of sets."""
        several = len(sharing_sets(reading, labels)) > 1
        return tuple(self.one(reading, alike, found, several=several) for alike, found in data)

    def one(self, reading: RunReading, labels: Sequence[str], data: HistogramsData, *, several: bool) -> Plot:
        """One plot per explainer."""
        sets = reading.sets(labels[0]).values()
        same, differ = (max((int(np.isfinite(both[place]).sum()) for both in sets), default=0) for place in (0, 1))
        whose = f" ({', '.join(word_of(one) for one in labels)})" if several else ""
        drawn = {
            sign(f'<g class="{SET_COLOURS[0]}"><rect class="area" x="-12" y="-6" width="24" height="12"/></g>', SAME): same > 0,
            sign(f'<g class="{SET_COLOURS[1]}"><line class="curve" x1="-12" x2="12"/></g>', DIFFER): differ > 0,
            line_sign("reference", "\N{GREEK SMALL LETTER GAMMA}*, where ReCo cuts"): any(math.isfinite(one.cut) for one in data.panels),
        }
        keys = signs(*(one for one, there in drawn.items() if there))
        return Plot(
            title=f"How far the explanations of two models lie apart{whose}",
            sentences=tuple(sentences(say("stable.histograms", SAME, alike=same, differ=differ))),
            note="Across: the distance between the explanations of two models, in bins that all plots share. Up: the share of each set.",
            keys=keys,
            drawing=draw_histograms(data),
        )


def sharing_sets(reading: RunReading, labels: Sequence[str]) -> list[list[str]]:
    """Labels of scores that differ by their name alone, and so share their sets."""
    found: dict[str, list[str]] = {}
    for label in labels:
        spec = reading.score(label).spec()
        found.setdefault(as_json({name: value for name, value in spec.items() if name != "name"}), []).append(label)
    return list(found.values())
