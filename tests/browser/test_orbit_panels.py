"""What every panel of an orbit page can do, and what its first visitor sees, in Chromium."""

from __future__ import annotations

import csv
import io
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from pandas.testing import assert_frame_equal
from PIL import Image
from playwright.sync_api import Page, expect
from torch import nn

from browser_visit import PANELS, Visit, served, shown, violations
from orbit_run import evaluation, linear
from veracity.orbits import Live, OrbitResult
from veracity.orbits.reduction import embed, subset
from veracity.report.orbit_answer import orbit_answer
from veracity.results.pages import frame
from veracity.trainers.training import initialised

Begin = Callable[..., Visit]
SAMPLES = 20
MODELS = ("seed 0", "seed 1")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[OrbitResult, str]]:
    folder = tmp_path_factory.mktemp("panels") / "digits"
    made = evaluation(samples=SAMPLES)
    made.run(folder, progress=False)
    with served(folder, made) as address:
        yield OrbitResult(folder), address


def in_hash(page: Page, part: str) -> None:
    page.wait_for_function("part => location.hash.includes(part)", arg=part)


def saved(page: Page, panel: str, way: str) -> bytes:
    """What a panel's button saves."""
    menu = page.locator(f'[data-testid="{panel}"] .menu')
    if menu.get_attribute("open") is None:
        menu.locator("summary").click()
    with page.expect_download() as found:
        page.get_by_test_id(f"{panel}-{way}").click()
    return Path(found.value.path()).read_bytes()


def table(page: Page, panel: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(saved(page, panel, "csv").decode())))


def test_a_first_visit_says_what_the_run_says_and_shows_where_and_how(visit: Begin, run: tuple[OrbitResult, str]) -> None:
    result, address = run
    page = visit(1440).open(address)
    assert page.get_by_test_id("answer").inner_text() == " ".join(orbit_answer(result))
    plots = np.stack([result.values(model, "confidence") for model in MODELS])
    sample, element = np.unravel_index(int(np.abs(plots[0] - plots[1]).argmax()), plots[0].shape)
    in_hash(page, f"sample={sample}&at={45 * element}")
    page.get_by_test_id("gesture").wait_for()
    page.get_by_test_id("identity").click()
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_test_id("gesture")).to_have_count(0)
    page.reload()
    page.wait_for_selector('[data-testid="individual"][data-state="ready"]')
    expect(page.get_by_test_id("gesture")).to_have_count(0)


def test_every_panel_is_saved_as_drawing_pixels_and_table(visit: Begin, run: tuple[OrbitResult, str]) -> None:
    result, address = run
    page = visit(1440).open(f"{address}#sample=3&at=90&metric=confidence")
    for panel in PANELS:
        drawn = ElementTree.fromstring(saved(page, panel, "svg"))
        assert drawn.tag.endswith("svg")
        title = page.locator(f"#title-{panel}").inner_text()
        assert title in ["".join(node.itertext()) for node in drawn.iter() if node.tag.endswith("text")]
        pixels = Image.open(io.BytesIO(saved(page, panel, "png")))
        assert len(pixels.convert("L").getcolors() or range(999)) > 20, "something is drawn"
    along = table(page, "individual")
    for model in MODELS:
        values = [float(row["confidence"]) for row in along if row["model"] == model]
        assert values == pytest.approx(result.individual(3, "confidence")[model].tolist())
    means = [float(row["confidence"]) for row in table(page, "aggregate") if row["model"] == "seed 1"]
    assert means == pytest.approx(result.aggregate("seed 1", "confidence")["value"].tolist())
    assert len(table(page, "scatter")) == len(MODELS) * SAMPLES
    outputs = [float(row["value"]) for row in table(page, "detail") if (row["model"], row["what"]) == ("seed 0", "output")]
    assert outputs == pytest.approx(result.outputs("seed 0", 3)["outputs"][2].tolist(), rel=2e-3), "stored in half precision"
    assert len(table(page, "input")) == 64


