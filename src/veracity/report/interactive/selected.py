"""What a selection of samples is in words and in Python, what scores are on it, and its values as CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from typing import Any

from veracity.core.spreadsheets import as_text
from veracity.core.wording import count
from veracity.report.interactive.cases import known_facts, or_null
from veracity.report.wording import title_of
from veracity.results import Result
from veracity.results.selection import GROUP, Fits, Lasso, Listed, Numbers, Part, Within, digits, series_of, values_at

WORDS = {
    "all": "measured",
    "undefined": "undefined",
    "failed": "failed",
    "wrong": "wrongly predicted",
    "disagree": "models disagree",
    "kept": "with stored pairs",
}
"""The choices in words."""
NAMED = 5
"""How many ranges of numbers are named one by one."""


def about(run: Result, parts: Sequence[Part], chosen: Numbers) -> dict[str, Any]:
    """A selection: how many samples it has of how many, what each part is in words, and as an expression in Python."""
    return {
        "n": len(chosen),
        "total": int(run.manifest["data"]["samples"]),
        "parts": [{"words": words(part), "kind": type(part).__name__, "python": repr(part)} for part in parts],
    }


def words(part: Part) -> str:
    """A part of a selection in words.

    >>> words(Fits(model="net", explainer="lime", score="sparseness", only="group:sex:f")), words(Listed(ranges=((0, 4), (9, 9))))
    ('sex: f', 'numbers 0 to 4, 9')
    """
    if isinstance(part, Listed):
        named = [str(low) if low == high else f"{low} to {high}" for low, high in part.ranges[:NAMED]]
        more = f" and {count(len(part.ranges) - NAMED, 'further range')}" if len(part.ranges) > NAMED else ""
        return f"numbers {', '.join(named)}{more}"
    if isinstance(part, Within):
        return f"{', '.join(bound(title_of(score), *ends) for score, ends in part.bounds.items())} ({subject(part)})"
    if isinstance(part, Lasso):
        return f"inside a lasso over {title_of(part.x)} and {title_of(part.y)} ({subject(part)})"
    if isinstance(part, Fits):
        if part.only.startswith(GROUP):
            return part.only.removeprefix(GROUP).replace(":", ": ", 1)
        if part.only in ("undefined", "failed", "kept", "all"):
            return f"{WORDS[part.only]} by {title_of(part.score)} ({subject(part)})"
        return f"wrongly predicted by {part.model}" if part.only == "wrong" else WORDS.get(part.only, part.only)
    return part.text


def bound(title: str, low: float | None, high: float | None) -> str:
    """The bounds of a score in words.

    >>> bound("Symmetry", 0.25, None)
    'Symmetry at least 0.25'
    """
    if low is not None and high is not None:
        return f"{title} from {digits(low)} to {digits(high)}"
    ends = [f"at least {digits(low)}" if low is not None else "", f"at most {digits(high)}" if high is not None else ""]
    return f"{title} {''.join(ends) or 'defined'}"


def subject(part: Within | Lasso | Fits) -> str:
    """Whose scores a part means."""
    return f"{part.explainer} on {part.model}" if part.explainer else part.model


def value(run: Result, model: str, explainer: str, score: str, chosen: Numbers) -> dict[str, Any]:
    """What a score of an explainer is on the chosen samples: as `Result.table(by=...)` has it of a group of these samples."""
    estimate = run.estimate(series_of(run, model, explainer, score).sound().among(chosen), run.confidence)
    return {"explainer": explainer, "value": or_null(estimate["value"]), "n": int(estimate["n"])}


def as_csv(run: Result, model: str, explainer: str, chosen: Numbers) -> str:
    """The chosen samples with what is known of them, and one column per score of the explainer and of the model itself."""
    shown = [one for one in run.series if one.score in run.manifest["scores"] and one.model == model and one.explainer in (explainer, "")]
    facts, text = known_facts(run, model), io.StringIO()
    known = ([as_text(texts[sample]) if sample < len(texts) else "" for sample in chosen.tolist()] for texts in facts.values())
    values = ([value if math.isfinite(value) else "" for value in values_at(one, chosen).tolist()] for one in shown)
    names = ([as_text(name)] * len(chosen) for name in (model, explainer))
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("sample", "model", "explainer", *map(as_text, facts), *(as_text(one.score) for one in shown)))
    writer.writerows(zip(chosen.tolist(), *names, *known, *values, strict=True))
    return text.getvalue()
