"""The page of a meta-evaluation: which scores can be trusted."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
from markupsafe import Markup

from veracity.report.figures.chart import legend
from veracity.report.figures.meta import TOGETHER, MetaData, best_and_worst, draw_meta, draw_parts, meta_data, test_title
from veracity.report.figures.scale import DIAMOND
from veracity.report.page import saved, template
from veracity.report.phrases import listing, name, say, sentences
from veracity.report.plot import sign, signs
from veracity.report.wording import title_of
from veracity.core.wording import count, number


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
