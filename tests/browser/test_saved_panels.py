"""Every panel of an audit as SVG, PNG and CSV, for every family of scores; the link, the selection in Python, and the page on paper."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from browser_visit import Visit, served, violations
from family_audits import by_examples, families, folds, of_graphs, of_tables, of_texts
from orbit_small import digits_like, images, labels, linear
from veracity import Audit
from veracity.perturb import Dihedral
from veracity.results import Result
from veracity.walk import Exhaustive

Begin = Callable[..., Visit]
BOARDS = ("ranking", "matrix", "spread", "scatter", "samples", "sample")
SCORES = ("deletion", "insertion", "pixel_flipping", "region_perturbation", "mprt", "sol_f_hat", "worst_loss")
OTHERS = {"folds": folds, "examples": by_examples, "graphs": of_graphs, "texts": of_texts, "tables": of_tables}
NEEDED = {"graphs": "torch_geometric", "texts": "transformers"}
PAPER = 680
OUTSIDE = """() => [...document.querySelectorAll('main svg :is(circle, rect, path), main canvas, main image')].filter(one => {
  const frame = one.closest('.board, .panel'), box = one.getBoundingClientRect();
  if (frame === null || box.width === 0 || box.height === 0) return false;
  const around = frame.getBoundingClientRect();
  return box.left < around.left - 1 || box.right > around.right + 1 || box.top < around.top - 1 || box.bottom > around.bottom + 1;
}).map(one => one.outerHTML.slice(0, 200))"""
STRETCHED = """() => [...document.querySelectorAll('main canvas')].filter(one => {
  const box = one.getBoundingClientRect();
  return box.width > 0 && Math.abs((one.width / box.width) / (one.height / box.height) - 1) > 0.03;
}).map(one => [one.width, one.height, one.getBoundingClientRect().width, one.getBoundingClientRect().height])"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("saved")
    audit = Audit(
        models={"one": linear(0), "two": linear(1)}, inputs=images(), targets=labels(), symmetry=Dihedral(), walk=Exhaustive(),
        explainers=["saliency", "input_x_gradient"], scores=["equivariance", "sparseness"], title="Turned maps",
    )  # fmt: skip
    audit.run(found / "maps", progress=False)
    digits_like(title="Squares").run(found / "squares", progress=False)
    return found


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Result, str]]:
    folder = tmp_path_factory.mktemp("net") / "run"
    result = families().run(folder, progress=False)
    with served(folder) as address:
        yield result, address


def ready(page: Page, *boards: str) -> None:
    for board in boards or BOARDS:
        page.wait_for_selector(f'[data-testid="{board}"][data-state="ready"]')
    page.wait_for_function(
        "() => [...document.querySelectorAll('[data-testid=maps] figure[data-explainer]')].every(one => one.dataset.state !== 'loading')"
    )


def saved(page: Page, board: str, form: str) -> bytes:
    with page.expect_download() as found:
        page.get_by_test_id(f"{board}-{form}").click()
    assert found.value.suggested_filename.endswith(f".{form}")
    return Path(found.value.path()).read_bytes()


def saved_panel(page: Page, board: str) -> list[dict[str, str]]:
    """A panel in all three forms: a drawing whose caption names the model, as many pixels, and the rows of the table."""
    drawing = ElementTree.fromstring(saved(page, board, "svg"))
    caption = " ".join(one.text or "" for one in drawing if one.tag.endswith("text"))
    assert page.get_by_test_id("model").input_value() in caption if page.get_by_test_id("model").count() else caption
    assert drawing.tag.endswith("svg")
    assert len(list(drawing.iter())) > 4
    pixels = np.asarray(Image.open(io.BytesIO(saved(page, board, "png"))).convert("L"))
    assert pixels.shape == tuple(2 * int(drawing.get(side, "0")) for side in ("height", "width"))
    assert len(np.unique(pixels)) > 4, "a picture of nothing"
    rows = list(csv.DictReader(io.StringIO(saved(page, board, "csv").decode())))
    assert rows
    return rows


