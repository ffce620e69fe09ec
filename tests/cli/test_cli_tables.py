from __future__ import annotations

import math
from typing import Any

import pytest
from rich.console import Console
from rich.markup import escape

from veracity import Result
from veracity.cli import tables
from veracity.core.scores import Score
from veracity.engine.store.state import Progress
from veracity.results import Row
from veracity.results.words import Assumed
from veracity.scores.gef import FastGEF, PublicFastGEF
from veracity.scores.rare_events import LnPHat, LnPMisclassified
from veracity.scores.robustness import SolTilde
from veracity.scores.sensitivity import MaxSensitivity, RelativeInputStability


def row(explainer: str, frame: str, value: float, **changes: Any) -> Row:
    failed = bool(changes.get("failed"))
    given: dict[str, Any] = {
        "model": "net", "score": "symmetry", "low": 0.4, "high": 0.6, "n": 9, "self_agreement": 1.0, "random_control": 0.25, "mark": 0.9,
        "state": "failed" if failed else "undefined" if math.isnan(value) else "done",
        "cells": 1, "cells_measured": int(not failed), "cells_failed": int(failed),
    }  # fmt: skip
    return Row(explainer=explainer, frame=frame, value=value, **{**given, **changes})


def printed(*rows: Row, **manifest: Any) -> list[str]:
    run = Result.__new__(Result)
    whole = {"spec": {}, "title": "[b]", "models": {"net": {"accuracy": None}, "other": {"accuracy": None}}, **manifest}
    vars(run).update(manifest=whole, rows=list(rows), path="r", progress=Progress(cells=1, done=frozenset("k")))
    console = Console(width=80)
    with console.capture() as capture:
        for part in tables.page(run):
            console.print(escape(part) if isinstance(part, str) else part.render())
    return capture.get().splitlines()


def first_words(lines: list[str]) -> list[str]:
    return [line.split("  ")[0].strip() for line in lines if line.strip() and not set(line.strip()) <= {"─", " "}]


def test_kinds_stand_apart_with_their_controls_last() -> None:
    lines = printed(
        row("cav", "concepts", 0.9), row("coin", "concepts", 0.99, control=True), row("shap", "input", 0.5),
        row("noise", "input", 1.0, control=True), row("ig", "input", 0.7), row("tracin", "training set", 0.8),
        row("", "", 1.0, score="model_invariance"),
    )  # fmt: skip
    words = first_words(lines)
    start = words.index("explainer")
    assert words[start + 1 : start + 10] == ["feature maps", "ig", "shap", "noise", "examples", "tracin", "concepts", "cav", "coin"]
    assert max(map(len, lines)) <= 80
    assert "a constant explanation" in " ".join(words)


def test_one_kind_has_no_line_of_its_own() -> None:
    words = first_words(printed(row("ig", "input", 0.7), row("noise", "input", 0.0, control=True)))
    assert words[words.index("explainer") + 1 :][:2] == ["ig", "noise"]
    assert "a constant map has it too." in " ".join(words)


def test_a_score_in_map_units_ranks_nobody_and_has_no_nulls() -> None:
    rows = (
        row("far", "input", 0.00042, score="max_sensitivity", direction="lower", low=0.0004, high=0.00044, mark=math.nan),
        row("near", "input", 0.00021, score="max_sensitivity", direction="lower", low=0.0002, high=0.00022, mark=math.nan),
    )
    lines = printed(*rows, score_specs={"max_sensitivity": MaxSensitivity(relative=False).about()})
    words = first_words(lines)
    assert "net: max_sensitivity" in words
    assert words.index("far") < words.index("near")
    assert any("0.000210" in line and "0.000200 .. 0.000220" in line for line in lines)
    assert not any("self" in line and "random" in line for line in lines if "explainer " in line and "interval" in line)
    said = " ".join(" ".join(lines).split())
    assert "compares samples and models, not explainers" in said
    assert "is better" not in said
    assert "necessary, not sufficient" not in said
    ranked = first_words(printed(*rows))
    assert "net: max_sensitivity (lower is better)" in ranked
    assert ranked.index("near") < ranked.index("far")


