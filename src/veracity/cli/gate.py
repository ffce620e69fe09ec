"""A requirement on a run, judged so that uncertainty counts against it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from veracity.core.errors import SpecError, unknown

RULE = re.compile(r"^\s*(?P<score>[a-z_]+)\s*(?P<sign>>=|<=|>|<)\s*(?P<bound>[-+]?[\d.]+(?:e[-+]?\d+)?)\s*$")
ROUNDING = 1e-9
HOLDS = {
    ">=": lambda value, bound: value >= bound - ROUNDING,
    ">": lambda value, bound: value > bound,
    "<=": lambda value, bound: value <= bound + ROUNDING,
    "<": lambda value, bound: value < bound,
}


@dataclass(frozen=True)
class Verdict:
    """How many rows were judged, and a line for each that did not hold."""

    judged: int
    broken: tuple[str, ...]


def judge(table: pd.DataFrame, rules: Sequence[str], explainers: Sequence[str] = (), models: Sequence[str] = ()) -> Verdict:
    """Each rule against each row of its score, controls left out: the low end for >=, the high end for <=.

    The choice of explainers is for scores of explanations; scores of models are judged all the same. Without an interval
    nothing is held.
    """
    for column, names in (("explainer", explainers), ("model", models)):
        present = set(table.loc[~table["control"].astype(bool), column]) - {""}
        for name in names:
            if name not in present:
                raise unknown(f"{column} of this run", name, present)
    judged, broken = 0, []
    for rule in rules:
        score, sign, bound = parsed(rule)
        rows = table[(table["score"] == score) & ~table["control"].astype(bool)]
        if rows.empty:
            raise unknown("score of this run", score, set(table["score"]))
        if explainers:
            rows = rows[rows["explainer"].isin([*explainers, ""])]
        if models:
            rows = rows[rows["model"].isin(list(models))]
        end = "low" if sign.startswith(">") else "high"
        for row in rows.to_dict("records"):
            judged += 1
            value = row[end]
            if row["failed"] or math.isnan(value) or not HOLDS[sign](value, bound):
                who = " / ".join(part for part in (row["model"], row["explainer"]) if part)
                few = f"only {row['n']} samples have a value" if row["n"] < 2 else "there is a single draw that all samples share"
                none = f"no interval, since {few}"
                why = row["failed"] or (none if math.isnan(value) else f"{end} end {value:.6g} of {row['value']:.6g}")
                broken.append(f"{score}{sign}{bound:g} for {who}: {why}")
    return Verdict(judged, tuple(broken))


def parsed(rule: str) -> tuple[str, str, float]:
    """A rule's score, sign and bound.

    >>> parsed("equivariance>=0.9")
    ('equivariance', '>=', 0.9)
    """
    match = RULE.match(rule)
    try:
        if match:
            return match["score"], match["sign"], float(match["bound"])
    except ValueError:
        match = None
    raise SpecError(f"A requirement is written like equivariance>=0.9, not '{rule}'.")
