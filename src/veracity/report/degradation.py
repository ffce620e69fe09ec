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
from veracity.report.figures.chart import Scale, key, tight_scale
from veracity.report.figures.panels import Facet, draw_facets
from veracity.report.figures.plane import Place, Plane, Spot, draw_paths, draw_plane, draw_spots, group
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
    """One explainer: its place among all, and the mean with its interval at each share; NaN where undefined."""

    label: str
    index: int
    spots: tuple[Spot, ...]


@dataclass(frozen=True, kw_only=True)
class DamagePanel:
    """One score under one damage, and the models' accuracy at each share."""

    score: str
    damage: str
    better: str
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
    """From a table with one row a damage, share, score and explainer: value, low, high, accuracy, direction."""
    lacking = [name for name in COLUMNS if name not in table]
    if lacking:
        raise InputError(f"A table of damage has the columns {', '.join(COLUMNS)}, and this one lacks {', '.join(lacking)}.")
    explainers = tuple(dict.fromkeys(str(one) or MODEL for one in table["explainer"]))
    panels = [
        panel(rows, str(score), str(damage), explainers)
        for score, alike in table.groupby("score", sort=False)
        for damage, rows in alike.groupby("damage", sort=False)
    ]
    return DamageData(explainers=explainers, panels=tuple(panels))


def panel(rows: pd.DataFrame, score: str, damage: str, explainers: tuple[str, ...]) -> DamagePanel:
    """One plot; lines of several explainers stand a little beside each other."""
    shares = sorted({float(share) for share in rows["share"]})
    here = [one for one in explainers if one in {str(found) or MODEL for found in rows["explainer"]}]
    width = (shares[-1] - shares[0]) or 1.0
    lines = []
    for place, label in enumerate(here):
        mine = rows[rows["explainer"] == ("" if label == MODEL else label)].sort_values("share")
        aside = width * APART * (place - (len(here) - 1) / 2)
        spots = tuple(spot(record, aside, label) for record in mine.to_dict("records"))
        lines.append(DamageLine(label=label, index=explainers.index(label), spots=spots))
    margin = width * APART * max(1.0, len(here) / 2)
    means = rows.groupby("share", sort=True)["accuracy"].mean()
    return DamagePanel(
        score=score,
        damage=damage,
        better=ARROWS.get(str(rows["direction"].iloc[0]), ""),
        lines=tuple(lines),
        accuracies=tuple(float(value) for value in means),
        across=Scale(shares[0] - margin, shares[-1] + margin, tuple(shares)),
        up=tight_scale([value for line in lines for one in line.spots for value in (one.y, one.low, one.high)]),
    )


def spot(record: dict[object, object], aside: float, label: str) -> Spot:
    """One point of a line."""
    share, value, low, high = (as_number(record[name]) for name in ("share", "value", "low", "high"))
    return Spot(x=share + aside, y=value, low=low, high=high, title=f"{label} at {percent(share)}: {number(value)}, {interval(low, high)}")


def percent(share: float) -> str:
    """A share in words.

    >>> percent(0.05), percent(0.0)
    ('5 %', 'none')
    """
    return f"{compact(round(100 * share, 6))} %" if share else "none"


def draw_damage(data: DamageData) -> Markup:
    """Every plot."""
    return draw_facets([draw_panel(one) for one in data.panels], shown=24, broad=True)


def draw_panel(item: DamagePanel) -> Facet:
    """Lines first, then points with their intervals; below, what the damage does to the accuracy."""
    plane = Plane(across=item.across, up=item.up, labels=tuple(percent(tick) for tick in item.across.ticks), height=HEIGHT)
    lines = [group(line.index, draw_paths([path(line)], "curve", plane)) for line in item.lines]
    dots = [draw_spots([one for one in line.spots if math.isfinite(one.y)], line.index, plane) for line in item.lines]
    title = f"{title_of(item.score)} {item.better}, {item.damage}"
    drawing = draw_plane(plane, Markup("").join([*lines, *dots]), f"{title}: score against the share that is damaged")
    known = [value for value in item.accuracies if math.isfinite(value)]
    said = f"accuracy {', '.join(number(value) for value in item.accuracies)}" if known else ""
    return Facet(title=title, frame="", drawing=drawing, captions=(Markup.escape(said),) if said else ())


def path(line: DamageLine) -> list[Place]:
    """The line through an explainer's points."""
    return [(one.x, one.y) for one in line.spots]


def draw_keys(data: DamageData) -> Markup:
    """Which mark is which explainer."""
    items = Markup("").join(Markup("<li>{}{}</li>").format(key(index), label) for index, label in enumerate(data.explainers))
    return Markup('<ul class="legend">{}</ul>').format(items)


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
        legend=draw_keys(data),
        plots=draw_damage(data),
        rows=[line(record) for record in trends.to_dict("records")],
        failures=failures_of({**record, "model": record["case"]} for record in failures.to_dict("records")),
    )


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
