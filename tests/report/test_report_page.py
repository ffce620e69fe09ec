from __future__ import annotations

import dataclasses
import math
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from report_pages import EVIL, EVIL_TOO, Page, drawings
from torch import nn

from report_runs import CONTROLS, EXPLAINERS, MODELS, Observed, digit_pairs, digits_run, series_run, stored
from veracity import Audit
from veracity.core.errors import StoreError
from veracity.core.scores import Reads, Score
from veracity.core.wording import percentage
from veracity.explain.importances import Importances
from veracity.report import render
from veracity.report.page import samples_in_words
from veracity.report.reading import read
from veracity.report.section import plain_definition, section_answer
from veracity.report.wording import capital
from veracity.results import Result, WorstPair
from veracity.scores import ActionFloor, Equivariance, ModelInvariance, SelfAgreement


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return digits_run(tmp_path_factory.mktemp("digits"))


@pytest.fixture(scope="module")
def html(run: Result) -> str:
    return render(run)


@pytest.fixture(scope="module")
def page(html: str) -> Page:
    return Page(html)


def test_notes_begin_with_a_capital_and_definitions_name_no_equation_of_an_unnamed_paper() -> None:
    assert [capital(text) for text in ("masked values", "'gef' is", "my_map is", "", "x")] == [
        "Masked values",
        "'gef' is",
        "my_map is",
        "",
        "X",
    ]
    assert plain_definition("Correlation of both (eq. 24); higher is better (eq. 2 and 3).") == "Correlation of both; higher is better."


def test_samples_are_named_by_what_they_are() -> None:
    parts = [{"name": "image", "shape": [1, 8, 8]}, {"name": "age", "shape": []}]
    several = samples_in_words({"samples": 8, "shape": [65], "parts": parts})
    assert several == "8: image (1 \N{MULTIPLICATION SIGN} 8 \N{MULTIPLICATION SIGN} 8) and age (1)"
    assert samples_in_words({"samples": 1, "shape": [5], "features": {"names": ["a", "b"]}}) == "1 row of 2 features"
    assert samples_in_words({"samples": 2000, "shape": [5]}) == "2,000 of 5 values"
    assert samples_in_words({"samples": 3, "shape": [3, 4, 4]}) == "3 of shape 3 \N{MULTIPLICATION SIGN} 4 \N{MULTIPLICATION SIGN} 4"


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


def test_the_table_prints_the_runs_numbers(run: Result, page: Page) -> None:
    def shown(value: float) -> str:
        return "undefined" if math.isnan(value) else f"{value:.3f}".replace("-", "\N{MINUS SIGN}").replace("\N{MINUS SIGN}0.000", "0.000")

    def between(low: float, high: float) -> str:
        return "undefined" if math.isnan(low) else f"{shown(low)} to {shown(high)}"

    def interval(row: Any) -> str:
        return between(row.low, row.high) if math.isnan(row.unseen) else f"all equal, unseen ≤ {percentage(row.unseen)}"

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
        assert cells[:3] == [shown(row.value), interval(row), between(row.draws_low, row.draws_high)]
        assert cells[3:5] == [shown(row.self_agreement), shown(row.random_control)]
        assert cells[5:] == [str(row.n), str(row.undefined), f"{row.draws:.4g}", "done"]


def test_undefined_is_a_word(page: Page) -> None:
    written = [page.text, *(value for name, value in page.attributes if name != "src")]
    assert "undefined" in page.text
    assert not [text for text in written if re.search(r"\b([Nn][Aa][Nn]|inf|None)\b", text)]


def test_gaps_are_told(page: Page) -> None:
    undefined = next(table for table in page.tables if "Undefined draws" in table[0])
    assert ["all-cnn", "grad_cam", "Equivariance", "7", "7", "53"] in undefined
    failed = next(table for table in page.tables if table[0] == ["Models", "Explainers", "Scores", "How many failed", "Error"])
    assert ["standard-cnn", "deep_lift", "equivariance", "1 of 1 cell", "RuntimeError: a module was used twice"] in failed
    assert "The reference set is the first 100 inputs." in page.text


def test_the_caveat_and_what_reproduces_the_run_are_there(run: Result, page: Page) -> None:
    assert "a constant map and an edge filter score 1 without looking at the model" in page.text
    assert "A low score with an equally low self-agreement is noise, not asymmetry." in page.text
    for fact in ("20240611", run.manifest["data"]["fingerprint"], "captum", '"cyclic_shift"', "196 elements"):
        assert fact in page.text


def small_run(folder: Path, scores: dict[str, Score], models: Mapping[str, float | None] | None = None, **about: Any) -> Result:
    """Three samples of every score, of one explainer or of the models alone."""
    models = {"net": None} if models is None else models
    observed = [
        Observed(model=model, explainer="saliency" * (score.reads is Reads.EXPLANATION), score=label, values=np.array([0.5, 0.25, 0.75]))
        for model in models
        for label, score in scores.items()
    ]
    return stored(folder, scores, observed, models=models, **about)


