"""The page of a leaderboard in Chromium: sorting, filters, narrow screens; and no request, no complaint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page

from browser_visit import Visit
from hostile import SCRIPT
from report_runs import Observed, stored
from veracity.report.leaderboard import leaderboard
from veracity.scores import MaxSensitivity, Sparseness

Begin = Callable[..., Visit]
NOISE = np.random.default_rng(0).normal(0, 0.01, 20)
LEVELS = {"middle": 0.5, "low": 0.1, SCRIPT: 0.9}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("board")
    for model in ("one", "two"):
        observed = [
            Observed(model=model, explainer=name, score=score, values=level + np.roll(NOISE, place))
            for score in ("sparseness", "max_sensitivity")
            for place, (name, level) in enumerate(LEVELS.items())
        ]
        observed += [
            Observed(model=model, explainer="undefined", score="sparseness", values=NOISE * np.nan),
            Observed(model=model, explainer="random_gaussian", score="sparseness", values=0.99 + NOISE, control=True),
        ]
        stored(folder / model, {"sparseness": Sparseness(), "max_sensitivity": MaxSensitivity()}, observed)
    return leaderboard(folder).save_page(folder / "board.html")


def names(opened: Page) -> list[str]:
    found: list[str] = opened.eval_on_selector_all("section[data-model='0'] tbody th[scope=row]", "all => all.map(one => one.textContent)")
    return found


def test_a_click_sorts_best_first_and_controls_stay_below(visit: Begin, page: Path) -> None:
    seen = visit()
    seen.page.goto(page.as_uri())
    heads = seen.page.locator("section[data-model='0'] thead th")
    heads.nth(1).get_by_role("button").click()
    assert names(seen.page) == [SCRIPT, "middle", "low", "undefined", "random_gaussian"]
    assert heads.nth(1).get_attribute("aria-sort") == "descending"
    heads.nth(1).get_by_role("button").click()
    assert names(seen.page) == ["low", "middle", SCRIPT, "undefined", "random_gaussian"]
    heads.nth(2).get_by_role("button").click()
    assert names(seen.page)[:3] == ["low", "middle", SCRIPT]
    assert heads.nth(2).get_attribute("aria-sort") == "ascending"
    assert heads.nth(1).get_attribute("aria-sort") is None
    heads.nth(0).get_by_role("button").click()
    assert names(seen.page) == ["</script>" + SCRIPT.removeprefix("</script>"), "low", "middle", "undefined", "random_gaussian"]
    assert seen.requests == [page.as_uri()]


def test_filters_hide_models_and_scores(visit: Begin, page: Path) -> None:
    seen = visit()
    seen.page.goto(page.as_uri())
    seen.page.select_option("[data-filter=model]", "1")
    assert seen.page.locator("section[data-model]:visible h2").all_text_contents() == ["two"]
    assert not seen.page.locator(".tally").is_visible()
    seen.page.select_option("[data-filter=score]", "0")
    assert seen.page.locator("section[data-model='1'] thead th:visible").count() == 2
    for what in ("model", "score"):
        seen.page.select_option(f"[data-filter={what}]", "")
    assert seen.page.locator("section[data-model]:visible").count() == 2
    assert seen.page.locator(".tally").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_screen_scrolls_tables_and_not_the_page(visit: Begin, page: Path, scheme: str) -> None:
    seen = visit(width=360, height=700, scheme=scheme)
    seen.page.goto(page.as_uri())
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 360
    paper = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == {"light": "rgb(253, 253, 251)", "dark": "rgb(21, 24, 27)"}[scheme]