def test_any_panel_fills_the_window_and_comes_back(visit: Begin, axe: str, run: tuple[OrbitResult, str]) -> None:
    page = visit(1440).open(run[1])
    for panel in PANELS:
        page.get_by_test_id(f"{panel}-enlarge").click()
        in_hash(page, f"large={panel}")
        box = page.locator(f'[data-testid="{panel}"]').bounding_box()
        assert box is not None
        assert box["width"] > 1400
        assert box["height"] > 800
        host = page.locator(f'[data-testid="{panel}"] .stage').bounding_box()
        assert host is not None
        assert host["height"] > 550, "and so does its drawing"
        around = Image.open(io.BytesIO(page.screenshot())).crop((0, 894, 1440, 900))
        assert len(around.getcolors() or range(9)) == 1, "and nothing of the page looks out below it"
        page.keyboard.press("Escape")
        page.wait_for_function("() => !location.hash.includes('large=')")
    page.goto(page.url + "&large=detail")
    page.reload()
    page.wait_for_selector('[data-testid="detail"].large[data-state="ready"]')
    page.evaluate(axe)
    assert violations(page) == []


def test_axes_fit_the_values_on_request_and_tables_say_whom_they_are_of(visit: Begin, run: tuple[OrbitResult, str]) -> None:
    page = visit(1440).open(f"{run[1]}#metric=confidence&sample=2&at=0")
    expect(page.locator('[data-testid="individual"] .plot-label')).to_have_text("radius: confidence, 0 to 1 (higher is better)")
    ticks = '[data-testid="individual"] .plot-halo'
    assert "0.8" in page.locator(ticks).all_text_contents()
    page.get_by_test_id("fit").locator("..").click()
    in_hash(page, "fit=yes")
    result = run[0]
    orbits = np.stack([result.values(model, "confidence")[2] for model in MODELS])
    reach = f"radius: confidence, {shown(float(orbits.min()))} to {shown(float(orbits.max()))} (higher is better)"
    expect(page.locator('[data-testid="individual"] .plot-label')).to_have_text(reach)
    page.wait_for_function("ticks => [...document.querySelectorAll(ticks)].every(one => one.textContent !== '0.8')", arg=ticks)
    for name in ("numbers", "gap", "agreement"):
        assert "all 20 samples, whatever the subset and the lasso hold" in page.get_by_test_id(f"{name}-table").inner_text()
    page.get_by_test_id("consensus").locator("..").click()
    expect(page.locator('[data-testid="detail"] .subtitle')).to_contain_text("measured by the consensus")


def test_numbers_by_the_consensus_never_read_as_right_or_wrong(visit: Begin, run: tuple[OrbitResult, str]) -> None:
    result, address = run
    page = visit(1440).open(f"{address}#sample=3&at=90&metric=accuracy&reference=consensus&view=places&pinB=90")
    heads = page.locator('[data-testid="detail"] .detail-table thead th')
    expect(heads).to_have_count(3)
    assert heads.all_inner_texts()[1:3] == ["agrees with the consensus", "confidence in the consensus"]
    shown_there = page.locator('[data-testid="detail"] .detail-table tbody td').first
    assert float(shown_there.inner_text()) == result.values("seed 0", "accuracy", "consensus")[3, 2]
    assert "agrees with the consensus" in page.locator('[data-testid="aggregate"] .readout').inner_text()
    for names, cells in {"numbers-table": "tbody td:nth-child(2)", "places-table": "tbody th"}.items():
        words = page.get_by_test_id(names).locator(cells).all_inner_texts()
        assert "agrees with the consensus" in words
        assert "accuracy" not in words
    assert page.get_by_test_id("metric").locator("option:checked").inner_text() == "agrees with the consensus"
    titles = page.locator(".panel .plot-label").all_text_contents()
    assert any("agrees with the consensus, 0 to 1 (higher is better)" in words for words in titles)
    assert not any("accuracy" in words for words in titles)


