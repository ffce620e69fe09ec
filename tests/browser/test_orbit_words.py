"""Numbers of an orbit page as words that anybody reads: tiny probabilities, boxes, on screens and on paper."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import torch

from browser_visit import PANELS, Visit, served
from orbit_small import detection, digits_like, images, labels, linear
from veracity.orbits import OrbitResult

Begin = Callable[..., Visit]


def test_tiny_probabilities_have_no_exponent(visit: Begin, tmp_path: Path) -> None:
    sharp = linear()
    with torch.no_grad():
        sharp[1].weight.mul_(8.0)  # type: ignore[index]
    made = digits_like(models={"sharp": sharp})
    made.run(tmp_path / "run", progress=False)
    confidence = OrbitResult(tmp_path / "run").values("sharp", "confidence")
    sample, element = divmod(int(confidence.argmin()), confidence.shape[1])
    assert 0 < confidence[sample, element] < 1e-4
    with served(tmp_path / "run", made) as address:
        page = visit(1440).open(f"{address}#metric=confidence&sample={sample}&at={element}&view=places")
        page.wait_for_selector('[data-testid="places-table"] tbody tr')
        texts = {name: page.get_by_test_id(name).inner_text() for name in ("detail", "individual", "places-table")}
    assert [name for name, text in texts.items() if "< 0.001" not in text] == []
    assert "< 0.1 %" in texts["places-table"]
    assert re.search(r"\w+ \([\d.]+ %\)", texts["detail"])
    assert not any(re.search(r"\de[-\N{MINUS SIGN}]\d", text) for text in texts.values())


def test_boxes_are_told_side_by_side(visit: Begin, tmp_path: Path) -> None:
    made = detection()
    made.run(tmp_path / "run", progress=False)
    with served(tmp_path / "run", made) as address:
        page = visit(1440).open(f"{address}#sample=0&at=0_0")
        table = page.locator('[data-testid="detail"] .detail-own table')
        heads = table.locator("thead th").all_inner_texts()
        cells = table.locator("tbody tr").first.locator("td").all_inner_texts()
    assert heads == ["model", "class", "confidence", "IoU", "left (px)", "top", "right", "bottom"]
    assert cells == ["spot", "0.900", "1.00", "4", "3", "5", "4"]


CUT = """() => [...document.querySelectorAll('.detail-room')].filter(room => {
  const drawn = room.querySelector('.detail-stage').getBoundingClientRect(), seen = room.getBoundingClientRect();
  return drawn.bottom > seen.bottom + 1 || drawn.right > seen.right + 1;
}).length"""


def test_the_picture_of_detections_is_in_sight_whole(visit: Begin, tmp_path: Path) -> None:
    made = detection()
    made.run(tmp_path / "run", progress=False)
    with served(tmp_path / "run", made) as address:
        page = visit(1440).open(f"{address}#sample=0&at=0_0&view=places")
        page.wait_for_selector('[data-testid="place-B"][data-state="ready"]')
        for width in (1440, 1280, 1000, 390, 1920):
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_timeout(100)
            assert page.locator(".detail-room").count() == 3
            assert page.evaluate(CUT) == 0, width
        page.set_viewport_size({"width": 1440, "height": 900})
        table = page.locator('[data-testid="detail"] .detail-own')
        assert table.evaluate("one => one.scrollWidth <= one.clientWidth"), "and its table"


def test_on_paper_similar_orbits_come_last_and_nothing_can_be_pressed(visit: Begin, tmp_path: Path) -> None:
    made = digits_like()
    made.run(tmp_path / "run", progress=False)
    with served(tmp_path / "run", made) as address:
        page = visit(1440).open(f"{address}#sample=0&at=0&view=places")
        page.emulate_media(media="print")
        page.set_viewport_size({"width": 680, "height": 990})
        boxes = {name: page.locator(f'[data-testid="{name}"]').bounding_box() or {} for name in PANELS}
        assert boxes["scatter"]["y"] > max(boxes[name]["y"] for name in PANELS if name != "scatter")
        assert boxes["scatter"]["width"] > 600
        assert boxes["detail"]["y"] == boxes["input"]["y"]
        pressed = page.locator("main button:visible, main summary:visible").all_inner_texts()
        assert pressed == page.get_by_test_id("model").locator("button").all_inner_texts()


PAINTED = """() => [...document.querySelectorAll('[data-testid="aggregate"] .plot-body')].map(one => ({
  room: [one.clientWidth, one.clientHeight],
  drawn: one.querySelector("svg").getAttribute("viewBox").split(" ").slice(2).map(Number),
  ground: getComputedStyle(one.closest(".panel")).backgroundColor,
}))[0]"""


def test_plots_are_painted_light_and_as_large_as_paper_for_it(visit: Begin, tmp_path: Path) -> None:
    made = digits_like()
    made.run(tmp_path / "run", progress=False)
    with served(tmp_path / "run", made) as address:
        page = visit(1440, scheme="dark").open(f"{address}#sample=0&at=0")
        before = page.evaluate(PAINTED)
        page.emulate_media(media="print", color_scheme="dark")
        page.wait_for_function("() => document.documentElement.dataset.theme === 'light'")
        printed = page.evaluate(PAINTED)
        assert printed["drawn"] == printed["room"]
        assert printed["ground"] == "rgb(255, 255, 255)" != before["ground"]
        assert page.evaluate("document.querySelector('.orbit').clientWidth") == 700
        page.emulate_media(media="screen", color_scheme="dark")
        page.wait_for_function("() => document.documentElement.dataset.theme === 'dark'")
        page.evaluate(
            f"() => {{ window.seen = []; window.addEventListener('beforeprint', () => Promise.resolve().then(() => "
            f"window.seen.push(({PAINTED})()))); }}"
        )
        page.pdf(format="A4", print_background=True)
        (seen,) = page.evaluate("window.seen")
        assert seen["drawn"] == seen["room"] == printed["room"], "measured before the paper is laid out, as large as it will be"
        page.wait_for_function("() => document.documentElement.dataset.theme === 'dark'")
        assert page.evaluate(PAINTED) == before


def test_a_run_of_one_sample_says_so(visit: Begin, tmp_path: Path) -> None:
    made = digits_like(inputs=images(1), targets=labels(1))
    made.run(tmp_path / "run", progress=False)
    with served(tmp_path / "run", made) as address:
        page = visit().open(address)
        assert "the only sample, whatever" in page.get_by_test_id("numbers-table").inner_text()
