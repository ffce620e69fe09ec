"""An input of one's own on the page of an audit, in Chromium: a person drops an image, and sees the numbers that Python has."""

from __future__ import annotations

import base64
import io
import re
import shutil
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from playwright.sync_api import Page, expect
from test_audit_page import shown

from browser_visit import Visit, served, violations
from orbit_small import SIDE, labels, linear
from text_models import text_model, tokenizer
from veracity import Audit
from veracity.inputs import TableInputs, TextInputs
from veracity.perturb import Dihedral
from veracity.walk import Exhaustive

Begin = Callable[..., Visit]
NARROW = 390
PIXELS = np.random.default_rng(0).integers(0, 256, (6, SIDE, SIDE), dtype=np.uint8)
OWN = np.random.default_rng(7).integers(0, 256, (SIDE, SIDE), dtype=np.uint8)
CLERK = "clerk-of-the-land-registry-office"
DROP = """([zone, text]) => {
  const bytes = Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
  const data = new DataTransfer();
  data.items.add(new File([bytes], "mine.png", { type: "image/png" }));
  zone.dispatchEvent(new DragEvent("dragover", { dataTransfer: data, bubbles: true, cancelable: true }));
  zone.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
}"""


def png(pixels: Any) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG")
    return buffer.getvalue()


def audit(pixels: Any = PIXELS, **settings: Any) -> Audit:
    given: dict[str, Any] = {"explainers": ["saliency", "input_x_gradient"], "scores": ["equivariance", "sparseness"], "controls": False}
    given |= {"models": {"one": linear(0), "two": linear(1)}, "symmetry": Dihedral(), "walk": Exhaustive()}
    return Audit(inputs=torch.from_numpy(pixels[:, None] / 255).float(), **{**given, **settings})