def test_where_models_differ_most_is_one_key_away(visit: Begin, run: tuple[OrbitResult, str]) -> None:
    result, address = run
    plots = np.stack([result.values(model, "confidence") for model in MODELS]).astype(np.float64)
    apart = plots.max(axis=0) - plots.min(axis=0)
    sample, element = np.unravel_index(int(apart.argmax()), apart.shape)
    page = visit(1440).open(f"{address}#sample=0&at=0&metric=confidence&colour=difference")
    assert page.get_by_test_id("rank-by").input_value() == "difference", "samples are ranked by what they are coloured by"
    rank = 1 + int((apart.max(axis=1) > apart[0].max()).sum())
    expect(page.get_by_test_id("ranked")).to_have_text(
        f"{rank} of {SAMPLES} · difference {shown(apart[0].max())} at {45 * int(apart[0].argmax())}°"
    )
    label = "largest difference between models: confidence (lower: they agree)"
    colours = {(row["model"], row["sample"].split(",")[0]): float(row[label]) for row in table(page, "scatter")}
    assert colours == pytest.approx({(model, f"sample {i}"): apart[i].max() for model in MODELS for i in range(SAMPLES)}, rel=1e-6)
    page.get_by_test_id("colour").select_option("mean")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("d")
    in_hash(page, f"rank=difference&sample={sample}&at={45 * element}")
    expect(page.get_by_test_id("ranked")).to_have_text(f"1 of {SAMPLES} · difference {shown(apart.max())} at {45 * element}°")
    page.get_by_test_id("subset").select_option("2")
    page.get_by_test_id("differ").click()
    twos = np.flatnonzero(np.array(result.labels) == 2)
    in_hash(page, f"sample={twos[apart[twos].max(axis=1).argmax()]}&at={45 * int(apart[twos].max(axis=0).argmax())}")
    page.reload()
    expect(page.get_by_test_id("rank-by")).to_have_value("difference")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("2")
    expect(page.get_by_test_id("differ")).to_be_hidden()
    for choice in ("rank-by", "colour"):
        assert page.get_by_test_id(choice).locator("option").all_inner_texts() == ["mean", "variance"], "one model differs from none"


def test_a_pin_says_which_measured_place_it_holds(visit: Begin, run: tuple[OrbitResult, str]) -> None:
    page = visit(1440).open(f"{run[1]}#sample=3&at=47&metric=confidence")
    page.keyboard.press("b")
    in_hash(page, "pinB=45")
    side = page.locator('[data-testid="place-B"] .subtitle')
    expect(side).to_have_text("45° (measured; you are at 47°)")
    page.keyboard.press("ArrowRight")
    expect(side).to_have_text("45° (measured)")
    expect(page.locator('[data-testid="place-A"] .subtitle')).to_have_text("0° (measured)")
    expect(page.get_by_test_id("places").locator("header p").first).to_contain_text("Both are the nearest measured places.")


@pytest.mark.parametrize("width", [1280, 1680])
def test_what_opens_moves_no_plot_and_a_drag_selects_no_words(visit: Begin, run: tuple[OrbitResult, str], width: int) -> None:
    page = visit(width).open(f"{run[1]}#sample=3&at=90&metric=confidence")
    page.get_by_test_id("identity").click()
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_test_id("gesture")).to_have_count(0)
    side_by_side = ("aggregate", "scatter", "individual") if width >= 1600 else ("aggregate", "individual")
    plots = [page.locator(f'[data-testid="{panel}"] .plot-body') for panel in side_by_side]
    before = [plot.bounding_box() for plot in plots]
    for key in ("a", "w", "d", "h", "v", "v"):
        page.keyboard.press(key)
        page.wait_for_timeout(300)
        assert [plot.bounding_box() for plot in plots] == before, key
    assert page.evaluate("window.scrollY") == 0
    frame = page.locator('[data-testid="individual"] .tools').bounding_box()
    assert frame is not None
    page.mouse.move(frame["x"] + frame["width"] - 8, frame["y"] + 8)
    page.mouse.down()
    page.mouse.move(frame["x"] + 20, frame["y"] + 500, steps=5)
    page.mouse.up()
    assert page.evaluate("getSelection().toString()") == ""
    page.get_by_test_id("view-classes").click()
    expect(page.get_by_test_id("classes").locator("header")).to_be_in_viewport()


