"""Every kind of report, and the page of an orbit evaluation, under the rules of axe-core, and on narrow screens and paper."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
import torch

from browser_visit import Visit, served, violations
from card_records import explainer, record
from orbit_small import digits_like
from report_runs import faithful_run, kinds_run, stable_run
from search_audits import AROUND, BOTH, images, tanh_net
from veracity import Audit
from veracity.cards import page as cards
from veracity.core.registry import RECIPES
from veracity.recipe import Scale
from veracity.report.leaderboard import leaderboard
from veracity.scores import SolHat
from veracity.scores.faithfulness.content import Sparseness
from veracity.studies.several import JointResult

Begin = Callable[..., Visit]
KINDS = ("demo", "symmetry", "faithfulness", "stability", "robustness", "joint", "joint robustness", "card", "leaderboard")
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
NARROW, DESK, WIDE = 390, 1280, 1440
SMALLEST = 11
PAPER = 680
"""The width of A4 between the margins of the reports, in CSS pixels."""
WORDS = ("holds", "falls short", "cannot tell yet", "does not apply", "holds", "holds")
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


def searches(seed: int) -> Audit:
    """An audit whose score is the outcome of a search."""
    with torch.no_grad():
        targets = tanh_net(seed)(images()).argmax(dim=1)
    scores = {"sol_f_hat": SolHat(walk=BOTH, **AROUND), "sparseness": Sparseness()}
    given: dict[str, Any] = {"models": {"net": tanh_net(seed)}, "inputs": images(), "targets": targets, "scores": scores}
    return Audit(**given, explainers=["gradient", "input_x_gradient"], title=f"Search {seed}")


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("accessible")
    faithful = faithful_run(folder / "faithfulness", ("fast_gef", "pixel_flipping", "max_sensitivity"), samples=8, draws=3)
    searched = {name: searches(seed).run(folder / name, progress=False) for seed, name in enumerate(("one", "two"))}
    demo = RECIPES["symmetry-digits"].assemble(folder / "demo", Scale.SMOKE).run(folder / "demo", progress=False)
    runs = {
        "demo": demo,
        "robustness": searched["one"],
        "joint robustness": JointResult(searched, title="Searches", path=str(folder), confidence=0.95),
        "symmetry": kinds_run(folder / "symmetry", samples=8, draws=4, stages=1),
        "faithfulness": faithful,
        "stability": stable_run(folder / "stability", samples=16),
        "joint": JointResult({"one": faithful}, title="Several", path=str(folder), confidence=0.95),
    }
    made = {name: run.save_report(folder / f"{name}.html") for name, run in runs.items()}
    made["card"] = folder / "card.html"
    both = [explainer("integrated_gradients", *WORDS), explainer("deconvolution", *["cannot tell yet"] * len(WORDS))]
    for answer in both[1]["answers"]:
        answer["hint"] = "copies of the model differ"
    made["card"].write_text(cards.html(record(*both)), encoding="utf-8")
    return {**made, "leaderboard": leaderboard(folder / "faithfulness").save_page(folder / "leaderboard.html")}


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_can_be_read_by_everybody(visit: Begin, axe: str, reports: dict[str, Path], kind: str) -> None:
    page = visit().page
    page.goto(reports[kind].as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
    page.evaluate(axe)
    for width in (WIDE, DESK, NARROW):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(WIDTH) == width
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            assert violations(page) == []
        assert page.evaluate(BROKEN) == [] or width == NARROW
    assert page.evaluate(SMALL, SMALLEST) == []
    page.emulate_media(media="print")
    page.set_viewport_size({"width": PAPER, "height": 990})
    assert page.evaluate(WIDTH) == PAPER


PAGES = {
    "home": ("", '[data-testid="runs"] .small-figure'),
    "audit": ("run=turned", '[data-testid="sample"][data-state="ready"]'),
    "an audit's report": ("run=turned&page=report", '[data-testid="report"] iframe'),
    "compare": ("run=turned&page=compare&with=again", "[data-testid=compare] td"),
    "orbits": ("run=squares", '[data-testid="individual"][data-state="ready"]'),
    "waiting": ("run=waiting", "main td"),
    "no such run": ("run=gone", '[data-testid="error"]'),
}
"""By name: an address of the app, and what is there once the page is."""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("pages")
    searches(0).run(folder / "turned", progress=False)
    searches(1).run(folder / "again", progress=False)
    digits_like(title="Squares").run(folder / "squares", progress=False)
    shutil.copytree(folder / "squares", folder / "waiting")
    for cell in (folder / "waiting" / "orbits").iterdir():
        cell.unlink()
        break
    with served(folder) as address:
        yield address


@pytest.mark.parametrize("kind", PAGES)
def test_a_page_of_the_app_can_be_read_by_everybody(visit: Begin, axe: str, app: str, kind: str) -> None:
    one = visit(WIDE)
    page = one.page
    where, there = PAGES[kind]
    page.goto(f"{app}#{where}")
    page.locator(there).first.wait_for()
    page.evaluate(axe)
    for width in (WIDE, DESK, NARROW):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(100)
        assert page.evaluate(WIDTH) == width
        assert page.evaluate(BROKEN) == [] or width == NARROW
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            page.wait_for_selector(f'html[data-theme="{scheme}"]')
            assert violations(page) == []
            one.picture(f"page-{kind}-{scheme}-{width}")
        assert page.evaluate(SMALL, SMALLEST) == []
        picker = page.get_by_test_id("run")
        assert width != NARROW or not picker.is_visible() or (picker.bounding_box() or {"width": 0})["width"] > 250
    one.complaints[:] = [text for text in one.complaints if "404 (Not Found)" not in text]


def test_the_help_opens_at_its_top(visit: Begin, app: str) -> None:
    page = visit(NARROW).page
    page.goto(app)
    page.get_by_test_id("runs").wait_for()
    page.keyboard.press("?")
    page.locator("dialog[open]").wait_for()
    assert page.locator("dialog[open]").evaluate("one => [one.scrollTop, one.scrollHeight > one.clientHeight]") == [0, True]


def test_the_help_can_be_read_by_everybody(visit: Begin, axe: str, app: str) -> None:
    page = visit(WIDE).page
    page.goto(app)
    page.get_by_test_id("runs").wait_for()
    page.keyboard.press("?")
    page.locator("dialog[open]").wait_for()
    page.evaluate(axe)
    for width in (WIDE, NARROW):
        page.set_viewport_size({"width": width, "height": 900})
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            assert violations(page) == []
