"""A requirement on a run, judged so that uncertainty counts against it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from veracity.core.errors import SpecError, unknown
from veracity.core.wording import percentage
from veracity.engine.store.state import State

RULE = re.compile(r"^\s*(?P<score>[A-Za-z_][\w@]*)\s*(?P<sign>>=|<=|>|<)\s*(?P<bound>[-+]?[\d.]+(?:e[-+]?\d+)?)\s*$")
ROUNDING = 1e-9
HOLDS = {
    ">=": lambda value, bound: value >= bound - ROUNDING,
    ">": lambda value, bound: value > bound,
    "<=": lambda value, bound: value <= bound + ROUNDING,
    "<": lambda value, bound: value < bound,
}


@dataclass(frozen=True)
class Verdict:
    """How many rows were judged, a line for each that did not hold, and one for each that rests on samples that are all equal."""

    judged: int
    broken: tuple[str, ...]
    alike: tuple[str, ...] = ()


def judge(
    table: pd.DataFrame,
    rules: Sequence[str],
    explainers: Sequence[str] = (),
    models: Sequence[str] = (),
    max_unseen: float | None = None,
    confidence: float = 0.95,
) -> Verdict:
    """Each rule against each row of its score, controls left out: the low end for >=, the high end for <=.

    The choice of explainers is for scores of explanations; scores of models are judged all the same. Without an interval, or
    where the end that counts is not known, nothing is held. An interval of samples that are all equal has no width: with
    `max_unseen`, the rule holds only if no larger share of the population may differ unseen.
    """
    if max_unseen is not None and not 0.0 < max_unseen < 1.0:
        raise SpecError(f"--max-unseen is a share between 0 and 1, such as 0.05, not {max_unseen:g}.")
    for column, names in (("explainer", explainers), ("model", models)):
        present = set(table.loc[~table["control"].astype(bool), column]) - {""}
        for name in names:
            if name not in present:
                raise unknown(f"{column} of this run", name, present)
    judged, broken, alike = 0, [], []
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
            who = " / ".join(part for part in (row.get("audit", ""), row["model"], row["explainer"]) if part)
            if row["state"] != State.DONE or row["failed"] or not math.isfinite(value) or not HOLDS[sign](value, bound):
                left = f"pending, {row['cells_measured']} of {row['cells']} cells are measured" if row["state"] == State.PENDING else ""
                broken.append(f"{score}{sign}{bound:g} for {who}: {left or row['failed'] or why(row, end)}")
            elif math.isfinite(row["unseen"]):
                told = f"all {row['n']} samples are equal; up to {percentage(row['unseen'])} of the population may differ unseen"
                if max_unseen is not None and row["unseen"] > max_unseen:
                    needed = math.ceil(math.log(1.0 - confidence) / math.log1p(-max_unseen))
                    broken.append(
                        f"{score}{sign}{bound:g} for {who}: {told}, more than {100 * max_unseen:g} %; {needed} equal samples are needed"
                    )
                else:
                    alike.append(f"{score} for {who}: {told}")
    return Verdict(judged, tuple(broken), tuple(alike))


def requirements(result: Any) -> tuple[pd.DataFrame, float]:
    """The rows that are judged of a result, each with whether its score is in the map's own units, and their confidence."""
    from veracity.results import Result
    from veracity.studies.several import JointResult

    runs = {"": result} if isinstance(result, Result) else result.results if isinstance(result, JointResult) else {}
    table = result.table() if isinstance(result, Result) else result.requirements()
    units = {(name, score) for name, run in runs.items() for score in run.manifest["score_specs"] if run.in_map_units(score)}
    audits = table["audit"] if "audit" in table else [""] * len(table)
    flags = [one in units for one in zip(audits, table["score"], strict=True)]
    confidence = result.manifest["spec"].get("confidence", 0.95) if isinstance(result, Result) else result.confidence
    return table.assign(in_map_units=flags), float(confidence)


def check_units(table: pd.DataFrame, rules: Sequence[str], explainers: Sequence[str]) -> None:
    """Refuse one bound for several explainers by a score in the map's own units."""
    for score in dict.fromkeys(parsed(rule)[0] for rule in rules):
        rows = table[(table["score"] == score) & table["in_map_units"].astype(bool) & ~table["control"].astype(bool)]
        measured = set(rows["explainer"]) - {""}
        chosen = measured & set(explainers) if explainers else measured
        if len(chosen) > 1:
            raise SpecError(
                f"The score '{score}' is in each map's own units, so one bound cannot hold for {len(chosen)} explainers: choose one "
                "with --explainer."
            )


def why(row: Mapping[Any, Any], end: str) -> str:
    """Why a row does not hold: its end, or that there is none.

    >>> row = {"n": 30, "value": -100.0, "bound": True, "low": -math.inf, "high": -9.5}
    >>> why(row, "low"), why(row, "high")
    ('low end not known, since samples are censored', 'high end -9.5 of at most -100')
    """
    value = row[end]
    if math.isnan(value) and math.isfinite(row.get("pairs_same", math.nan)):
        return "no interval: reco never has one, reco_ks and reco_auc need 10 samples in the smaller of S= and S!=, mege 5 in S="
    if math.isnan(value):
        few = f"{row['n']} samples are too few for it, or share a single draw"
        if row["n"] < 2:
            few = f"only {row['n']} sample has a value" if row["n"] == 1 else "no sample has a value"
        return f"no interval, since {few}"
    if math.isinf(value):
        return f"{end} end not known, since samples are censored"
    return f"{end} end {value:.6g} of {'at most ' if row['bound'] else ''}{row['value']:.6g}"


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
