"""The page of a degradation check: scores against damage (Figures 3 and 4), one plot per score and damage."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
from markupsafe import Markup

from veracity.core.errors import InputError
from veracity.core.failures import failures_of
from veracity.core.wording import compact, count, interval, number
from veracity.report.figures.chart import Scale, legend, tight_scale
from veracity.report.figures.panels import Facet, draw_facets
from veracity.report.figures.plane import Plane, Spot, draw_paths, draw_plane, draw_spots, group
from veracity.report.html import template
from veracity.report.wording import ARROWS, as_number, listing, name, piece, say, sentences, title_of
from veracity.statistics.trend import FOLLOWS, UNDEFINED
from veracity.studies.degradation import DegradationResult

COLUMNS = ("damage", "share", "score", "explainer", "value", "low", "high", "accuracy", "direction")
HEIGHT = 220
APART = 0.012
"""How far apart, in parts of the width, the intervals of two explainers stand."""
MODEL = "the model"
"""Who is meant where a score is of no explainer."""


@dataclass(frozen=True, kw_only=True)
class DamageLine:
    """One explainer: its place among all, and the mean with its interval at each share; NaN if undefined."""

    label: str
    index: int
    spots: tuple[Spot, ...]


@dataclass(frozen=True, kw_only=True)
class DamagePanel:
    """One score under one damage, and the models' accuracy at each share."""

    title: str
    lines: tuple[DamageLine, ...]
    accuracies: tuple[float, ...]
    across: Scale
    up: Scale


@dataclass(frozen=True, kw_only=True)
class DamageData:
    """Every panel, and the explainers in their order."""

    explainers: tuple[str, ...]
    panels: tuple[DamagePanel, ...]


def damage_data(table: pd.DataFrame) -> DamageData:
    """From a table with one row per damage, share, score and explainer: value, low, high, accuracy, direction."""
    lacking = [name for name in COLUMNS if name not in table]
    if lacking:
        raise InputError(f"A table of damage has the columns {', '.join(COLUMNS)}, and this one lacks {', '.join(lacking)}.")
    named = table.assign(explainer=[str(one) or MODEL for one in table["explainer"]])
    explainers = tuple(dict.fromkeys(named["explainer"]))
    panels = [panel(rows, str(score), str(damage), explainers) for score, damage, rows in by_damage(named)]
    return DamageData(explainers=explainers, panels=tuple(panels))


def by_damage(table: pd.DataFrame) -> list[tuple[Any, Any, pd.DataFrame]]:
    """The rows of each score and damage, in the table's order."""
    return [
        (score, damage, rows) for score, alike in table.groupby("score", sort=False) for damage, rows in alike.groupby("damage", sort=False)
    ]


def panel(rows: pd.DataFrame, score: str, damage: str, explainers: tuple[str, ...]) -> DamagePanel:
    """One plot; lines of several explainers stand a little beside each other."""
    shares = sorted({float(share) for share in rows["share"]})
    here = [one for one in explainers if one in set(rows["explainer"])]
    width = (shares[-1] - shares[0]) or 1.0
    lines = []
    for place, label in enumerate(here):
        spots = []
        for record in rows[rows["explainer"] == label].sort_values("share").to_dict("records"):
            share, value, low, high = (as_number(record[name]) for name in ("share", "value", "low", "high"))
            title = f"{label} at {percent(share)}: {number(value)}, {interval(low, high)}"
            spots.append(Spot(x=share + width * APART * (place - (len(here) - 1) / 2), y=value, low=low, high=high, title=title))
        lines.append(DamageLine(label=label, index=explainers.index(label), spots=tuple(spots)))
    margin = width * APART * max(1.0, len(here) / 2)
    return DamagePanel(
        title=f"{title_of(score)} {ARROWS.get(str(rows['direction'].iloc[0]), '')}, {damage}",
        lines=tuple(lines),
        accuracies=tuple(map(float, rows.groupby("share", sort=True)["accuracy"].mean())),
        across=Scale(shares[0] - margin, shares[-1] + margin, tuple(shares)),
        up=tight_scale([value for line in lines for one in line.spots for value in (one.y, one.low, one.high)]),
    )


def percent(share: float) -> str:
    """A share in words.

    >>> percent(0.05), percent(0.0)
    ('5 %', 'none')
    """
    return f"{compact(round(100 * share, 6))} %" if share else "none"


def draw_damage(data: DamageData) -> Markup:
    """Every plot: lines first, then points with their intervals; below, what the damage does to the accuracy."""
    facets = []
    for item in data.panels:
        plane = Plane(across=item.across, up=item.up, labels=tuple(map(percent, item.across.ticks)), height=HEIGHT)
        lines = [group(line.index, draw_paths([[(one.x, one.y) for one in line.spots]], "curve", plane)) for line in item.lines]
        dots = [draw_spots([one for one in line.spots if math.isfinite(one.y)], line.index, plane) for line in item.lines]
        drawing = draw_plane(plane, Markup("").join([*lines, *dots]), f"{item.title}: score against the share that is damaged")
        said = f"accuracy {', '.join(map(number, item.accuracies))}" if any(map(math.isfinite, item.accuracies)) else ""
        facets.append(Facet(title=item.title, frame="", drawing=drawing, captions=tuple(map(Markup.escape, filter(None, [said])))))
    return draw_facets(facets, shown=24, broad=True)


TITLE = "Do scores follow the damage?"


def render_degradation(study: DegradationResult) -> str:
    """A degradation check as one HTML page."""
    return degradation_page(study.table(), study.trends(), study.failures(), study.title or TITLE)


def degradation_page(table: pd.DataFrame, trends: pd.DataFrame, failures: pd.DataFrame, title: str = TITLE) -> str:
    """Scores against damage, their trends, and what could not be measured, as one HTML page."""
    data = damage_data(table)
    return template("degradation.html.j2").render(
        title=title,
        sentences=degradation_sentences(trends),
        legend=legend(data.explainers, always=True),
        plots=draw_damage(data),
        rows=[line(record) for record in trends.to_dict("records")],
        failures=failures_of({**record, "model": record["case"]} for record in failures.to_dict("records")),
    )


def degradation_sentences(trends: pd.DataFrame) -> list[Markup]:
    """For each score and damage, how many explainers follow."""
    said = []
    for score, damage, rows in by_damage(trends):
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
