"""The main figure of a run in few numbers, which the list of runs draws as a thumbnail.

An audit has an interval per explainer, a card the words of its questions, and an orbit evaluation the mean along the orbit of every model.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from veracity.cards.record import CardRecord
from veracity.core.errors import VeracityError
from veracity.engine.store import RunFolder
from veracity.engine.store.manifest import Kind
from veracity.engine.store.study import findings
from veracity.orbits import OrbitResult
from veracity.report.wording import title_of
from veracity.results import Result

ROWS, MODELS = 8, 4
"""How many rows and how many curves a thumbnail has."""
POINTS = 48
"""The most points of a curve."""
CELLS = 2000
"""Audits with more cells have no thumbnail: reading them would keep the others waiting."""


def small_figure(folder: Path, manifest: Mapping[str, Any]) -> dict[str, Any] | None:
    """The main figure of a finished run; None if it has none, or if it would take long to read."""
    kind = Kind(manifest["kind"])
    with suppress(VeracityError):
        if kind is Kind.ORBITS:
            return orbit_curves(OrbitResult(folder))
        if kind is Kind.CARD:
            return card_words(CardRecord.model_validate(findings(RunFolder(str(folder)), CardRecord)))
        if kind is Kind.AUDIT and len(manifest["cells"]) <= CELLS:
            return audit_intervals(Result(folder))
    return None


def audit_intervals(run: Result) -> dict[str, Any] | None:
    """The first score of explanations on the first model: value and interval by explainer, best first and controls last."""
    scores = set(run.manifest["scores"])
    of_explainers = [one for one in run.series if one.explainer and one.score in scores]
    if not of_explainers:
        return None
    first = of_explainers[0]
    rows = []
    for one in of_explainers:
        if (one.score, one.model) == (first.score, first.model):
            found = run.estimate(one.sound())
            rows.append({"name": one.explainer, "control": bool(one.control), **{name: found[name] for name in ("value", "low", "high")}})
    defined = [row for row in rows if np.isfinite(row["value"])]
    sign = {"higher": -1.0, "lower": 1.0}.get(first.direction.value, 0.0)
    defined.sort(key=lambda row: (row["control"], sign * row["value"]))
    title = f"{title_of(first.score)} on {first.model}"
    return {"kind": "intervals", "title": title, "rows": defined[:ROWS], "more": max(0, len(defined) - ROWS)} if defined else None


def card_words(card: CardRecord) -> dict[str, Any]:
    """The words of a card: a row per explainer without controls, a word per question."""
    explainers = [one for one in card.explainers if not one.control]
    rows = [{"name": one.name, "words": [answer.word for answer in one.answers]} for one in explainers]
    questions = [one.title for one in card.questions]
    return {"kind": "words", "title": "Answers by explainer", "questions": questions, "rows": rows[:ROWS], "more": max(0, len(rows) - ROWS)}


def orbit_curves(run: OrbitResult) -> dict[str, Any] | None:
    """The mean of the first metric along the orbit by model; over an orbit of several axes, the mean of all its places in their order."""
    if not run.complete:
        return None
    metric, reference = run.metrics[0], run.references[0]
    curves = []
    for model in run.models[:MODELS]:
        values = run.values(model, metric["name"], reference).astype(np.float64)
        known = np.isfinite(values)
        means = np.where(known, values, 0.0).sum(axis=0) / np.where(known.any(axis=0), known.sum(axis=0), np.nan)
        curves.append({"name": model, "values": means[np.linspace(0, len(means) - 1, min(POINTS, len(means))).astype(int)].tolist()})
    return {
        "kind": "curves",
        "title": f"Mean {metric['label']} along the orbit",
        "curves": curves,
        "more": max(0, len(run.models) - MODELS),
    }
