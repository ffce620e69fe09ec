"""The page of an audit, in Chromium: its numbers are those of the result, and a person gets from the list of runs to a sample's maps."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from playwright.sync_api import Page, expect

from browser_visit import Visit, served, violations
from orbit_small import digits_like, images, labels, linear
from veracity import Audit
from veracity.perturb import Dihedral
from veracity.results import Result
from veracity.walk import Exhaustive

Begin = Callable[..., Visit]
MINUS = "\N{MINUS SIGN}"
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


def shown(value: float) -> str:
    """A number as the page writes it: three digits."""
    if value == 0:
        return "0"
    if abs(float(f"{value:.3g}")) < 1e-3:
        mantissa, exponent = f"{value:.1e}".split("e")
        return f"{mantissa}e{int(exponent)}".replace("-", MINUS)
    return f"{value:.{max(0, 2 - max(-1, math.floor(math.log10(abs(float(f'{value:.3g}'))))))}f}".replace("-", MINUS)


def ready(page: Page) -> None:
    for board in ("ranking", "matrix", "spread", "samples", "sample"):
        page.wait_for_selector(f'[data-testid="{board}"][data-state="ready"]')
    page.wait_for_function(
        "() => [...document.querySelectorAll('[data-testid=maps] figure[data-explainer]')].every(one => one.dataset.state === 'ready')"
    )


def in_address(page: Page, key: str) -> str | None:
    found = re.search(rf"[#&]{key}=([^&]*)", page.evaluate("location.hash"))
    return found[1] if found else None


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
            assert cells[1:3] == [shown(values["self_agreement"]), shown(values["random_control"])]
        for cell in page.locator('[data-testid="matrix"] tbody td[data-score]').all():
            explainer = cell.locator("xpath=..").get_attribute("data-explainer")
            assert cell.inner_text() == shown(table.loc[("two", explainer, cell.get_attribute("data-score")), "value"])

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
            page.get_by_test_id("spread-csv").click()
        saved.value.save_as(tmp_path / "values.csv")
        with open(tmp_path / "values.csv", encoding="utf-8") as handle:
            assert {int(line["sample"]): float(line["value"]) for line in csv.DictReader(handle)} == known.to_dict()
        page.route("**/spread.csv*", lambda route: route.abort())
        page.get_by_test_id("spread-csv").click()
        expect(page.get_by_test_id("spread").get_by_text("The table was not saved.")).to_be_visible()
        page.unroute("**/spread.csv*")
        assert one.complaints == ["Failed to load resource: net::ERR_FAILED"]
        one.complaints.clear()
        space: dict[str, Any] = {}
        exec(page.get_by_test_id("snippet").text_content() or "", space)
        assert torch.equal(space["explanation"], result.explanations("two", "input_x_gradient")[3])

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
        focus('.cases button[data-key="4"]')
        page.keyboard.press("Enter")
        page.wait_for_function(
            "() => document.querySelector('[data-testid=sample] [data-testid=subtitle]').textContent.startsWith('Sample 4 ')"
        )
        ready(page)
        assert (in_address(page, "explainer"), in_address(page, "sample")) == ("gradient", "4")
        page.keyboard.press("]")
        page.wait_for_function("() => !location.hash.includes('sample=4')")
