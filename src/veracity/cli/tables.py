"""Results as terminal tables that fit eighty columns."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd
from rich import box
from rich.console import Group
from rich.markup import escape
from rich.table import Table

from veracity.report.answer import SYMMETRY_SCORES
from veracity.report.view import DISTANCES
from veracity.report.wording import decimals, frame_title, in_order, title_of
from veracity.results import Result

CAPTION = "{level:g} % intervals over the population of samples. self: the explainer against itself; random: the fair random explanation."
CAVEAT = "{score} is necessary, not sufficient: {constant} has it too."


def results(result: Result) -> Group:
    """One table a model and score, kinds of explanations apart, best first and controls last; then the scores of the models themselves."""
    frame = result.table()
    parts = list(tables(frame, result.manifest["models"]))
    if parts:
        level = 100 * float(result.manifest["spec"].get("confidence", 0.95))
        parts[-1].caption, parts[-1].caption_justify = caption(frame, level), "left"
    return Group(escape(result.manifest.get("title") or result.path), *parts)


def caption(frame: pd.DataFrame, level: float) -> str:
    """How to read the numbers, and what they do not say."""
    explained = frame[frame["explainer"] != ""]
    judged = [score for score in explained["score"].unique() if score in SYMMETRY_SCORES]
    constant = "a constant map" if set(explained["frame"]) <= {"input"} else "a constant explanation"
    said = [CAPTION.format(level=level), *(CAVEAT.format(score=title_of(str(score)), constant=constant) for score in judged[:1])]
    return "\n".join(said)


def tables(frame: pd.DataFrame, models: Mapping[str, Mapping[str, Any]]) -> Iterator[Table]:
    """The tables of a run."""
    better = frame["value"].where(frame["direction"] == "higher", -frame["value"])
    place = {name: number for number, name in enumerate(in_order(frame["frame"]))}
    sorted_frame = frame.assign(better=better, place=frame["frame"].map(place))
    for (model, score), group in sorted_frame[frame["explainer"] != ""].groupby(["model", "score"], sort=False):
        yield explained(
            f"{model}: {score}", group.sort_values(["place", "control", "better"], ascending=[True, True, False], kind="stable")
        )
    for score, rows in frame[frame["explainer"] == ""].groupby("score", sort=False):
        table = ruled(str(score), ["model"], ["value", "interval", "n", "undefined", "accuracy"])
        for row in rows.to_dict("records"):
            accuracy = models[row["model"]]["accuracy"]
            table.add_row(escape(row["model"]), *common(row), "" if accuracy is None else number(accuracy))
        yield table


def explained(title: str, rows: pd.DataFrame) -> Table:
    """One score on one model; each kind of explanation under a line of its own where there are several."""
    direction = "" if rows["direction"].iloc[0] == "higher" else " (lower is better)"
    nulls = rows["score"].iloc[0] not in DISTANCES
    table = ruled(title + direction, ["explainer"], ["value", "interval", "n", "undefined", *(["self", "random"] if nulls else [])])
    digits = decimals(rows["value"])
    several = rows["frame"].nunique() > 1
    for kind, group in rows.groupby("frame", sort=False):
        if several:
            table.add_section()
            table.add_row(f"[bold]{escape(frame_title(str(kind)).lower())}[/]")
        for row in group.to_dict("records"):
            beside = [number(row["self_agreement"]), number(row["random_control"], digits)] if nulls else []
            table.add_row(escape(row["explainer"]), *common(row, digits), *beside, style="dim" if row["control"] else None)
    return table


def ruled(title: str, left: list[str], right: list[str]) -> Table:
    """An empty table."""
    table = Table(title=escape(title), title_justify="left", box=box.SIMPLE_HEAD, title_style="bold", padding=(0, 1, 0, 0))
    for name in left:
        table.add_column(name, overflow="fold")
    for name in right:
        table.add_column(name, justify="right", no_wrap=name != "interval")
    return table


def common(row: dict[Any, Any], digits: int = 3) -> list[str]:
    """Value, interval (or what went wrong), samples, undefined samples."""
    value = "undefined" if math.isnan(row["value"]) else number(row["value"], digits)
    ends = "" if math.isnan(row["low"]) else f"{number(row['low'], digits)} .. {number(row['high'], digits)}"
    return [value, escape(row["failed"]) or ends, str(row["n"]), str(row["undefined"])]


def number(value: float, digits: int = 3) -> str:
    """A fixed count of decimals, or nothing."""
    return "" if math.isnan(value) else f"{value:.{digits}f}"


def comparison(frame: pd.DataFrame, title: str) -> Group:
    """Two runs beside each other, one table a model and score."""
    parts = []
    for (model, score), rows in frame.groupby(["model", "score"], sort=False):
        table = ruled(f"{model}: {score}", ["explainer"], ["before", "after", "difference", "interval", "paired"])
        for row in rows.to_dict("records"):
            ends = "" if math.isnan(row["low"]) else f"{number(row['low'])} .. {number(row['high'])}"
            numbers = [number(row[name]) for name in ("before", "after", "difference")]
            table.add_row(escape(row["explainer"]), *numbers, ends, "yes" if row["paired"] else "no")
        parts.append(table)
    return Group(escape(title), *parts)
