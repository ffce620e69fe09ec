"""The page of a distance check: distances over maps that part step by step (Figures 6 and 7 of the stability paper)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from markupsafe import Markup

from veracity.core.scores import Array
from veracity.core.wording import count, number
from veracity.report.figures.chart import exact_scale, from_zero
from veracity.report.figures.panels import Facet, draw_facets, path
from veracity.report.figures.plane import Plane, draw_band, draw_paths, draw_plane, group
from veracity.report.html import cells, template
from veracity.report.wording import listing, name, piece, say, sentences
from veracity.studies.distance_check import DistanceResult
from veracity.studies.distances import DistanceCurve, Verdict, growth


@dataclass(frozen=True, kw_only=True)
class DistanceData:
    """One distance in one test: its mean with one standard deviation to either side, and the sentence under its plot."""

    distance: str
    at: Array
    mean: Array
    low: Array
    high: Array
    said: str


def distances_data(curves: Sequence[DistanceCurve], test: str) -> tuple[DistanceData, ...]:
    """The curves of one test, in their order."""
    made = []
    for one in curves:
        if one.test == test:
            mean, sd, found = one.mean, np.nan_to_num(one.sd), growth(one.at, one.values)
            top = f"; falls back by {number(100 * found.fall, 0)} %, at its top after {number(100 * found.reach, 0)} % of the way"
            said = one.error or f"{found.verdict}{top if np.isfinite(found.fall) else ''}"
            low = np.maximum(mean - sd, np.minimum(mean, 0.0))
            made.append(DistanceData(distance=one.distance, at=one.at, mean=mean, low=low, high=mean + sd, said=said))
    return tuple(made)


def draw_distances(data: Sequence[DistanceData], label: str) -> Markup:
    """The plots of one test, side by side, each with a vertical axis of its own: the mean, and the band around it."""
    facets = []
    for one in data:
        up = from_zero([float(value) for value in (*one.low, *one.high)])
        plane = Plane(across=exact_scale(float(one.at[0]), float(one.at[-1])), up=up)
        low, mean, high = (path(one.at, values) for values in (one.low, one.mean, one.high))
        content = group(0, draw_band(low, high, plane) + draw_paths([mean], "curve", plane))
        drawing = draw_plane(plane, content, f"{one.distance} over {label}")
        facets.append(Facet(title=one.distance, frame="", drawing=drawing, captions=(Markup.escape(one.said),)))
    return draw_facets(facets, shown=len(facets))


AXES = {"noise": "standard deviation of the noise"}
WAY = "share of the way"


TITLE = "Which distances grow with what parts two explanations?"


def render_distances(study: DistanceResult) -> str:
    """The curves, all numbers and the verdicts of a distance check as one HTML page."""
    curves, table = study.curves, study.table()
    tests = list(dict.fromkeys(one.test for one in curves))
    plots = [(test, AXES.get(test, WAY), draw_distances(distances_data(curves, test), AXES.get(test, WAY))) for test in tests]
    return template("distances.html.j2").render(
        title=study.title or TITLE, sentences=distance_sentences(table), verdicts=cells(study.verdicts()), numbers=cells(table), plots=plots
    )


def distance_sentences(table: pd.DataFrame) -> list[Markup]:
    """How many distances pass each test, and which pass all of them."""
    said = []
    for test, rows in table.groupby("test", sort=False):
        counted = rows["verdict"].value_counts()
        parts = [piece("{} {}", int(counted[kind]), str(kind)) for kind in Verdict if kind in counted]
        said.append(say("distances.test", str(test).capitalize(), count(len(rows), "distance"), listing(parts), distances=len(rows)))
    judged = table[table["verdict"] != Verdict.UNDEFINED]
    passed = table.groupby("distance", sort=False)["verdict"].agg(lambda found: bool((found == Verdict.PASSES).all()))
    all_passed = [name(str(one)) for one, holds in passed.items() if holds]
    return sentences(
        *said, say("distances.all", listing(all_passed), distances=len(all_passed)) or say("distances.none", distances=len(judged))
    )
