"""What a run stored of one sample step by step: its curve, the best point of each search so far, or its distances to other models.

Which of these a score has is what its figures in the report say: a curve, a search, or the histograms of stability.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from veracity.core.errors import VeracityError
from veracity.core.scores import Array, Measured
from veracity.engine.store.folder import NUMBERS
from veracity.report.figures.chart import evenly
from veracity.report.figures.curves import LEAST, over_draws
from veracity.report.figures.features import feature_names
from veracity.report.figures.search import titles
from veracity.report.interactive.drawings import finite
from veracity.results import Result
from veracity.results.cases import cells_of
from veracity.results.series import dense
from veracity.scores.common import Curve
from veracity.scores.distance_sets import ALIKE, UNLIKE

POINTS = 120
"""The most steps of a course that are sent, evenly spaced."""
DRAWS = 12
"""Up to so many draws are sent one by one beside their mean."""
SETS = {ALIKE: "S=", UNLIKE: "S\N{NOT EQUAL TO}"}
CURVE, SEARCH, FOLDS = "curve", "search", "folds"
"""Kinds of courses."""
SHARE = "the share "
"""How the label of an axis begins that says which part of the input is masked, inserted or kept."""
FIGURES = {"curve": CURVE, "search": SEARCH, "rarity": SEARCH, "histograms": FOLDS}
"""The figures of the report by which a score says that it has a course, and of which kind."""


def sample_measured(run: Result, model: str, score: str, sample: int) -> dict[str, Measured]:
    """The stored quantities (1, draws, levels) of one sample by explainer, NaN where there are fewer draws or levels."""
    finished, found = run.progress.done, dict[str, Measured]()
    for cell in cells_of(run, model, sample):
        if cell["score"] != score or cell["key"] not in finished:
            continue
        part = dense(run.folder.read_cell(cell["key"], NUMBERS))
        at = int(np.searchsorted(part.samples, sample))
        if at < len(part.samples) and part.samples[at] == sample:
            tables = {name: table[at : at + 1, : part.counts[at]] for name, table in part.quantities.items()}
            found[cell["explainer"]] = Measured(tables)
    return found


def course_of(run: Result, model: str, score: str, sample: int) -> dict[str, Any] | None:
    """The course of a sample by a score: its `kind`, what its axes say, and a line per explainer; None if the score has none."""
    known: Any = run.known_score(score)
    kind = next((kind for figure, kind in FIGURES.items() if figure in known.figures), None)
    if kind is None:
        return None
    made = {CURVE: curve_course, SEARCH: search_course, FOLDS: fold_course}[kind]
    found = made(run, known, sample_measured(run, model, score, sample))
    return {"kind": kind, **found} if found["lines"] else None


def has_curve(score: Any) -> bool:
    """Whether a score says that it has a curve."""
    return any(FIGURES.get(figure) == CURVE for figure in score.figures)


def curve_of(run: Result, score: Any, levels: int) -> Curve | None:
    """How the curve of a score is drawn; None if it has none, or too few levels for one."""
    if levels < LEAST or not has_curve(score):
        return None
    shape, features = run.manifest["data"]["shape"], feature_names(run.manifest)
    try:
        found: Curve = score.curve(tuple(map(int, shape)) if features is None else (len(features.names),), levels)
    except VeracityError:
        return None
    return found


def of_one(text: str) -> str:
    """A label of a mean over samples, said of one sample.

    >>> of_one("the mean probability of the explained class")
    'the probability of the explained class'
    """
    return text.replace("the mean ", "the ", 1)


def curve_course(run: Result, score: Any, measured: Mapping[str, Measured]) -> dict[str, Any]:
    """The curve of each explainer: the mean over draws, and few draws one by one."""
    levels = max((table.shape[2] for one in measured.values() for table in one.quantities.values()), default=0)
    curve = curve_of(run, score, levels)
    if curve is None:
        return {"lines": []}
    lines = []
    for explainer, one in measured.items():
        table = one.quantities.get(curve.quantity)
        if table is None or table.shape[2] != levels or not np.isfinite(table).any():
            continue
        mean = over_draws(table)[0]
        places = own_places(curve, mean)
        chosen = evenly(len(places), POINTS)
        draws = table[0][:, chosen] if 1 < table.shape[1] <= DRAWS else np.zeros((0, len(chosen)))
        line = points(places[chosen], mean[chosen])
        lines.append({"explainer": explainer, "title": "", **line, "draws": [finite(row) for row in draws]})
    return {"across": curve.across, "up": of_one(curve.up), "lines": lines}


def own_places(curve: Curve, values: Array) -> Array:
    """The places of a curve; of a sample that is shorter than others, and so has fewer levels, the shares of its own input."""
    own = int(np.flatnonzero(np.isfinite(values))[-1]) + 1
    if own == len(values) or not curve.across.startswith(SHARE):
        return curve.places
    return np.asarray(curve.places[:own] / curve.places[own - 1] * curve.places[-1], dtype=np.float64)


def search_course(run: Result, score: Any, measured: Mapping[str, Measured]) -> dict[str, Any]:
    """The objective at the worst feasible point so far against evaluations, for each search of each explainer."""
    lines = []
    for explainer, one in measured.items():
        if not {"evaluations", "merit"} <= one.quantities.keys():
            continue
        made, merit = one["evaluations"][0], one["merit"][0]
        for search, title in enumerate(titles(score, len(made))):
            steps = np.flatnonzero(np.isfinite(made[search]))
            if len(steps):
                chosen = steps[evenly(len(steps), POINTS)]
                worst = score.objective_at(merit[search][chosen])
                lines.append({"explainer": explainer, "title": title.replace("_", " "), **points(made[search][chosen], worst), "draws": []})
    return {"across": "evaluations", "up": f"the {score.objective} at the worst feasible point so far", "lines": lines}


def fold_course(run: Result, score: Any, measured: Mapping[str, Measured]) -> dict[str, Any]:
    """The distance from the explanation of the model that never saw the sample to that of each other one, and the set of each pair."""
    lines = []
    for explainer, one in measured.items():
        if not set(score.quantities) <= one.quantities.keys():
            continue
        distance, member = score.sets(one)
        sets = [SETS.get(int(which), "") for which in member[0]]
        lines.append(
            {"explainer": explainer, "title": "", **points(np.arange(1.0, distance.shape[1] + 1), distance[0]), "draws": [], "sets": sets}
        )
    return {"across": "the models that saw the sample", "up": "the distance of their explanations", "lines": lines}


def points(places: Array, values: Array) -> dict[str, list[float | None]]:
    """The places and values of a line as plain data."""
    return {"places": finite(places), "values": finite(values)}
