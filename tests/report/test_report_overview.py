from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_pages import EVIL, EVIL_TOO

import report_runs
from report_runs import Observed, stored
from veracity.core.scores import Score
from veracity.report.answer import answer
from veracity.report.figures.ranking import draw_ranking, ranking_data
from veracity.report.figures.tables import overview_data
from veracity.report.html import draw
from veracity.report.page import failing, leaders
from veracity.report.reading import comparable
from veracity.report.rows import Verdict, against_chance, chance_words
from veracity.results import Result, Row
from veracity.results.words import Assumed, assumptions
from veracity.scores.assumptions import ModelRobustness
from veracity.scores.faithfulness.content import Completeness
from veracity.scores.faithfulness.correlation import Infidelity
from veracity.scores.faithfulness.curves import PixelFlipping
from veracity.scores.sensitivity import LocalLipschitz, MaxSensitivity, RelativeInputStability
from veracity.scores.symmetry import Equivariance

COMPARE = ": there, compare explainers with each other and with random ones, not with the best possible value."
"""What to do where an assumption fails."""


def row(explainer: str, value: float, score: str = "fast_gef", model: str = "net", half: float = 0.05, **changes: Any) -> Row:
    state = {} if math.isfinite(value) else {"state": "undefined"}
    return report_runs.row(explainer, value, half, **{"model": model, "score": score, "n": 1, "random_control": 0.0, **state, **changes})


def text(markup: object) -> str:
    return re.sub(r"<[^>]*>", "", str(markup))


def said(*rows: Row, score: str = "fast_gef", models: tuple[str, ...] = ("net",)) -> str:
    return " ".join(text(sentence) for sentence in answer(rows, score, models, chances=True).sentences)


# --- what a score is


def test_a_score_is_built_from_what_the_manifest_says(tmp_path: Path) -> None:
    run = unknown_run(tmp_path)
    assert run.known_score("mine") == PixelFlipping(features_in_step=7)
    assert type(run.known_score("odd")).summary() == ""
    assert run.known_score("absent") == run.known_score("odd")


def unknown_run(folder: Path, **about: Any) -> Result:
    """A run with a score that is not installed."""
    own, odd = PixelFlipping(features_in_step=7), {"spec": {"name": "nobody's"}, "reduce": "mean", **about}
    tables = {"mine": {"prediction": np.full((3, 1, 2), 0.5)}, "odd": np.full(3, 0.5)}
    observed = [Observed(model="net", explainer="a", score=label, values=values) for label, values in tables.items()]
    specs = {"mine": own.about(), "odd": odd}
    return stored(folder, {"mine": own, "odd": Equivariance()}, observed, score_specs=specs)


@pytest.mark.parametrize(
    ("score", "null", "ceiling"),
    [
        (Equivariance(), True, True),
        (RelativeInputStability(), True, False),
        (MaxSensitivity(), True, False),
        (MaxSensitivity(relative=False), False, False),
        (Infidelity(), False, False),
        (Infidelity(scaled=True), True, False),
        (Completeness(), False, False),
        (LocalLipschitz(), True, False),
        (LocalLipschitz(relative=False), False, False),
    ],
)
def test_only_what_is_on_the_same_scale_stands_beside_a_score(score: Any, null: bool, ceiling: bool) -> None:
    found = comparable(row("a", 0.5, self_agreement=1.0, in_map_units=score.in_map_units), score)
    assert (math.isfinite(found.random_control), math.isfinite(found.self_agreement)) == (null, ceiling)


def test_an_unknown_score_is_taken_as_a_likeness_unless_the_run_says_that_it_is_in_map_units(tmp_path: Path) -> None:
    run = unknown_run(tmp_path / "plain")
    assert run.known_score("odd").beside == ("self_agreement", "random_control")
    assert not run.in_map_units("odd")
    assert unknown_run(tmp_path / "units", in_map_units=True).in_map_units("odd")


# --- assumptions


