"""What a sample shows by family of scores, in Chromium: curves, layers, searches and folds, with the numbers of the result."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from browser_visit import Visit, served, shown, violations
from family_audits import SAMPLE, by_examples, families, folds, of_graphs, of_texts
from veracity.results import Result
from veracity.scores import SolHat

Begin = Callable[..., Visit]
EXPLAINERS = ("gradient", "input_x_gradient")
NARROW = 390


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("families")
    families().run(found / "net", progress=False)
    folds().run(found / "folds", progress=False)
    return found


@pytest.fixture(scope="module")
def net(folder: Path) -> Iterator[str]:
    with served(folder / "net", families()) as address:
        yield address


def measured(folder: Path, score: str, explainer: str, quantity: str) -> Any:
    (one,) = [one for one in Result(folder).series if (one.score, one.explainer) == (score, explainer)]
    return one.measured[quantity][one.samples.tolist().index(SAMPLE)]


def value_of(folder: Path, score: str, explainer: str) -> str:
    table = Result(folder).samples(score)
    return shown(float(table[(table["explainer"] == explainer) & (table["sample"] == SAMPLE)]["value"].item()))


def at(run: str, score: str) -> str:
    return f"#run={run}/&score={score}&explainer=gradient&sample={SAMPLE}"


def computed(page: Page) -> None:
    """Computes what the page offers, and waits for it."""
    page.wait_for_selector('[data-testid="sample"][data-state="ready"]')
    page.get_by_test_id("draw-compute").click()
    expect(page.get_by_test_id("draw-told")).to_have_text("")
    page.wait_for_selector('[data-testid="draw"][data-state="ready"]')


def looked_at(one: Visit, axe: str, name: str) -> None:
    """Accessible and within its width, light and dark, on a desk and on a phone."""
    page = one.page
    page.evaluate(axe)
    for width in (1440, NARROW):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") == width
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            assert violations(page) == []
            one.picture(f"{name}-{scheme}-{width}")
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 1440, "height": 900})


def ends(values: Any) -> str:
    known = values[np.isfinite(values)]
    return f"{shown(float(known[0]))} → {shown(float(known[-1]))}"


def test_a_curve_with_the_inputs_along_it(visit: Begin, axe: str, net: str, folder: Path) -> None:
    one = visit(1440)
    page = one.page
    page.goto(f"{net}{at('net', 'deletion')}")
    computed(page)
    expect(page.get_by_test_id("course")).to_contain_text("Up: the probability of the explained class.")
    expect(page.get_by_test_id("draw-slider")).to_be_hidden()
    for explainer in EXPLAINERS:
        curve = measured(folder / "net", "deletion", explainer, "prediction")[0]
        plot = page.get_by_test_id("course").locator(f'figure[data-explainer="{explainer}"]')
        expect(plot.locator("figcaption")).to_contain_text(ends(curve))
        assert plot.locator("path.own").get_attribute("d").count("L") == len(curve) - 1
        row = page.locator(f'.steps[data-explainer="{explainer}"]')
        expect(row.locator("p")).to_have_text(f"{explainer} {value_of(folder / 'net', 'deletion', explainer)} as in the run")
        steps = row.locator("figure[data-step]")
        assert [step.locator(".n").inner_text() for step in steps.all()] == [
            shown(float(curve[level])) for level in (0, 1, 2, 3, 5, 6, 7, 8)
        ]
        assert steps.first.get_attribute("data-step") == "0 % masked"
        expect(steps.locator("image")).to_have_count(8)
    with page.expect_download() as saved:
        page.get_by_test_id("sample-svg").click()
    drawing = Path(saved.value.path()).read_text(encoding="utf-8")
    assert "100 % masked" in drawing
    looked_at(one, axe, "audit-curve")


def test_explanations_layer_by_layer(visit: Begin, axe: str, net: str, folder: Path) -> None:
    one = visit(1440)
    page = one.page
    page.goto(f"{net}{at('net', 'mprt')}")
    computed(page)
    for draw in (0, 2):
        page.get_by_test_id("draw-number").fill(str(draw))
        page.keyboard.press("Enter")
        for explainer in EXPLAINERS:
            values = measured(folder / "net", "mprt", explainer, "value")
            row = page.locator(f'.steps[data-explainer="{explainer}"]')
            expect(row.locator("p")).to_have_text(f"{explainer} {shown(float(values[draw].mean()))} draw {draw}, as in the run")
            steps = row.locator("figure[data-step]")
            assert [step.locator(".n").inner_text() for step in steps.all()] == [shown(float(value)) for value in values[draw]]
            expect(row.locator("figure image")).to_have_count(3)
            plot = page.get_by_test_id("course").locator(f'figure[data-explainer="{explainer}"]')
            expect(plot.locator("figcaption")).to_contain_text(ends(values.mean(axis=0)))
            expect(plot.locator("path.draw")).to_have_count(3)
    looked_at(one, axe, "audit-layers")


def test_the_worst_point_and_the_path_of_its_search(visit: Begin, axe: str, net: str, folder: Path) -> None:
    one = visit(1440)
    page = one.page
    stored = {(pair.explainer, pair.sample): pair for pair in Result(folder / "net").worst("sol_f_hat", 1000)}["gradient", SAMPLE]
    page.goto(f"{net}{at('net', 'sol_f_hat')}")
    computed(page)
    largest = shown(float((stored.moved - stored.input).abs().max()))
    said = f"gradient {shown(stored.value)} class {stored.label} stays, largest change {largest}, evaluation {stored.draw}"
    expect(page.get_by_test_id("pairs").locator('.pair[data-explainer="gradient"] p')).to_have_text(said)
    again = page.get_by_test_id("draw-pairs").locator(".pair")
    expect(again).to_have_count(1)
    expect(again.locator("p")).to_have_text(f"{said}, as in the run")
    assert again.locator("figcaption strong").all_inner_texts() == ["input", "perturbed input", "difference", "expected", "found"]
    merit, made = (measured(folder / "net", "sol_f_hat", "gradient", name) for name in ("merit", "evaluations"))
    for search, title in enumerate(("genetic", "gradient")):
        known = np.isfinite(made[search])
        best = SolHat().objective_at(merit[search][known])
        plot = page.get_by_test_id("course").locator("figure").filter(has_text=f"gradient: {title}{shown(float(best[0]))}")
        expect(plot.first.locator("figcaption")).to_contain_text(f"{ends(best)} after {int(made[search][known][-1])}")
    looked_at(one, axe, "audit-search")


def test_the_search_of_a_score_of_the_model_itself(visit: Begin, net: str, folder: Path) -> None:
    page = visit(1440).page
    merit, made = (measured(folder / "net", "worst_loss", "", name)[0] for name in ("merit", "evaluations"))
    page.goto(f"{net}{at('net', 'worst_loss')}")
    plot = page.get_by_test_id("course").locator("figure")
    expect(plot).to_have_count(1)
    expect(plot.locator("figcaption")).to_have_text(f"the model itself: genetic{ends(merit)} after {int(made[np.isfinite(made)][-1])}")


def test_the_models_of_the_folds_beside_each_other(visit: Begin, axe: str, folder: Path) -> None:
    one = visit(1440)
    page = one.page
    with served(folder / "folds", folds()) as address:
        page.goto(f"{address}{at('folds', 'mege')}")
        computed(page)
        for explainer in EXPLAINERS:
            distances = [shown(float(value)) for value in measured(folder / "folds", "mege", explainer, "distance")[:, 0]]
            cells = page.get_by_test_id("course").locator(f'tr[data-explainer="{explainer}"] td')
            assert [cell.inner_text().split()[0] for cell in cells.all()] == distances
            row = page.locator(f'.steps[data-explainer="{explainer}"]')
            expect(row.locator("p")).to_contain_text("as in the run")
            assert [step.locator(".n").inner_text() for step in row.locator("figure[data-step]").all()] == distances
            assert row.locator("figcaption strong").all_inner_texts() == ["own model", "other model 1", "other model 2"]
            expect(row.locator("figure image")).to_have_count(3)
        looked_at(one, axe, "audit-folds")


def test_the_training_samples_behind_an_explanation_by_example(visit: Begin, axe: str, tmp_path: Path) -> None:
    one = visit(1440)
    page = one.page
    audit = by_examples()
    values = audit.run(tmp_path / "run", progress=False).explanations("net", "influence_functions")[SAMPLE]
    with served(tmp_path / "run", audit) as address:
        page.goto(f"{address}#run=run/&score=mprt&explainer=influence_functions&sample={SAMPLE}")
        computed(page)
        row = page.get_by_test_id("examples")
        expect(row).to_have_count(1)
        for figure in row.locator("figure").all():
            number = int(figure.get_attribute("data-example") or "")
            assert figure.locator(".n").inner_text() == shown(float(values[number]))
        expect(row.locator("figure").first).to_have_attribute("data-example", str(int(values.argmax())))
        expect(row.locator("figure image")).to_have_count(row.locator("figure").count())
        looked_at(one, axe, "audit-examples")


def test_a_graph_with_its_explanation(visit: Begin, axe: str, tmp_path: Path) -> None:
    pytest.importorskip("torch_geometric")
    one = visit(1440)
    page = one.page
    audit = of_graphs()
    audit.run(tmp_path / "run", progress=False)
    with served(tmp_path / "run", audit) as address:
        page.goto(f"{address}#run=run/&score=pixel_flipping&explainer=gradient&sample=2")
        computed(page)
        row = page.locator('.steps[data-explainer="gradient"]')
        expect(row.locator("figure").first.locator("circle.node")).to_have_count(5)
        expect(row.locator("figure").first.locator("path.link.bar").first).to_be_attached()
        expect(row.locator("figure").last.locator("path.link.gone")).to_have_count(10)
        expect(row.locator("figure").nth(1).locator("path.link.gone")).to_have_count(1)
        looked_at(one, axe, "audit-graph")


def test_the_words_of_a_text_go_one_after_the_other(visit: Begin, axe: str, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    one = visit(1440)
    page = one.page
    audit = of_texts()
    curve = measured_of(audit.run(tmp_path / "run", progress=False), 2)
    with served(tmp_path / "run", audit) as address:
        page.goto(f"{address}#run=run/&score=pixel_flipping&explainer=gradient&sample=2")
        computed(page)
        steps = page.locator('.steps[data-explainer="gradient"] figure[data-step]')
        assert [step.locator(".n").inner_text() for step in steps.all()] == [shown(float(value)) for value in curve if np.isfinite(value)]
        assert steps.last.locator("svg").get_attribute("aria-label") == "100 % masked: " + " ".join(["\N{EN DASH}"] * 4)
        looked_at(one, axe, "audit-text")


def measured_of(result: Result, sample: int) -> Any:
    (one,) = [one for one in result.series if (one.score, one.explainer) == ("pixel_flipping", "gradient")]
    return one.measured["prediction"][sample, 0]


@pytest.mark.parametrize(("run", "score"), [("net", "deletion"), ("net", "mprt"), ("net", "sol_f_hat"), ("folds", "mege")])
def test_without_the_models_the_page_shows_what_is_stored_and_says_how_to_get_the_rest(
    visit: Begin, folder: Path, run: str, score: str
) -> None:
    page = visit(1440).page
    with served(folder / run) as address:
        page.goto(f"{address}{at(run, score)}")
        expect(page.get_by_test_id("draw-told")).to_contain_text(f"veracity app {folder / run} --audit FILE")
        expect(page.get_by_test_id("draw-compute")).to_be_hidden()
        expect(page.get_by_test_id("course").locator("h3")).to_have_text(re.compile("as stored$"))
