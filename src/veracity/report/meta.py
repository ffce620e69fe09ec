"""The page of a meta-evaluation: can scores be trusted? Meta-consistency as bars (Figure 6), and its parts as a table."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from markupsafe import Markup

from veracity.core.errors import InputError
from veracity.core.wording import compact, count, number
from veracity.report.figure import sign, signs
from veracity.report.figures.chart import (
    DIAMOND,
    ChartGroup,
    ChartRow,
    Readout,
    Scale,
    draw_chart,
    lane,
    lane_centre,
    legend,
    mark,
    mean_of,
)
from veracity.report.html import template
from veracity.report.wording import as_number, listing, name, say, sentences, title_of
from veracity.studies.meta import MetaResult

PARTS = {"iac_nr": "IAC, minor", "iac_ar": "IAC, disruptive", "iec_nr": "IEC, minor", "iec_ar": "IEC, disruptive"}
COLUMNS = ("score", "test", "mc", "sd", *PARTS)
SHARES = Scale(0.0, 1.0, (0.0, 0.2, 0.4, 0.6, 0.8, 1.0))
HALF = 5
TESTS = ("ipt", "mpt")
TOGETHER = "both"


@dataclass(frozen=True, kw_only=True)
class Consistency:
    """The meta-consistency of one score in one test with its spread over iterations, and its four parts; NaN where undefined.

    `published` is somebody's figure for the same; `left_out` counts scores that were missing before or after.
    """

    mc: float
    sd: float
    parts: tuple[float, ...]
    published: float = math.nan
    left_out: float = math.nan


@dataclass(frozen=True, kw_only=True)
class MetaData:
    """Every score, most consistent first, in each test; None where it was not taken."""

    tests: tuple[str, ...]
    scores: tuple[tuple[str, tuple[Consistency | None, ...]], ...]

    @property
    def published(self) -> bool:
        """Whether published figures stand beside ours."""
        return any(item is not None and math.isfinite(item.published) for _, found in self.scores for item in found)


def meta_data(table: pd.DataFrame) -> MetaData:
    """From a table with one row a score and test: score, test, mc, sd, iac_nr, iac_ar, iec_nr, iec_ar."""
    lacking = [name for name in COLUMNS if name not in table]
    if lacking:
        raise InputError(f"A table of meta-consistency has the columns {', '.join(COLUMNS)}, and this one lacks {', '.join(lacking)}.")
    cells = {(str(record["score"]), str(record["test"])): consistency(record) for record in table.to_dict("records")}
    tests = tuple(dict.fromkeys(test for _, test in cells))
    scores = [(score, tuple(cells.get((score, test)) for test in tests)) for score in dict.fromkeys(score for score, _ in cells)]
    return MetaData(tests=tests, scores=tuple(sorted(scores, key=lambda item: order(overall(item[1], tests)))))


def order(mc: float) -> tuple[bool, float]:
    """The highest first, those without any last."""
    return math.isnan(mc), -mc


def overall(found: Sequence[Consistency | None], tests: Sequence[str]) -> float:
    """One score's meta-consistency in both tests together, or else its mean over tests; NaN if it has none."""
    known = {test: item.mc for test, item in zip(tests, found, strict=True) if item is not None and math.isfinite(item.mc)}
    return known.get(TOGETHER, mean_of(list(known.values())))


def consistency(record: Mapping[Hashable, Any]) -> Consistency:
    """One row."""
    own = {name: as_number(record.get(name)) for name in ("mc", "sd", "published", "left_out")}
    return Consistency(parts=tuple(as_number(record[name]) for name in PARTS), **own)


def draw_meta(data: MetaData) -> Markup:
    """One row a score, one bar a test, with one standard deviation to either side."""
    rows = [
        ChartRow(
            name=title_of(score),
            lanes=[draw_bar(place, score, item, data) for place, item in enumerate(found) if item is not None and math.isfinite(item.mc)],
            readouts=[readout(item) for item in found],
        )
        for score, found in data.scores
    ]
    return draw_chart(
        [ChartGroup(heading="", rows=rows)], SHARES, lanes=len(data.tests), main="MC", more="standard deviation", label="Meta-consistency"
    )


def readout(item: Consistency | None) -> Readout:
    """The numbers beside a bar."""
    if item is None:
        return Readout(main="not run")
    return Readout(main=number(item.mc), more=f"\N{PLUS-MINUS SIGN} {number(item.sd)}" if math.isfinite(item.sd) else "")


