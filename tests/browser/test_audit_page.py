"""The page of an audit, in Chromium: its numbers are those of the result, and a person gets from the list of runs to a sample's maps."""

from __future__ import annotations

import csv
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree

import pytest
import torch
from PIL import Image
from playwright.sync_api import Page, expect

from browser_visit import Visit, served, shown, violations
from orbit_small import digits_like, images, labels, linear
from veracity import Audit
from veracity.app import server as serving
from veracity.perturb import Dihedral
from veracity.report.reading import read
from veracity.report.section import score_words
from veracity.results import Result
from veracity.walk import Exhaustive

Begin = Callable[..., Visit]
NARROW, PAPER = 390, 680


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("audits")
    audit = Audit(
        models={"one": linear(0), "two": linear(1)}, inputs=images(), targets=labels(), symmetry=Dihedral(), walk=Exhaustive(),
        explainers=["saliency", "gradient", "input_x_gradient"], scores=["equivariance", "sparseness"], title="Turned maps",
    )  # fmt: skip
    audit.run(found / "maps", progress=False)
    digits_like(title="Squares").run(found / "squares", progress=False)
    return found


WORSE, NO_BETTER = "worse than chance", "no better than chance"


def ready(page: Page) -> None:
    for board in ("ranking", "matrix", "spread", "samples", "sample"):
        page.wait_for_selector(f'[data-testid="{board}"][data-state="ready"]')
    page.wait_for_function("() => [...document.querySelectorAll('td.place')].every(one => one.textContent !== '…')")
    page.wait_for_function(
        "() => [...document.querySelectorAll('[data-testid=maps] figure[data-explainer]')].every(one => one.dataset.state === 'ready')"
    )


def rank_among(result: Result, model: str, score: str, explainer: str) -> str:
    """The ranks that paired differences leave to an explainer, if more is better; a control has none."""
    pairs = result.differences(score).query("model == @model and not control and (first == @explainer or second == @explainer)")
    if pairs.empty:
        return "\N{EN DASH}"
    better = [(row["low"] > 0) == (row["first"] == explainer) for row in pairs.query("differs").to_dict("records")]
    first, last = 1 + better.count(False), 1 + len(pairs) - better.count(True)
    return str(first) if first == last else f"{first}\N{EN DASH}{last}"


def in_address(page: Page, key: str) -> str | None:
    found = re.search(rf"[#&]{key}=([^&]*)", page.evaluate("location.hash"))
    return found[1] if found else None


def test_the_top_says_what_the_score_says_is_and_assumes(visit: Begin, folder: Path) -> None:
    reading = read(Result(folder / "maps"))
    page = visit(1440).page
    with served(folder) as address:
        page.goto(f"{address}#run=maps&model=two")
        expect(page.get_by_test_id("answer")).to_have_text(
            " ".join(str(sentence.striptags()) for sentence in score_words(reading, "equivariance").answer.sentences)
        )
        expect(page.get_by_test_id("definition")).to_contain_text("How well an explanation moves along with its input")
        expect(page.get_by_test_id("definition")).to_contain_text("Symmetries are those of d4")
        page.get_by_test_id("score").select_option("sparseness")
        expect(page.get_by_test_id("definition")).to_contain_text(score_words(reading, "sparseness").definition)