def assuming_run(folder: Path, scores: Mapping[str, Score], assumptions: Mapping[str, str], **held: list[float]) -> Result:
    """A run whose assumption "held" is 1 or 0 on the samples of each model."""
    kept = {model: np.array(values)[:, None, None] for model, values in held.items()}
    observed = [
        Observed(model=model, explainer="", score="held", values={"distortion": 0.0 * values, "kept": values})
        for model, values in kept.items()
    ]
    return stored(folder, scores, observed, beside={"held": ModelRobustness()}, models=dict.fromkeys("ab"), assumptions=dict(assumptions))


def test_the_sentence_counts_samples_and_calls_the_score_as_the_run_does(tmp_path: Path) -> None:
    run = assuming_run(tmp_path, {"RIS": RelativeInputStability()}, {"RIS": "held"}, a=[1.0, 0.0, math.nan, 1.0], b=[1.0, 1.0])
    found = assumptions(run, ["RIS", "free"], ["a", "b"])
    assert [(one.model, one.holds, one.n, one.fails) for one in found] == [("a", 2, 3, 1), ("b", 2, 2, 0)]
    assert [one.text for one in found] == [
        f"RIS assumes a stable model; on 1 of 3 samples it is not{COMPARE}",
        "RIS assumes a stable model; on all 2 samples it is.",
    ]


def test_an_assumption_that_was_not_measured_says_nothing(tmp_path: Path) -> None:
    assert assumptions(assuming_run(tmp_path, {"RIS": RelativeInputStability()}, {"RIS": "gone"}, a=[1.0]), ["RIS"], ["a"]) == ()


def test_components_that_nobody_knows_are_named(tmp_path: Path) -> None:
    run = assuming_run(tmp_path, {"x": RelativeInputStability()}, {"x": "held"}, a=[1.0, 0.0])
    run.manifest["score_specs"]["x"]["spec"] = {"name": "nobody's"}
    (one,) = assumptions(run, ["x"], ["a"])
    assert one.text == "x assumes held; it holds on 1 of 2 samples."


# --- against chance


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, Verdict.AHEAD),
        ({"random_control": 0.47}, Verdict.LEVEL),
        ({"random_control": 0.9}, Verdict.BEHIND),
        ({"null": 0.5}, Verdict.LEVEL),
        ({"null": 0.4, "random_control": 0.9}, Verdict.AHEAD),
        ({"direction": "lower"}, Verdict.BEHIND),
        ({"direction": "lower", "random_control": 0.9}, Verdict.AHEAD),
        ({"random_control": math.nan}, Verdict.UNKNOWN),
        ({"value": math.nan, "no_response": 4}, Verdict.STILL),
        ({"value": math.nan, "no_response": 4, "failed": "broke", "state": "failed"}, Verdict.FAILED),
        ({"value": math.nan}, Verdict.UNKNOWN),
    ],
)
def test_the_verdict_against_chance_is_the_intervals(changes: dict[str, Any], expected: Verdict) -> None:
    assert against_chance(row("a", **{"value": 0.5, **changes})) is expected


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"random_control": 0.47}, "no better than chance"),
        ({"random_control": 0.9}, "worse than chance"),
        ({"direction": "lower"}, "worse than chance"),
        ({"random_control": 0.9, "control": True}, ""),
        ({"random_control": 0.9, "explainer": ""}, ""),
        ({"random_control": 0.9, "value": math.nan, "state": "pending"}, ""),
        ({"random_control": math.nan}, ""),
    ],
)
def test_chance_in_two_or_three_words(changes: dict[str, Any], words: str) -> None:
    changes = {"explainer": "a", "value": 0.5, **changes}
    assert chance_words(row(changes.pop("explainer"), **changes)) == words


def test_chance_in_sentences() -> None:
    rows = [row("a", 0.8), row("b", 0.5), row("c", 0.01), row("random_gaussian", 0.0, control=True)]
    assert said(*rows) == (
        "With only 1 sample, a, b and c cannot be told apart by Fast-GEF. "
        "Of the explainers, 2 of 3 do better than chance, which is what random explanations score (0.000)."
    )
    known = [row("a", 0.8, null=0.5, random_control=0.0), row("b", 0.7, null=0.5, random_control=0.1)]
    assert said(*known).endswith(
        "all 2 do better than chance, which is what an explanation that has nothing to do with the model scores (0.500)."
    )
    two = [row("a", 0.8), row("a", 0.0, model="other")]
    assert "Of the explainers, 1 of 1 on net and none of 1 on other do better than chance" in said(*two, models=("net", "other"))
    assert "chance" not in said(row("a", 0.8, random_control=math.nan))


