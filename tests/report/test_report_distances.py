from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from report_pages import EVIL, EVIL_TOO, Page, drawings

from veracity.report.distances import distances_data, draw_distances, render_distances
from veracity.studies.distance_check import DistanceResult
from veracity.studies.distances import DistanceCurve

AT = np.linspace(0.0, 1.0, 11)


def curve(distance: str, test: str, values: np.ndarray, error: str = "") -> DistanceCurve:
    return DistanceCurve(distance=distance, test=test, at=AT, values=values, seconds=2e-6, error=error)


def result(first: str = "near", second: str = "far", test: str = "spot") -> DistanceResult:
    noise = AT[:, None] + np.array([[-0.05, 0.05]])
    return DistanceResult(
        (
            curve(first, test, AT[:, None]),
            curve(first, "noise", noise),
            curve(second, test, np.minimum(AT, 0.3)[:, None]),
            curve(second, "noise", np.full((11, 2), np.nan), "Give maps."),
        )
    )


def page(found: DistanceResult, title: str = "Which?") -> str:
    return render_distances(replace(found, title=title))


def test_the_page_says_what_passes_and_prints_every_number() -> None:
    found = Page(page(result()))
    assert "Spot: of 2 distances, 1 passes and 1 saturates." in found.text
    assert "Noise: of 2 distances, 1 passes and 1 undefined." in found.text
    assert "These distances pass all tests: near ." in found.text
    verdicts, numbers = found.tables
    assert verdicts == [
        ["distance", "spot", "noise", "undefined", "microseconds"],
        ["near", "passes", "passes", "0", "2.000"],
        ["far", "saturates", "undefined", "22", "2.000"],
    ]
    assert len(numbers) == 5
    assert numbers[3][:3] == ["far", "spot", "saturates"]
    assert "saturates; falls back by 0 %, at its top after 30 % of the way" in found.text
    assert "Give maps." in found.text
    assert found.unbalanced == []


def test_curves_are_drawn_where_the_numbers_are() -> None:
    data = distances_data(result().curves, "spot")
    assert [one.distance for one in data] == ["near", "far"]
    drawn = ElementTree.fromstring(str(draw_distances(data, "share of the way")))
    near, far = (item.get("d") for item in drawn.iter("path") if item.get("class") == "curve")
    assert near.startswith("M0 150L100 135")
    assert near.endswith("L1000 0")
    assert [part.split()[1] for part in far.split("L")[3:]] == [far.split("L")[3].split()[1]] * 8


def test_bands_are_one_standard_deviation_to_either_side() -> None:
    (near, far) = distances_data(result().curves, "noise")
    sd = np.std([-0.05, 0.05], ddof=1)
    assert near.high[5] - near.mean[5] == pytest.approx(sd)
    assert near.low[0] == 0.0
    assert near.low[5] == pytest.approx(0.5 - sd)
    assert far.said == "Give maps."
    assert np.isnan(far.mean).all()


def test_the_page_needs_nothing_else_and_escapes_what_it_is_given() -> None:
    html = page(result(EVIL, EVIL_TOO, EVIL), EVIL)
    found = Page(html)
    assert not [tag for tag, _ in found.tags if tag in {"script", "img", "iframe"}]
    assert "http" not in html.replace("http-equiv", "")
    assert "url(" not in html
    assert found.unbalanced == []
    assert all(ElementTree.fromstring(text).tag == "svg" for text in drawings(html))


def test_the_page_is_written_where_it_should_be(tmp_path: Path) -> None:
    file = result().save_report(tmp_path / "deep" / "report.html")
    assert file.read_text(encoding="utf-8") == page(result(), "Which distances grow with what parts two explanations?")