def bomb(side: int = 30_000) -> bytes:
    """A small PNG file whose image would take almost a gigabyte."""
    parts = [(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)), (b"IDAT", zlib.compress(bytes(side))), (b"IEND", b"")]
    chunks = [struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def begun(page: Page, address: str) -> None:
    page.goto(address)
    page.get_by_test_id("own-begin").click()


def settled(page: Page) -> None:
    expect(page.get_by_test_id("own-told")).to_have_text("Everything is computed.")


def test_a_picture_that_is_lighter_than_all_samples_can_be_inverted(visit: Begin, tmp_path: Path) -> None:
    dark = PIXELS // 8
    made = audit(dark)
    made.run(tmp_path / "run", progress=False)
    page = visit(1440).page
    with served(tmp_path / "run", made) as address:
        begun(page, f"{address}#run=run/")
        zone = page.get_by_test_id("own-drop")
        page.evaluate(DROP, [zone.element_handle(), base64.b64encode(png(255 - dark[0])).decode()])
        expect(page.get_by_test_id("own-doubt")).to_contain_text("This picture is lighter than every audited sample: invert it?")
        page.get_by_test_id("own-invert-it").click()
        expect(page.get_by_test_id("own-steps")).to_contain_text("inverted")
        expect(page.get_by_test_id("own-doubt")).to_have_count(0)
        expect(page.get_by_test_id("own-invert")).to_have_value("true")


def test_an_image_that_is_dropped_has_the_numbers_of_python(visit: Begin, axe: str, tmp_path: Path) -> None:
    made = audit(targets=labels())
    made.run(tmp_path / "run", progress=False)
    alone = audit(OWN[None], outputs="logits").run(tmp_path / "alone", progress=False)
    one = visit(1440)
    page = one.page
    with served(tmp_path / "run", made) as address:
        begun(page, f"{address}#run=run/&model=two")
        zone = page.get_by_test_id("own-drop")
        expect(zone).to_contain_text(f"The model takes {SIDE} × {SIDE} pixels, grey.")  # noqa: RUF001
        page.evaluate(DROP, [zone.element_handle(), base64.b64encode(png(OWN)).decode()])
        settled(page)
        for score in ("equivariance", "sparseness"):
            known = alone.samples(score).set_index(["model", "explainer"])["value"]
            for explainer in ("saliency", "input_x_gradient"):
                cell = page.locator(f'[data-testid="own-values"] tr[data-explainer="{explainer}"] td[data-score="{score}"]')
                expect(cell.locator("span")).to_have_text(shown(known["two", explainer]))
                expect(cell.locator("small")).to_contain_text("higher than")
        for model in ("one", "two"):
            said = made.modules[model](torch.from_numpy(OWN[None, None] / 255).float()).detach().softmax(1)[0]  # type: ignore[operator]
            row = page.locator(f'[data-testid="own-predictions"] tr[data-model="{model}"]')
            expect(row).to_contain_text(f"class {int(said.argmax())} ({100 * float(said.max()):.3g} %)")
        expect(page.get_by_test_id("own-steps")).to_contain_text("pixels 0 to 255 became 0 to 1")
        expect(page.locator('[data-testid="own-maps"] image')).to_have_count(3)
        page.evaluate(axe)
        assert violations(page) == []
        one.picture("own-image-1440")
        page.emulate_media(color_scheme="dark")
        assert violations(page, "color-contrast") == []
        one.picture("own-image-dark-1440")
        page.set_viewport_size({"width": NARROW, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == NARROW
        one.picture("own-image-dark-390")
        page.get_by_test_id("model").select_option("one")
        settled(page)
        known = alone.samples("sparseness").set_index(["model", "explainer"])["value"]
        cell = page.locator('[data-testid="own-values"] tr[data-explainer="saliency"] td[data-score="sparseness"] span')
        expect(cell).to_have_text(shown(known["one", "saliency"]))
        for board in ("svg", "csv"):
            with page.expect_download() as saved:
                page.get_by_test_id(f"own-{board}").click()
            assert saved.value.suggested_filename == f"own-input.{board}"
        assert one.outside() == []


def test_the_keyboard_alone_gives_an_image_and_converts_another_one(visit: Begin, tmp_path: Path) -> None:
    made = audit(targets=labels())
    made.run(tmp_path / "run", progress=False)
    page = visit(1280).page
    photo = np.random.default_rng(1).integers(0, 256, (8, 16, 3), dtype=np.uint8)
    page.on("filechooser", lambda one: one.set_files([{"name": "photo.png", "mimeType": "image/png", "buffer": png(photo)}]))

    def focus(name: str) -> None:
        for _ in range(120):
            if page.evaluate("wanted => document.activeElement?.dataset.testid === wanted", name):
                return
            page.keyboard.press("Tab")
        pytest.fail(f"The keyboard does not lead to {name}.")

    with served(tmp_path / "run", made) as address:
        page.goto(f"{address}#run=run/")
        page.get_by_test_id("own-begin").wait_for()
        focus("own-begin")
        page.keyboard.press("Enter")
        page.wait_for_function("() => document.activeElement?.dataset.testid === 'own-file'")
        page.keyboard.press("Space")
        told = page.get_by_test_id("own-told")
        expect(told).to_contain_text("The image is 16 × 8 pixels in colour, and the model takes 4 × 4 pixels in grey")  # noqa: RUF001
        focus("own-size")
        page.keyboard.press("ArrowDown")
        settled(page)
        expect(page.get_by_test_id("own-steps")).to_contain_text("stretched to 4 × 4 pixels")  # noqa: RUF001


def test_bad_inputs_are_one_sentence_each_and_the_page_goes_on(visit: Begin, axe: str, tmp_path: Path) -> None:
    made = audit(targets=labels(), controls=True)
    made.run(tmp_path / "run", progress=False)
    one = visit(1440)
    page = one.page
    with served(tmp_path / "run", made) as address:
        begun(page, f"{address}#run=run/")
        told, file = page.get_by_test_id("own-told"), page.get_by_test_id("own-file")

        def give(data: bytes, name: str = "mine.png") -> None:
            file.set_input_files([{"name": name, "mimeType": "image/png", "buffer": data}])

        give(b"%PDF", "paper.pdf")
        expect(told).to_have_text("This file is no PNG or JPEG image: give one of these.")
        page.evaluate(axe)
        assert violations(page) == []
        give(bomb())
        expect(told).to_have_text("The image has more than 40 million pixels, or more than 20,000 along a side: make it smaller.")
        give(png(np.zeros((SIDE, SIDE), dtype=np.uint16)))
        expect(told).to_have_text("The image has more than 8 bits per channel (mode I;16): save it with 8.")
        give(png(np.zeros((SIDE, 2 * SIDE, 4), dtype=np.uint8)))
        expect(told).to_contain_text(f"and the model takes {SIDE} × {SIDE} pixels in grey")  # noqa: RUF001
        give(bytes(17 * 1024 * 1024))
        expect(told).to_have_text("This input is 17 MiB, and at most 16 MiB are read: make it smaller.")
        give(png(OWN))
        settled(page)
        maps = page.locator('[data-testid="own-maps"] figure[data-explainer]')
        expect(maps).to_have_count(2)
        page.get_by_test_id("own-all").click()
        expect(maps.filter(has_text="random_uniform")).to_have_count(1)
        settled(page)
        page.get_by_test_id("own-pixels").select_option("standard")
        expect(page.get_by_test_id("own-steps")).to_contain_text("with mean 0.5 and std 0.5")
        page.get_by_test_id("own-std").fill("none")
        page.get_by_test_id("own-std").press("Enter")
        expect(told).to_have_text("The std of pixels is one number, not 'none'.")
        assert one.complaints == []
    alone = visit(1440)
    with served(tmp_path / "run") as address:
        alone.page.goto(f"{address}#run=run/")
        alone.page.wait_for_selector('[data-testid="sample"][data-state="ready"]')
        expect(alone.page.get_by_test_id("own")).to_be_hidden()
        expect(alone.page.get_by_test_id("draw-told")).to_contain_text("To see draws, steps and inputs beyond the stored ones")


def test_a_run_that_is_deleted_while_an_input_is_given_is_one_sentence(visit: Begin, tmp_path: Path) -> None:
    made = audit(targets=labels())
    made.run(tmp_path / "run", progress=False)
    one = visit(1440)
    page = one.page
    with served(tmp_path / "run", made) as address:
        begun(page, f"{address}#run=run/")
        file = page.get_by_test_id("own-file")
        file.set_input_files([{"name": "mine.png", "mimeType": "image/png", "buffer": png(OWN)}])
        settled(page)
        shutil.rmtree(tmp_path / "run")
        file.set_input_files([{"name": "mine.png", "mimeType": "image/png", "buffer": png(OWN)}])
        expect(page.get_by_text(re.compile("There is no run 'run/' here: it was deleted")).first).to_be_visible()
        made.run(tmp_path / "run", progress=False)
        page.goto("about:blank")
        begun(page, f"{address}#run=run/")
        file.set_input_files([{"name": "mine.png", "mimeType": "image/png", "buffer": png(OWN)}])
        settled(page)
        page.close()
    assert {text for text in one.complaints if "404 (Not Found)" not in text} == set()
    one.complaints.clear()


def test_a_row_is_edited_in_its_fields_or_pasted(visit: Begin, axe: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"age": [30, 41, 25, 60, 33, 52], "hours": [38.5, 40, 20, 45, 40, 12.5], "job": ["cook", CLERK] * 3})

    def predict(table: pd.DataFrame) -> Any:
        yes = 1 / (1 + np.exp(-(table["age"].to_numpy(dtype=float) - 40) / 10 - (table["job"] == CLERK).to_numpy(dtype=float)))
        return np.stack([1 - yes, yes], axis=1)

    made = Audit(models={"net": predict}, inputs=TableInputs(frame), explainers=["occlusion"], scores=["sparseness"], controls=False)
    made.run(tmp_path / "run", progress=False)
    one = visit(1440)
    page = one.page
    with served(tmp_path / "run", made) as address:
        begun(page, f"{address}#run=run/")
        row = page.get_by_test_id("own-row")
        expect(row).to_have_value("30, 38.5, cook")
        page.get_by_test_id("own-field-0").fill("55")
        page.get_by_test_id("own-field-2").select_option(CLERK)
        expect(row).to_have_value(f"55, 38.5, {CLERK}")
        page.get_by_test_id("own-explain").click()
        settled(page)
        yes = float(predict(pd.DataFrame({"age": [55], "hours": [38.5], "job": [CLERK]}))[0, 1])
        expect(page.get_by_test_id("own-predictions")).to_contain_text(f"class 1 ({100 * yes:.3g} %)")
        expect(page.get_by_test_id("own-input")).to_contain_text("age: 55")
        expect(page.get_by_test_id("own-input")).to_contain_text(f"job: {CLERK}")
        inside = "node => [...node.querySelectorAll('text')].every(one => one.getBBox().width <= node.viewBox.baseVal.width)"
        assert page.locator('[data-testid="own-input"] svg').evaluate(inside), "no value is cut"
        page.evaluate(axe)
        assert violations(page) == []
        one.picture("own-row-1440")
        page.set_viewport_size({"width": NARROW, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == NARROW
        one.picture("own-row-390")
        row.fill("20\t10\tcook")
        expect(page.get_by_test_id("own-field-0")).to_have_value("20")
        row.press("Control+Enter")
        expect(page.get_by_test_id("own-input")).to_contain_text("age: 20")
        row.fill("20, 10")
        row.press("Control+Enter")
        expect(page.get_by_test_id("own-told")).to_have_text("The row has 2 values, and the audit has 3 columns: age, hours, job.")


def test_a_text_is_typed(visit: Begin, axe: str, tmp_path: Path) -> None:
    texts = ["a fine film", "dull", "a dull film with no heart at all", "not a fine film"]
    made = Audit(
        models={"net": text_model()}, inputs=TextInputs(texts, tokenizer()), explainers=["input_x_gradient"], scores=["sparseness"],
        controls=False,
    )  # fmt: skip
    known = made.run(tmp_path / "run", progress=False).samples("sparseness").set_index("sample")["value"]
    one = visit(1440)
    page = one.page
    with served(tmp_path / "run", made) as address:
        begun(page, f"{address}#run=run/")
        text = page.get_by_test_id("own-text")
        text.wait_for(timeout=60_000)  # the models are loaded first
        text.fill("a fine film")
        text.press("m")
        text.press("Backspace")
        page.get_by_test_id("own-explain").click()
        settled(page)
        expect(page.locator('[data-testid="own-values"] td span').first).to_have_text(shown(known[0]))
        page.evaluate(axe)
        assert violations(page) == []
        one.picture("own-text-1440")
        text.fill(" ")
        text.press("Control+Enter")
        expect(page.get_by_test_id("own-told")).to_have_text("The text is empty: type at least one word.")
        text.fill("fine " * 40)
        text.press("Control+Enter")
        expect(page.get_by_test_id("own-told")).to_have_text("The text has 42 tokens, and the model takes 20: shorten it.")


def test_a_server_that_forgot_an_input_says_so(visit: Begin, tmp_path: Path) -> None:
    made = audit(targets=labels())
    made.run(tmp_path / "run", progress=False)
    page = visit(1280).page
    with served(tmp_path / "run", made) as address:
        begun(page, f"{address}#run=run/")
        page.route("**/inputs?*", lambda route: route.fulfill(json={"input": "nobody"}))
        page.get_by_test_id("own-file").set_input_files([{"name": "mine.png", "mimeType": "image/png", "buffer": png(OWN)}])
        expect(page.get_by_test_id("own-told")).to_have_text("The server does not hold this input any more: give it again.")