def test_a_sample_is_found_by_its_number(visit: Begin, run: tuple[OrbitResult, str], tmp_path: Path) -> None:
    result, address = run
    page = visit(1440).open(f"{address}#sample=3&at=90")
    find, unknown = page.get_by_test_id("sample-find"), page.get_by_test_id("sample-unknown")
    expect(find).to_have_value("3")
    page.keyboard.press("/")
    expect(find).to_be_focused()
    page.keyboard.type("12")
    page.keyboard.press("Enter")
    in_hash(page, "sample=12&at=90")
    expect(page.locator('[data-testid="individual"] .subtitle')).to_contain_text("sample 12,")
    page.keyboard.press("/")
    page.keyboard.type("99")
    page.keyboard.press("Enter")
    expect(unknown).to_have_text(f"There is no sample 99 here: samples have the numbers 0 to {SAMPLES - 1}.")
    page.keyboard.press("Escape")
    expect(unknown).to_be_empty()
    expect(find).to_have_value("12")
    in_hash(page, "sample=12")
    page.goto(result.save_report(tmp_path / "orbits.html", samples=5).as_uri())
    numbers = page.evaluate("JSON.parse(document.getElementById('payload').textContent)['/api/runs/0'].json.numbers")
    find.fill(str(numbers[4]))
    find.press("Enter")
    expect(page.locator('[data-testid="individual"] .subtitle')).to_contain_text(f"sample {numbers[4]},")
    find.fill(str(next(one for one in range(SAMPLES) if one not in numbers)))
    find.press("Enter")
    expect(unknown).to_contain_text("this page holds 5 of the run's 20 samples.")


def test_the_worst_place_is_searched_and_marked(visit: Begin, run: tuple[OrbitResult, str]) -> None:
    result, address = run
    page = visit(1440).open(f"{address}#sample=3&at=90&metric=confidence")
    page.get_by_test_id("worst").click()
    said = page.locator('[data-testid="individual"] .readout')
    expect(said).to_contain_text("Worst place found by a search between the measured places, by the ground truth")
    expect(page.locator('[data-testid="individual"] .plot-pin')).to_have_count(2)
    assert "Search" in (page.get_by_test_id("worst").get_attribute("title") or "")
    found = Live(evaluation(samples=SAMPLES), Path(result.path)).worst(3, "confidence")
    for model in MODELS:
        part = said.locator("span", has_text=f"{model} ").last
        line = part.inner_text()
        values = result.values(model, "confidence")[3]
        worst = float(values.min())
        value, at = found[model].value, found[model].at[0]
        if shown(value) == shown(worst):
            at = 45.0 * int(values.argmin())
            assert ": nothing worse between the measured places (" in line
        else:
            gap = shown(worst - value) if worst - value >= 1e-3 else "less than 0.001"
            assert f", {gap} worse than the worst measured place, {shown(worst)} at {45 * int(values.argmin())}°" in line
        assert line.startswith(f"{model} {shown(value)} at ")
        part.get_by_role("button", name="Go to").click()
        page.wait_for_function("at => Math.abs(new URLSearchParams(location.hash.slice(1)).get('at') - at) < 0.01", arg=at)
    in_hash(page, "worst=yes")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("w")
    expect(page.locator('[data-testid="individual"] .plot-pin')).to_have_count(0)


