from __future__ import annotations

import dataclasses
import math
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from report_fakes import CONTROLS, EXPLAINERS, MODELS, FakeRun, digit_pairs, digits_run, manifest, result, sample_rows, series_run
from report_pages import EVIL, EVIL_TOO, Page, drawings

from veracity.core.errors import StoreError
from veracity.report import render, write


@pytest.fixture(scope="module")
def run() -> FakeRun:
    return digits_run()


@pytest.fixture(scope="module")
def html(run: FakeRun) -> str:
    return render(run)


@pytest.fixture(scope="module")
def page(html: str) -> Page:
    return Page(html)


def test_nothing_is_fetched_from_outside(html: str, page: Page) -> None:
    assert "http://" not in html
    assert "https://" not in html
    assert "@import" not in html
    assert "url(" not in html
    assert not [tag for tag, _ in page.tags if tag in {"script", "iframe", "object", "embed", "form"}]
    links = [value for name, value in page.attributes if name in {"src", "href", "srcset", "action", "poster", "data"}]
    assert len(links) > 40
    assert all(value.startswith(("data:", "#")) for value in links)
    assert any(value.startswith("default-src 'none'") for name, value in page.attributes if name == "content")


def test_anchors_lead_somewhere_and_ids_are_unique(page: Page) -> None:
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert {value[1:] for name, value in page.attributes if name == "href" and value.startswith("#")} <= set(ids)


def test_tags_are_balanced(page: Page) -> None:
    assert page.unbalanced == []


def test_drawings_are_well_formed(html: str) -> None:
    found = drawings(html)
    assert len(found) > 2 * (len(EXPLAINERS) + len(CONTROLS))
    assert {ElementTree.fromstring(text).tag for text in found} == {"svg"}


def test_every_model_explainer_and_control_is_named(page: Page) -> None:
    for name in (*MODELS, *EXPLAINERS, *CONTROLS):
        assert page.text.count(name) >= 3, name


def test_the_table_prints_the_runs_numbers(run: FakeRun, page: Page) -> None:
    def shown(value: float) -> str:
        return "undefined" if math.isnan(value) else f"{value:.3f}".replace("-", "\N{MINUS SIGN}").replace("\N{MINUS SIGN}0.000", "0.000")

    def between(low: float, high: float) -> str:
        return "undefined" if math.isnan(low) else f"{shown(low)} to {shown(high)}"

    numbers = next(table for table in page.tables if table[0][:2] == ["Explainer", "Mean"])
    model, printed = "", {}
    for row in numbers[1:]:
        if len(row) == 1:
            model = row[0].strip()
        else:
            printed[model, row[0].strip().removesuffix("control").strip()] = [cell.strip() for cell in row[1:]]
    table = run.table()
    table = table[table["score"] == "equivariance"]
    assert len(printed) == len(table) == 3 * 18
    for row in table.itertuples():
        cells = printed[row.model, row.explainer]
        if row.failed:
            assert cells == ["no result: see what failed", "failed"]
            continue
        assert cells[:3] == [shown(row.value), between(row.low, row.high), between(row.draws_low, row.draws_high)]
        assert cells[3:5] == [shown(row.self_agreement), shown(row.random_control)]
        assert cells[5:] == [str(row.n), str(row.undefined), f"{row.draws:.4g}", "done"]


def test_undefined_is_a_word(page: Page) -> None:
    written = [page.text, *(value for name, value in page.attributes if name != "src")]
    assert "undefined" in page.text
    assert not [text for text in written if re.search(r"\b([Nn][Aa][Nn]|inf|None)\b", text)]


def test_gaps_are_told(page: Page) -> None:
    undefined = next(table for table in page.tables if "Undefined draws" in table[0])
    assert ["all-cnn", "grad_cam", "Equivariance", "7", "41", "53"] in undefined
    failed = next(table for table in page.tables if table[0] == ["Models", "Explainers", "Scores", "How many failed", "Error"])
    assert ["standard-cnn", "deep_lift", "equivariance", "1 of 1 cell", "RuntimeError: a module was used twice"] in failed
    assert "The reference set is the first 100 inputs." in page.text


def test_the_caveat_and_what_reproduces_the_run_are_there(run: FakeRun, page: Page) -> None:
    assert "a constant map and an edge filter score 1 without looking at the model" in page.text
    assert "A low score with an equally low self-agreement is noise, not asymmetry." in page.text
    for fact in ("20240611", "veracity-run/1", run.manifest["data"]["fingerprint"], "captum", '"cyclic_shift"', "196 elements"):
        assert fact in page.text