def test_findings_name_who_does_not_respond_and_who_is_blind() -> None:
    rows = [
        row("a", 0.8), row("b", 0.3, no_response=2, n=8, undefined=0), row("c", math.nan, no_response=10, n=0, undefined=10),
        row("edge_filter", 0.5, control=True), row("random_gaussian", 0.6, control=True), row("constant_map", math.nan, control=True),
    ]  # fmt: skip
    (found,) = answer(rows, "fast_gef", ["net"], chances=True).models
    assert {item.verdict: item.names for item in found.findings} == {Verdict.AHEAD: ("a", "b"), Verdict.STILL: ("c",)}
    assert found.behaviour == ""
    assert [text(remark) for remark in found.remarks] == [
        "The score is undefined on samples whose explanation does not respond at all: b (2 of 8) and c (10 of 10).",
        "Controls that never look at the model score no worse than some explainers: edge_filter (0.500) than 1 of 2.",
    ]


def test_a_low_control_beats_a_score_that_should_be_low() -> None:
    rows = [row("a", 9.0, "ris", direction="lower"), row("constant_map", 0.0, "ris", control=True, direction="lower")]
    (found,) = answer(rows, "ris", ["net"], chances=True).models
    assert "constant_map (0.000) than 1 of 1" in text(found.remarks[-1])


# --- the ranking


def test_nulls_and_published_figures_are_marked_on_the_ranking() -> None:
    data = ranking_data([row("a", 0.8, null=0.5, published=0.75), row("b", math.nan, no_response=3)], "fast_gef", ["net"])
    tree = ElementTree.fromstring(str(draw_ranking(data)))
    marks = {path.get("class"): item.get("x") for item in tree.iter("svg") for path in item.findall("path")}
    assert (marks["null known"], marks["ring"]) == ("50.0%", "75.0%")
    assert "known null 0.500; published 0.750" in text(draw_ranking(data))
    assert "no response" in text(draw_ranking(data))


# --- all scores at a glance

ROWS = [
    row("a", 0.8), row("b", 0.9, leads=True), row("random_gaussian", 0.95, control=True),
    row("edge_filter", math.nan, control=True, no_response=4),
    row("a", 40_000.0, "ris", direction="lower", random_control=50_000.0, leads=True),
    row("b", 49_999.99, "ris", direction="lower", random_control=50_000.0),
    row("a", 0.4, "mprt", direction="lower", random_control=0.1, leads=True), row("b", 0.6, "mprt", direction="lower", random_control=0.2),
]  # fmt: skip
FAILS = (Assumed(model="net", score="ris", assumption="x", holds=52, n=64, text=""),)


def test_every_row_has_its_own_best_and_controls_never_are() -> None:
    (data,) = overview_data(ROWS, ["fast_gef", "ris", "mprt", "absent"], ["net", "other"], FAILS)
    assert data.explainers == ("a", "b", "random_gaussian", "edge_filter")
    assert data.controls == 2
    assert [sum(row.cells[place].best for row in data.rows) for place in range(4)] == [2, 1, 0, 0]
    assert [row.score for row in data.rows] == ["fast_gef", "ris", "mprt"]
    first, ris, mprt = data.rows
    assert [cell.value for cell in first.cells] == ["0.800", "0.900", "0.950", "no response"]
    assert [cell.best for cell in first.cells] == [False, True, False, False]
    assert [cell.faint for cell in ris.cells] == [False, True, False, False]
    assert [cell.value for cell in ris.cells] == ["40000", "50000", "", ""]
    assert all(cell.faint for cell in mprt.cells[:2])
    tied = overview_data([*ROWS[:2], row("edge_filter", 0.9, control=True)], ["fast_gef"], ["net"], ())[0]
    assert [cell.best for cell in tied.rows[0].cells] == [True, False, False]
    assert (ris.assumption, ris.chance, mprt.chance) == ("12 of 64", "50000", "0.100 to 0.200")