def test_an_explanation_stands_beside_the_expected_one_and_names_its_class(visit: Begin, run: tuple[OrbitResult, str]) -> None:
    result, address = run
    page = visit(1440).open(f"{address}#sample=3&at=90&explainer=saliency&large=input")
    heads = page.locator('[data-testid="input"] .plot-heading')
    expect(heads).to_have_count(5)
    words = heads.all_text_contents()
    for place, model in enumerate(MODELS):
        target = int(result.outputs(model, 3)["outputs"][0].argmax())
        agreement = float(result.values(model, "equivariance: saliency")[3, 2])
        assert words[1 + 2 * place] == f"{model}: e(g x) for {result.classes[target]}"
        assert words[2 + 2 * place] == f"g e(x), agreement {shown(agreement)}"
    page.keyboard.press("Escape")
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(300)
        assert [head for head in heads.all_text_contents() if "…" in head] == []
    page.get_by_test_id("metric").select_option("equivariance: saliency")
    expect(page.locator('[data-testid="aggregate"] .readout')).to_contain_text("equivariance: saliency, by the explanation at the identity")


class Held(nn.Module):
    """A linear model that answers when it is let; while `hold` is clear, at once."""

    def __init__(self, hold: threading.Event, let: threading.Event) -> None:
        super().__init__()
        self.inner = initialised(linear, seed=1)
        self.hold, self.let = hold, let

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.hold.is_set():
            assert self.let.wait(20)
        return self.inner(x)