def test_one_error_is_told_once_under_the_table() -> None:
    rows = [row(f"e{place}", "input", math.nan, failed="RuntimeError: no weights") for place in range(6)]
    said = " ".join(" ".join(printed(*rows)).split())
    assert said.count("no weights") == 1
    assert "net failed for e0, e1, e2, e3, e4, e5: RuntimeError: no weights" in said
    assert said.count("no result") == 6


def test_a_row_that_failed_in_part_keeps_its_value_and_says_of_how_many_cells() -> None:
    partly = row("ig", "input", 0.5, failed="RuntimeError: no", state="done", cells=3, cells_measured=2, cells_failed=1)
    said = " ".join(" ".join(printed(partly, row("lime", "input", math.nan, failed="RuntimeError: no"))).split())
    assert "ig 0.500 0.400 .. 0.600" in said
    assert "net failed for ig (1 of 3 cells), lime: RuntimeError: no" in said


def test_samples_that_are_all_equal_say_what_they_leave_unseen() -> None:
    rows = row("ig", "input", 1.0, low=1.0, high=1.0, unseen=0.1129)
    assert any(line.split()[:6] == ["ig", "1.000", "unseen", "≤", "11.3", "%"] for line in printed(rows))
    pending = row("ig", "input", 1.0, low=1.0, high=1.0, unseen=0.1129, state="pending", cells=2)
    assert not any("unseen" in line.lower() for line in printed(pending))


def test_long_names_fold_within_eighty_columns() -> None:
    name = "an explainer with [bold]very[/] many settings " * 4
    lines = printed(row(name, "input", -0.7, low=-0.75, high=-0.65), row("cav", "concepts", 0.9, failed="RuntimeError: [x] broke"))
    assert max(map(len, lines)) <= 80
    assert "[bold]very[/]" in "".join("".join(lines).split())


def spec_of(**scores: Score) -> dict[str, Any]:
    return {label: {**score.about(), "spec": score.spec()} for label, score in scores.items()}


def test_arrows_say_which_way_is_better() -> None:
    lines = printed(
        row("ig", "input", 0.7, score="fast_gef"),
        row("ig", "input", 13651.417, score="ris", direction="lower", low=11548.79, high=1575400.0, random_control=47033.04),
        row("shap", "input", 0.9793, score="ris", direction="lower", low=0.94, high=1.02, random_control=47033.04),
        score_specs=spec_of(fast_gef=FastGEF(), ris=RelativeInputStability()),
    )
    heads = [line.split() for line in lines if "interval" in line and "explainer" in line]
    assert heads == [["explainer", "value", arrow, "interval", "n", "random"] for arrow in "↑↓"]
    assert any(line.split() == ["ig", "13651", "11549", "..", "1.58e+06", "9", "47033"] for line in lines)
    assert any(line.split() == ["shap", "0.979", "0.940", "..", "1.020", "9", "47033"] for line in lines)
    below = " ".join(" ".join(lines).split())
    assert "↑ higher is better, ↓ lower is better." in below
    assert "random: the fair random explanation." in below
    assert "self: the explainer" not in below


def test_one_direction_needs_no_words_about_arrows() -> None:
    assert "↑ higher is better" not in " ".join(printed(row("ig", "input", 0.7)))


def test_what_does_not_respond_says_so_and_a_null_stands_below() -> None:
    nan = float("nan")
    lines = printed(
        row("ig", "input", 0.7, score="fast_gef_public", null=0.5, no_response=2, n=7, undefined=2),
        row("edge", "input", nan, score="fast_gef_public", null=0.5, no_response=9, low=nan, high=nan, n=0, undefined=9, control=True),
        row("odd", "input", nan, score="fast_gef_public", null=0.5, no_response=0, low=nan, high=nan, n=0, undefined=9),
        score_specs=spec_of(fast_gef_public=PublicFastGEF()),
    )
    assert any(line.split()[:5] == ["edge", "no", "response", "0", "9"] for line in lines)
    assert any(line.split()[:4] == ["odd", "undefined", "0", "9"] for line in lines)
    words = " ".join(" ".join(lines).split())
    assert "A deterministic explanation that is unrelated to the model scores 0.500, not 0. No response: ig on 2 of 9." in words
    assert max(map(len, lines)) <= 80


