"""Two runs compared in Chromium: from the page of an audit to what moved, by mouse and by address, on a phone and in the dark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, Route, expect

from browser_visit import Visit, served, violations
from linear_cards import contributions, labelled, linear_model, noisy
from small import series_inputs, small_net
from veracity import Audit, card

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


@pytest.fixture(scope="module")
def cards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two cards: the exact contributions became noisy."""
    found = tmp_path_factory.mktemp("cards")
    x, y = labelled(60)
    for name, other in (("old", contributions), ("new", noisy)):
        explainers = {"same": contributions, "other": other}
        card(linear_model(), x, y, explainers=explainers, samples=40, folder=found / name, budget="1s", progress=False)
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
            "Choose the run to compare with: the page then says what changed from that run to this one beyond chance."
        )
        page.get_by_test_id("compare-with").select_option("old")
        expect(page.get_by_test_id("compare-answer")).to_contain_text(
            "Of 2 rows that both runs have, 1 got worse and 0 got better beyond chance; no change is shown for 1."
        )
        rows = page.get_by_test_id("compare-table").locator("tbody tr")
        told = [row.locator("td").all_inner_texts()[:3:2] for row in rows.all()]
        assert told == [["worse", "other"], ["the same on every sample", "same"]]
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


def test_the_answers_of_two_cards_are_compared(visit: Begin, axe: str, cards: Path) -> None:
    page = visit(1440).page
    with served(cards) as address:
        page.goto(f"{address}#run=new")
        page.get_by_test_id("compare-runs").click()
        expect(page.get_by_test_id("compare-swap")).to_be_disabled()
        page.get_by_test_id("compare-with").select_option("old")
        expect(page.get_by_test_id("compare-answer")).to_have_text(
            "The model was right on 100 % of the samples, and is right on 100 % now. Of 10 answers that both cards have, 2 got worse and 0 "
            "got better beyond chance. An answer is the word that an explainer gets for a question. The table has one row for each score "
            "behind an answer. With 95 % confidence, all that are called worse or better are so."
        )
        expect(page.get_by_role("heading", level=2)).to_have_text(["Got worse beyond chance", "All rows", "Notes"])
        expect(page.locator(".lines").first.locator("li")).to_contain_text(
            ["other, calm (holds before, falls short now)", 'other, faithful (the word is still "holds")']
        )
        expect(page.get_by_test_id("compare-numbers")).to_have_text(
            "Now: new. Before: old. Numbers are shares of the way from the reference to the ideal: higher is better, also for deletion. "
            "The samples are the same, so differences are paired."
        )
        heads = page.get_by_test_id("compare-table").locator("thead th").all_inner_texts()
        assert heads[0] == "Beyond chance"
        assert heads[-2:] == ["99.58 % low", "99.58 % high"], "1 - 0.05 / 12"
        worse = page.locator('[data-testid="compare-table"] tr[data-verdict="worse"]')
        assert {row.locator("td").nth(2).inner_text() for row in worse.all()} == {"other"}
        expect(page.locator(".lines").last).to_contain_text("These explainers have other settings now")
        page.evaluate(axe)
        assert violations(page) == []
        page.emulate_media(color_scheme="dark")
        assert violations(page, "color-contrast") == []


def test_a_run_that_is_read_late_can_be_chosen(visit: Begin, folder: Path) -> None:
    """A server that had no time for the other run at first tells of it later."""
    page = visit().page
    asked = 0

    def unread_at_first(route: Route) -> None:
        nonlocal asked
        asked += 1
        answer = route.fetch(headers={name: value for name, value in route.request.headers.items() if name != "if-none-match"})
        found = answer.json()
        if asked <= 2:
            found["runs"] = [{**run, "kind": "unread", "words": None} if run["id"] == "old" else run for run in found["runs"]]
        route.fulfill(response=answer, json=found)

    page.route("**/api/index?within=*", unread_at_first)
    with served(folder) as address:
        page.goto(f"{address}#run=new&page=compare")
        page.get_by_test_id("compare-with").select_option("old")
        expect(page.get_by_test_id("compare-answer")).to_contain_text("Of 2 rows that both runs have")
    assert asked >= 3


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
