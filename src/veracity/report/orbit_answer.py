"""What an orbit evaluation says in words: what models reach along the orbit, whose outputs change least, what the consensus is worth."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from veracity.core.scores import per_sample_mean
from veracity.core.sentences import tell
from veracity.core.wording import count, interval, joined, number
from veracity.orbits import OrbitResult
from veracity.orbits.statistics import mean_over

NAMED = 4
"""How many models a sentence names."""
FOLLOWS = 0.5
"""From this correlation on, surely, the consensus can stand in for the truth."""
UNSEEN = 0.05
"""Where all samples agree, the largest share of others that may differ without having been seen."""


def orbit_answer(run: OrbitResult) -> list[str]:
    """The sentences at the top of the page, about all samples of a complete run."""
    metric = next(one for one in run.metrics if one["explainer"] is None)
    table = run.table().to_dict("records")
    rows = [row for row in table if (row["metric"], row["reference"]) == (metric["name"], run.references[0])]
    said = [along(rows, metric, run.references[0]), steadiest(run), *consensus_worth(run, metric)]
    return [sentence for sentence in said if sentence]


def along(rows: Sequence[Mapping[Any, Any]], metric: Mapping[str, Any], reference: str) -> str:
    """What the models reach of a metric along the orbit, unmoved and at worst.

    >>> row = {"model": "net", "value": 0.75, "identity": 0.9, "worst": 0.5, "worst_at": "45°"}
    >>> along([row], {"label": "accuracy", "unit": ""}, "truth")
    'Mean accuracy along the orbit: net 0.750 (0.900 unmoved, 0.500 at worst, at 45°).'
    """
    known = [row for row in rows if math.isfinite(row["value"])]
    unit = f" {metric['unit']}" if metric["unit"] else ""
    said = [
        f"{row['model']} {number(row['value'])}{unit} ({number(row['identity'])}{unit} unmoved{worst_words(row, unit)})" for row in known
    ]
    more = f"; and {len(said) - NAMED} more" if len(said) > NAMED else ""
    by = ", measured by the models' own consensus" if reference == "consensus" else ""
    return tell("orbit.along", metric["label"], by, "; ".join(said[:NAMED]) + more, samples=len(known))


def worst_words(row: Mapping[Any, Any], unit: str) -> str:
    """Where along the orbit a model does worst; "" if it does equally well everywhere.

    >>> worst_words({"worst": 0.5, "worst_at": "(4, -8) px"}, ""), worst_words({"worst": 2.0, "worst_at": "turned by 90°"}, " px")
    (', 0.500 at worst, at (4, -8) px', ', 2.000 px at worst, turned by 90°')
    """
    place = row["worst_at"]
    return f", {number(row['worst'])}{unit} at worst, {'' if place[0].isalpha() else 'at '}{place}" if place else ""


def steadiest(run: OrbitResult) -> str:
    """Whose outputs change least along the orbit, by paired differences of the gap that hold together; or that this cannot be told."""
    gaps = run.gap().set_index("model")
    defined = gaps[np.isfinite(gaps["value"])]
    if defined.empty:
        return ""
    first = str(defined["value"].idxmin())
    value, low, high = (float(defined[name][first]) for name in ("value", "low", "high"))
    own = f"{number(value)} ({interval(low, high)})" if math.isfinite(low) and math.isfinite(high) else number(value)
    if len(defined) == 1:
        return tell("orbit.gap", first, own, samples=int(defined.loc[first, "n"]))
    others = [str(model) for model in defined.index if model != first]
    tied = [model for model in others if not apart(run, first, model, len(others))]
    if not tied:
        known = [f"{number(float(defined.loc[model, 'value']))} for {model}" for model in others[:NAMED]]
        more = [f"{len(others) - NAMED} more"] if len(others) > NAMED else []
        return tell("orbit.steadiest", first, own, joined([*known, *more]), apart=len(others))
    more = [f"{len(tied) - NAMED} more"] if len(tied) > NAMED else []
    return tell("orbit.tied", count(run.samples, "sample"), first, joined([*tied[:NAMED], *more], "or"), paired=len(others))


def apart(run: OrbitResult, first: str, second: str, differences: int) -> bool:
    """Whether the gap of the second model is larger beyond chance, together with so many such differences."""
    ours, theirs = (per_sample_mean(np.delete(run.distances(model), run.identity, axis=1)) for model in (first, second))
    difference = theirs - ours
    known = difference[np.isfinite(difference)]
    return len(known) > 1 and mean_over(known, 1.0 - (1.0 - run.confidence) / differences, 0).low > 0.0


def consensus_worth(run: OrbitResult, metric: Mapping[str, Any]) -> list[str]:
    """For which models the plot against the consensus can stand in for the one against the truth, and whom it misleads about."""
    if len(run.references) < 2:
        return []
    found = [row for row in run.agreement().to_dict("records") if row["metric"] == metric["name"] and enough(row)]
    follows = [named(row) for row in found if row["low"] >= FOLLOWS]
    misled = [named(row) for row in found if row["high"] < 0.0]
    return [
        tell("orbit.follows", metric["label"], joined(follows), correlations=len(follows)),
        tell("orbit.misleads", metric["label"], joined(misled), correlations=len(misled)),
    ]


def enough(row: Mapping[Any, Any]) -> bool:
    """Whether an interval says something: if all samples agree it has no width, and then few samples say little.

    >>> enough({"unseen": 0.776}), enough({"unseen": 0.006}), enough({"unseen": math.nan})
    (False, True, True)
    """
    return not row["unseen"] > UNSEEN


def named(row: Mapping[Any, Any]) -> str:
    """A model with the correlation of its two plots."""
    return f"{row['model']} (r = {number(row['correlation'], 2)})"