def test_an_assumption_stands_once_below_each_table_of_its_score(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"net": "on 12 of 64 samples it is not.", "other": "on all 3 samples it is."}
    found = [Assumed(model=model, score="RIS", assumption="robust", holds=0, n=0, text=text) for model, text in texts.items()]
    monkeypatch.setattr(tables, "assumptions", lambda run, scores, models: found if set(scores) == {"RIS"} else [])
    rows = [row(name, "input", 0.7, score="RIS", direction="lower", model=model) for model in texts for name in ("ig", "shap")]
    words = " ".join(" ".join(printed(*rows)).split())
    assert [words.count(text) for text in texts.values()] == [1, 1]
    assert words.index("12 of 64") < words.index("other: RIS") < words.index("on all 3")


def test_published_figures_have_a_column_where_there_are_any() -> None:
    lines = printed(
        row("ig", "input", 0.7, score="fast_gef", published=0.79),
        row("shap", "input", 0.6, score="fast_gef", published=float("nan")),
        row("ig", "input", 0.7, score="gef", published=float("nan")),
        score_specs=spec_of(fast_gef=FastGEF(), gef=FastGEF()),
    )
    heads = [line.split() for line in lines if "interval" in line and "explainer" in line]
    assert [head[-1] for head in heads] == ["published", "random"]
    assert [line.split()[-1] for line in lines if line.strip().startswith(("ig", "shap"))] == ["0.790", "0.250", "0.250"]


def searched(score: Score, explainer: str, value: float, **changes: Any) -> Row:
    given = {"score": score.name, "direction": "lower", "low": -20.0, "high": -9.0, "n": 10, "evaluations": 55_000, **changes}
    counts = {"undefined": 0, "censored": 0, "infeasible": 0, "stuck": 0, "stiff": 0, "undefined_draws": 0, **given}
    return row(explainer, "input" if explainer else "", value, **given, outcome=score.outcome(counts), middle=score.centre)


def line(lines: list[str], start: str) -> str:
    return " ".join(next(text for text in lines if text.strip().startswith(start)).split())


def test_a_censored_median_is_a_bound() -> None:
    lines = printed(
        searched(LnPHat(), "ig", -100.0, bound=True, low=-math.inf, censored=2, n=3),
        searched(LnPHat(), "gradient", -12.5, censored=1, n=3, stuck=1),
    )
    assert line(lines, "explainer") == "explainer median ↓ interval samples"
    assert line(lines, "ig") == "ig ≤ -100.0 ≤ -9.00 2 of 3 censored"
    assert line(lines, "gradient") == "gradient -12.50 -20.00 .. -9.00 1 of 3 censored, 1 stuck"
    assert "55,000 evaluations for each of 2 explainers, 110,000 in all." in " ".join(" ".join(lines).split())
    assert max(map(len, lines)) <= 80


def test_worst_cases_say_how_often_they_are_feasible() -> None:
    lines = printed(searched(SolTilde(), "ig", 0.72, low=0.6, high=0.8, n=4, undefined=6, infeasible=6))
    assert line(lines, "explainer") == "explainer value ↓ interval samples"
    assert line(lines, "ig") == "ig 0.720 0.600 .. 0.800 4 of 10 feasible"
    assert "55,000 evaluations." in " ".join(lines)
    assert "self" not in " ".join(lines)


def test_scores_of_models_have_a_table_of_their_own() -> None:
    lines = printed(searched(LnPMisclassified(), "", -12.0))
    assert line(lines, "model") == "model median ↓ interval samples"
    assert line(lines, "net") == "net -12.00 -20.00 .. -9.00 none censored"
