"""Samples of an audit in Chromium: thumbnails, filters and orders, a lasso, and one selection that holds over all panels."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect
from test_audit_page import in_address, shown

from browser_visit import Visit, served, violations
from orbit_small import images, labels, linear
from veracity import Audit
from veracity.perturb import Dihedral
from veracity.results import Result, Within
from veracity.walk import Exhaustive

Begin = Callable[..., Visit]
SIZE = 60
AT = "#run=maps&model=two&score=equivariance&explainer=input_x_gradient"
SUBJECT = {"model": "two", "explainer": "input_x_gradient"}
BOARDS = ("ranking", "matrix", "spread", "scatter", "samples", "sample")


def audit() -> Audit:
    return Audit(
        models={"one": linear(0), "two": linear(1)}, inputs=images(SIZE), targets=labels(SIZE), symmetry=Dihedral(), walk=Exhaustive(),
        explainers=["saliency", "input_x_gradient"], scores=["equivariance", "sparseness", "complexity"], title="Turned maps",
        by={"hand": ["left" if number % 3 else "right" for number in range(SIZE)]},
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("samples")
    audit().run(found / "maps", progress=False)
    return found


def values(result: Result, score: str, model: str = "two", explainer: str = "input_x_gradient") -> dict[int, float]:
    table = result.samples(score, explainer)
    return dict(table[table["model"] == model].set_index("sample")["value"])


def ready(page: Page) -> None:
    for board in BOARDS:
        page.wait_for_selector(f'[data-testid="{board}"][data-state="ready"]')
    page.wait_for_selector('[data-testid="selection"]:is([data-state="ready"], [data-state="none"])')
    page.wait_for_function("() => !document.querySelector('.selected-value') || !document.body.textContent.includes('…')")


def listed(page: Page) -> dict[int, str]:
    return {int(item.get_attribute("data-sample") or ""): item.locator(".n").inner_text() for item in page.locator(".cases li").all()}


def drag(page: Page, plane: Locator, corners: list[tuple[float, float]]) -> None:
    """Draw an outline over a canvas, whose corners are shares of its width and height."""
    plane.scroll_into_view_if_needed()
    box = plane.bounding_box()
    assert box is not None
    places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in corners]
    page.mouse.move(*places[0])
    page.mouse.down()
    for place in places[1:]:
        page.mouse.move(*place, steps=6)
    page.mouse.up()


def run_python(page: Page) -> dict[str, Any]:
    space: dict[str, Any] = {}
    exec(page.get_by_test_id("selection-python").text_content() or "", space)
    return space


def test_a_lasso_selects_over_all_panels_and_survives_a_reload(visit: Begin, axe: str, folder: Path, tmp_path: Path) -> None:
    result = Result(folder / "maps")
    one = visit(1440)
    page = one.page
    with served(folder) as address:
        page.goto(f"{address}{AT}&x=equivariance&y=sparseness")
        ready(page)
        expect(page.get_by_test_id("selection-told")).to_have_text(re.compile(r"^No selection: every panel shows all 60 samples\."))
        expect(page.get_by_test_id("scatter").get_by_test_id("subtitle")).to_have_text(
            "input_x_gradient on two: all 60 samples have both scores"
        )
        one.picture("samples-none-1440")
        plane = page.get_by_test_id("plane").locator(".plot-body")
        drag(page, plane, [(0.1, 0.02), (0.6, 0.02), (0.6, 0.5), (0.35, 0.95), (0.1, 0.9)])
        page.wait_for_url(re.compile("pick=lasso"))
        ready(page)
        picked = run_python(page)
        chosen = list(picked["selected"])
        assert 3 < len(chosen) < SIZE - 3
        assert len(in_address(page, "pick") or "") < 600
        x, y = values(result, "equivariance"), values(result, "sparseness")
        expect(page.get_by_test_id("selection-told")).to_contain_text(f"Selected: {len(chosen)} of 60 samples: inside a lasso over ")
        assert picked["chosen"].set_index("sample")["value"].to_dict() == {sample: x[sample] for sample in chosen}

        page.reload()
        ready(page)
        assert list(run_python(page)["selected"]) == chosen
        groups = result.table(by={"picked": ["in" if sample in set(chosen) else "out" for sample in range(SIZE)]})
        mine = groups[(groups["group"] == "in") & (groups["model"] == "two") & (groups["score"] == "equivariance")].set_index("explainer")
        for row in page.locator('[data-testid="score-equivariance"] tbody tr').all():
            value = mine.loc[row.get_attribute("data-explainer"), "value"]
            assert row.locator(".selected-value").inner_text() == shown(value)
        expect(page.get_by_test_id("ranking").get_by_test_id("subtitle")).to_contain_text(f"of the {len(chosen)} selected samples")
        expect(page.get_by_test_id("ranking").get_by_test_id("subtitle")).to_contain_text("these were selected by this very score")
        expect(page.get_by_test_id("matrix").get_by_test_id("subtitle")).to_contain_text("all samples, not only")
        expect(page.get_by_test_id("spread").get_by_test_id("subtitle")).to_contain_text(
            f"in colour: {len(chosen)} of {len(chosen)} selected samples, median {shown(float(np.median([x[one] for one in chosen])))}"
        )
        counts = [int(bar.get_attribute("data-count") or "") for bar in page.locator("rect.bar.selected").all()]
        assert sum(counts) == len(chosen)
        dots = {int(dot.get_attribute("data-sample") or "") for dot in page.locator(".spread-plot .dot.selected").all()}
        assert dots == set(chosen)
        expect(page.get_by_test_id("samples").get_by_test_id("subtitle")).to_contain_text(f"the {len(chosen)} selected samples alone")
        expect(page.get_by_test_id("sample").get_by_test_id("subtitle")).to_contain_text("; selected; ")
        worst = sorted(chosen, key=lambda sample: x[sample])[:24]
        assert listed(page) == {sample: shown(x[sample]) for sample in worst}

        with page.expect_download() as saved:
            page.get_by_test_id("selection-csv").click()
        saved.value.save_as(tmp_path / "selection.csv")
        with open(tmp_path / "selection.csv", encoding="utf-8") as handle:
            rows = list(csv.DictReader(handle))
        assert [int(row["sample"]) for row in rows] == chosen
        assert [(float(row["equivariance"]), float(row["sparseness"])) for row in rows] == [(x[one], y[one]) for one in chosen]
        with page.expect_download() as saved:
            page.get_by_test_id("scatter-csv").click()
        saved.value.save_as(tmp_path / "plane.csv")
        with open(tmp_path / "plane.csv", encoding="utf-8") as handle:
            plotted = {int(row["sample"]): row for row in csv.DictReader(handle)}
        assert {one: (float(row["equivariance"]), float(row["sparseness"])) for one, row in plotted.items()} == {
            one: (x[one], y[one]) for one in range(SIZE)
        }
        assert {one for one, row in plotted.items() if row["selected"] == "true"} == set(chosen)

        ranking = page.locator('[data-testid="ranking"] .scroll')
        assert ranking.evaluate("node => node.scrollWidth <= node.clientWidth"), "every column is in sight"
        page.evaluate(axe)
        assert violations(page) == []
        one.picture("samples-lasso-1440")
        page.emulate_media(color_scheme="dark")
        assert violations(page, "color-contrast") == []
        one.picture("samples-lasso-dark-1440")
        page.set_viewport_size({"width": 390, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        assert violations(page) == []
        one.picture("samples-lasso-dark-390")
        page.emulate_media(color_scheme="light")
        one.picture("samples-lasso-390")
        page.get_by_test_id("selection-clear").click()
        ready(page)
        assert in_address(page, "pick") is None
        assert one.outside() == []


def test_ranges_and_numbers_select_by_keyboard(visit: Begin, axe: str, folder: Path) -> None:
    result = Result(folder / "maps")
    x, y = (values(result, score) for score in ("equivariance", "sparseness"))
    low, high = (round(float(np.quantile(list(x.values()), share)), 3) for share in (0.2, 0.7))
    least = round(float(np.quantile(list(y.values()), 0.4)), 3)
    one = visit(1440)
    page = one.page
    with served(folder) as address:
        page.goto(f"{address}{AT}&y=sparseness")
        ready(page)
        page.get_by_test_id("ranges").locator("summary").focus()
        page.keyboard.press("Enter")
        for text in (str(low), str(high), str(least)):
            page.keyboard.press("Tab")
            page.keyboard.type(text)
        expect(page.get_by_test_id("y-low")).to_have_value(str(least))
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile("pick=range"))
        ready(page)
        expected = sorted(sample for sample in x if low <= x[sample] <= high and y[sample] >= least)
        assert list(run_python(page)["selected"]) == expected
        bounds = {"equivariance": (low, high), "sparseness": (least, None)}
        assert Within(**SUBJECT, bounds=bounds).samples(result).tolist() == expected
        expect(page.get_by_test_id("selection-told")).to_contain_text(f"from {low} to {high}, ")
        page.evaluate(axe)
        assert violations(page) == []
        one.picture("samples-ranges-1440")

        numbers = page.get_by_test_id("pick-numbers")
        numbers.fill("0-4, 99")
        numbers.press("Enter")
        assert numbers.evaluate("input => input.validationMessage") == "Give numbers from 0 to 59, such as 0-4, 9."
        numbers.fill("0-4, 9")
        numbers.press("Enter")
        page.wait_for_url(re.compile(r"pick=samples\*0-4_9"))
        ready(page)
        assert set(listed(page)) == {0, 1, 2, 3, 4, 9}

        page.get_by_test_id("case-only").select_option("group:hand:right")
        ready(page)
        page.get_by_test_id("select-these").click()
        page.wait_for_url(re.compile("pick=fits"))
        ready(page)
        assert list(run_python(page)["selected"]) == [0, 3, 9]
        told = page.get_by_test_id("ranking").get_by_test_id("subtitle")
        expect(told).to_contain_text("3 selected samples, without an interval")
        expect(told).not_to_contain_text("this very score")
        expect(page.get_by_test_id("selection-told")).to_contain_text("3 of 60 samples: numbers 0 to 4, 9; and hand: right.")
        page.get_by_test_id("selection-last").click()
        ready(page)
        expect(page.get_by_test_id("selection-told")).to_contain_text("6 of 60 samples")

        page.evaluate("location.hash = location.hash.replace(/pick=[^&]*/, 'pick=nonsense')")
        page.reload()
        page.wait_for_selector('[data-testid="selection"][data-state="error"]')
        expect(page.get_by_test_id("selection-told")).to_contain_text("A selection is a text such as")
        page.get_by_test_id("selection-clear").click()
        ready(page)
        one.complaints.clear()


def test_thumbnails_follow_filter_and_order(visit: Begin, axe: str, folder: Path) -> None:
    result = Result(folder / "maps")
    x, y = (values(result, score) for score in ("equivariance", "sparseness"))
    kept = {pair.sample for score in {one.score for one in result.series} for pair in result.worst(score, SIZE)}
    one = visit(1440)
    page = one.page
    with served(folder / "maps", audit()) as address:
        page.goto(f"{address}{AT.replace('run=maps', 'run=maps/')}")
        ready(page)
        page.wait_for_selector(".cases .thumb")
        page.wait_for_function(
            "() => !document.querySelector('[data-testid=samples] [data-testid=subtitle]').textContent.includes('Loading')"
        )
        worst = sorted(x, key=lambda sample: x[sample])[:24]
        assert list(listed(page)) == worst
        there = {int(item.get_attribute("data-sample") or "") for item in page.locator(".cases li:has(.thumb image)").all()}
        assert there == kept & set(worst)
        expect(page.get_by_test_id("samples").get_by_test_id("subtitle")).to_contain_text(f"{len(there)} of these 24 samples were kept")
        page.get_by_test_id("case-pictures").select_option("explanations")
        expect(page.locator(".cases li:has(.thumb image)")).to_have_count(24)
        page.get_by_test_id("case-pictures").select_option("all")
        expect(page.locator(".cases li:has(.thumb image)")).to_have_count(24)
        expect(page.locator('[data-testid="input"] image')).to_have_count(1)
        page.evaluate(axe)
        assert violations(page) == []
        one.picture("samples-thumbnails-1440")
        page.set_viewport_size({"width": 390, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        assert violations(page) == []
        one.picture("samples-thumbnails-390")
        page.set_viewport_size({"width": 1440, "height": 900})
        page.get_by_test_id("case-by").select_option("sparseness")
        expect(page.locator(".cases .by")).to_have_count(24)
        ordered = sorted(y, key=lambda sample: y[sample])[:24]
        page.wait_for_function("first => document.querySelector('.cases li').dataset.sample === String(first)", arg=ordered[0])
        assert list(listed(page)) == ordered
        assert page.locator(".cases .by").all_inner_texts() == [shown(y[sample]) for sample in ordered]
        assert (in_address(page, "by"), in_address(page, "pictures")) == ("sparseness", "all")
        page.get_by_test_id("case-only").select_option("group:hand:right")
        page.get_by_test_id("cases-after").wait_for()
        page.wait_for_function("() => document.querySelector('[data-testid=cases-told]').textContent.includes('of 20 ')")
        assert set(listed(page)) == set(range(0, SIZE, 3))
        page.get_by_test_id("case-pictures").select_option("none")
        expect(page.locator(".cases .thumb")).to_have_count(0)
        page.get_by_test_id("case-find").fill("57")
        page.get_by_test_id("case-find").press("Enter")
        expect(page.locator('.cases button[aria-pressed="true"]')).to_contain_text("#57")
        plane = page.get_by_test_id("plane").locator(".plot-body")
        before = in_address(page, "sample")
        box = plane.bounding_box()
        assert box is not None
        for x_share, y_share in product(np.linspace(0.15, 0.95, 20), (0.3, 0.5, 0.7)):
            page.mouse.click(box["x"] + x_share * box["width"], box["y"] + y_share * box["height"])
            if in_address(page, "sample") != before:
                break
        assert in_address(page, "sample") != before, "a click chooses a sample"
        assert math.isfinite(x[int(in_address(page, "sample") or "")])