def test_numbers_are_those_of_the_result_and_the_choice_holds_over_all_panels(visit: Begin, axe: str, folder: Path, tmp_path: Path) -> None:
    result = Result(folder / "maps")
    table = result.table().set_index(["model", "explainer", "score"])
    one = visit(1440)
    page = one.page
    with served(folder) as address:
        page.goto(f"{address}#run=maps&model=two")
        ready(page)
        names = ["saliency", "gradient", "input_x_gradient"]
        means = {name: table.loc[("two", name, "equivariance"), "value"] for name in names}
        rows = page.locator('[data-testid="score-equivariance"] tbody tr')
        ranked = [row.get_attribute("data-explainer") for row in rows.all()]
        assert ranked[:3] == sorted(names, key=lambda name: -means[name])
        for row in rows.all():
            values = table.loc[("two", row.get_attribute("data-explainer"), "equivariance")]
            cells = row.locator("td.n").all_inner_texts()
            assert cells[0].startswith(shown(values["value"]))
            explainer = str(row.get_attribute("data-explainer"))
            null = {"saliency": " random_uniform", "gradient": " random_gaussian", "input_x_gradient": " random_gaussian"}.get(
                explainer, ""
            )
            low, high, control = values[["low", "high", "random_control"]]
            word = [] if explainer not in names or low > control else [WORSE if high < control else NO_BETTER]
            assert row.locator(".chance").all_inner_texts() == word
            assert cells[1] == rank_among(result, "two", "equivariance", explainer)
            assert cells[2:4] == [shown(values["self_agreement"]), shown(control) + null]
        for cell in page.locator('[data-testid="matrix"] tbody td[data-score]').all():
            explainer = cell.locator("xpath=..").get_attribute("data-explainer")
            score = str(cell.get_attribute("data-score"))
            assert cell.inner_text() == shown(table.loc[("two", explainer, score), "value"])
            firsts = {name: int(rank_among(result, "two", score, name).partition("\N{EN DASH}")[0] or 0) for name in names}
            known = table.loc[("two", explainer, score)]
            unproven = explainer in names and score == "equivariance" and not known["low"] > known["random_control"]
            best = max(firsts.values()) > 1 and firsts.get(str(explainer)) == 1 and not unproven
            assert (cell.get_attribute("data-tint") == "4") is best

        page.locator('[data-testid="matrix"] tr[data-explainer="input_x_gradient"] td[data-score="sparseness"] button').click()
        ready(page)
        samples = result.samples("sparseness")
        known = samples[(samples["model"] == "two") & (samples["explainer"] == "input_x_gradient")].set_index("sample")["value"]
        listed = {int(item.get_attribute("data-sample") or ""): item.locator(".n").inner_text() for item in page.locator(".cases li").all()}
        assert listed == {sample: shown(value) for sample, value in known.items()}
        assert next(iter(listed)) == known.idxmin(), "the worst comes first"
        page.locator('[data-testid="spread"] circle[data-sample="3"]').click(force=True)
        expect(page.get_by_test_id("spread-chosen")).to_have_text(f"sample 3: {shown(known[3])}")
        ready(page)
        assert [in_address(page, key) for key in ("model", "score", "explainer", "sample")] == [
            "two",
            "sparseness",
            "input_x_gradient",
            "3",
        ]
        for figure in page.locator('[data-testid="maps"] figure[data-explainer]').all():
            name = figure.get_attribute("data-explainer")
            own = samples[(samples["model"] == "two") & (samples["explainer"] == name) & (samples["sample"] == 3)]["value"].item()
            assert figure.locator("button").inner_text() == shown(own)
            assert figure.locator("image").get_attribute("href", timeout=1000).startswith("data:image/png")
        assert page.locator('.cases button[aria-pressed="true"]').inner_text().startswith("#3")

        for board in ("ranking", "matrix", "spread", "samples", "sample"):
            with page.expect_download() as saved:
                page.get_by_test_id(f"{board}-svg").click()
            saved.value.save_as(tmp_path / "drawing.svg")
            assert ElementTree.parse(tmp_path / "drawing.svg").getroot().tag.endswith("svg")
            with page.expect_download() as saved:
                page.get_by_test_id(f"{board}-png").click()
            pixels = Image.open(saved.value.path())
            drawn = ElementTree.parse(tmp_path / "drawing.svg").getroot()
            assert pixels.size == tuple(2 * int(drawn.get(side, "0")) for side in ("width", "height"))
        page.wait_for_timeout(1100)  # Chromium drops the eleventh of more than ten downloads with less than a second between any two
        with page.expect_download() as saved:
            page.get_by_test_id("spread-csv").click()
        saved.value.save_as(tmp_path / "values.csv")
        with open(tmp_path / "values.csv", encoding="utf-8") as handle:
            assert {int(line["sample"]): float(line["value"]) for line in csv.DictReader(handle)} == known.to_dict()
        with page.expect_download() as saved:
            page.get_by_test_id("ranking-csv").click()
        with open(saved.value.path(), encoding="utf-8") as handle:
            ranked_rows = {line["explainer"]: line for line in csv.DictReader(handle)}
        for name in names:
            ends = [ranked_rows[name]["rank_first"], ranked_rows[name]["rank_last"]]
            assert "\N{EN DASH}".join(dict.fromkeys(ends)) == rank_among(result, "two", "sparseness", name)
        page.route("**/spread.csv*", lambda route: route.abort())
        page.get_by_test_id("spread-csv").click()
        expect(page.get_by_test_id("spread").get_by_text("The table was not saved.")).to_be_visible()
        page.unroute("**/spread.csv*")
        assert one.complaints == ["Failed to load resource: net::ERR_FAILED"]
        one.complaints.clear()
        space: dict[str, Any] = {}
        exec(page.get_by_test_id("snippet").text_content() or "", space)
        assert torch.equal(space["explanation"], result.explanations("two", "input_x_gradient")[3])

        maps = page.locator('[data-testid="maps"] figure[data-explainer] svg').all()
        assert len({round(box["y"] + box["height"]) for figure in maps if (box := figure.bounding_box())}) == 1, "they stand in one line"
        page.evaluate(axe)
        assert violations(page) == []
        page.emulate_media(color_scheme="dark")
        assert violations(page, "color-contrast") == []
        one.picture("audit-dark-1440")
        page.set_viewport_size({"width": NARROW, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == NARROW
        one.picture("audit-dark-390")
        page.emulate_media(media="print")
        page.set_viewport_size({"width": PAPER, "height": 990})
        assert page.evaluate("document.documentElement.scrollWidth") == PAPER
        for hidden in ("selection", "own", "case-by"):
            assert not page.get_by_test_id(hidden).is_visible(), "what asks a reader to press something is not printed"
        one.picture("audit-paper")
        assert one.outside() == []


def test_the_keyboard_alone_leads_from_home_to_a_samples_maps(visit: Begin, folder: Path) -> None:
    page = visit().page

    def focus(selector: str) -> None:
        for _ in range(80):
            if page.evaluate("wanted => document.activeElement?.matches(wanted)", selector):
                return
            page.keyboard.press("Tab")
        pytest.fail(f"The keyboard does not lead to {selector}.")

    with served(folder) as address:
        page.goto(address)
        page.get_by_test_id("run-maps").wait_for()
        focus('[data-testid="run-maps"] a')
        page.keyboard.press("Enter")
        ready(page)
        focus('.ranking button[data-key="gradient"]')
        page.keyboard.press("Enter")
        ready(page)
        assert page.evaluate("document.activeElement.dataset.key") == "gradient", "the focus stays where it was"
        subtitle = page.locator("[data-testid=sample] [data-testid=subtitle]")
        expect(subtitle).to_contain_text(", as nobody chose one")
        focus('.cases button[data-key="4"]')
        page.keyboard.press("Enter")
        page.wait_for_function(
            "() => document.querySelector('[data-testid=sample] [data-testid=subtitle]').textContent.startsWith('Sample 4 ')"
        )
        ready(page)
        assert (in_address(page, "explainer"), in_address(page, "sample")) == ("gradient", "4")
        expect(subtitle).not_to_contain_text("nobody chose")
        page.keyboard.press("]")
        page.wait_for_function("() => !location.hash.includes('sample=4')")


def test_any_draw_of_a_sample_is_computed_where_the_models_are_at_hand(visit: Begin, axe: str, tmp_path: Path) -> None:
    audit = Audit(
        models={"one": linear(0)}, inputs=images(), targets=labels(), symmetry=Dihedral(), walk=Exhaustive(), controls=False,
        explainers=["saliency", "input_x_gradient"], scores=["equivariance", "sparseness"],
    )  # fmt: skip
    known = audit.run(tmp_path / "run", progress=False).draws("equivariance")
    one = visit(1440)
    page = one.page
    pairs = page.get_by_test_id("draw-pairs")
    at = "#run=run/&score=equivariance&explainer=saliency&sample=2"

    def computed(draw: int) -> None:
        for name in ("saliency", "input_x_gradient"):
            pair = pairs.locator(f'.pair[data-explainer="{name}"]')
            value = re.escape(shown(known["one", name][2][draw]))
            expect(pair.locator("p")).to_contain_text(re.compile(rf" {value} draw {draw},.* as in the run"))
            expect(pair.locator("figure image")).to_have_count(3)
        page.wait_for_selector('[data-testid="draw"][data-state="ready"]')
        expect(page).to_have_url(re.compile(rf"&draw={draw}$"))

    with served(tmp_path / "run", audit) as address:
        page.goto(f"{address}{at}")
        ready(page)
        expect(pairs.locator(".pair")).to_have_count(0)
        page.get_by_test_id("draw-compute").focus()
        page.keyboard.press("Enter")
        computed(0)
        page.get_by_test_id("draw-slider").focus()
        page.keyboard.press("End")
        computed(7)
        page.get_by_test_id("draw-number").fill("3")
        page.keyboard.press("Enter")
        computed(3)
        page.reload()
        computed(3)
        page.evaluate(axe)
        assert violations(page) == []
        one.picture("audit-draw-1440")
        page.set_viewport_size({"width": NARROW, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == NARROW
        one.picture("audit-draw-390")
        page.get_by_test_id("score").select_option("sparseness")
        expect(page.get_by_test_id("draw-told")).to_contain_text("The score 'sparseness' has no pairs to show")
    alone = visit(1440)
    with served(tmp_path / "run") as address:
        alone.page.goto(f"{address}{at}")
        expect(alone.page.get_by_test_id("draw-told")).to_contain_text(f"veracity app {tmp_path / 'run'} --audit FILE")
        expect(alone.page.get_by_test_id("draw-slider")).to_be_hidden()


def test_draws_go_on_when_the_server_is_back(visit: Begin, tmp_path: Path) -> None:
    audit = Audit(
        models={"one": linear(0)}, inputs=images(), targets=labels(), symmetry=Dihedral(), walk=Exhaustive(), controls=False,
        explainers=["saliency"], scores=["equivariance"],
    )  # fmt: skip
    known = audit.run(tmp_path / "run", progress=False).draws("equivariance")["one", "saliency"][2]
    page = visit(1440).page
    told = page.get_by_test_id("draw-pairs").locator('.pair[data-explainer="saliency"] p')
    with served(tmp_path / "run", audit) as address:
        page.goto(f"{address}#run=run/&score=equivariance&explainer=saliency&sample=2")
        ready(page)
        page.get_by_test_id("draw-compute").click()
        expect(told).to_contain_text(f"{shown(known[0])} draw 0")
    parts = urlsplit(address)
    page.get_by_test_id("draw-number").fill("5")
    page.keyboard.press("Enter")
    server, listening, _ = serving.make_server(
        tmp_path / "run", evaluation=audit, port=parts.port or 0, token=parse_qs(parts.query)["token"][0]
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    expect(told).to_contain_text(f"{shown(known[5])} draw 5", timeout=30_000)
    server.should_exit = True
    thread.join(10)