def draw_bar(place: int, score: str, item: Consistency, data: MetaData) -> Markup:
    """One bar from zero, and its spread."""
    y = lane_centre(place, len(data.tests))
    parts = [Markup('<rect class="bar" x="0" width="{}%" y="{}" height="{}"/>').format(SHARES.percent(item.mc), y - HALF, 2 * HALF)]
    if math.isfinite(item.sd):
        ends = SHARES.percent(item.mc - item.sd), SHARES.percent(item.mc + item.sd)
        parts.append(Markup('<line class="draws" x1="{}%" x2="{}%" y1="{}" y2="{}"/>').format(*ends, y, y))
    if math.isfinite(item.published):
        parts.append(mark(SHARES.percent(item.published), y, DIAMOND, "ring"))
    told = f"{title_of(score)}, {test_title(data.tests[place])}: {number(item.mc)}, standard deviation {number(item.sd)}"
    return lane(place, told, Markup("").join(parts))


def test_title(test: str) -> str:
    """A test's name as a heading.

    >>> test_title("ipt"), test_title("both")
    ('IPT', 'both')
    """
    return test.upper() if test in TESTS else test


def draw_parts(data: MetaData) -> Markup:
    """All numbers, as a table; of what is published and of what was left out only where there is anything."""
    lines = [(score, test, item) for score, found in data.scores for test, item in zip(data.tests, found, strict=True) if item is not None]
    names = ["Score", "Test", "MC", "SD", *PARTS.values()]
    rows = [[title_of(score), test_title(test), *map(number, (item.mc, item.sd, *item.parts))] for score, test, item in lines]
    for heading, values in {
        "Published MC": [number(item.published) if math.isfinite(item.published) else "" for _, _, item in lines],
        "Left out": [compact(item.left_out) if item.left_out > 0 else "" for _, _, item in lines],
    }.items():
        if any(values):
            names, rows = [*names, heading], [[*row, value] for row, value in zip(rows, values, strict=True)]
    head = Markup("").join(Markup('<th scope="col">{}</th>').format(text) for text in names)
    body = Markup("").join(draw_line(*row) for row in rows)
    frame = '<div class="scroll" tabindex="0"><table class="numbers"><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>'
    return Markup(frame).format(head, body)


def draw_line(first: str, *rest: str) -> Markup:
    """One row of the table."""
    cells = Markup("").join(Markup("<td>{}</td>").format(text) for text in rest)
    return Markup('<tr><th scope="row">{}</th>{}</tr>').format(first, cells)


@dataclass(frozen=True, kw_only=True)
class Overall:
    """A score's meta-consistency over all tests, and its spread over iterations: the largest of the tests where they are averaged."""

    score: str
    mc: float
    sd: float


def best_and_worst(data: MetaData) -> tuple[Overall, Overall] | None:
    """The most and the least consistent score; None if fewer than two have a number."""
    means = [Overall(score=score, mc=overall(found, data.tests), sd=spread(found, data.tests)) for score, found in data.scores]
    known = [one for one in means if math.isfinite(one.mc)]
    return (known[0], known[-1]) if len(known) > 1 else None


def spread(found: Sequence[Consistency | None], tests: Sequence[str]) -> float:
    """The spread of both tests together, or else the largest one; NaN if any is unknown."""
    known = {test: item.sd for test, item in zip(tests, found, strict=True) if item is not None and math.isfinite(item.mc)}
    values = [known[TOGETHER]] if TOGETHER in known else list(known.values())
    return max(values) if values and all(map(math.isfinite, values)) else math.nan


TITLE = "Which scores can be trusted?"


def render_meta(study: MetaResult) -> str:
    """A meta-evaluation as one HTML page."""
    return meta_page(study.table(), study.title or TITLE)


def meta_page(table: pd.DataFrame, title: str = TITLE) -> str:
    """A table of meta-consistency (score, test, mc, sd, iac_nr, iac_ar, iec_nr, iec_ar) as one HTML page."""
    data = meta_data(table)
    return template("meta.html.j2").render(
        title=title, sentences=meta_sentences(data), legend=keys(data), bars=draw_meta(data), numbers=draw_parts(data)
    )


def keys(data: MetaData) -> Markup:
    """Which bar is which test, and what else is drawn."""
    tests = legend([test_title(test) for test in data.tests])
    return tests + signs(sign(f'<path class="ring" d="{DIAMOND}"/>', "published")) if data.published else tests


def meta_sentences(data: MetaData) -> list[Markup]:
    """Whether the most consistent score can be told from the least consistent one, by their spreads over iterations."""
    found = best_and_worst(data)
    if found is None:
        return []
    first, last = found
    tests = listing(name(test_title(test)) for test in data.tests if test != TOGETHER or len(data.tests) == 1)
    opening = count(len(data.scores), "score"), tests
    spreads = sum(math.isfinite(one.sd) for one in found)
    if first.mc - first.sd > last.mc + last.sd:
        ends = name(title_of(first.score)), number(first.mc), name(title_of(last.score)), number(last.mc)
        return sentences(say("meta.apart", *opening, *ends, scores=spreads))
    return sentences(say("meta.level", *opening, scores=spreads) or say("meta.untold", measured=len(data.scores)))
