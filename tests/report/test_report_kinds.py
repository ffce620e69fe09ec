from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_pages import EVIL, EVIL_TOO, Page, drawings

import report_runs
from report_runs import CONCEPTS, KINDS, NULLS, Observed, advice, concept_fact, kind_pairs, kinds_run, stored
from veracity.report import render
from veracity.report.answer import answer
from veracity.report.figures.boxes import boxes_data
from veracity.report.figures.ranking import draw_ranking, headings, ranking_data
from veracity.report.reading import comparable, read
from veracity.report.rows import Verdict
from veracity.report.wording import frame_title, in_order
from veracity.results import Result, Row
from veracity.scores import ModelInvariance, Symmetry
from veracity.scores.sensitivity import MaxSensitivity

MODELS = ["all-cnn", "augmented-cnn"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return kinds_run(tmp_path_factory.mktemp("kinds"), samples=20, draws=12)


@pytest.fixture(scope="module")
def html(run: Result) -> str:
    return render(run)


@pytest.fixture(scope="module")
def page(html: str) -> Page:
    return Page(html)


def row(explainer: str, frame: str, value: float, **changes: Any) -> Row:
    return report_runs.row(explainer, value, **{"score": "symmetry", "frame": frame, "n": 1, **changes})


def test_frames_come_in_one_order_whatever_the_tables() -> None:
    assert in_order(["concepts", "else", "training set", "input", "concepts"]) == ["input", "training set", "concepts", "else"]
    assert frame_title("") == "Other"


def test_each_kind_is_ranked_apart_with_its_own_controls() -> None:
    rows = [
        row("cav", "concepts", 0.9), row("coin", "concepts", 0.5, control=True), row("shap", "input", 0.4), row("ig", "input", 1.0),
        row("noise", "input", 0.0, control=True), row("tracin", "training set", 0.7),
    ]  # fmt: skip
    data = ranking_data(rows, "symmetry", ["net"])
    assert [group.frame for group in data.frames] == ["input", "training set", "concepts"]
    assert data.order == ("ig", "shap", "noise", "tracin", "cav", "coin")
    assert [headings(group, data) for group in data.frames[::2]] == [
        ("Feature maps", "Feature maps: controls"),
        ("Concepts", "Concepts: controls"),
    ]
    assert re.findall(r'class="row group"><div class="name">(.*?)<', str(draw_ranking(data))) == [
        "Feature maps", "Feature maps: controls", "Examples", "Concepts", "Concepts: controls",
    ]  # fmt: skip


def test_one_kind_keeps_the_plain_headings() -> None:
    rows = [row("cav", "concepts", 0.9), row("coin", "concepts", 0.5, control=True)]
    data = ranking_data(rows, "symmetry", ["net"])
    assert headings(data.frames[0], data) == ("Explainers", "Controls")


def test_boxes_follow_the_kinds(run: Result) -> None:
    ranking = ranking_data(run.rows, "symmetry", MODELS)
    data = boxes_data([one for one in run.series if one.score == "symmetry"], ranking)
    assert [heading for heading, _ in data.groups][::2] == ["Feature maps", "Examples", "Concepts"]
    assert [name for name, _ in data.groups[3][1]] == list(NULLS["training set"])
    assert [name for name, _ in data.rows] == list(ranking.order)


def test_verdicts_are_told_by_kind() -> None:
    rows = [row("cav", "concepts", 1.0), row("ig", "input", 1.0), row("grad", "input", 1.0), row("shap", "input", 0.4)]
    findings = answer(rows, "symmetry", ["net"]).models[0].findings
    assert {item.verdict: item.groups for item in findings} == {
        Verdict.KEEPS: (("Feature maps", ("ig", "grad")), ("Concepts", ("cav",))),
        Verdict.BREAKS: (("Feature maps", ("shap",)),),
    }


def test_the_symmetry_score_is_judged_and_defined() -> None:
    said = [str(item.striptags()) for item in answer([row("a", "input", 1.0)], "symmetry", ["net"]).sentences]
    assert said[0].startswith("The one explainer respects the symmetry")
    assert "Examples and concepts should stay" in Symmetry.definition


def test_a_distance_has_neither_verdict_nor_nulls(tmp_path: Path) -> None:
    values = np.array([0.01, 0.03, 0.02, 0.02])
    score = MaxSensitivity(relative=False)
    run = stored(tmp_path, {"max_sensitivity": score}, [Observed(model="net", explainer="ig", score="max_sensitivity", values=values)])
    rows = read(run).rows
    assert math.isnan(rows[0].self_agreement)
    assert math.isnan(rows[0].random_control)
    found = answer(rows, "max_sensitivity", ["net"])
    assert not found.says
    assert found.sentences[0].striptags().startswith("By max sensitivity, ig scores 0.0200 (")
    text = Page(render(run)).text
    assert "is better" not in text
    assert "Self-agreement" not in text


def test_a_models_own_score_has_no_null() -> None:
    assert math.isnan(comparable(row("", "", 1.0, score="model_invariance", random_control=1.0), ModelInvariance()).random_control)


def test_the_table_has_a_line_for_each_kind(page: Page) -> None:
    numbers = next(table for table in page.tables if table[0][:2] == ["Explainer", "Mean"])
    lines = [line[0].strip() for line in numbers[1:] if len(line) == 1]
    assert lines == [name for model in MODELS for name in (model, "Feature maps", "Examples", "Concepts")]
    names = [line[0].strip() for line in numbers if len(line) > 1]
    assert names.index("random_examples control") == names.index("simplex-equiv") + 1


def test_differences_stay_within_a_kind(page: Page, html: str) -> None:
    headings = re.findall(r"(\w[\w ]*): \d+ of \d+ pairs? differ", page.text)
    assert [item.split()[-1] for item in headings][:3] == ["maps", "examples", "concepts"]
    pairs = [int(number) for number in re.findall(r"\d+ of (\d+) pairs? differ", page.text)]
    sizes = [len(KINDS["input"]) + 2, len(KINDS["training set"]) + 1, len(KINDS["concepts"]) + 7]
    assert pairs[:3] == [size * (size - 1) // 2 for size in sizes]
    titles = re.findall(r'title="([^"]*) minus ([^":]*):', html)
    kind = {name: frame for part in (KINDS, NULLS) for frame, names in part.items() for name in names}
    assert titles
    assert all(kind[a] == kind[b] for a, b in titles if a in kind and b in kind)


def test_everything_of_the_symmetry_part_is_there(html: str, page: Page) -> None:
    assert re.findall(r"<h2>(.*?)</h2>", html) == [
        "In short", "What to do", "The models", "What was learnt", "Symmetry", "Max sensitivity", "Sensitivity against symmetry",
        "Undefined, failed, noted", "Reproduce",
    ]  # fmt: skip
    headings = re.findall(r"<h3>([^<]*)</h3>", html)
    for heading in ("Explanations made symmetric", "Models that are less invariant", "Were there enough draws?", "Worst samples"):
        assert headings.count(heading) == 1, heading
    assert "During training" not in headings
    assert "Concept classifiers keep still on an invariant layer." in page.text
    assert "An explainer that is robust on an invariant model may fail on one that is only nearly invariant" in page.text


def test_stages_of_a_training_are_curves_and_not_models_beside_one_another(tmp_path: Path) -> None:
    headings = re.findall(r"<h3>([^<]*)</h3>", render(kinds_run(tmp_path, stages=2, samples=6, draws=5)))
    assert "During training" in headings
    assert "Models that are less invariant" not in headings


def test_the_page_is_sound(html: str, page: Page) -> None:
    assert page.unbalanced == []
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert {value[1:] for name, value in page.attributes if name == "href" and value.startswith("#")} <= set(ids)
    assert {ElementTree.fromstring(text).tag for text in drawings(html)} == {"svg"}
    assert "http" not in html.replace("http-equiv", "")
    written = [page.text, *(value for name, value in page.attributes if name != "src")]
    assert not [text for text in written if re.search(r"\b([Nn][Aa][Nn]|inf|None)\b", text)]


def test_the_same_run_gives_the_same_page(run: Result, html: str) -> None:
    assert render(run) == html


def test_forty_explainers_with_long_names_fold_away(tmp_path: Path) -> None:
    run = kinds_run(tmp_path, extra=24, long=True, samples=6, draws=5)
    html = render(run)
    page = Page(html)
    assert page.unbalanced == []
    assert len(html) < 3_000_000
    assert "15 more plots" in page.text
    assert "my own explainer number 23 with settings that nobody would type twice" in page.text


def test_figures_that_lack_their_data_are_left_out(tmp_path: Path) -> None:
    observed = [Observed(model="net", explainer="ig", score="symmetry", values=np.full((3, 9), 0.5))]
    html = render(stored(tmp_path, {"symmetry": Symmetry()}, observed))
    for heading in ("made symmetric", "less invariant", "During training", "enough draws", "What to do", "was learnt", "against symmetry"):
        assert heading not in html, heading


def test_measures_are_named_as_the_manifest_has_them(run: Result) -> None:
    reading = read(run)
    assert reading.measure("symmetry") == "cosine, and for concept bits the share that agrees"
    assert reading.measure("max_sensitivity") == "l2"
    assert reading.measure("unknown") == ""
    only = replace(reading, rows=tuple(item for item in reading.rows if item.frame == "input"))
    assert only.measure("symmetry") == "cosine"


def test_concepts_that_are_not_trusted_have_no_place_and_relatives_share_theirs(run: Result) -> None:
    concepts = read(run).concepts
    assert concepts["all-cnn", "cav-equiv"] == ["top", "shoe"]
    assert concepts["all-cnn", "cav-inv"] == list(CONCEPTS)
    assert concepts["all-cnn", "cav-equiv, 4 draws"] == ["top", "shoe"]


def evil_run(folder: Path, **spec: Any) -> Result:
    """A run whose every name and text is hostile."""
    random = np.random.default_rng(0)
    label, other, bare = EVIL_TOO, f"{EVIL}, 4 draws", EVIL
    names, frames = [EVIL, EVIL_TOO], {label: "input", other: "concepts", bare: "concepts"}
    scores = {"symmetry": Symmetry(), "max_sensitivity": MaxSensitivity(), "model_invariance": ModelInvariance()}
    observed = [
        Observed(model=model, explainer="", score="model_invariance", values=np.full(6, 1 - 0.1 * place))
        for place, model in enumerate(names)
    ]
    observed += [
        Observed(model=model, explainer=name, score=score, values=random.uniform(0.2, 0.8, (6, 8)), frame=frame)
        for model in names
        for name, frame in frames.items()
        for score in ("symmetry", "max_sensitivity")
    ]
    inner = {"name": "cav", "layer": EVIL}
    explainers = {label: {"name": label}, bare: inner, other: {"name": "symmetrised", "explainer": inner, "draws": 4}}
    renamed = {"gradient_shap": label, "simplex-equiv": bare, "cav-equiv": other}
    hostile = dict.fromkeys(("branch", "assumption", "measured", "reason", "change", "after_label"), EVIL)
    return stored(
        folder,
        scores,
        observed,
        pairs={"symmetry": [replace(pair, explainer=renamed[pair.explainer]) for pair in kind_pairs(names)]},
        title=EVIL,
        symmetry=EVIL,
        spec={"walk": {"name": "monte_carlo"}, "explainers": explainers, "symmetry": {"name": EVIL}, **spec},
        facts=[{**concept_fact(EVIL, name, EVIL), EVIL_TOO: EVIL, "trusted": False, "warning": EVIL} for name in frames]
        + [concept_fact(EVIL, other, EVIL_TOO), concept_fact(EVIL, other, EVIL)],
        advice=[advice(EVIL, explainer=label, **hostile), advice(EVIL_TOO, explainer=bare, robust=True)],
    )


def test_whatever_a_run_is_called_is_escaped(tmp_path: Path) -> None:
    html = render(evil_run(tmp_path))
    page = Page(html)
    assert [heading for heading in re.findall(r"<h3>([^<]*)</h3>", html) if heading in ("Were there enough draws?", "Worst samples")]
    assert "Sensitivity against symmetry" in page.text
    assert "Explanations made symmetric" in page.text
    assert not [tag for tag, _ in page.tags if tag == "script"]
    assert not [attributes for _, attributes in page.tags if "onerror" in attributes]
    assert all(attributes["src"].startswith("data:image/png;base64,") for tag, attributes in page.tags if tag == "img")
    assert page.unbalanced == []
    assert {ElementTree.fromstring(text).tag for text in drawings(html)} == {"svg"}
    assert page.text.count(EVIL) > 20


def test_stages_of_a_training_are_escaped(tmp_path: Path) -> None:
    html = render(evil_run(tmp_path, steps={EVIL: 0.0, EVIL_TOO: 10.0}))
    assert "During training" in html
    assert not [tag for tag, _ in Page(html).tags if tag == "script"]


def test_odd_manifests_do_no_harm(tmp_path: Path) -> None:
    explainers = {"a": "b", "c": {"name": "symmetrised", "explainer": None}}
    run = kinds_run(tmp_path, samples=6, draws=2, spec={"explainers": explainers, "walk": "monte_carlo"})
    assert Page(render(run)).unbalanced == []
