"""Every kind of report, and the page of an orbit evaluation, under the rules of axe-core, and on narrow screens and paper."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from browser_visit import Visit, served, violations
from orbit_small import digits_like
from report_runs import faithful_run, kinds_run, stable_run
from veracity.report.leaderboard import leaderboard
from veracity.studies.several import JointResult

Begin = Callable[..., Visit]
KINDS = ("symmetry", "faithfulness", "stability", "joint", "leaderboard")
NARROW = 390
SMALLEST = 11
PAPER = 680
"""The width of A4 between the margins of the reports, in CSS pixels."""
PLAIN = ".scroll, .row { background: none !important }"
"""Without it axe cannot tell what lies behind the text of a table that can be scrolled, and says nothing about it."""
SMALL = """least => [...document.querySelectorAll('body *')].filter(one => !one.closest('.hidden, title, script')
  && [...one.childNodes].some(child => child.nodeType === Node.TEXT_NODE && child.data.trim())
  && parseFloat(getComputedStyle(one).fontSize) < least).map(one => one.outerHTML)"""
BROKEN = """() => [...document.querySelectorAll('th, td')].flatMap(cell => {
  const found = [], texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), part = document.createRange();
  while (texts.nextNode())
    for (const word of texts.currentNode.data.matchAll(/[A-Za-z]+/g)) {
      part.setStart(texts.currentNode, word.index);
      part.setEnd(texts.currentNode, word.index + word[0].length);
      if (new Set([...part.getClientRects()].map(line => Math.round(line.top))).size > 1) found.push(word[0]);
    }
  return found;
})"""
WIDTH = "document.documentElement.scrollWidth"


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("accessible")
    faithful = faithful_run(folder / "faithfulness", ("fast_gef", "pixel_flipping", "max_sensitivity"), samples=8, draws=3)
    runs = {
        "symmetry": kinds_run(folder / "symmetry", samples=8, draws=4, stages=1),
        "faithfulness": faithful,
        "stability": stable_run(folder / "stability", samples=16),
        "joint": JointResult({"one": faithful}, title="Several", path=str(folder), confidence=0.95),
    }
    made = {name: run.save_report(folder / f"{name}.html") for name, run in runs.items()}
    return {**made, "leaderboard": leaderboard(folder / "faithfulness").save_page(folder / "leaderboard.html")}


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_can_be_read_by_everybody(visit: Begin, axe: str, reports: dict[str, Path], kind: str) -> None:
    page = visit().page
    page.goto(reports[kind].as_uri())
    page.add_style_tag(content=PLAIN)
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
    page.evaluate(axe)
    assert violations(page) == []
    assert page.evaluate(BROKEN) == []
    page.emulate_media(color_scheme="dark")
    assert violations(page, "color-contrast") == []
    page.set_viewport_size({"width": NARROW, "height": 800})
    assert page.evaluate(WIDTH) == NARROW
    assert page.evaluate(SMALL, SMALLEST) == []
    page.emulate_media(media="print")
    page.set_viewport_size({"width": PAPER, "height": 990})
    assert page.evaluate(WIDTH) == PAPER


def test_an_orbit_evaluation_can_be_read_by_everybody(visit: Begin, axe: str, tmp_path: Path) -> None:
    digits_like(title="Squares").run(tmp_path / "squares", progress=False)
    with served(tmp_path) as address:
        page = visit().open(f"{address}#run=squares")
        page.evaluate(axe)
        assert violations(page) == []
        assert page.get_by_role("heading", level=1).inner_text() == "Squares"
