"""Every kind of report under the rules of axe-core, and on narrow screens and paper."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from browser_visit import Visit
from report_runs import faithful_run, kinds_run, stable_run
from veracity.report.leaderboard import leaderboard
from veracity.studies.several import JointResult

Begin = Callable[..., Visit]
AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
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
def axe() -> str:
    """The text of axe-core; without it these tests are skipped, but not where CI=true."""
    if not AXE.exists():
        sentence = "axe-core is not here: run 'npm ci' in web/ to check that reports are accessible."
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(sentence)
    return AXE.read_text(encoding="utf-8")


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


def violations(page: Page, *rules: str) -> list[tuple[str, str]]:
    chosen = {"runOnly": list(rules)} if rules else {}
    found: dict[str, Any] = page.evaluate("options => axe.run(document, options)", {"resultTypes": ["violations"], **chosen})
    return [(one["id"], node["html"]) for one in found["violations"] for node in one["nodes"]]


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
