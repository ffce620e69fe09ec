"""The page of a meta-evaluation: which scores can be trusted."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from markupsafe import Markup

from veracity.report.figures.chart import legend
from veracity.report.figures.meta import TOGETHER, MetaData, best_and_worst, draw_meta, draw_parts, meta_data, test_title
from veracity.report.figures.scale import DIAMOND
from veracity.report.page import saved, template
from veracity.report.phrases import listing, name, say
from veracity.report.plot import sign, signs
from veracity.report.wording import count, number, title_of


def render_meta(table: pd.DataFrame, title: str = "Which scores can be trusted?") -> str:
    """A table of meta-consistency (score, test, mc, sd, iac_nr, iac_ar, iec_nr, iec_ar) as one HTML page."""
    data = meta_data(table)
    return template("meta.html.j2").render(
        title=title, sentences=meta_sentences(data), legend=keys(data), bars=draw_meta(data), numbers=draw_parts(data)
    )


def write_meta(table: pd.DataFrame, path: str | Path, title: str = "Which scores can be trusted?") -> Path:
    """Write the page of a meta-evaluation to a file and return the file's path."""
    return saved(lambda: render_meta(table, title), path)


def keys(data: MetaData) -> Markup:
    """Which bar is which test, and what else is drawn."""
    tests = legend([test_title(test) for test in data.tests])
    return tests + signs(sign(f'<path class="ring" d="{DIAMOND}"/>', "published")) if data.published else tests


def meta_sentences(data: MetaData) -> list[Markup]:
    """Which scores are most and least consistent."""
    found = best_and_worst(data)
    if found is None:
        return []
    (first, high), (last, low) = found
    tests = listing(name(test_title(test)) for test in data.tests if test != TOGETHER or len(data.tests) == 1)
    opening = say("Of {}, under {},", count(len(data.scores), "score"), tests)
    told = "{} {} is the most consistent, at {} of 1, and {} the least, at {}."
    return [say(told, opening, name(title_of(first)), number(high), name(title_of(last)), number(low))]
