"""No sentence is built on no data: the table of sentences is whole, and with too little data nothing of it is said."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from report_pages import Page

import report_runs
import sentence_page
from report_runs import Observed, stored
from veracity.core.explainers import Frame
from veracity.core.failures import failures_of
from veracity.core.sentences import COUNT_WORDS, SENTENCES, tell
from veracity.report import render
from veracity.report.answer import answer
from veracity.report.degradation import degradation_sentences
from veracity.report.distances import distance_sentences
from veracity.report.figures.advice import advice_data, robust_sentence
from veracity.report.figures.alignment import alignment_data, alignment_sentences
from veracity.report.figures.calibration import calibration_data, calibration_sentences
from veracity.report.figures.chart import Axis, exact_scale
from veracity.report.figures.convergence import ConvergenceData, convergence_sentences
from veracity.report.figures.curves import curves_data, curves_sentences
from veracity.report.figures.facts import facts_data, facts_sentence
from veracity.report.figures.folds import Fold, ModelFolds, fold_sentence
from veracity.report.figures.invariance import relaxation_data, relaxation_sentences, training_data, training_sentences
from veracity.report.figures.panels import Fan, Panel, path
from veracity.report.figures.search import SearchData, search_sentences
from veracity.report.figures.sensitivity import Cloud, SensitivityData, sensitivity_sentences
from veracity.report.figures.tables import Cell, OverviewData, OverviewRow, overview_data
from veracity.report.meta import meta_data, meta_sentences
from veracity.report.page import failing, leaders
from veracity.report.reading import read
from veracity.report.rows import COLUMNS
from veracity.report.stability import stability_sentences, undefined_pairs
from veracity.results import Result, Row
from veracity.results.words import Assumed, cost
from veracity.scores import Equivariance
from veracity.scores.common import Curve
from veracity.scores.faithfulness.curves import PixelFlipping
from veracity.scores.stability import MeGe, ReCo
from veracity.statistics.intervals import Interval
from veracity.statistics.trend import FOLLOWS, UNDEFINED
from veracity.studies.distances import Verdict as DistanceVerdict
from veracity.studies.flowchart import Assumption, Symptoms, diagnose

ROOT = Path(__file__).parents[2]
UNIT = exact_scale(0.0, 1.0)


# --- the table is whole


def test_the_page_of_sentences_is_that_of_the_code() -> None:
    """If this fails: a new sentence about data belongs into veracity.core.sentences; then write the page anew."""
    assert (ROOT / "docs" / "report-sentences.md").read_text(encoding="utf-8") == sentence_page.page()


def calls() -> list[tuple[Path, ast.Call]]:
    made = []
    for file in sorted((ROOT / "src" / "veracity").rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        imported = {
            name.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module in ("veracity.core.sentences", "veracity.report.wording")
            for name in node.names
        } & {"say", "tell"}
        made += [
            (file, node) for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "id", "") in imported
        ]  # fmt: skip
    return made


def test_every_sentence_that_is_said_is_in_the_table_and_the_other_way_round() -> None:
    keys = set()
    for file, call in calls():
        first = call.args[0]
        assert isinstance(first, ast.Constant), f"{file}:{call.lineno} says a sentence that is not named"
        keys.add(first.value)
        assert {item.arg for item in call.keywords} == set(SENTENCES[first.value].needs), f"{file}:{call.lineno}"
    assert keys == set(SENTENCES)
    assert {what for one in SENTENCES.values() for what in one.needs} == set(COUNT_WORDS)


@pytest.mark.parametrize("key", SENTENCES)
def test_with_less_than_it_needs_a_sentence_is_not_said(key: str) -> None:
    needs = dict(SENTENCES[key].needs)
    assert needs
    assert min(needs.values()) > 0
    assert set(needs) <= set(COUNT_WORDS)
    assert SENTENCES[key].words
    parts: list[Any] = [0.5] * SENTENCES[key].template.count("{")
    assert tell(key, *parts, **needs)
    for what in needs:
        assert tell(key, *parts, **{**needs, what: needs[what] - 1}) == ""
    with pytest.raises(TypeError, match="needs the counts"):
        tell(key, *parts, nothing=1)


# --- too little data, sentence by sentence


def row(explainer: str, value: float, half: float = 0.05, **changes: Any) -> Row:
    return report_runs.row(explainer, value, half, **{"score": "pixel_flipping", **changes})


def differences(*pairs: tuple[str, str, bool], ends: tuple[float, float] = (0.1, 0.2)) -> pd.DataFrame:
    return pd.DataFrame([["net", a, b, 0.1, *ends, 20, differs] for a, b, differs in pairs], columns=COLUMNS)


def said(rows: Sequence[Row], score: str = "pixel_flipping", pairs: pd.DataFrame | None = None) -> str:
    return " ".join(str(one.striptags()) for one in answer(rows, score, ["net"], chances=True, differences=pairs).sentences)


RANKS = ("ahead", "behind", "best", "worst", "comes first")


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], ""),
        ([row("ig", math.nan)], "No explainer has a value of pixel flipping."),
        ([row("ig", math.nan), row("gradient", math.nan)], "No explainer has a value of pixel flipping."),
        ([row("ig", 0.5)], "By pixel flipping, ig scores 0.500 (0.450 to 0.550)."),
        ([row("ig", 0.5), row("gradient", math.nan)], "By pixel flipping, ig scores 0.500 (0.450 to 0.550)."),
        ([row("ig", 0.5), row("edges", 0.1, control=True)], "By pixel flipping, ig scores 0.500 (0.450 to 0.550)."),
        ([row("ig", 0.5, math.nan)], "By pixel flipping, ig scores 0.500 (no interval)."),
        (
            [row("ig", 0.5, n=2), row("gradient", 0.2, n=2)],
            "With only 2 samples, ig and gradient cannot be told apart by pixel flipping.",
        ),
        (
            [row("ig", 0.5, math.nan, n=1), row("gradient", 0.2, math.nan, n=1)],
            "With only 1 sample, ig and gradient cannot be told apart by pixel flipping.",
        ),
        (
            [row("ig", 0.5), row("gradient", 0.5)],
            "By pixel flipping, ig and gradient cannot be told apart: they have no paired differences.",
        ),
        ([row("ig", 0.5, frame="input"), row("cav", 0.1, frame="concepts")], ""),
        (
            [row("ig", 5.0, in_map_units=True), row("ig / 100", 0.05, in_map_units=True)],
            "Pixel flipping has the units of the map, so it compares samples and models, not explainers.",
        ),
    ],
)
def test_nobody_is_ranked_on_too_little(rows: list[Row], expected: str) -> None:
    told = said(rows)
    assert expected in told
    assert not any(word in told for word in RANKS)


def test_ranks_need_paired_differences() -> None:
    rows = [row("ig", 0.9), row("gradient", 0.5), row("lime", 0.1)]
    none = differences(("ig", "gradient", False), ("ig", "lime", False), ("gradient", "lime", False))
    assert said(rows, pairs=none) == (
        "By pixel flipping, ig, gradient and lime cannot be told apart: none of their paired differences excludes zero."
    )
    some = differences(("ig", "gradient", False), ("ig", "lime", True), ("gradient", "lime", False))
    assert said(rows, pairs=some) == (
        "By pixel flipping, ig comes first with 0.900 (0.850 to 0.950) and is ahead of lime, but cannot be told apart from gradient. Of 3 "
        "pairs, 1 can be told apart."
    )
    every = differences(("ig", "gradient", True), ("ig", "lime", True), ("gradient", "lime", True))
    assert said(rows, pairs=every) == (
        "By pixel flipping, ig is ahead of every other explainer: 0.900 (0.850 to 0.950). Of 3 pairs, 3 can be told apart. By pixel "
        "flipping, lime is behind every other explainer: 0.100 (0.050 to 0.150)."
    )
    unknown = differences(("ig", "gradient", True), ("ig", "lime", True), ends=(math.nan, math.nan))
    assert not any(word in said(rows, pairs=unknown) for word in RANKS)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([row("a", 1.0, math.nan, score="equivariance", n=1)], "No explainer has an interval of equivariance, so it is unknown"),
        (
            [row("a", 1.0, 0.0, score="equivariance"), row("b", 0.2, math.nan, score="equivariance")],
            "The one explainer respects the symmetry",
        ),
        ([row("a", math.nan, score="equivariance")], "No explainer has a value of equivariance."),
    ],
)
def test_a_symmetry_is_judged_by_intervals_alone(rows: list[Row], expected: str) -> None:
    assert said(rows, "equivariance").startswith(expected)


def test_remarks_need_intervals() -> None:
    lost = row("a", 0.1, math.nan, random_control=0.5, self_agreement=0.1, score="equivariance")
    own = row("", 0.2, math.nan, score="model_invariance")
    (found,) = answer([lost, own], "equivariance", ["net"]).models
    assert found.remarks == ()
    assert found.behaviour == "Model invariance 0.200"
    control = row("edges", 0.9, math.nan, control=True)
    (found,) = answer([row("a", 0.1), control], "pixel_flipping", ["net"], chances=True).models
    assert found.remarks == ()


def fan(*middle: float) -> Fan:
    across = np.linspace(0.0, 100.0, len(middle) + 1)[1:]
    return Fan(label="ig", index=0, seeds=(), middle=path(across, middle))


def searched(*fans: Fan) -> list[str]:
    panel = Panel(title="Genetic", fans=fans, across=Axis(scale=UNIT, labels=()), up=UNIT)
    return [str(one.striptags()) for one in search_sentences(SearchData(panels=(panel,), axis="the agreement"))]


@pytest.mark.parametrize("records", range(8))
def test_a_search_with_few_records_has_no_last_quarter(records: int) -> None:
    """A curve from .99 to .67 in four records is no search that has settled."""
    assert searched(fan(*np.linspace(0.99, 0.67, records))) == []


def test_a_search_with_enough_records_is_judged_by_its_last_quarter() -> None:
    assert searched() == []
    assert searched(fan(*[math.nan] * 12)) == []
    falling = fan(*np.linspace(0.99, 0.67, 9))
    assert searched(falling) == ["Genetic: over the last quarter of the evaluations, the middle seed of ig moved most, by 0.120."]
    settled = fan(0.99, 0.8, 0.7, *[0.67] * 9)
    assert searched(settled) == ["Genetic: over the last quarter of the evaluations, no middle seed moved by more than 0.001."]
    early = Fan(label="ig", index=0, seeds=(), middle=path([1, 2, 3, 4, 5, 6, 7, 100], [0.99] * 7 + [0.67]))
    assert searched(early) == []  # one record in the last quarter


@pytest.mark.parametrize(
    ("caused", "followed"),
    [
        (np.ones((3, 2, 1)), np.ones((3, 2, 1))),
        (np.ones((3, 2, 4)), np.full((3, 2, 4), np.nan)),
        (np.full((3, 2, 4), np.nan), np.ones((3, 2, 4))),
        (np.zeros((0, 0, 4)), np.zeros((0, 0, 4))),
    ],
)
def test_distortions_need_two_levels_with_values(caused: np.ndarray, followed: np.ndarray) -> None:
    data = alignment_data({("net", "ig"): (caused, followed), ("net", "random"): (caused, followed)}, ["net"], {"ig": "input"}, ["random"])
    assert alignment_sentences(data) == []


def test_one_explainer_does_not_move_furthest() -> None:
    levels = np.arange(1.0, 4.0) * np.ones((2, 1, 3))
    found = {("net", "ig"): (levels, levels), ("net", "lime"): (levels, 2 * levels)}
    (one,) = alignment_sentences(alignment_data(found, ["net"], {"ig": "input"}))
    assert one.striptags() == "From the first level to the last, the explanations of ig move from 1.000 to 3.000."
    (two,) = alignment_sentences(alignment_data(found, ["net"], {"ig": "input", "lime": "input"}))
    assert "explanations of lime move furthest: from 2.000 to 6.000." in two.striptags()
    assert alignment_sentences(alignment_data(found, ["net"], {"ig": "input", "lime": "input"}, in_map_units=True)) == []


@pytest.mark.parametrize("values", [np.full((4, 10), np.nan), np.zeros((0, 10))])
def test_curves_need_values(values: np.ndarray) -> None:
    curve = Curve(quantity="prediction", places=np.linspace(0.1, 1.0, 10), across="", up="the mean", masking=True)
    assert curves_sentences(curves_data({("net", "ig"): values}, curve, ["net"], {"ig": "input"})) == []
    fine = curves_data({("net", "ig"): np.ones((4, 10)), ("net", "random"): values}, curve, ["net"], {"ig": "input"}, ["random"])
    (told,) = curves_sentences(fine)
    assert "random" not in told


def test_a_training_needs_two_steps_and_two_explainers_to_change_most() -> None:
    assert training_sentences(training_data([], "symmetry", {}, [])) == []
    assert training_sentences(training_data([row("ig", 0.5, model="a", score="symmetry")], "symmetry", {"a": 1.0}, ["ig"])) == []
    rows = [row("ig", value, model=model, score="symmetry") for model, value in (("a", 0.5), ("b", 0.7))]
    (told,) = training_sentences(training_data(rows, "symmetry", {"a": 1.0, "b": 2.0}, ["ig"]))
    assert told.striptags() == "From step 1 to step 2, ig goes from 0.500 to 0.700."


def test_predictions_fall_to_chance_only_if_they_do() -> None:
    record = {
        "model": "net",
        "space": "weights",
        "sigma": 2.0,
        "chance": 0.1,
        "tolerance": 0.01,
        "draws": 40,
        "curve": [[1.0, 0.9], [2.0, 0.5]],
    }
    assert calibration_sentences(calibration_data([{**record, "agreement": 0.5}], ["net"])) == []
    assert len(calibration_sentences(calibration_data([{**record, "agreement": 0.11}], ["net"]))) == 1
    assert calibration_sentences(calibration_data([], ["net"])) == []


@pytest.mark.parametrize(
    ("found", "expected"), [([], []), ([2], []), ([math.nan], []), ([5], ["is 0.50"]), ([5, 6], ["lies between 0.50 and 0.50"])]
)
def test_a_correlation_needs_three_samples(found: list[float], expected: list[str]) -> None:
    clouds = tuple(
        Cloud(
            model=0, sensitivity=np.ones(2), symmetry=np.ones(2),
            r=Interval(value=0.5 if n == n else math.nan, low=math.nan, high=math.nan, n=int(n) if n == n else 9),
        )
        for n in found
    )  # fmt: skip
    told = sensitivity_sentences(SensitivityData(symmetry="symmetry", models=("net",), explainers=(("ig", "input", clouds),), up=UNIT))
    assert len(told) == len(expected)
    assert all(part in one for part, one in zip(expected, told, strict=True))


def test_convergence_relaxation_and_what_was_learnt_need_something() -> None:
    assert convergence_sentences(ConvergenceData(models=("net",), explainers=()), "95 %") == []
    own = [row("", 1.0, 0.0, model=model, score="model_invariance") for model in "ab"]
    rows = [row("ig", 1.0, math.nan, model=model, score="symmetry") for model in "ab"]
    assert relaxation_sentences(relaxation_data([*own, *rows], "symmetry", ["a", "b"], ["ig"]), ["a", "b"]) == []
    assert facts_sentence(facts_data(pd.DataFrame([]), "95 %")) == ""
    assert robust_sentence(advice_data([], ["net"])) == ""


def test_studies_say_nothing_of_nothing() -> None:
    columns = ["score", "damage", "explainer", "verdict"]
    assert degradation_sentences(pd.DataFrame(columns=columns)) == []
    lost = pd.DataFrame([["mege", "weights", name, UNDEFINED] for name in "ab"], columns=columns)
    (told,) = degradation_sentences(lost)
    assert told.striptags() == "It is unknown whether MeGe follows the damage of weights: no explainer has values for enough seeds."
    (told,) = degradation_sentences(pd.concat([lost, pd.DataFrame([["mege", "weights", "c", FOLLOWS]], columns=columns)]))
    assert told.striptags() == "MeGe follows the damage of weights for 1 of 1 explainer; 2 undefined."
    nothing = pd.DataFrame(columns=["test", "distance", "verdict"])
    assert distance_sentences(nothing) == []
    undefined = pd.DataFrame([["noise", "l2", DistanceVerdict.UNDEFINED]], columns=nothing.columns)
    assert [str(one) for one in distance_sentences(undefined)] == ["Noise: of 1 distance, 1 undefined."]
    parts = {"iac_nr": 0.5, "iac_ar": 0.5, "iec_nr": 0.5, "iec_ar": 0.5}
    one = pd.DataFrame([{"score": "gef", "test": "ipt", "mc": 0.5, "sd": 0.1, **parts}])
    assert meta_sentences(meta_data(one)) == []
    assert meta_sentences(meta_data(one.assign(mc=math.nan))) == []


def test_assumptions_of_no_sample_are_not_said_to_hold() -> None:
    untold = Assumed(model="net", score="ris", assumption="x", holds=0, n=0, text="")
    assert failing([untold], ["net"]) == []
    assert failing([], ["net"]) == []


def test_leaders_need_two_explainers() -> None:
    for rows in ([], [row("ig", 0.5)], [row("ig", 0.5), row("lime", math.nan)]):
        assert leaders(overview_data(rows, ["pixel_flipping"], ["net"], ())) == []


def run_of(folder: Path, values: dict[str, np.ndarray], score: str, pending: Sequence[str] = ()) -> Result:
    """A run of one score on one model."""
    known = {"equivariance": Equivariance(), "pixel_flipping": PixelFlipping()}.get(score, Equivariance())
    tables = {name: {known.quantities[0]: found[:, None, None]} for name, found in values.items()}
    observed = [Observed(model="net", explainer=name, score=score, values=table) for name, table in tables.items()]
    observed += [Observed(model="net", explainer=name, score=score, values=np.zeros(2), pending=True) for name in pending]
    return stored(folder, {score: known}, observed, models={"net": None}, symmetry="")


def test_while_an_explainer_is_pending_nobody_leads_and_orders_hold_so_far(tmp_path: Path) -> None:
    values = {"ig": np.linspace(0.1, 0.2, 9), "gradient": np.linspace(0.6, 0.8, 9)}
    scores = ["pixel_flipping"]
    done = read(run_of(tmp_path / "done", values, "pixel_flipping")).rows
    half = read(run_of(tmp_path / "half", values, "pixel_flipping", ["lime"])).rows
    first = f"0.150 ({done[0].ends()})"
    assert [one.leads for one in done] == [True, False]
    assert not any(one.leads for one in half)
    (told,) = leaders(overview_data(done, scores, ["net"], ()))
    assert told.striptags() == "By pixel flipping, ig is ahead of every other explainer."
    assert leaders(overview_data(half, scores, ["net"], ()), whole=False) == []
    pairs = differences(("ig", "gradient", True), ends=(-0.7, -0.4))
    assert said(done, pairs=pairs) == f"By pixel flipping, ig is ahead of every other explainer: {first}."
    assert said(half, pairs=pairs) == (
        f"By pixel flipping so far, ig is ahead of every other explainer: {first}. Not measured on all samples yet: 1 of 3 explainers."
    )
    assert said([one for one in half if one.pending]) == "Not measured on all samples yet: 1 of 1 explainer."


def test_of_many_scores_only_those_measured_so_far_are_counted() -> None:
    tables = [
        OverviewData(
            model="net", explainers=("ig", "lime"), controls=0,
            rows=tuple(
                OverviewRow(score=f"s{place}", direction="higher", cells=(Cell(value="1", best=best), Cell(value="0")), chance="",
                            assumption="", compared=compared)
                for place, (best, compared) in enumerate([(True, 2), (False, 2), (False, 0)])
            ),
        )
    ]  # fmt: skip
    (told,) = leaders(tables, whole=False)
    assert told.striptags() == "Of 2 scores measured so far, ig is ahead of every other explainer in 1."
    (told,) = leaders(tables)
    assert told.striptags() == "Of 2 scores, ig is ahead of every other explainer in 1."


def test_that_all_assumptions_hold_is_said_of_a_whole_run_alone() -> None:
    held = [Assumed(model="net", score="gef", assumption="kept", holds=10, n=10, text="")]
    assert len(failing(held, ["net"])) == 1
    assert failing(held, ["net"], whole=False) == []


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("pending", "Model invariance is not measured yet."),
        ("failed", "Model invariance failed."),
        ("undefined", "Model invariance is undefined."),
    ],
)
def test_a_model_without_a_number_says_why(state: str, expected: str) -> None:
    own = row("", math.nan, score="model_invariance", state=state)
    (found,) = answer([row("a", 0.5, score="equivariance"), own], "equivariance", ["net"]).models
    assert found.behaviour == expected


@pytest.mark.parametrize("accuracies", [(), (math.nan,), (0.9,), (0.9, math.nan)])
def test_folds_are_comparable_only_where_two_accuracies_are_known(accuracies: tuple[float, ...]) -> None:
    folds = tuple(Fold(fold=place, samples=10, accuracy=value, seconds=1.0) for place, value in enumerate(accuracies))
    told = fold_sentence(ModelFolds(model="net", place=0, folds=folds))
    assert told == "" if not accuracies else "unknown" in told


@pytest.mark.parametrize("rows", [[], [row("ig", math.nan, score="reco", pooled=True)], [row("ig", 0.5, score="reco", pooled=True)]])
def test_stability_ranks_nobody_on_too_little(rows: list[Row]) -> None:
    for score in (MeGe(), ReCo()):
        told = " ".join(map(str, stability_sentences(rows, score, "reco", ["net"], differences())))
        assert not any(word in told for word in RANKS)
    assert undefined_pairs(rows) == []


def test_nothing_spent_is_nothing_said() -> None:
    assert cost([]) == ""


def test_advice_needs_an_interval() -> None:
    one = Symptoms(frame=Frame.INPUT, score=1.0, low=math.nan, high=math.nan, self_agreement=1.0, model_invariance=1.0)
    assert diagnose(one).assumption is Assumption.UNTOLD
    assert "no interval" in diagnose(one).reason


# --- whole pages


@pytest.mark.parametrize("score", ["equivariance", "pixel_flipping", "my_score"])
@pytest.mark.parametrize(
    "values",
    [
        {},
        {"ig": np.array([0.5])},
        {"ig": np.array([0.5, 0.7, 0.9] * 5)},
        {"ig": np.array([math.nan] * 4), "gradient": np.array([math.nan] * 4)},
        {"ig": np.array([0.5]), "gradient": np.array([0.1])},
        {"ig": np.ones(8), "gradient": np.ones(8)},
    ],
    ids=["nothing", "one sample", "one explainer", "all undefined", "one sample of two", "all equal"],
)
def test_a_page_of_too_little_ranks_nobody(tmp_path: Path, values: dict[str, np.ndarray], score: str) -> None:
    top = Page(render(run_of(tmp_path, values, score))).text.split("Reproduce")[0]
    told = top[: top.index("Symmetry")] if "Symmetry" in top else top
    assert not any(f" {word} " in told for word in RANKS)
    assert "nan" not in told.lower().split()


# --- what failed is told once


def test_one_error_of_many_explainers_is_told_once(tmp_path: Path) -> None:
    rows = [{"model": "net", "explainer": f"e{place}", "score": "gef", "error": "No weights."} for place in range(6)]
    (one,) = failures_of(rows)
    assert str(one) == "net / gef failed for e0, e1, e2, e3, e4, e5: No weights."
    assert one.share == ""
    partly = [{**one, "cells_failed": 1 + place % 3, "cells": 3} for place, one in enumerate(rows[:4])]
    (one,) = failures_of(partly)
    assert str(one) == "net / gef failed for e0 (1 of 3 cells), e1 (2 of 3 cells), e2, e3 (1 of 3 cells): No weights."
    assert one.share == "7 of 12 cells"
    blocks = [{"model": "net", "explainer": "", "error": "No output.", "cells_failed": 1, "cells": 3}] * 2
    assert [(str(one), one.share) for one in failures_of(blocks)] == [("net failed (2 of 3 cells): No output.", "2 of 3 cells")]
    lost = (("gef", 1), ("reco", 2))
    single = [{**one, "score": score, "samples_failed": number, "samples": 64} for one in rows[:2] for score, number in lost]
    (one,) = failures_of(single)
    assert str(one) == "net / gef, reco failed for e0 (2 of 64 samples), e1 (2 of 64 samples): No weights."
    assert one.share == "4 of 128 samples"
    (one,) = failures_of([single[0], partly[0]])
    assert str(one) == "net / gef failed for e0 (1 of 3 cells, 1 of 64 samples): No weights."
    own = {"model": "net", "explainer": "", "score": "model_invariance", "error": "No output."}
    assert [str(one) for one in failures_of([own])] == ["net / model_invariance failed: No output."]
    lost = [Observed(model="net", explainer=f"e{place}", score="gef", values=np.zeros(4), failed="No weights.") for place in range(6)]
    page = Page(render(stored(tmp_path, {"gef": Equivariance()}, lost)))
    assert page.text.count("No weights.") == 2  # in the banner, and once among the gaps