def test_a_model_that_is_slow_keeps_no_other_waiting(visit: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hold, let = threading.Event(), threading.Event()
    made = evaluation(models={"fast": initialised(linear, seed=0), "slow": Held(hold, let)}, explainers=[])
    made.run(tmp_path / "run", progress=False)
    monkeypatch.setattr(Live, "parts", lambda self, explainer=None: [["fast"], ["slow"]])
    with served(tmp_path / "run", made) as address:
        page = visit(1440).open(f"{address}#sample=3&at=0")
        expect(page.get_by_test_id("status")).to_contain_text("Live")
        said = page.locator('[data-testid="detail"] .detail-predictions')
        expect(said).not_to_contain_text("no answer yet")
        hold.set()
        page.get_by_test_id("identity").click()
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press("ArrowRight")
        expect(said).to_contain_text("no answer yet")
        expect(page.locator('[data-testid="detail"] .subtitle')).not_to_contain_text(re.compile(r"^0°"))
        let.set()
        expect(said).not_to_contain_text("no answer yet")
        at = float(page.evaluate("location.hash").split("at=")[1].split("&")[0])
        live = Live(made, tmp_path / "run").answer(3, [at])
        for name in ("fast", "slow"):
            best = int(live.outputs[name].argmax())
            expect(said).to_contain_text(f"({100 * live.outputs[name][best]:.1f} %)")


def test_a_slow_embedding_says_whom_it_draws_and_keeps_the_chosen_sample(
    visit: Begin, run: tuple[OrbitResult, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of these 20 samples it takes 12, as it takes 1,000 of more than that."""
    few = 12
    going, asked = Event(), Event()

    def slow(values: Any, method: str, seed: int, models: int) -> Any:
        asked.set()
        going.wait(20)
        return embed(values, method, seed, models, few)

    monkeypatch.setattr("veracity.orbits.result.embed", slow)
    result, address = run
    left_out = int(np.flatnonzero(~subset(SAMPLES, 1, few, 0))[0])
    page = visit(1440).open(f"{address}#sample={left_out}&metric=confidence")
    panel = page.locator('[data-testid="scatter"]')
    page.get_by_test_id("reduction").select_option("tsne")
    expect(panel.locator(".message")).to_have_text("Computing t-SNE of all orbits…Try again")
    expect(panel.locator(".host")).to_have_css("opacity", "0.12")
    assert asked.wait(20)
    going.set()
    expect(panel.locator(".subtitle")).to_have_text(f"2 models, {few} of {SAMPLES} samples, chosen at random")
    expect(panel.locator(".readout")).to_contain_text("none of them: it stands at the most similar orbit that is drawn")
    expect(panel.locator(".plot-cell")).to_have_count(len(MODELS))
    assert panel.locator(".plot-axis").count() == 1, "only the bar of colours has numbers"
    assert any("directions and distances mean nothing" in words for words in panel.locator(".plot-label").all_text_contents())
    rows = [row for row in table(page, "scatter") if row["first"]]
    assert len(rows) == len(MODELS) * (few + 1)
    points = {(row["model"], row["sample"].split(",")[0]): (row["first"], row["second"]) for row in rows}
    orbits = np.concatenate([result.values(model, "confidence") for model in MODELS])
    taken = np.tile(subset(SAMPLES, 1, few, 0), len(MODELS))
    for place, model in enumerate(MODELS):
        far = ((orbits - orbits[place * SAMPLES + left_out]) ** 2).mean(axis=1)
        alike = int(np.where(taken, far, np.inf).argmin())
        assert points[model, f"sample {left_out}"] == points[MODELS[alike // SAMPLES], f"sample {alike % SAMPLES}"]


def test_the_lines_of_python_load_what_is_chosen(visit: Begin, run: tuple[OrbitResult, str], tmp_path: Path) -> None:
    result, address = run
    page = visit(1440).open(f"{address}#sample=3&at=90&metric=confidence&reference=consensus&subset=2&model=seed+1")

    def loaded() -> dict[str, Any]:
        space: dict[str, Any] = {}
        exec(page.get_by_test_id("snippet").text_content() or "", space)
        return space

    found = loaded()
    twos = result.table("2").query("model == 'seed 1' and metric == 'confidence' and reference == 'consensus'")
    assert_frame_equal(found["table"], twos)
    assert list(found["means"]) == ["seed 1"]
    assert_frame_equal(found["means"]["seed 1"], result.aggregate("seed 1", "confidence", "2", "consensus"))
    assert found["here"].tolist() == [result.values("seed 1", "confidence", "consensus")[3, 2]]
    assert np.array_equal(found["outputs"]["seed 1"]["outputs"], result.outputs("seed 1", 3)["outputs"])
    page.evaluate("location.hash = '#sample=3&metric=equivariance: saliency&lasso=1_3_4'")
    expect(page.get_by_test_id("snippet")).to_contain_text("subset = [1, 3, 4]")
    assert_frame_equal(loaded()["table"], result.table([1, 3, 4]).query("metric == 'equivariance: saliency'"))
    page.goto(result.save_report(tmp_path / "orbits.html", samples=5).as_uri() + "#sample=2")
    expect(page.get_by_test_id("snippet")).to_contain_text('veracity.OrbitResult("digits")')
    numbers = page.evaluate("JSON.parse(document.getElementById('payload').textContent)['/api/runs/0'].json.numbers")
    expect(page.get_by_test_id("snippet")).to_contain_text(f"run.individual({numbers[2]}, ")


def test_keys_reach_a_page_within_another_page(visit: Begin, run: tuple[OrbitResult, str], tmp_path: Path) -> None:
    whole = run[0].save_report(tmp_path / "orbits.html").read_text(encoding="utf-8")
    around = f'<!doctype html><input id="around"><div style="height: 60px"></div>{frame(whole, scripts=True)}'
    (tmp_path / "around.html").write_text(around, encoding="utf-8")
    page = visit(1440).page
    page.goto((tmp_path / "around.html").as_uri())
    inside = page.frame_locator("iframe")
    expect(inside.locator('[data-testid="detail"]')).to_have_attribute("data-state", "ready")
    place = inside.locator('[data-testid="individual"] .plot-place')
    inside.get_by_test_id("identity").wait_for()
    page.mouse.move(700, 200)
    page.mouse.move(700, 300)
    page.keyboard.press("i")
    expect(place).to_have_text("0°")
    page.keyboard.press("ArrowRight")
    expect(place).to_have_text("45°")
    page.locator("#around").click()
    page.mouse.move(700, 300)
    page.keyboard.press("ArrowRight")
    page.keyboard.type("i")
    expect(page.locator("#around")).to_have_value("i")
    expect(place).to_have_text("45°")