def test_what_users_typed_is_escaped() -> None:
    values = np.array([0.5, 0.25, 0.75])
    row = result(EVIL, EVIL_TOO, "equivariance", values, self_agreement=1.0, random_control=0.0)
    other = result(EVIL, "saliency", "equivariance", values, failed=EVIL)
    pair = dataclasses.replace(digit_pairs([EVIL], each=1)[0], explainer=EVIL_TOO)
    notes = [{"model": EVIL, "explainer": EVIL_TOO, "text": EVIL}]
    made = manifest({EVIL: 0.5}, (1, 8, 8), 3, title=EVIL, symmetry=EVIL_TOO, notes=notes, seed=EVIL_TOO)
    run = FakeRun(
        path=EVIL_TOO,
        manifest={**made, "versions": {EVIL: EVIL}, "created": EVIL},
        rows=[result(EVIL, "", "model_invariance", values), row, other, result("b", EVIL_TOO, EVIL, values)],
        sample_rows={"equivariance": sample_rows(row, values) + sample_rows(other, values)},
        failed=[{"model": EVIL, "explainer": EVIL_TOO, "score": EVIL, "error": EVIL}],
        pairs={"equivariance": [pair]},
    )
    html = render(run)
    page = Page(html)
    assert not [tag for tag, _ in page.tags if tag == "script"]
    assert not [attributes for _, attributes in page.tags if "onerror" in attributes]
    assert all(attributes["src"].startswith("data:image/png;base64,") for tag, attributes in page.tags if tag == "img")
    assert page.unbalanced == []
    assert EVIL in page.text
    assert EVIL_TOO in page.text
    assert [ElementTree.fromstring(text) for text in drawings(html)]


def test_series_are_drawn_as_lines() -> None:
    html = render(series_run(channels=2))
    page = Page(html)
    lines = [attributes for tag, attributes in page.tags if tag == "svg" and attributes.get("class") == "series"]
    assert len(lines) == 2 * 3
    assert not [tag for tag, _ in page.tags if tag == "img"]
    assert [ElementTree.fromstring(text) for text in drawings(html)]
    assert "accurate" not in page.text


def test_one_model_and_one_explainer() -> None:
    values = np.array([0.9, 0.7])
    row = result("net", "saliency", "equivariance", values)
    run = FakeRun(
        path="r", manifest=manifest({"net": 0.9}, (1, 8, 8), 2), rows=[row], sample_rows={"equivariance": sample_rows(row, values)}
    )  # fmt: skip
    page = Page(render(run))
    assert "None of 1 explainer respect the symmetry" in page.text
    assert "Controls" not in page.text
    assert "Differences between" not in page.text
    assert "Worst samples" not in page.text
    assert page.unbalanced == []


def test_no_score_of_explanations_at_all() -> None:
    run = FakeRun(path="r", manifest=manifest({"net": None}, (1, 8, 8), 2), rows=[result("net", "", "model_invariance", np.ones(2))])
    page = Page(render(run))
    assert "This run holds no score of explanations" in page.text
    assert "Ranking" not in page.text
    assert "1.000 to 1.000" in page.text


def test_an_empty_run() -> None:
    page = Page(render(FakeRun(path="r", manifest={}, rows=[])))
    assert page.unbalanced == []
    assert "Nothing was measured." in page.text
    assert "nothing failed" not in page.text


def test_self_agreement_stands_beside_and_other_scores_get_a_section_each() -> None:
    values = np.array([0.9, 0.7])
    rows = [result("net", "saliency", score, values) for score in ("equivariance", "self_agreement", "my_new_score")]
    run = FakeRun(path="r", manifest=manifest({"net": None}, (1, 8, 8), 2), rows=rows)
    headings = re.findall(r"<h2>(.*?)</h2>", render(run))
    assert headings == ["In short", "Equivariance", "My new score", "Undefined, failed, noted", "Reproduce"]


def test_the_confidence_is_the_runs() -> None:
    values = np.array([0.9, 0.7])
    made = manifest({"net": None}, (1, 8, 8), 2, spec={"confidence": 0.9})
    text = Page(render(FakeRun(path="r", manifest=made, rows=[result("net", "saliency", "equivariance", values)]))).text
    assert "90 % interval" in text
    assert "95 %" not in text


def test_a_floor_that_is_the_same_for_every_model_is_one_line() -> None:
    floors = [result(name, "", "action_floor", np.ones(2)) for name in ("a", "b")]
    owns = [result(name, "", "model_invariance", np.ones(2)) for name in ("a", "b")]
    made = manifest({"a": 0.5, "b": 0.6}, (1, 8, 8), 2)
    text = Page(render(FakeRun(path="r", manifest=made, rows=[*owns, *floors]))).text
    assert text.count("every model") == 1
    assert "50.0 % accurate" in text


def test_twelve_large_exhibits_stay_small(tmp_path: Path) -> None:
    run = digits_run(samples=100)
    pairs = digit_pairs(list(MODELS), size=48)
    assert len(pairs) == 12
    file = write(dataclasses.replace(run, pairs={"equivariance": pairs}), tmp_path / "deep" / "report.html")
    assert file == tmp_path / "deep" / "report.html"
    assert file.read_text(encoding="utf-8").count('class="signed"') == 36
    assert file.stat().st_size < 3_000_000


def test_a_report_needs_a_file_that_can_be_written(run: FakeRun, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="needs a file to write to, not the folder"):
        write(run, tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        write(run, tmp_path / "file" / "report.html")


def test_the_same_run_gives_the_same_page(run: FakeRun, html: str) -> None:
    assert render(run) == html
