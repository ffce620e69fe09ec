from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from browser_visit import Visit

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update "
    "--disable-sync"
)

AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium; without one these tests are skipped, but not where CI=true."""
    found = shutil.which("chromium")
    if found is None:
        sentence = "Chromium is not here: install the package chromium to try the interface in a browser."
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(sentence)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=found, args=FLAGS.split())
        yield opened
        opened.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Visit]]:
    """Opens pages that end with the test; none of them may complain."""
    made: list[Visit] = []

    def begin(width: int = 1280, height: int = 900, scheme: str = "light", touch: bool = False) -> Visit:
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, has_touch=touch)
        made.append(Visit(context.new_page()))
        return made[-1]

    yield begin
    for one in made:
        one.page.context.close()
    assert [complaint for one in made for complaint in one.complaints] == []


@pytest.fixture(scope="session")
def axe() -> str:
    """The text of axe-core; without it these tests are skipped, but not where CI=true."""
    if not AXE.exists():
        sentence = "axe-core is not here: run 'npm ci' in web/ to check that pages are accessible."
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(sentence)
    return AXE.read_text(encoding="utf-8")
