"""Pages and servers for tests of the interface in a browser."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import ConsoleMessage, Page

from veracity.app import server as serving
from veracity.audit import Audit
from veracity.orbits import OrbitEvaluation

SCREENSHOTS = os.environ.get("VERACITY_SCREENSHOTS")
"""The folder for pictures of the interface; without it none are taken, since no test looks at them."""
MINUS = "\N{MINUS SIGN}"
PANELS = ("aggregate", "scatter", "individual", "input", "detail")


ENDED = ("net::ERR_CONNECTION_REFUSED", "net::ERR_CONNECTION_RESET", "net::ERR_EMPTY_RESPONSE")
"""What Chromium says of a server that has ended, and of an answer that its end cut off."""


def complains(message: ConsoleMessage) -> bool:
    """Whether a page complains; not if it looks for a server that has ended, which it does until the test ends."""
    return message.type == "error" and not any(words in message.text for words in ENDED)


class Visit:
    """A page of its own, with everything that it asked for and complained of."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.requests: list[str] = []
        self.complaints: list[str] = []
        page.set_default_timeout(20_000)
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", lambda message: self.complaints.append(message.text) if complains(message) else None)

    def open(self, address: str) -> Page:
        self.page.goto(address)
        for panel in PANELS:
            self.page.wait_for_selector(f'[data-testid="{panel}"][data-state="ready"]')
        return self.page

    def outside(self) -> list[str]:
        """What was asked of anybody but this machine's own server or file."""
        return [url for url in self.requests if not url.startswith(("http://127.0.0.1:", "ws://127.0.0.1:", "file:", "data:", "blob:"))]

    def picture(self, name: str) -> None:
        if SCREENSHOTS:
            self.page.screenshot(path=Path(SCREENSHOTS) / f"{name}.png", full_page=True)


PLAIN = """async options => {
  const plain = new CSSStyleSheet(), kept = document.adoptedStyleSheets;
  plain.replaceSync(".scroll, .row { background: none !important }");
  document.adoptedStyleSheets = [...kept, plain];
  const found = await axe.run(document, options);
  document.adoptedStyleSheets = kept;
  return found;
}"""
"""Runs axe-core without the shadows of tables that can be scrolled: it says nothing of a text if it cannot tell what lies behind."""


SETTLED = """() => {
  const waits = '.board[data-state="loading"], .panel[data-state="loading"], [data-stale="true"]';
  const fading = document.getAnimations().some(one => one instanceof CSSTransition && one.playState === "running");
  return !fading && ![...document.querySelectorAll(waits)].some(one => one.checkVisibility());
}"""
"""Whether nothing is pale because it waits for an answer, and no colour fades."""


def violations(page: Page, *rules: str) -> list[tuple[str, str]]:
    """What axe-core, which the page has to hold, finds against all its rules or against these while nothing is pale."""
    chosen = {"runOnly": list(rules)} if rules else {}
    settled = False
    while not settled:
        page.wait_for_function(SETTLED)
        found: dict[str, Any] = page.evaluate(PLAIN, {"resultTypes": ["violations"], **chosen})
        settled = page.evaluate(SETTLED)
    return [(one["id"], node["html"]) for one in found["violations"] for node in one["nodes"]]


def shown(value: float) -> str:
    """A number as the page writes it: three digits."""
    if value == 0:
        return "0"
    if abs(float(f"{value:.3g}")) < 1e-3:
        mantissa, exponent = f"{value:.1e}".split("e")
        return f"{mantissa}e{int(exponent)}".replace("-", MINUS)
    return f"{value:.{max(0, 2 - max(-1, math.floor(math.log10(abs(float(f'{value:.3g}'))))))}f}".replace("-", MINUS)


@contextmanager
def served(folder: Path, evaluation: OrbitEvaluation | Audit | None = None) -> Iterator[str]:
    """The address of a server in a thread."""
    server, listening, address = serving.make_server(folder, evaluation=evaluation)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    yield address
    server.should_exit = True
    thread.join(10)
