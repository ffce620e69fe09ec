from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from report_pages import EVIL, EVIL_TOO, Page, drawings

from veracity.core.errors import InputError, StoreError
from veracity.report.meta import draw_meta, draw_parts, meta_data, meta_page
from veracity.studies.meta import MetaResult


def row(score: str, test: str, mc: float, sd: float = 0.1, **changes: Any) -> dict[str, Any]:
    return {"score": score, "test": test, "mc": mc, "sd": sd, "iac_nr": mc, "iac_ar": 0.5, "iec_nr": 1.0, "iec_ar": 0.25, **changes}


TABLE = pd.DataFrame(
    [
        row("mprt", "ipt", 0.25), row("mprt", "mpt", 0.75), row("fast_gef", "ipt", 0.75), row("fast_gef", "mpt", 0.5, sd=math.nan),
        row("lost", "ipt", math.nan, sd=math.nan), row("half", "ipt", 0.625),
    ]
)  # fmt: skip


def test_scores_stand_in_the_order_of_their_mean_or_of_both_tests_together() -> None:
    data = meta_data(TABLE)
    assert data.tests == ("ipt", "mpt")
    assert [score for score, _ in data.scores] == ["fast_gef", "half", "mprt", "lost"]
    assert dict(data.scores)["half"][1] is None
    both = pd.concat([TABLE, pd.DataFrame([row("mprt", "both", 0.9), row("fast_gef", "both", 0.1)])])
    assert [score for score, _ in meta_data(both).scores] == ["mprt", "half", "fast_gef", "lost"]


def test_bars_are_as_long_as_the_numbers_say() -> None:
    tree = ElementTree.fromstring(str(draw_meta(meta_data(TABLE))))
    bars = [item.get("width") for item in tree.iter("rect") if item.get("class") == "bar"]
    assert bars == ["75.0%", "50.0%", "62.5%", "25.0%", "75.0%"]
    spreads = [(item.get("x1"), item.get("x2")) for item in tree.iter("line") if item.get("class") == "draws"]
    assert spreads == [("65.0%", "85.0%"), ("52.5%", "72.5%"), ("15.0%", "35.0%"), ("65.0%", "85.0%")]


def test_the_page_prints_every_number_and_says_which_is_best() -> None:
    page = Page(meta_page(TABLE, "Which?"))
    assert "The spread over iterations is unknown, so scores cannot be told apart: run more iterations." in page.text
    (table,) = page.tables
    assert table[0] == ["Score", "Test", "MC", "SD", "IAC, minor", "IAC, disruptive", "IEC, minor", "IEC, disruptive"]
    assert ["Fast-GEF", "IPT", "0.750", "0.100", "0.750", "0.500", "1.000", "0.250"] in table
    assert ["Lost", "IPT", "undefined", "undefined", "undefined", "0.500", "1.000", "0.250"] in table
    assert len(table) == 1 + len(TABLE)
    assert page.unbalanced == []


def test_published_figures_and_what_was_left_out_stand_beside_ours() -> None:
    rows = pd.DataFrame([row("mprt", "both", 0.5, published=0.6, left_out=3.0), row("gef", "both", 0.75, published=math.nan, left_out=0.0)])
    (table,) = Page(meta_page(rows)).tables
    assert table[0][-2:] == ["Published MC", "Left out"]
    assert [line[-2:] for line in table[1:]] == [["", ""], ["0.600", "3"]]
    marks = [item.get("x") for item in ElementTree.fromstring(str(draw_meta(meta_data(rows)))).iter("svg") if len(item) == 1]
    assert "60.0%" in marks
    assert "Published" not in str(draw_parts(meta_data(TABLE)))


def test_the_page_needs_nothing_else_and_escapes_what_it_is_given() -> None:
    html = meta_page(pd.DataFrame([row(EVIL, EVIL_TOO, 0.5), row("a", "b", 0.7)]), EVIL)
    page = Page(html)
    assert not [tag for tag, _ in page.tags if tag in {"script", "img", "iframe"}]
    assert "http" not in html.replace("http-equiv", "")
    assert "url(" not in html
    assert page.unbalanced == []
    assert all(ElementTree.fromstring(text).tag == "svg" for text in drawings(html))


def test_one_score_alone_is_drawn_without_a_verdict() -> None:
    assert "No score has a meta-consistency." not in Page(meta_page(TABLE)).text
    assert "consistent than" not in Page(meta_page(TABLE[:2])).text


@pytest.mark.parametrize(
    ("sd", "told"),
    [
        (0.1, "Of 2 scores, under both , GEF (0.900 of 1) is more consistent than MPRT (0.500)."),
        (0.3, "Of 2 scores, under both , no two can be told apart: their spreads over iterations overlap."),
        (math.nan, "The spread over iterations is unknown, so scores cannot be told apart: run more iterations."),
    ],
)
def test_scores_are_ranked_only_where_their_spreads_lie_apart(sd: float, told: str) -> None:
    rows = pd.DataFrame([row("mprt", "both", 0.5, sd=sd), row("gef", "both", 0.9, sd=sd)])
    assert told in Page(meta_page(rows)).text


def test_a_table_that_lacks_columns_is_refused() -> None:
    with pytest.raises(InputError, match="lacks sd, iec_ar"):
        meta_data(TABLE.drop(columns=["sd", "iec_ar"]))


def test_the_page_is_written_where_it_should_be(tmp_path: Path) -> None:
    same = {"score": "mprt", "test": "ipt", "mc": 0.5, "left_out": 0, "iac_nr": 0.5, "iac_ar": 0.5, "iec_nr": 0.5, "iec_ar": 0.5}
    study = MetaResult(pd.DataFrame([{**same, "iteration": place} for place in range(2)]), "Title")
    with pytest.raises(StoreError, match="needs a file to write to"):
        study.save_report(tmp_path)
