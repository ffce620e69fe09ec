"""The page of a card under the rules of axe-core, on narrow screens, and on paper, where one sheet holds all words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from browser_visit import Visit, violations
from card_records import explainer, record
from veracity.cards import page as pages

Begin = Callable[..., Visit]
NARROW = 390
SHEET = (688, 1032)
"""A4 between the margins of a card, in CSS pixels."""
BOTTOM = "document.querySelector('#overview').getBoundingClientRect().bottom + scrollY"
LONG = "No explainer holds on every question that was answered. " * 3
USES = [
    {"key": key, "title": f"A use called {key}", "why": LONG, "questions": ["model"], "fit": [], "open": [], "unfit": []}
    for key in ("debugging", "case", "evidence")
]
OPEN = ("holds", "falls short", "cannot tell yet", "holds", "cannot tell yet", "holds")
TURNED = tuple(reversed(OPEN))


def page_of(explainers: int, folder: Path) -> Path:
    named = [
        explainer(f"integrated_gradient{place}", *(OPEN, TURNED)[place % 2], dominated_by={"other": 0.99} if place > 9 else None)
        for place in range(explainers)
    ]
    control = explainer("edge_filter", "falls short", control=True)
    whole = record(*named, control, uses=USES, notes=["This does not show that it is better than chance."])
    where = folder / "card.html"
    where.write_text(pages.html(whole), encoding="utf-8")
    return where


@pytest.fixture(scope="module")
def card(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return page_of(20, tmp_path_factory.mktemp("paper"))


def test_a_card_can_be_read_by_everybody(visit: Begin, axe: str, card: Path) -> None:
    page = visit().page
    page.goto(card.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
    page.evaluate(axe)
    assert violations(page) == []
    page.emulate_media(color_scheme="dark")
    assert violations(page, "color-contrast") == []
    page.set_viewport_size({"width": NARROW, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") == NARROW


@pytest.mark.parametrize("explainers", [20, 32])
def test_all_words_stand_on_one_sheet(visit: Begin, tmp_path: Path, explainers: int) -> None:
    page = visit().page
    page.goto(page_of(explainers, tmp_path).as_uri())
    page.emulate_media(media="print")
    page.set_viewport_size({"width": SHEET[0], "height": SHEET[1]})
    assert page.evaluate("document.documentElement.scrollWidth") == SHEET[0]
    assert page.evaluate(BOTTOM) <= SHEET[1]
