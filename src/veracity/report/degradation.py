"""The page of a degradation check: which scores follow the damage."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from veracity.core.failures import failures_of
from veracity.report.figures.damage import MODEL, damage_data, draw_damage, draw_keys
from veracity.report.page import saved, template
from veracity.report.phrases import listing, name, piece, say, sentences
from veracity.report.view import as_number
from veracity.report.wording import title_of
from veracity.core.wording import count, interval, number
from veracity.statistics.trend import FOLLOWS, UNDEFINED

TITLE = "Do scores follow the damage?"


def render_degradation(table: pd.DataFrame, trends: pd.DataFrame, failures: pd.DataFrame, title: str = TITLE) -> str:
    """Scores against damage, their trends, and what could not be measured, as one HTML page."""
    data = damage_data(table)
    return template("degradation.html.j2").render(
        title=title,
        sentences=degradation_sentences(trends),
        legend=draw_keys(data),
        plots=draw_damage(data),
        rows=[line(record) for record in trends.to_dict("records")],
        failures=failures_of({**record, "model": record["case"]} for record in failures.to_dict("records")),
    )


def write_degradation(table: pd.DataFrame, trends: pd.DataFrame, failures: pd.DataFrame, path: str | Path, title: str = TITLE) -> Path:
    """Write the page of a degradation check to a file and return the file's path."""
    return saved(lambda: render_degradation(table, trends, failures, title), path)


def degradation_sentences(trends: pd.DataFrame) -> list[Markup]:
    """For each score and damage, how many explainers follow."""
    said = []
    groups = [
        (score, damage, rows)
        for score, alike in trends.groupby("score", sort=False)
        for damage, rows in alike.groupby("damage", sort=False)
    ]
    for score, damage, rows in groups:
        follow = [str(one) or MODEL for one in rows.loc[rows["verdict"] == FOLLOWS, "explainer"]]
        lost = int((rows["verdict"] == UNDEFINED).sum())
        known = len(rows) - lost
        of = f"{len(follow)} of {count(known, 'explainer')}"
        named = piece(" ({})", listing([name(one) for one in follow])) if 0 < len(follow) < known else Markup("")
        what = name(title_of(str(score))), name(str(damage))
        undefined = f"; {lost} undefined" if lost else ""
        said.append(say("damage.follows", *what, of, named, undefined, damaged=known) or say("damage.untold", *what, measured=len(rows)))
    return sentences(*said)


def line(record: Mapping[Any, Any]) -> list[str]:
    """One row of the table of trends."""
    low, high, undefined = as_number(record["low"]), as_number(record["high"]), int(record["undefined"])
    return [
        title_of(str(record["score"])),
        str(record["damage"]),
        str(record["explainer"]) or MODEL,
        str(record["verdict"]),
        number(as_number(record["slope"])),
        interval(low, high) if low == low else "",
        number(as_number(record["p"]), 4),
        number(as_number(record["p_adjusted"]), 4),
        number(as_number(record["accuracy_drop"])),
        str(undefined) if undefined else "",
    ]