def test_the_files_of_every_panel_hold_the_numbers_of_the_result(visit: Begin, folder: Path) -> None:
    result = Result(folder / "maps")
    table = result.table().set_index(["model", "explainer", "score"]).sort_index()
    subject = ("two", "saliency")
    samples = {
        score: result.samples(score).set_index(["model", "explainer", "sample"])["value"].sort_index().loc[subject].to_dict()
        for score in ("equivariance", "sparseness")
    }
    page = visit(1440).page
    with served(folder) as address:
        page.goto(f"{address}#run=maps&model=two&score=equivariance&explainer=saliency&sample=3&x=equivariance&y=sparseness")
        ready(page)
        rows = {board: saved_panel(page, board) for board in BOARDS}
        named = [one.text for one in ElementTree.fromstring(saved(page, "ranking", "svg")).iter() if one.tag.endswith("text")]
    assert {"one", "two"} <= set(named), "which colour is which model's"
    for row in rows["ranking"]:
        assert row["model"] == "two"
        assert float(row["value"]) == table.loc[("two", row["explainer"], "equivariance"), "value"]
    assert {row["explainer"] for row in rows["ranking"]} >= {"saliency", "input_x_gradient", "random_uniform"}
    matrix = {next(iter(row.values())): [*row.values()][1:] for row in rows["matrix"]}
    known = table.loc[("two", "saliency")]["value"]
    assert [float(value) for value in matrix["saliency"]] == [known[score] for score in ("equivariance", "sparseness")]
    assert {int(row["sample"]): float(row["value"]) for row in rows["spread"]} == samples["equivariance"]
    for score, values in samples.items():
        assert {int(row["sample"]): float(row[score]) for row in rows["scatter"]} == values
    assert {int(row["sample"]): float(row["equivariance"]) for row in rows["samples"]} == samples["equivariance"]
    own = {row["score"]: float(row["value"]) for row in rows["sample"] if row["explainer"] == "saliency"}
    assert own == {score: values[3] for score, values in samples.items()}


@pytest.mark.parametrize("score", SCORES)
def test_a_sample_is_saved_whatever_the_score(visit: Begin, net: tuple[Result, str], score: str) -> None:
    result, address = net
    page = visit(1440).page
    page.goto(f"{address}#run=run/&score={score}&explainer=gradient&sample=3")
    ready(page, "sample")
    rows = saved_panel(page, "sample")
    explainer = "" if score == "worst_loss" else "gradient"
    table = result.samples(score)
    known = table[(table["explainer"] == explainer) & (table["sample"] == 3)]["value"].item()
    assert [float(row["value"]) for row in rows if (row["score"], row["explainer"]) == (score, explainer)] == [known]


@pytest.mark.parametrize("family", OTHERS)
def test_a_sample_is_saved_whatever_it_is(visit: Begin, axe: str, tmp_path: Path, family: str) -> None:
    if family in NEEDED:
        pytest.importorskip(NEEDED[family])
    result = OTHERS[family]().run(tmp_path / "run", progress=False)
    one = visit(1440)
    page = one.page
    with served(tmp_path / "run") as address:
        page.goto(f"{address}#run=run/&sample=2")
        ready(page, "ranking", "sample")
        rows = [row for row in saved_panel(page, "sample") if row["control"] != "true" and row["explainer"]]
        for row in rows:
            table = result.samples(row["score"], row["explainer"])
            assert float(row["value"]) == table[table["sample"] == 2]["value"].item()
        assert rows
        page.evaluate(axe)
        for width in (1440, 390):
            page.set_viewport_size({"width": width, "height": 900})
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
                assert violations(page) == []
        one.picture(f"saved-{family}-dark-390")


def test_the_link_and_the_selection_are_copied(visit: Begin, folder: Path) -> None:
    page = visit(1440).page
    with served(folder) as address:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.goto(f"{address}#run=maps&model=two&score=equivariance&explainer=saliency&sample=3")
        ready(page)
        page.get_by_test_id("copy-link").click()
        expect(page.get_by_text("Link copied.")).to_be_visible()
        link = page.evaluate("navigator.clipboard.readText()")
        assert link == page.url
        page.goto("about:blank")
        page.goto(link)
        ready(page)
        expect(page.get_by_test_id("sample").get_by_test_id("subtitle")).to_contain_text("Sample 3 of two")
        page.get_by_test_id("ranges").locator("summary").click()
        page.get_by_test_id("pick-numbers").fill("1-3, 5")
        page.get_by_test_id("pick-numbers").press("Enter")
        page.wait_for_selector('[data-testid="selection"][data-state="ready"]')
        page.get_by_test_id("selection-copy").click()
        expect(page.get_by_text("Python copied.")).to_be_visible()
        space: dict[str, Any] = {}
        exec(page.evaluate("navigator.clipboard.readText()"), space)
        assert list(space["selected"]) == [1, 2, 3, 5]


@pytest.mark.parametrize("kind", ["audit", "orbits"])
def test_on_paper_nothing_is_stretched_and_nothing_leaves_its_frame(visit: Begin, folder: Path, kind: str) -> None:
    one = visit(1440)
    page = one.page
    with served(folder) as address:
        if kind == "audit":
            page.goto(f"{address}#run=maps&model=two&score=equivariance&explainer=saliency&sample=3&x=equivariance&y=sparseness")
            ready(page)
        else:
            one.open(f"{address}#run=squares")
        for width in (1440, PAPER):
            page.set_viewport_size({"width": width, "height": 990})
            page.emulate_media(media="print")
            page.wait_for_function("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")
            assert page.evaluate(OUTSIDE) == []
            assert page.evaluate(STRETCHED) == []
            page.emulate_media(media="screen")
        page.emulate_media(media="print")
        one.picture(f"{kind}-on-paper")
        assert len(page.pdf(format="A4", print_background=True)) > 20_000
