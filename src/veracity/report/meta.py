"""The page of a meta-evaluation: can scores be trusted? Meta-consistency as bars (Figure 6), and its parts as a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from markupsafe import Markup

from veracity.core.errors import InputError
from veracity.core.wording import compact, count, number
from veracity.report.figure import sign, signs
from veracity.report.figures import chart
from veracity.report.html import draw, template
from veracity.report.wording import as_number, listing, name, say, sentences, title_of
from veracity.studies.meta import MetaResult

PARTS = {"iac_nr": "IAC, minor", "iac_ar": "IAC, disruptive", "iec_nr": "IEC, minor", "iec_ar": "IEC, disruptive"}
COLUMNS = ("score", "test", "mc", "sd", *PARTS)
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
    """Every score in each test, most consistent first; None where a score did not take a test."""

    tests: tuple[str, ...]
    scores: tuple[tuple[str, tuple[Consistency | None, ...]], ...]

    @property
    def published(self) -> bool:
        """Whether published figures stand beside ours."""
        return any(item is not None and math.isfinite(item.published) for _, found in self.scores for item in found)


def meta_data(table: pd.DataFrame) -> MetaData:
    """From a table with one row per score and test: score, test, mc, sd, iac_nr, iac_ar, iec_nr, iec_ar."""
    lacking = [name for name in COLUMNS if name not in table]
    if lacking:
        raise InputError(f"A table of meta-consistency has the columns {', '.join(COLUMNS)}, and this one lacks {', '.join(lacking)}.")
    cells = {}
    for record in table.to_dict("records"):
        own = {name: as_number(record.get(name)) for name in ("mc", "sd", "published", "left_out")}
        parts = tuple(as_number(record[name]) for name in PARTS)
        cells[str(record["score"]), str(record["test"])] = Consistency(parts=parts, **own)
    tests = tuple(dict.fromkeys(test for _, test in cells))
    scores = [(score, tuple(cells.get((score, test)) for test in tests)) for score in dict.fromkeys(score for score, _ in cells)]
    means = {score: overall(found, tests)[0] for score, found in scores}
    return MetaData(tests=tests, scores=tuple(sorted(scores, key=lambda item: (math.isnan(means[item[0]]), -means[item[0]]))))


def overall(found: Sequence[Consistency | None], tests: Sequence[str]) -> tuple[float, float]:
    """One score's meta-consistency in both tests together, or else its mean over tests, and its spread; NaN if unknown.

    The spread of a mean over tests is the largest of theirs.
    """
    known = {test: item for test, item in zip(tests, found, strict=True) if item is not None and math.isfinite(item.mc)}
    items = [known[TOGETHER]] if TOGETHER in known else list(known.values())
    spread = max(item.sd for item in items) if items and all(math.isfinite(item.sd) for item in items) else math.nan
    return chart.mean_of([item.mc for item in items]), spread


def draw_meta(data: MetaData) -> Markup:
    """One row per score, one bar per test, with one standard deviation to either side."""
    rows = []
    for score, found in data.scores:
        lanes = [draw_bar(place, score, item, data) for place, item in enumerate(found) if item is not None and math.isfinite(item.mc)]
        readouts = [
            ("not run", "")
            if item is None
            else (number(item.mc), f"\N{PLUS-MINUS SIGN} {number(item.sd)}" if math.isfinite(item.sd) else "")
            for item in found
        ]
        rows.append(chart.ChartRow(name=title_of(score), lanes=lanes, readouts=readouts))
    label, tests = "Meta-consistency", len(data.tests)
    return chart.draw_chart([("", rows)], chart.SHARES, lanes=tests, main="MC", more="standard deviation", label=label)


def draw_bar(place: int, score: str, item: Consistency, data: MetaData) -> Markup:
    """One bar from zero, and its spread."""
    y, percent = chart.lane_centre(place, len(data.tests)), chart.SHARES.percent
    parts = [
        Markup('<rect class="bar" x="0" width="{}%" y="{}" height="{}"/>').format(percent(item.mc), y - HALF, 2 * HALF),
        chart.span(item.mc - item.sd, item.mc + item.sd, y, chart.SHARES, "draws"),
        chart.mark(percent(item.published), y, chart.DIAMOND, "ring") if math.isfinite(item.published) else Markup(""),
    ]
    told = f"{title_of(score)}, {test_title(data.tests[place])}: {number(item.mc)}, standard deviation {number(item.sd)}"
    return chart.lane(place, told, Markup("").join(parts))


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
    return draw("numbers", names, rows)


TITLE = "Which scores can be trusted?"


def render_meta(study: MetaResult) -> str:
    """A meta-evaluation as one HTML page."""
    return meta_page(study.table(), study.title or TITLE)


def meta_page(table: pd.DataFrame, title: str = TITLE) -> str:
    """A table of meta-consistency (score, test, mc, sd, iac_nr, iac_ar, iec_nr, iec_ar) as one HTML page."""
    data = meta_data(table)
    keys = chart.legend([test_title(test) for test in data.tests])
    keys += signs(sign(f'<path class="ring" d="{chart.DIAMOND}"/>', "published")) if data.published else Markup("")
    page, said = template("meta.html.j2"), meta_sentences(data)
    return page.render(title=title, sentences=said, legend=keys, bars=draw_meta(data), numbers=draw_parts(data))


def meta_sentences(data: MetaData) -> list[Markup]:
    """Whether the most consistent score can be told from the least consistent one, by their spreads over iterations."""
    known = [(score, *both) for score, found in data.scores if math.isfinite((both := overall(found, data.tests))[0])]
    if len(known) < 2:
        return []
    (first, high, high_sd), (last, low, low_sd) = known[0], known[-1]
    tests = listing(name(test_title(test)) for test in data.tests if test != TOGETHER or len(data.tests) == 1)
    opening = count(len(data.scores), "score"), tests
    spreads = sum(map(math.isfinite, (high_sd, low_sd)))
    if high - high_sd > low + low_sd:
        ends = name(title_of(first)), number(high), name(title_of(last)), number(low)
        return sentences(say("meta.apart", *opening, *ends, scores=spreads))
    return sentences(say("meta.level", *opening, scores=spreads) or say("meta.untold", measured=len(data.scores)))