def test_the_table_is_drawn_with_its_arrows() -> None:
    (data,) = overview_data(ROWS, ["fast_gef", "ris"], ["net"], FAILS)
    tree = ElementTree.fromstring(str(draw("overview", data)))
    lines = [[" ".join("".join(cell.itertext()).split()) for cell in line] for line in tree.iter("tr")]
    assert lines[0] == ["Score", "Assumption fails", "Chance", "a", "b", "random_gaussian control", "edge_filter control"]
    assert lines[1][:4] == ["Fast-GEF ↑", "", "0.000", "0.8000.750 to 0.850"]
    assert lines[2][:2] == ["Ris ↓", "12 of 64"]
    assert [cell.get("class") for cell in tree.iter("td")][3] == "best"
    (bare,) = overview_data(ROWS, ["fast_gef"], ["net"], ())
    assert "Assumption" not in str(draw("overview", bare))


def test_names_break_after_underscores_and_long_intervals_after_commas() -> None:
    wide = [row("random_gaussian", 0.5, control=True), row("a", 0.0, low=0.0, high=0.0, unseen=0.2)]
    (data,) = overview_data(wide, ["fast_gef"], ["net"], ())
    drawn = str(draw("overview", data))
    assert "random_<wbr/>gaussian" in drawn
    assert data.rows[0].cells[0].ends == "all equal, unseen ≤ 20 %"
    assert "<small>all equal</small><small>unseen ≤ 20 %</small>" in drawn


@pytest.mark.parametrize(("name", "least"), [("pale", 4.5), ("quiet", 4.5), ("behind", 1.9)])
def test_pale_numbers_and_curves_stand_out_from_the_paper(name: str, least: float) -> None:
    style = resources.files("veracity.report").joinpath("style.css").read_text(encoding="utf-8")
    light, dark = (dict(re.findall(r"--([a-z]+): (#[0-9a-f]{6});", part)) for part in style.split("prefers-color-scheme: dark", 2)[:2])
    for colours, needed in ((light, least), (dark, max(least, 3.0))):
        first, second = sorted((luminance(colours[name]), luminance(colours["paper"])), reverse=True)
        assert (first + 0.05) / (second + 0.05) >= needed


def luminance(colour: str) -> float:
    """The relative luminance of WCAG 2."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_names_in_the_table_are_escaped() -> None:
    (data,) = overview_data([row(EVIL, 0.5, EVIL_TOO, EVIL), row("b", 0.5, EVIL_TOO, EVIL)], [EVIL_TOO], [EVIL], ())
    drawn = str(draw("overview", data)) + "".join(leaders([data, data]))
    assert "<script" not in drawn
    assert "<img" not in drawn
    ElementTree.fromstring(f"<div>{drawn}</div>")


def test_who_leads_how_often() -> None:
    tables = overview_data(ROWS, ["fast_gef", "ris", "mprt"], ["net"], ())
    assert [text(item) for item in leaders(tables)] == [
        "Of 3 scores, a is ahead of every other explainer in 2 and b is ahead of every other explainer in 1."
    ]
    assert [text(item) for item in leaders(tables, without=["fast_gef"])] == ["Of 2 scores, a is ahead of every other explainer in 2."]
    level = overview_data([replace(one, leads=False) for one in ROWS], ["fast_gef", "ris", "mprt"], ["net"], ())
    assert [text(item) for item in leaders(level)] == ["Of 3 scores, no explainer is ahead of every other one in any."]
    assert leaders(overview_data([row("a", 0.5)], ["fast_gef"], ["net"], ())) == []


def test_assumptions_that_often_fail_are_named() -> None:
    often = Assumed(model="net", score="pixel_flipping", assumption="x", holds=2, n=10, text="")
    seldom = Assumed(model="net", score="ris", assumption="x", holds=19, n=20, text="")
    assert [text(item) for item in failing([seldom, often], ["net"])] == [
        "What a score assumes about the model fails on a tenth of the samples or more for pixel flipping (8 of 10 samples)."
    ]
    assert "of every score hold" in failing([seldom], ["net"])[0]
    assert failing([], ["net"]) == []
    assert text(failing([often], ["net", "other"])[0]).startswith("On net, what a score assumes")
