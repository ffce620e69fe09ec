from __future__ import annotations

import io
import math
from types import SimpleNamespace
from typing import Any

import pandas as pd
from rich.console import Console

from veracity.cli import tables
from veracity.core.scores import Score
from veracity.engine.store.state import Progress
from veracity.scores.rare_events import LnPHat, LnPMisclassified
from veracity.scores.robustness import SolTilde

ROW = {
    "model": "net", "frame": "input", "low": -20.0, "high": -9.0, "n": 10, "undefined": 0, "self_agreement": 1.0, "random_control": 0.25,
    "control": False, "direction": "lower", "failed": "", "censored": 0, "infeasible": 0, "stuck": 0, "evaluations": 55_000,
    "bound": False, "unseen": math.nan, "state": "done", "cells": 1, "cells_measured": 1, "cells_failed": 0,
}  # fmt: skip


def printed(score: Score, rows: list[dict[str, Any]]) -> list[str]:
    table = pd.DataFrame([{**ROW, "score": score.name, **row} for row in rows])
    run = SimpleNamespace(
        folds=pd.DataFrame,
        table=lambda: table,
        manifest={"spec": {}, "title": "run", "models": {"net": {"accuracy": None}}, "score_specs": {score.name: {"spec": score.spec()}}},
        path="r",
        progress=Progress(cells=1, done=frozenset("k")),
    )
    console = Console(width=80, file=io.StringIO())
    console.print(tables.results(run))  # type: ignore[arg-type]
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


def line(lines: list[str], start: str) -> str:
    return " ".join(next(text for text in lines if text.strip().startswith(start)).split())


def test_a_censored_median_is_a_bound() -> None:
    lines = printed(
        LnPHat(),
        [
            {"explainer": "ig", "value": -100.0, "bound": True, "low": -math.inf, "high": -9.0, "censored": 2, "n": 3},
            {"explainer": "gradient", "value": -12.5, "censored": 1, "n": 3, "stuck": 1},
        ],
    )
    assert line(lines, "explainer") == "explainer median ↓ interval samples"
    assert line(lines, "ig") == "ig ≤ -100.0 ≤ -9.00 2 of 3 censored"
    assert line(lines, "gradient") == "gradient -12.50 -20.00 .. -9.00 1 of 3 censored, 1 stuck"
    assert "55,000 evaluations for each of 2 explainers, 110,000 in all." in " ".join(" ".join(lines).split())
    assert max(map(len, lines)) <= 80


def test_worst_cases_say_how_often_they_are_feasible() -> None:
    lines = printed(SolTilde(), [{"explainer": "ig", "value": 0.72, "low": 0.6, "high": 0.8, "n": 4, "undefined": 6, "infeasible": 6}])
    assert line(lines, "explainer") == "explainer value ↓ interval samples"
    assert line(lines, "ig") == "ig 0.720 0.600 .. 0.800 4 of 10 feasible"
    assert "55,000 evaluations." in " ".join(lines)
    assert "self" not in " ".join(lines)


def test_scores_of_models_have_a_table_of_their_own() -> None:
    lines = printed(LnPMisclassified(), [{"explainer": "", "frame": "", "value": -12.0}])
    assert line(lines, "model") == "model median ↓ interval samples"
    assert line(lines, "net") == "net -12.00 -20.00 .. -9.00 none censored"
