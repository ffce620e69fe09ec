"""Results as terminal tables that fit eighty columns."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pandas as pd
from rich import box
from rich.console import Group
from rich.markup import escape
from rich.table import Table

from veracity.results import Result

CAPTION = (
    "{level:g} % intervals over the population of samples. self: the explainer against itself; random: the fair random map.\n"
    "Equivariance is necessary, not sufficient: a constant map has it too."
)


def results(result: Result) -> Group:
    """One table a model and score, best first and controls last, then the scores of the models themselves."""
    parts = list(tables(result))
    if parts:
        level = 100 * float(result.manifest["spec"].get("confidence", 0.95))
        parts[-1].caption, parts[-1].caption_justify = CAPTION.format(level=level), "left"
    return Group(escape(result.manifest.get("title") or result.path), *parts)


def tables(result: Result) -> Iterator[Table]:
    """The tables of a run."""
    frame = result.table()
    frame["better"] = frame["value"].where(frame["direction"] == "higher", -frame["value"])
    for (model, score), group in frame[frame["explainer"] != ""].groupby(["model", "score"], sort=False):
        rows = group.sort_values(["control", "better"], ascending=[True, False], kind="stable")
        table = ruled(f"{model}: {score}", ["explainer"], ["value", "interval", "n", "undefined", "self", "random"])
        for row in rows.to_dict("records"):
            beside = [number(row["self_agreement"]), number(row["random_control"])]
            table.add_row(escape(row["explainer"]), *common(row), *beside, style="dim" if row["control"] else None)
        yield table
    for score, rows in frame[frame["explainer"] == ""].groupby("score", sort=False):
        table = ruled(str(score), ["model"], ["value", "interval", "n", "undefined", "accuracy"])
        for row in rows.to_dict("records"):
            accuracy = result.manifest["models"][row["model"]]["accuracy"]
            table.add_row(escape(row["model"]), *common(row), "" if accuracy is None else number(accuracy))
        yield table


def ruled(title: str, left: list[str], right: list[str]) -> Table:
    """An empty table."""
    table = Table(title=escape(title), title_justify="left", box=box.SIMPLE_HEAD, title_style="bold", padding=(0, 1, 0, 0))
    for name in left:
        table.add_column(name, overflow="fold")
    for name in right:
        table.add_column(name, justify="right", no_wrap=name != "interval")
    return table


def common(row: dict[Any, Any]) -> list[str]:
    """Value, interval (or what went wrong), samples, undefined samples."""
    value = "undefined" if math.isnan(row["value"]) else number(row["value"])
    ends = "" if math.isnan(row["low"]) else f"{number(row['low'])} .. {number(row['high'])}"
    return [value, escape(row["failed"]) or ends, str(row["n"]), str(row["undefined"])]


def number(value: float) -> str:
    """Three decimals, or nothing."""
    return "" if math.isnan(value) else f"{value:.3f}"


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
