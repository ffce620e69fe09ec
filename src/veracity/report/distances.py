"""The page of a distance check: which distances grow with what parts two maps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from markupsafe import Markup

from veracity.report.figures.distances import distances_data, draw_distances
from veracity.report.joint import cell
from veracity.report.page import saved, template
from veracity.report.phrases import listing, name, piece, say, sentences
from veracity.core.wording import count
from veracity.studies.distances import DistanceCurve, Verdict

AXES = {"noise": "standard deviation of the noise"}
WAY = "share of the way"


def render_distances(curves: Sequence[DistanceCurve], table: pd.DataFrame, verdicts: pd.DataFrame, title: str) -> str:
    """The curves, all numbers and the verdicts of a distance check as one HTML page."""
    tests = list(dict.fromkeys(one.test for one in curves))
    plots = [(test, AXES.get(test, WAY), draw_distances(distances_data(curves, test), AXES.get(test, WAY))) for test in tests]
    return template("distances.html.j2").render(
        title=title, sentences=distance_sentences(table), verdicts=listed(verdicts), numbers=listed(table), plots=plots
    )


def write_distances(curves: Sequence[DistanceCurve], table: pd.DataFrame, verdicts: pd.DataFrame, path: str | Path, title: str) -> Path:
    """Write the page of a distance check to a file and return the file's path."""
    return saved(lambda: render_distances(curves, table, verdicts, title), path)


def listed(table: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    """A table as its columns and its cells."""
    return list(table.columns), [[cell(value) for value in row] for row in table.to_numpy(dtype=object)]


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
