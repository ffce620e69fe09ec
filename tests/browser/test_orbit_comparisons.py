"""The paper's figures that compare, in Chromium: what the page shows equals what the result says in Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page

from browser_visit import Visit, served, violations
from browser_visit import shown as written
from orbit_run import evaluation
from veracity.orbits import OrbitResult

Begin = Callable[..., Visit]
SAMPLES = 20
MODELS = ("seed 0", "seed 1")
REFERENCES = ("truth", "consensus")
TRUE = "metric == 'confidence' and reference == 'truth'"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[OrbitResult, str]]:
    """A result, and the address of a server that shows it."""
    folder = tmp_path_factory.mktemp("comparisons") / "digits"
    made = evaluation(samples=SAMPLES)
    made.run(folder, progress=False)
    with served(folder, made) as address:
        yield OrbitResult(folder), address


def plain(text: str) -> float:
    """A number of the page."""
    return float(text.replace("\N{MINUS SIGN}", "-").split()[0])


def rows(page: Page, table: str) -> dict[tuple[str, str], list[float]]:
    """The numbers of the tables of pairs, by model and metric."""
    script = """id => [...document.querySelectorAll(`[data-testid=${id}] tbody tr`)].map(
        row => [row.closest("table").dataset.model, ...[...row.cells].map(cell => cell.textContent)])"""
    found: list[list[str]] = page.evaluate(script, table)
    return {(model, metric): [plain(cell) for cell in cells] for model, metric, *cells in found}


def shown(expected: list[float] | float) -> object:
    """Numbers as three digits show them."""
    return pytest.approx(expected, rel=6e-3, abs=6e-4)


def in_hash(page: Page, *parts: str) -> None:
    """Waits until the address holds all of these."""
    page.wait_for_function("parts => parts.every(one => location.hash.includes(one))", arg=list(parts))


def check_places(page: Page, result: OrbitResult) -> None:
    """Sample 3 at 45 and 135 degrees."""
    page.wait_for_selector('[data-testid="place-B"][data-state="ready"]')
    page.wait_for_function("() => document.querySelectorAll('[data-testid=places-table] tbody tr').length === 12")
    found = rows(page, "places-table")
    for model in MODELS:
        a, b = result.individual(3, "confidence")[model].tolist()[1:4:2]
        assert found[model, "confidence"] == shown([a, b, b - a])
        assert found[model, "accuracy"][:2] == [result.values(model, "accuracy")[3, k] for k in (1, 3)]
        probability = result.outputs(model, 3)["outputs"]
        most = abs(probability[3] - probability[1]).argmax()
        name = str(result.manifest["task"]["classes"][most])
        change = probability[[1, 3], most].tolist()
        assert found[model, f"probability of {name}"] == shown([100 * p for p in (*change, change[1] - change[0])])


def check_samples(page: Page, result: OrbitResult) -> None:
    """Sample 7 beside sample 3, at 90 degrees."""
    page.wait_for_selector('[data-testid="samples-side-Second"][data-state="ready"]')
    page.wait_for_function("() => document.querySelector('[data-testid=samples-table]')?.textContent.includes('sample 7')")
    found = rows(page, "samples-table")
    for model in MODELS:
        means = [result.table([sample]).query(f"model == '{model}' and {TRUE}")["value"].item() for sample in (7, 3)]
        assert found[model, "confidence, mean along the orbit"] == shown([*means, means[1] - means[0]])
        values = [result.individual(sample, "confidence")[model].tolist()[2] for sample in (7, 3)]
        assert found[model, "confidence at 90°"] == shown([*values, values[1] - values[0]])


def check_classes(page: Page, result: OrbitResult) -> None:
    page.wait_for_selector('[data-testid="classes"] .class .plot')
    script = """() => [...document.querySelectorAll("[data-testid=classes] .class")].map(
        one => [one.dataset.class, ...[...one.querySelectorAll("[data-model]")].map(part => part.textContent)])"""
    found = {int(label): [plain(text) for text in texts] for label, *texts in page.evaluate(script)}
    assert result.labels is not None
    assert set(found) == set(result.labels.tolist())
    for label, numbers in found.items():
        assert numbers == shown(result.table(label).query(TRUE)["value"].tolist())


def check_glyphs(page: Page, result: OrbitResult) -> None:
    """Every small plot of the scatter has the mean along its orbit below."""
    page.wait_for_selector('[data-testid="scatter"] .glyph .plot-rim')
    script = """() => [...document.querySelectorAll("[data-testid=scatter] .glyph")].map(
        one => [Number(one.dataset.sample), one.dataset.model, one.querySelector(".glyph-mean").textContent])"""
    found = page.evaluate(script)
    assert len(found) > 3
    for sample, model, text in found:
        assert plain(text) == shown(result.table([sample]).query(TRUE).set_index("model")["value"][model])


def check_references(page: Page, result: OrbitResult) -> None:
    """Sample 3 and the means of the twos, against the truth beside the consensus, at 90 degrees."""
    page.wait_for_selector('[data-testid="references-mean-consensus"][data-state="ready"]')
    page.wait_for_function("() => document.querySelectorAll('[data-testid=references-table] tbody tr').length === 8")
    found = rows(page, "references-table")
    said = page.get_by_test_id("references-table").locator("caption").all_inner_texts()
    agreement = result.agreement().query("metric == 'confidence'").set_index("model")
    assert result.labels is not None
    twos = int((result.labels == 2).sum())
    of = f"{twos} sample{'s' if twos > 1 else ''} of class 2"
    for model, words in zip(MODELS, said, strict=True):

        def both(subset: object, name: str = model) -> list[float]:
            rows = result.table(subset).query(f"model == '{name}' and metric == 'confidence'").set_index("reference")
            return [float(rows["value"][reference]) for reference in REFERENCES]

        single, mean = both([3]), both(2)
        here = [float(result.individual(3, "confidence", reference)[model][2]) for reference in REFERENCES]
        means = [float(result.aggregate(model, "confidence", 2, reference)["value"][2]) for reference in REFERENCES]
        name = next(what for one, what in found if one == model and what.startswith("confidence along the orbit, sample 3"))
        assert found[model, name] == shown([*single, single[1] - single[0]])
        assert found[model, name.replace("along the orbit", "at 90°")] == shown([*here, here[1] - here[0]])
        assert found[model, f"confidence along the orbit, mean of {of}"] == shown([*mean, mean[1] - mean[0]])
        assert found[model, f"confidence at 90°, mean of {of}"] == shown([*means, means[1] - means[0]])
        per_sample, aggregate = (float(agreement[column][model]) for column in ("correlation", "aggregate"))
        assert f"{written(per_sample)} per sample and {written(aggregate)} of the means" in words
    for column, reference in enumerate(REFERENCES):
        panel = page.get_by_test_id(f"references-mean-{reference}")
        assert panel.locator(".plot-curve").count() == len(MODELS)
        assert ("ground truth", "consensus")[column] in panel.locator("h2").inner_text()


def test_the_consensus_stands_beside_the_truth(visit: Begin, axe: str, run: tuple[OrbitResult, str], tmp_path: Path) -> None:
    result, address = run
    page = visit().open(f"{address}#sample=3&metric=confidence&at=90&subset=2&view=references")
    check_references(page, result)
    page.evaluate(axe)
    assert violations(page) == []
    chosen = page.evaluate("location.hash")
    page.get_by_test_id("metric").select_option("equivariance: saliency")
    page.wait_for_selector('[data-testid="references-mean-consensus"][data-state="empty"]')
    page.goto(result.save_report(tmp_path / "orbits.html").as_uri() + chosen)
    check_references(page, result)


def test_comparisons_show_the_numbers_of_the_result(visit: Begin, axe: str, run: tuple[OrbitResult, str], tmp_path: Path) -> None:
    result, address = run
    assert result.labels is not None
    one = visit()
    page = one.open(f"{address}#sample=3&metric=confidence")
    for key in ("ArrowRight", "a", "ArrowRight", "ArrowRight", "b", "ArrowRight"):
        page.keyboard.press(key)
    in_hash(page, "view=places", "pinA=45", "pinB=135", "at=180")
    page.reload()
    check_places(page, result)
    pinned = page.evaluate("location.hash")
    page.evaluate(axe)
    assert violations(page) == []

    page.keyboard.press("h")
    in_hash(page, "view=samples", "second=3")
    page.evaluate("location.hash = location.hash.replace(/sample=[0-9]+/, 'sample=7').replace('at=180', 'at=90')")
    check_samples(page, result)
    assert violations(page) == []

    for key in ("v", "g"):
        page.keyboard.press(key)
    in_hash(page, "glyphs=yes")
    check_glyphs(page, result)
    check_classes(page, result)
    assert violations(page) == []
    page.locator('[data-testid="classes"] [data-class="3"]').focus()
    page.keyboard.press("Enter")
    in_hash(page, "view=classes", "subset=3")
    page.wait_for_function(
        "few => document.querySelector('[data-testid=aggregate] .subtitle').textContent.startsWith(few)",
        arg=f"{int((result.labels == 3).sum())} sample",
    )

    page.goto(result.save_report(tmp_path / "orbits.html").as_uri() + pinned)
    check_places(page, result)
    page.get_by_test_id("pin-B").click()
    in_hash(page, "pinB=180")
    page.get_by_test_id("pin-B").click()
    page.get_by_test_id("close-view").click()
    page.wait_for_function("() => !location.hash.includes('view=') && !location.hash.includes('pinB=')")
