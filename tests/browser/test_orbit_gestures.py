"""Fingers and the wheel on the plots of an orbit page, in Chromium: they scroll the page, and still move what they take hold of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Page

from browser_visit import Visit, served
from orbit_run import evaluation

Begin = Callable[..., Visit]
START = "#sample=3&at=0&metric=confidence"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("gestures") / "digits"
    made = evaluation()
    made.run(folder, progress=False)
    with served(folder, made) as found:
        yield found


def seen(page: Page, panel: str, part: str = ".plot-body") -> dict[str, float]:
    """Where a part of a panel stands in the window, after scrolling there."""
    found = page.locator(f'[data-testid="{panel}"] {part}').first
    found.evaluate("node => node.scrollIntoView({block: 'center'})")
    page.wait_for_timeout(100)
    box = found.bounding_box()
    assert box is not None
    return {"x": box["x"], "y": box["y"], "width": box["width"], "height": box["height"]}


def circle(page: Page) -> tuple[float, float, float]:
    """The middle and the radius of the individual orbit."""
    rim = seen(page, "individual", ".plot-rim")
    return rim["x"] + rim["width"] / 2, rim["y"] + rim["height"] / 2, rim["width"] / 2


def swipe(page: Page, *corners: tuple[float, float], steps: int = 10) -> None:
    """One finger along corners in the window, as fast as a screen follows it."""
    session = page.context.new_cdp_session(page)

    def touch(kind: str, *points: tuple[float, float]) -> None:
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y} for x, y in points]})
        page.wait_for_timeout(16)

    touch("touchStart", corners[0])
    for (x0, y0), (x1, y1) in pairwise(corners):
        for step in range(1, steps + 1):
            touch("touchMove", (x0 + (x1 - x0) * step / steps, y0 + (y1 - y0) * step / steps))
    touch("touchEnd")
    session.detach()


def top(page: Page) -> float:
    page.wait_for_timeout(150)
    return float(page.evaluate("window.scrollY"))


def wait_for_place(page: Page, degrees: float) -> None:
    """Until a place of the orbit is chosen, give or take some degrees."""
    script = "degrees => Math.abs(new URLSearchParams(location.hash.slice(1)).get('at') - degrees) < 4"
    page.wait_for_function(script, arg=degrees)


def test_a_vertical_swipe_scrolls_the_page_from_every_plot(visit: Begin, address: str) -> None:
    page = visit(390, 800, touch=True).open(address + START)
    for panel in ("aggregate", "scatter", "individual"):
        body = seen(page, panel)
        before = top(page)
        x, y = body["x"] + 0.3 * body["width"], body["y"] + 0.6 * body["height"]
        swipe(page, (x, y), (x + 4, y - 200))
        assert top(page) - before > 150, panel
    assert "at=0" in page.url, "nothing was chosen on the way"
    assert "lasso" not in page.url


def test_a_finger_drags_the_handle_taps_and_moves_sideways(visit: Begin, address: str) -> None:
    page = visit(390, 800, touch=True).open(address + START)
    x, y, radius = circle(page)
    before = top(page)
    swipe(page, (x + radius, y), (x + radius, y - radius))
    wait_for_place(page, 45)
    assert top(page) == before, "the handle was held"
    x, y, radius = circle(page)
    before = top(page)
    page.touchscreen.tap(x - 0.6 * radius, y)
    wait_for_place(page, 180)
    swipe(page, (x - 0.5 * radius, y - 0.5 * radius), (x + 0.5 * radius, y - 0.5 * radius))
    wait_for_place(page, 45)
    assert top(page) == before
    body = seen(page, "scatter")
    left, right = body["x"] + 4, body["x"] + body["width"] - 4
    high, low = body["y"] + 4, body["y"] + body["height"] - 70
    before = top(page)
    swipe(page, (left, high), (right, high), (right, low), (left, low))
    page.wait_for_function("() => location.hash.includes('lasso=')")
    assert top(page) == before


def test_the_wheel_scrolls_and_zooms_with_ctrl_alone(visit: Begin, address: str) -> None:
    page = visit(1280, 700).open(address + START)
    body = seen(page, "scatter")
    before = top(page)
    page.mouse.move(body["x"] + body["width"] / 2, body["y"] + body["height"] / 3)
    page.mouse.wheel(0, 150)
    page.wait_for_function("before => window.scrollY > before + 100", arg=before)
    body = seen(page, "scatter")
    before = top(page)

    def chosen() -> Any:
        return page.locator('[data-testid="scatter"] .plot-cell').first.get_attribute("cx")

    place = chosen()
    page.mouse.move(body["x"] + body["width"] / 2, body["y"] + body["height"] / 3)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    page.wait_for_function("place => document.querySelector('[data-testid=scatter] .plot-cell')?.getAttribute('cx') !== place", arg=place)
    assert top(page) == before
