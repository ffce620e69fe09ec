"""The page of a degradation check, and its figure."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest
from report_pages import EVIL, EVIL_TOO, Page, drawings

from veracity.core.errors import InputError, StoreError
from veracity.report.degradation import damage_data, degradation_page, draw_damage
from veracity.studies.degradation import DegradationResult

NOTHING = pd.DataFrame(columns=["case", "explainer", "score", "error"])


def row(share: float, value: float, explainer: str = "saliency", score: str = "mu_fidelity", damage: str = "weights") -> dict[str, object]:
    head = {"damage": damage, "share": share, "score": score, "explainer": explainer, "value": value}
    return {**head, "low": value - 0.1, "high": value + 0.1, "n": 3, "undefined": 0, "accuracy": 0.9 - share, "direction": "higher"}


def trend(explainer: str, verdict: str, score: str = "mu_fidelity", damage: str = "weights", p: float = 0.01) -> dict[str, object]:
    head = {"damage": damage, "score": score, "explainer": explainer, "slope": -1.5, "low": -2.0, "high": -1.0, "p": p, "p_adjusted": 2 * p}
    return {**head, "verdict": verdict, "n": 3, "undefined": 0, "accuracy_drop": 0.5, "direction": "higher"}


TABLE = pd.DataFrame(
    [
        row(0.0, 0.6), row(0.25, 0.4), row(0.5, math.nan), row(0.0, 0.2, "random"), row(0.25, 0.2, "random"), row(0.5, 0.2, "random"),
        row(0.0, 1.0, "", "model_invariance", "labels"), row(0.5, 0.8, "", "model_invariance", "labels"),
    ]
)  # fmt: skip
TRENDS = pd.DataFrame(
    [
        trend("saliency", "follows"), trend("random", "does not follow", p=0.4), trend("lost", "undefined", p=math.nan),
        trend("", "follows", "model_invariance", "labels"),
    ]
)  # fmt: skip


def test_there_is_one_panel_a_score_and_damage_and_one_line_an_explainer() -> None:
    data = damage_data(TABLE)
    assert [one.title for one in data.panels] == ["MuFidelity ↑, weights", "Model invariance ↑, labels"]
    assert data.explainers == ("saliency", "random", "the model")
    first = data.panels[0]
    assert [(line.label, line.index) for line in first.lines] == [("saliency", 0), ("random", 1)]
    assert [round(spot.y, 3) for spot in first.lines[0].spots][:2] == [0.6, 0.4]
    assert first.across.ticks == (0.0, 0.25, 0.5)
    assert first.accuracies == pytest.approx((0.9, 0.65, 0.4))
    assert [line.index for line in data.panels[1].lines] == [2]


def test_points_stand_at_their_share_and_value_and_what_is_undefined_is_left_out() -> None:
    data = damage_data(TABLE[TABLE["explainer"] == "saliency"])
    (panel,) = data.panels
    (drawing,) = drawings(str(draw_damage(data)))
    tree = ElementTree.fromstring(drawing)
    marks = [(item.get("x"), float(item.get("y") or "nan")) for item in tree.iter("svg") if item.find("path") is not None and item.get("x")]
    height = 220 * (panel.up.high - 0.6) / (panel.up.high - panel.up.low)
    assert len(marks) == 2
    assert marks[0] == (f"{panel.across.percent(0.0)}%", pytest.approx(height, abs=0.1))
    bars = [item for item in tree.iter("line") if item.get("class") == "ends"]
    assert len(bars) == 2
    assert "none" in [item.text for item in tree.iter("text")]
    assert "25 %" in [item.text for item in tree.iter("text")]


def test_intervals_of_two_explainers_do_not_hide_each_other() -> None:
    first, second = damage_data(TABLE).panels[0].lines
    assert all(a.x < b.x for a, b in zip(first.spots, second.spots, strict=True))
    assert max(abs(a.x - b.x) for a, b in zip(first.spots, second.spots, strict=True)) < 0.01


def test_the_page_says_who_follows_and_prints_every_trend() -> None:
    page = Page(degradation_page(TABLE, TRENDS, NOTHING, "Well?"))
    assert "MuFidelity follows the damage of weights for 1 of 2 explainers ( saliency ); 1 undefined." in page.text
    assert "Model invariance follows the damage of labels for 1 of 1 explainer." in page.text
    (table,) = page.tables
    saliency = ["MuFidelity", "weights", "saliency", "follows", "\N{MINUS SIGN}1.500", "\N{MINUS SIGN}2.000 to \N{MINUS SIGN}1.000"]
    assert [*saliency, "0.0100", "0.0200", "0.500", ""] in table
    assert len(table) == 1 + len(TRENDS)
    assert "accuracy 0.900, 0.650, 0.400" in page.text
    assert page.unbalanced == []
    assert "What could not be measured" not in page.text


def test_what_could_not_be_measured_stands_on_the_page() -> None:
    whole = {"case": "weights-0.3-1", "explainer": "", "score": "", "error": "NaN."}
    some = [{"case": "weights-0.3-2", "explainer": name, "score": "mege", "error": "No memory."} for name in ("saliency", "lime")]
    text = Page(degradation_page(TABLE, TRENDS, pd.DataFrame([whole, *some]))).text
    assert "weights-0.3-1 failed: NaN." in text
    assert text.count("No memory.") == 1
    assert "weights-0.3-2 / mege failed for saliency, lime: No memory." in text


def test_the_page_needs_nothing_else_and_escapes_what_it_is_given() -> None:
    table = pd.DataFrame([row(share, 0.5, EVIL, EVIL_TOO, EVIL) for share in (0.0, 0.1)])
    html = degradation_page(table, pd.DataFrame([trend(EVIL, "follows", EVIL_TOO, EVIL)]), NOTHING, EVIL)
    page = Page(html)
    assert not [tag for tag, _ in page.tags if tag in {"script", "img", "iframe"}]
    assert "http" not in html.replace("http-equiv", "")
    assert page.unbalanced == []
    assert all(ElementTree.fromstring(text).tag == "svg" for text in drawings(html))


def test_a_table_that_lacks_columns_is_refused() -> None:
    with pytest.raises(InputError, match="lacks low, accuracy"):
        damage_data(TABLE.drop(columns=["low", "accuracy"]))


def test_the_page_is_written_where_it_should_be(tmp_path: Path) -> None:
    shared = {"score": "mu_fidelity", "explainer": "saliency", "accuracy": 0.9, "direction": "higher", "least": -1.0, "most": 1.0}
    levels = [("", 0.0), ("weights", 0.5)]
    rows = [
        {"damage": damage, "share": share, "seed": seed, "value": 0.5 - share, **shared} for damage, share in levels for seed in range(3)
    ]
    study = DegradationResult(pd.DataFrame(rows), ("weights",), {}, NOTHING, title="Title")
    file = study.save_report(tmp_path / "deep" / "page.html")
    assert file.read_text(encoding="utf-8") == degradation_page(study.table(), study.trends(), NOTHING, "Title")
    with pytest.raises(StoreError, match="needs a file to write to"):
        study.save_report(tmp_path)
