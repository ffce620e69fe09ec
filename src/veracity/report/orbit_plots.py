"""Figures of an orbit evaluation that need no script: its metrics by model, and along the orbit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from veracity.core.errors import unknown
from veracity.orbits import OrbitResult
from veracity.orbits.folder import CONSENSUS
from veracity.report.figure import Plot
from veracity.report.figures.chart import exact_scale, legend, scale_for
from veracity.report.figures.panels import Facet, draw_facets, path
from veracity.report.figures.plane import Plane, draw_band, draw_paths, draw_plane, group
from veracity.report.figures.ranking import behaviour_data, draw_behaviour
from veracity.results import Row

MODELS, ORBIT = "models", "orbit"


def orbit_plots(run: OrbitResult, metric: str | None = None) -> dict[str, Plot]:
    """The figures by their names; "orbit" only where the orbit has one coordinate. With `metric`, of this metric alone."""
    names = [one["name"] for one in run.metrics]
    if metric is not None and metric not in names:
        raise unknown("metric", metric, names)
    chosen = [one for one in run.metrics if metric in (None, one["name"])]
    found = {MODELS: models_plot(run, chosen)}
    if len(run.axes) == 1 and len(run.elements) > 2:
        found[ORBIT] = orbit_plot(run, chosen)
    return found


def level(run: OrbitResult) -> str:
    """The confidence of the intervals in words."""
    return f"{100 * run.confidence:g} %"


def models_plot(run: OrbitResult, metrics: Sequence[dict[str, Any]]) -> Plot:
    """Each model's mean over the whole orbit, metric by metric, against the truth or else the consensus."""
    table = run.table()
    parts = []
    for about in metrics:
        against = "" if about["explainer"] is not None else run.references[0]
        mine = table[(table["metric"] == about["name"]) & (table["reference"] == against)]
        numbers = ("value", "low", "high", "unseen", "state")
        rows = [
            Row(model=row["model"], explainer="", score=about["name"], **{name: row[name] for name in numbers})
            for row in mine.to_dict("records")
        ]
        drawn = draw_behaviour(behaviour_data(rows, about["name"], run.models, {}, level(run)))
        better = "higher" if about["higher_is_better"] else "lower"
        parts.append(Markup("<h4>{} ({} is better)</h4>{}").format(about["label"], better, drawn))
    return Plot(title="Mean over the whole orbit", drawing=Markup("").join(parts))


def orbit_plot(run: OrbitResult, metrics: Sequence[dict[str, Any]]) -> Plot:
    """The mean of each metric at every element, one curve per model."""
    axis = run.axes[0]
    places = run.coordinates[:, 0]
    order = places.argsort()
    facets = []
    for about in metrics:
        curves = [run.aggregate(model, about["name"], reference=run.references[0]).iloc[order] for model in run.models]
        heights = [float(value) for curve in curves for end in ("low", "high", "value") for value in curve[end]]
        plane = Plane(across=exact_scale(float(places.min()), float(places.max())), up=scale_for(heights, parts=5))
        parts = []
        for model, curve in enumerate(curves):
            low, high, value = (path(places[order], curve[end]) for end in ("low", "high", "value"))
            parts.append(group(model, draw_band(low, high, plane) + draw_paths([value], "curve", plane)))
        label = f"{about['label']} along the orbit"
        facets.append(Facet(title=about["label"], frame="", drawing=draw_plane(plane, Markup("").join(parts), label), captions=()))
    unit = f" ({axis['unit']})" if axis["unit"] else ""
    judged = "the consensus of the orbit" if run.references[0] == CONSENSUS else "the truth"
    note = f"Across: {axis['label']}{unit}. Up: the mean over {run.samples} samples against {judged}, with its {level(run)} interval."
    return Plot(title="Along the orbit", note=note, keys=legend(run.models), drawing=draw_facets(facets, broad=True))
