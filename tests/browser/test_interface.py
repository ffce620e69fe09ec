"""The interface as a person uses it, in Chromium, on real digits: open, choose, click, drag, switch, lasso, reload, offline."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Page

from browser_visit import Visit, served
from orbit_run import HOSTILE, evaluation, moved
from veracity.orbits import OrbitEvaluation, OrbitResult

Begin = Callable[..., Visit]
SAMPLES = 40


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, OrbitEvaluation]:
    folder = tmp_path_factory.mktemp("interface") / "digits"
    made = evaluation(samples=SAMPLES)
    made.run(folder, progress=False)
    return folder, made


@pytest.fixture(scope="module")
def address(run: tuple[Path, OrbitEvaluation]) -> Iterator[str]:
    with served(*run) as found:
        yield found


def box(page: Page, panel: str) -> dict[str, float]:
    """Where a panel's plot is, once it is in sight."""
    plot = page.locator(f'[data-testid="{panel}"] .plot-body')
    plot.scroll_into_view_if_needed()
    found = plot.bounding_box()
    assert found is not None
    return dict(found)


def on_the_circle(page: Page, degrees: float) -> tuple[float, float]:
    """A place on the individual orbit's polar plot, by the angle."""
    plot = page.locator('[data-testid="individual"] .plot-rim')
    plot.scroll_into_view_if_needed()
    rim = plot.bounding_box()
    assert rim is not None
    radius, angle = 0.8 * rim["width"] / 2, math.radians(degrees)
    x, y = rim["x"] + rim["width"] / 2, rim["y"] + rim["height"] / 2
    return x + radius * math.cos(angle), y - radius * math.sin(angle)


def drag(page: Page, degrees: list[float]) -> None:
    page.mouse.move(*on_the_circle(page, degrees[0]))
    page.mouse.down()
    for one in degrees[1:]:
        page.mouse.move(*on_the_circle(page, one))
    page.mouse.up()


def in_url(page: Page, key: str) -> str | None:
    found = re.search(rf"[#&]{key}=([^&]*)", page.evaluate("location.hash"))
    return found[1] if found else None


def prediction(page: Page, model: str) -> str:
    return page.locator(f'[data-testid="prediction-{model}"]').inner_text()


def said_by(made: OrbitEvaluation, model: str, sample: int, degrees: float) -> tuple[str, float]:
    """The class that a model gives for a turned input, and its probability."""
    with torch.no_grad():
        probability = torch.softmax(made.models[model](moved(made, sample, degrees)), dim=1)[0]  # type: ignore[index]
    return made.task.classes[int(probability.argmax())], float(probability.max())  # type: ignore[attr-defined]


def wait_for_prediction(page: Page, model: str, expected: tuple[str, float]) -> None:
    """Until the detail shows this class with this probability."""
    script = """([model, name, value]) => {
        const said = document.querySelector(`[data-testid="prediction-${model}"]`)?.textContent ?? "";
        return said.startsWith(`${name} (`) && Math.abs(parseFloat(said.slice(name.length + 2)) / 100 - value) < 0.002;
    }"""
    page.wait_for_function(script, arg=[model, *expected])


def test_open_and_choose_a_subset(visit: Begin, address: str, run: tuple[Path, OrbitEvaluation]) -> None:
    one = visit()
    page = one.open(address)
    assert page.locator('[data-testid="aggregate"] .subtitle').inner_text() == f"{SAMPLES} samples"
    result = OrbitResult(run[0])
    few = int((result.labels == 3).sum())
    page.get_by_test_id("subset").select_option(label=f"3 ({few})")
    page.wait_for_function(
        "text => document.querySelector('[data-testid=aggregate] .subtitle').textContent.startsWith(text)", arg=f"{few} sample"
    )
    aggregate = result.aggregate("seed 0", "confidence", subset=3)["value"]
    page.get_by_test_id("metric").select_option("confidence")
    page.wait_for_function(
        "text => document.querySelector('[data-testid=aggregate] .readout').textContent.includes(text)", arg=f"{aggregate.mean():.3f}"
    )
    assert one.outside() == []
    one.picture("digits-light-1280")


def test_click_a_point_and_drag_along_its_orbit(visit: Begin, address: str, run: tuple[Path, OrbitEvaluation]) -> None:
    page = visit().open(address)
    area = box(page, "scatter")
    before = in_url(page, "sample")
    for place in ((x, y) for y in range(20, int(area["height"]) - 60, 14) for x in range(20, int(area["width"]) - 20, 14)):
        page.mouse.move(area["x"] + place[0], area["y"] + place[1])
        if page.locator('[data-testid="scatter"] .plot-readout').is_visible():
            page.mouse.click(area["x"] + place[0], area["y"] + place[1])
            if in_url(page, "sample") not in (None, before):
                break
    chosen = in_url(page, "sample")
    assert chosen is not None
    sample = int(chosen)
    page.wait_for_function(
        "n => document.querySelector('[data-testid=individual] .subtitle').textContent.includes(n)", arg=f"sample {sample}"
    )
    drag(page, [0, 30, 77, 118])
    at = float(in_url(page, "at") or "nan")
    assert at == pytest.approx(118, abs=1.5)
    for model in ("seed 0", "seed 1"):
        wait_for_prediction(page, model, said_by(run[1], model, sample, at))
    before = [prediction(page, model) for model in ("seed 0", "seed 1")]
    drag(page, [118, 150, 211, 262])
    turned = float(in_url(page, "at") or "nan")
    for model in ("seed 0", "seed 1"):
        wait_for_prediction(page, model, said_by(run[1], model, sample, turned))
    assert [prediction(page, model) for model in ("seed 0", "seed 1")] != before