def test_what_users_typed_is_escaped(tmp_path: Path) -> None:
    values = np.array([0.5, 0.25, 0.75])
    pair = dataclasses.replace(digit_pairs([EVIL], each=1)[0], explainer=EVIL_TOO)
    observed = [
        Observed(model=EVIL, explainer="", score="model_invariance", values=values),
        Observed(model=EVIL, explainer=EVIL_TOO, score="equivariance", values=values),
        Observed(model=EVIL, explainer="saliency", score="equivariance", values=values, failed=EVIL),
        Observed(model="b", explainer=EVIL_TOO, score=EVIL, values=values),
    ]
    run = stored(
        tmp_path / "<b>run",
        {"model_invariance": ModelInvariance(), "equivariance": Equivariance(), EVIL: Equivariance()},
        observed,
        pairs={"equivariance": [pair]},
        title=EVIL,
        symmetry=EVIL_TOO,
        notes=[{"model": EVIL, "explainer": EVIL_TOO, "text": EVIL}],
        versions={EVIL: EVIL},
        created=EVIL,
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


def test_series_are_drawn_as_lines(tmp_path: Path) -> None:
    html = render(series_run(tmp_path, channels=2))
    page = Page(html)
    lines = [attributes for tag, attributes in page.tags if tag == "svg" and attributes.get("class") == "series"]
    assert len(lines) == 2 * 3
    assert not [tag for tag, _ in page.tags if tag == "img"]
    assert [ElementTree.fromstring(text) for text in drawings(html)]
    assert "accurate" not in page.text


def test_one_model_and_one_explainer(tmp_path: Path) -> None:
    page = Page(render(small_run(tmp_path, {"equivariance": Equivariance()})))
    assert "The one explainer does not respect the symmetry" in page.text
    assert "Controls" not in page.text
    assert "Differences between" not in page.text
    assert "Worst samples" not in page.text
    assert page.unbalanced == []


def test_no_score_of_explanations_at_all(tmp_path: Path) -> None:
    page = Page(render(small_run(tmp_path, {"model_invariance": ModelInvariance()})))
    assert "This run holds no score of explanations" in page.text
    assert "Ranking" not in page.text
    assert "0.500" in page.text


def test_an_empty_run(tmp_path: Path) -> None:
    page = Page(render(stored(tmp_path, {}, [], models={"net": None})))
    assert page.unbalanced == []
    assert "Nothing was measured." in page.text
    assert "nothing failed" not in page.text


def test_self_agreement_stands_beside_and_other_scores_get_a_section_each(tmp_path: Path) -> None:
    scores = {"equivariance": Equivariance(), "self_agreement": SelfAgreement(), "my_new_score": Equivariance()}
    headings = re.findall(r"<h2>(.*?)</h2>", render(small_run(tmp_path, scores)))
    assert headings == ["In short", "Equivariance", "My new score", "Undefined, failed, noted", "Reproduce"]


def test_the_confidence_is_the_runs(tmp_path: Path) -> None:
    text = Page(render(small_run(tmp_path, {"equivariance": Equivariance()}, spec={"confidence": 0.9}))).text
    assert "90 % interval" in text
    assert "95 %" not in text


def test_a_floor_that_is_the_same_for_every_model_is_one_line(tmp_path: Path) -> None:
    scores = {"model_invariance": ModelInvariance(), "action_floor": ActionFloor()}
    text = Page(render(small_run(tmp_path, scores, {"a": 0.5, "b": 0.6}))).text
    assert text.count("every model") == 1
    assert "50.0 % accurate" in text


def test_twelve_large_exhibits_stay_small(tmp_path: Path) -> None:
    pairs: list[WorstPair] = digit_pairs(list(MODELS), size=48)
    assert len(pairs) == 12
    file = digits_run(tmp_path / "run", samples=20, pairs=pairs).save_report(tmp_path / "deep" / "report.html")
    assert file == tmp_path / "deep" / "report.html"
    assert file.read_text(encoding="utf-8").count('class="signed"') == 36
    assert file.stat().st_size < 3_000_000


def test_a_report_needs_a_file_that_can_be_written(run: Result, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="needs a file to write to, not the folder"):
        run.save_report(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        run.save_report(tmp_path / "file" / "report.html")


def test_the_same_run_gives_the_same_page(run: Result, html: str) -> None:
    assert render(run) == html


def test_one_map_for_all_samples_is_no_merit(tmp_path: Path) -> None:
    net, x = nn.Linear(3, 2).eval(), torch.rand(6, 3)
    explainers = {"fixed": Importances(values=torch.tensor([1.0, 2.0, 0.5])), "gradient": "gradient"}
    run = Audit(models=net, inputs=x, explainers=explainers, scores=["max_sensitivity", "insertion"]).run(tmp_path / "run", progress=False)
    reading = read(run)
    said = {score: " ".join(map(str, section_answer(reading, score).sentences)) for score in ("max_sensitivity", "insertion")}
    assert '<span class="id">fixed</span> gives every sample the same map' in said["max_sensitivity"]
    assert "the same map" not in said["insertion"]
