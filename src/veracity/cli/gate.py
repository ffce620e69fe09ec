"""Requirements on a run. The worse end of an interval must meet them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from veracity.core.errors import SpecError, unknown
from veracity.core.wording import percentage
from veracity.engine.store.manifest import Kind
from veracity.engine.store.state import State

RULE = re.compile(r"^\s*(?P<score>[A-Za-z_][\w@]*)\s*(?P<sign>>=|<=|>|<)\s*(?P<bound>[-+]?[\d.]+(?:e[-+]?\d+)?)\s*$")
ROUNDING = 1e-9
HOLDS = {
    ">=": lambda value, bound: value >= bound - ROUNDING,
    ">": lambda value, bound: value > bound,
    "<=": lambda value, bound: value <= bound + ROUNDING,
    "<": lambda value, bound: value < bound,
}


Row = Mapping[Any, Any]


@dataclass(frozen=True)
class Verdict:
    """How many rows were judged, a line for each that did not hold, and one for each that rests on samples that are all equal."""

    count: int
    failures: tuple[str, ...]
    notes: tuple[str, ...] = ()


def judge(
    rows: Sequence[Row],
    rules: Sequence[str],
    explainers: Sequence[str] = (),
    models: Sequence[str] = (),
    max_unseen: float | None = None,
    confidence: float = 0.95,
) -> Verdict:
    """Each rule against each row of its score, controls left out: the low end for >=, the high end for <=.

    `explainers` restricts scores of explanations; scores of models are always judged. A row without an interval, or without the end
    that counts, does not hold. If all samples are equal, the interval has no width: with `max_unseen`, the rule then holds only if at most
    this share of the population may differ unseen.
    """
    if max_unseen is not None and not 0.0 < max_unseen < 1.0:
        raise SpecError(f"--max-unseen is a share between 0 and 1, such as 0.05, not {max_unseen:g}.")
    own = [row for row in rows if not row["control"]]
    for column, names in (("explainer", explainers), ("model", models)):
        present = {row[column] for row in own} - {""}
        for name in names:
            if name not in present:
                raise unknown(f"{column} of this run", name, present)
    count, failures, notes = 0, [], []
    for rule in rules:
        score, sign, bound = parse_rule(rule)
        mine = [row for row in own if row["score"] == score]
        if not mine:
            raise unknown("score of this run", score, {row["score"] for row in rows})
        end = "low" if sign.startswith(">") else "high"
        for row in mine:
            if (explainers and row["explainer"] not in (*explainers, "")) or (models and row["model"] not in models):
                continue
            count += 1
            who = " / ".join(part for part in (row.get("audit", ""), row["model"], row["explainer"]) if part)
            equal = math.isfinite(row["unseen"])
            share = percentage(row["unseen"]) if equal else ""
            told = f"all {row['n']} samples are equal; up to {share} of the population may differ unseen"
            reason = reason_against(row, end, sign, bound)
            if not reason and equal and max_unseen is not None and row["unseen"] > max_unseen:
                needed = math.ceil(math.log(1.0 - confidence) / math.log1p(-max_unseen))
                reason = f"{told}, more than {100 * max_unseen:g} %; {needed} equal samples are needed"
            if reason:
                failures.append(f"{score}{sign}{bound:g} for {who}: {reason}")
            elif equal:
                notes.append(f"{score} for {who}: {told}")
    return Verdict(count, tuple(failures), tuple(notes))


def reason_against(row: Row, end: str, sign: str, bound: float) -> str:
    """Why a row does not hold a rule; "" if it does."""
    if row["state"] == State.PENDING:
        return f"pending, {row['cells_measured']} of {row['cells']} cells are measured"
    if row["failed"]:
        return str(row["failed"])
    holds = row["state"] == State.DONE and math.isfinite(row[end]) and HOLDS[sign](row[end], bound)
    return "" if holds else end_text(row, end)


def requirements(result: Any) -> tuple[list[dict[str, Any]], float]:
    """The rows of a result that a gate judges, marked if their score is in the map's own units, and their confidence."""
    from veracity.results import Result

    runs = {"": result} if isinstance(result, Result) else result.results if getattr(result, "kind", None) is Kind.AUDITS else {}
    table = result.table() if isinstance(result, Result) else result.requirements()
    units = {(name, score) for name, run in runs.items() for score in run.manifest["score_specs"] if run.in_map_units(score)}
    rows = [{**row, "in_map_units": (row.get("audit", ""), row["score"]) in units} for row in table.to_dict("records")]
    confidence = result.manifest["spec"].get("confidence", 0.95) if isinstance(result, Result) else result.confidence
    return rows, float(confidence)


def check_units(rows: Sequence[Row], rules: Sequence[str], explainers: Sequence[str]) -> None:
    """Refuse one bound for several explainers by a score in the map's own units."""
    for score in dict.fromkeys(parse_rule(rule)[0] for rule in rules):
        measured = {row["explainer"] for row in rows if row["score"] == score and row["in_map_units"] and not row["control"]} - {""}
        chosen = measured & set(explainers) if explainers else measured
        if len(chosen) > 1:
            raise SpecError(
                f"The score '{score}' is in each map's own units, so one bound cannot hold for {len(chosen)} explainers: choose one "
                "with --explainer."
            )


def end_text(row: Row, end: str) -> str:
    """Why a row does not hold: its end, or that there is none.

    >>> row = {"n": 30, "value": -100.0, "bound": True, "low": -math.inf, "high": -9.5}
    >>> end_text(row, "low"), end_text(row, "high")
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


def parse_rule(rule: str) -> tuple[str, str, float]:
    """A rule's score, sign and bound.

    >>> parse_rule("equivariance>=0.9")
    ('equivariance', '>=', 0.9)
    """
    with suppress(ValueError):
        if match := RULE.match(rule):
            return match["score"], match["sign"], float(match["bound"])
    raise SpecError(f"A requirement is written like equivariance>=0.9, not '{rule}'.")