def test_switch_the_metric_and_the_reference(visit: Begin, address: str, run: tuple[Path, OrbitEvaluation]) -> None:
    page = visit().open(address)
    result = OrbitResult(run[0])
    for metric, reference in (("accuracy", "truth"), ("confidence", "truth"), ("confidence", "consensus")):
        page.get_by_test_id("metric").select_option(metric)
        if (in_url(page, "reference") or "truth") != reference:
            page.get_by_test_id("consensus").locator("..").click()
        mean = result.values("seed 1", metric, reference).mean()
        page.wait_for_function(
            "text => document.querySelector('[data-testid=aggregate] .readout').textContent.includes(text)", arg=f"{mean:.3f}"
        )
    assert in_url(page, "reference") == "consensus"
    switch, said = page.get_by_test_id("consensus"), page.get_by_test_id("numbers-table").locator("caption span")
    assert said.inner_text().endswith("measured by the consensus, equivariance of explanations by the one at the identity")
    page.get_by_test_id("metric").select_option("equivariance: saliency")
    page.wait_for_function("() => document.querySelector('[data-testid=consensus]').disabled")
    assert not switch.is_checked(), "an explanation is measured by neither"
    page.get_by_test_id("metric").select_option("accuracy")
    page.wait_for_function("() => document.querySelector('[data-testid=consensus]').checked")
    assert switch.is_enabled()


def test_lasso_then_reload_from_the_address(visit: Begin, address: str) -> None:
    one = visit()
    page = one.open(address)
    area = box(page, "scatter")
    corners = [(0.02, 0.02), (0.5, 0.02), (0.5, 0.75), (0.02, 0.75), (0.02, 0.05)]
    page.mouse.move(area["x"] + corners[0][0] * area["width"], area["y"] + corners[0][1] * area["height"])
    page.mouse.down()
    for x, y in corners[1:]:
        page.mouse.move(area["x"] + x * area["width"], area["y"] + y * area["height"], steps=4)
    page.mouse.up()
    text = page.get_by_test_id("lasso-clear").inner_text()
    inside = int(re.findall(r"\d+", text)[0])
    assert 0 < inside < SAMPLES
    assert str(inside) in page.locator('[data-testid="aggregate"] .subtitle').inner_text()
    page.get_by_test_id("metric").select_option("confidence")
    page.get_by_test_id("colour").select_option("variance")
    page.keyboard.press("Escape")
    page.locator('[data-testid="individual"]').click(position={"x": 5, "y": 5})
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => location.hash.includes('at=')")
    state = {key: in_url(page, key) for key in ("metric", "colour", "lasso", "at", "sample")}
    one.open(page.evaluate("location.href"))
    page.reload()
    page.wait_for_selector('[data-testid="detail"][data-state="ready"]')
    assert {key: in_url(page, key) for key in state} == state
    assert page.get_by_test_id("lasso-clear").inner_text() == text
    assert page.get_by_test_id("colour").input_value() == "variance"
    page.get_by_test_id("lasso-clear").click()
    assert page.locator('[data-testid="aggregate"] .subtitle').inner_text() == f"{SAMPLES} samples"


def test_keys_themes_and_attribution(visit: Begin, address: str) -> None:
    one = visit(1920, 1080, "dark")
    page = one.open(address)
    page.get_by_test_id("explainer").select_option("saliency")
    page.wait_for_function("() => location.hash.includes('explainer=saliency')")
    page.keyboard.press("Escape")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("2")
    page.wait_for_function("() => !document.querySelector('[data-testid=\"prediction-seed 1\"]')")
    page.keyboard.press("2")
    page.wait_for_selector('[data-testid="prediction-seed 1"]')
    one.picture("digits-dark-1920")
    page.keyboard.press("t")
    page.wait_for_function("() => document.documentElement.dataset.theme !== undefined")


def test_a_hostile_class_name_stays_text(visit: Begin, address: str) -> None:
    page = visit().open(address)
    assert HOSTILE in page.get_by_test_id("subset").inner_text()
    assert page.evaluate("document.querySelectorAll('script').length") == page.evaluate("document.querySelectorAll('script[src]').length")


def test_the_offline_file_asks_nobody(visit: Begin, run: tuple[Path, OrbitEvaluation], tmp_path: Path) -> None:
    file = OrbitResult(run[0]).save_report(tmp_path / "orbits.html")
    one = visit()
    page = one.open(file.as_uri())
    assert "Read-only" in page.get_by_test_id("status").inner_text()
    before = prediction(page, "seed 0")
    drag(page, [0, 40, 100, 134])
    assert in_url(page, "at") == "135"
    sample = int(re.findall(r"sample (\d+)", page.locator('[data-testid="individual"] .subtitle').inner_text())[0])
    wait_for_prediction(page, "seed 0", said_by(run[1], "seed 0", sample, 135.0))
    assert [prediction(page, model) for model in ("seed 0", "seed 1")] != before
    assert [url for url in one.requests if not url.startswith(("file:", "data:", "blob:"))] == []
    one.picture("offline-light-1280")


def test_a_wrong_token_is_told(visit: Begin, address: str) -> None:
    one = visit()
    one.page.goto(address.split("token=")[0] + "token=wrong")
    one.page.wait_for_function("() => document.body.innerText.includes('token')")
    one.complaints.clear()
