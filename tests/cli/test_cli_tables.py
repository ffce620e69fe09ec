from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pandas as pd
from rich.console import Console

from veracity.cli import tables

ROW = {
    "model": "net", "score": "symmetry", "low": 0.4, "high": 0.6, "n": 9, "undefined": 0, "self_agreement": 1.0, "random_control": 0.25,
    "control": False, "direction": "higher", "failed": "",
}  # fmt: skip


def row(explainer: str, frame: str, value: float, **changes: Any) -> dict[str, Any]:
    return {**ROW, "explainer": explainer, "frame": frame, "value": value, **changes}


def printed(*rows: dict[str, Any]) -> list[str]:
    run = SimpleNamespace(
        table=lambda: pd.DataFrame(list(rows)), manifest={"spec": {}, "title": "[b]", "models": {"net": {"accuracy": None}}}, path="r"
    )
    console = Console(width=80, file=io.StringIO())
    console.print(tables.results(run))  # type: ignore[arg-type]
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


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


def test_a_distance_says_its_direction_and_has_no_nulls() -> None:
    lines = printed(
        row("far", "input", 0.00042, score="max_sensitivity", direction="lower", low=0.0004, high=0.00044),
        row("near", "input", 0.00021, score="max_sensitivity", direction="lower", low=0.0002, high=0.00022),
    )
    words = first_words(lines)
    assert "net: max_sensitivity (lower is better)" in words
    assert words.index("near") < words.index("far")
    assert any("0.000210" in line and "0.000200 .. 0.000220" in line for line in lines)
    assert not any("self" in line and "random" in line for line in lines if "explainer " in line and "interval" in line)
    assert "necessary, not sufficient" not in " ".join(words)


def test_long_names_fold_within_eighty_columns() -> None:
    name = "an explainer with [bold]very[/] many settings " * 4
    lines = printed(row(name, "input", -0.7, low=-0.75, high=-0.65), row("cav", "concepts", 0.9, failed="RuntimeError: [x] broke"))
    assert max(map(len, lines)) <= 80
    assert "[bold]very[/]" in "".join("".join(lines).split())
