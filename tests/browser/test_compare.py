"""Two runs compared in Chromium: from the page of an audit to what moved, by mouse and by address, on a phone and in the dark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from browser_visit import Visit, served, violations
from small import series_inputs, small_net
from veracity import Audit

Begin = Callable[..., Visit]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("compared")
    for name, other in (("old", "saliency"), ("new", "random_gaussian")):
        audit = Audit(
            models={"net": small_net()}, inputs=series_inputs(24), explainers={"same": "saliency", "other": other}, scores=["sparseness"],
            controls=False, title=f"The {name} one",
        )  # fmt: skip
        audit.run(found / name, progress=False)
    return found


def in_address(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).fragment)


def test_what_moved_is_said_and_listed(visit: Begin, axe: str, folder: Path) -> None:
    one = visit(1440)
    page = one.page
    with served(folder) as address:
        page.goto(f"{address}#run=new")
        page.get_by_test_id("compare-runs").click()
        expect(page.get_by_test_id("compare-answer")).to_have_text(
            "Choose the run before: the page says what moved from it to this one beyond chance."
        )
        page.get_by_test_id("compare-with").select_option("old")
        expect(page.get_by_test_id("compare-answer")).to_contain_text(
            "Of 2 rows that both runs have, 1 got worse and 0 got better beyond chance; no change is shown for 1."
        )
        rows = page.get_by_test_id("compare-table").locator("tbody tr")
        told = [row.locator("td").all_inner_texts()[1:4:2] for row in rows.all()]
        assert told == [["other", "worse"], ["same", "the same on every sample"]]
        assert (in_address(page)["page"], in_address(page)["with"]) == (["compare"], ["old"])
        page.evaluate(axe)
        assert violations(page) == []
        page.reload()
        expect(rows).to_have_count(2)
        page.get_by_test_id("compare-swap").click()
        expect(page.get_by_test_id("compare-answer")).to_contain_text("0 got worse and 1 got better")
        assert (in_address(page)["run"], in_address(page)["with"]) == (["old"], ["new"])
        page.get_by_test_id("compare-back").click()
        expect(page.get_by_test_id("audit")).to_be_visible()


def test_it_can_be_read_on_a_phone_in_the_dark(visit: Begin, axe: str, folder: Path) -> None:
    page = visit(390, scheme="dark").page
    with served(folder) as address:
        page.goto(f"{address}#run=new&page=compare&with=old")
        expect(page.get_by_test_id("compare-table").locator("tbody tr")).to_have_count(2)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.evaluate(axe)
        assert violations(page) == []


def test_a_run_that_is_gone_is_a_sentence(visit: Begin, folder: Path) -> None:
    one = visit()
    with served(folder) as address:
        one.page.goto(f"{address}#run=new&page=compare&with=gone")
        expect(one.page.get_by_test_id("compare-answer")).to_contain_text("gone")
        expect(one.page.get_by_role("button", name="Try again")).to_be_visible()
    one.complaints.clear()
