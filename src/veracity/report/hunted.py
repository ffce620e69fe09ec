"""Worst cases and probabilities of misinterpretation in words: what was found, at what cost, and what is only a bound."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from veracity.core.sentences import tell
from veracity.report.kinds import score_of
from veracity.report.wording import AT_MOST, compact, count
from veracity.scores.robustness.base import Misinterpretation, SearchScore
from veracity.scores.robustness.probability import Rare
from veracity.scores.robustness.worst import Sol
from veracity.walk import Strongest

NORMS = {"linf": "L-infinity", "l2": "L2", "l1": "L1"}


def hunted(manifest: Mapping[str, Any], label: str) -> SearchScore | None:
    """The robustness score behind a label; None if it is another kind of score."""
    found = score_of(manifest, label)
    return found if isinstance(found, SearchScore) else None


def outcome(score: SearchScore, row: Mapping[Any, Any]) -> str:
    """How the samples of one table row ended: feasible or not, censored, stuck, undefined; and how many evaluations had no value.

    >>> from veracity.scores.robustness import LnPHat, SolHat
    >>> outcome(SolHat(), {"n": 4, "undefined": 6, "infeasible": 6})
    '4 of 10 feasible'
    >>> outcome(LnPHat(), {"n": 10, "undefined": 1, "censored": 2, "stuck": 1})
    '2 of 10 censored, 1 stuck, 1 undefined'
    """
    n, vain, censored, stuck = (int(row.get(name) or 0) for name in ("n", "infeasible", "censored", "stuck"))
    rest = int(row.get("undefined") or 0) - vain
    said = []
    if isinstance(score, Sol) and n + vain:
        said.append(f"{n} of {n + vain} feasible")
    if isinstance(score, Rare) and n:
        said.append(f"{censored} of {n} censored" if censored else "none censored")
    said += [f"{number} {what}" for what, number in (("stuck", stuck), ("stiff", int(row.get("stiff") or 0))) if number]
    said += [f"{rest} undefined"] if rest > 0 else []
    broken = int(row.get("undefined_draws") or 0)
    return ", ".join(said + ([count(broken, "undefined evaluation")] if broken else []))


def spent(rows: Sequence[Mapping[Any, Any]]) -> str:
    """How many evaluations one score took, exactly: of each explainer, and of all together.

    >>> spent([{"explainer": "a", "evaluations": 500}, {"explainer": "b", "evaluations": 500}])
    '500 evaluations for each of 2 explainers, 1,000 in all.'
    >>> spent([{"explainer": "a", "evaluations": 55000}])
    '55,000 evaluations.'
    >>> spent([{"explainer": "a", "evaluations": 500}, {"explainer": "b", "evaluations": 700}])
    '1,200 evaluations: 500 for a; 700 for b.'
    """
    found = {str(row["explainer"] or row.get("model")): int(row.get("evaluations") or 0) for row in rows}
    total, what = sum(found.values()), "explainer" if any(row["explainer"] for row in rows) else "model"
    if len(found) < 2:
        return tell("spent.one", count(total, "evaluation"), evaluated=len(found))
    if len(set(found.values())) == 1:
        each = count(total // len(found), "evaluation")
        return tell("spent.each", each, count(len(found), what), f"{total:,}", evaluated=len(found))
    alike = {number: [name for name, other in found.items() if other == number] for number in found.values()}
    parts = [f"{number:,} {'each ' if len(names) > 1 else ''}for {', '.join(names)}" for number, names in alike.items()]
    return tell("spent.some", count(total, "evaluation"), "; ".join(parts), evaluated=len(found))


def in_text(shown: pd.DataFrame, table: pd.DataFrame, manifest: Mapping[str, Any]) -> pd.DataFrame:
    """The columns of a run's table that are `shown`: bounds as such, and of robustness how samples ended and what they cost."""
    records = [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]
    written = shown.assign(
        value=[at_most(row["value"], row["bound"]) for row in records],
        low=[at_most(row["low"]) for row in records],
        high=[at_most(row["high"], math.isinf(row["low"])) for row in records],
    )
    scores = {label: score for label in table["score"].unique() if (score := hunted(manifest, str(label))) is not None}
    if not scores:
        return written
    return written.drop(columns=["self_agreement", "random_control"] if len(scores) == table["score"].nunique() else []).assign(
        samples=[outcome(scores[row["score"]], row) if row["score"] in scores else "" for row in records],
        evaluations=[f"{int(row['evaluations']):,}" if row["score"] in scores else "" for row in records],
    )


def at_most(value: float, bound: bool = False) -> str:
    """A number of a plain text table, with a sign where it is a `bound`; nothing where there is none.

    >>> at_most(-9.5), at_most(-9.5, True), at_most(-math.inf)
    ('-9.500', '≤ -9.500', '')
    """
    return f"{AT_MOST} {value:.3f}" if bound and math.isfinite(value) else f"{value:.3f}" if math.isfinite(value) else ""


def setting(score: SearchScore) -> str:
    """Where a score looked, how, and what the event is, in a sentence."""
    where = f"within {compact(score.radius)} of the input ({NORMS.get(score.norm, score.norm)})" if score.space is None else "in its space"
    walks = [one.name.replace("_", " ") for one in (score.walk.parts() if isinstance(score.walk, Strongest) else [score.walk])]
    said = f"Here the {'walk' if len(walks) == 1 else 'walks'} {' and '.join(walks)} looked {where}"
    if not isinstance(score, Misinterpretation):
        return f"{said}."
    below = score.kept == (score.compare.direction.value == "higher")
    event = "F-hat" if score.kept else "F-tilde"
    maps = "signed" if score.signed else "absolute"
    return f"{said}, comparing {maps} maps; {event} is an agreement {'below' if below else 'above'} {compact(score.threshold)}."
