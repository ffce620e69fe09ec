"""What to do about explanations that fall short: which branch of the flowchart, which change, and what it gained."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from veracity.core.wording import interval, number
from veracity.report.figures.chart import CIRCLE, Scale, lane, mark, scale_for, span
from veracity.report.html import draw
from veracity.report.wording import as_number, as_text, listing, name, piece, say

TEXTS = ("model", "explainer", "branch", "assumption", "measured", "reason", "change", "after_label")


@dataclass(frozen=True)
class Value:
    """A number with its interval; NaN if nothing was measured."""

    value: float
    low: float
    high: float

    @property
    def ends(self) -> str:
        """The interval in words, if there is one."""
        return interval(self.low, self.high) if math.isfinite(self.low) and math.isfinite(self.high) else ""

    def __str__(self) -> str:
        return f"{number(self.value)} ({self.ends})" if self.ends else number(self.value)


@dataclass(frozen=True, kw_only=True)
class Advice:
    """What was found about one explainer on one model, and what came of the change; missing texts are ""."""

    model: str
    explainer: str
    branch: str
    guideline: int
    robust: bool
    assumption: str
    measured: str
    reason: str
    change: str
    after_label: str
    before: Value
    after: Value
    gain: Value


@dataclass(frozen=True, kw_only=True)
class AdviceData:
    """Robust explainers, and the others by what to change."""

    models: tuple[str, ...]
    robust: tuple[Advice, ...]
    remedies: tuple[tuple[Advice, ...], ...]
    scale: Scale

    def draw(self, item: Advice) -> Markup:
        """The score of one explainer on one model: before as a ring, after as a dot."""
        place = self.models.index(item.model) if item.model in self.models else 0
        marks = [
            span(one.low, one.high, y, self.scale, "population") + mark(self.scale.percent(one.value), y, CIRCLE, css)
            for one, css, y in ((item.before, "ring", -4.0), (item.after, "dot", 4.0))
            if math.isfinite(one.value)
        ]
        title = f"{item.explainer} on {item.model}: before {item.before}, after {item.after}"
        return draw("strip", self.scale, lane(place, title, Markup("").join(marks)), 26)


def advice_data(records: Sequence[Mapping[str, Any]], models: Sequence[str]) -> AdviceData:
    """The run's advice as records, cases that call for the same change together, in the order of their appearance."""
    items = [advice_of(record) for record in records]
    failing = [item for item in items if not item.robust]
    remedies: dict[tuple[int, str, str, str, str], list[Advice]] = {}
    for item in failing:
        remedies.setdefault((item.guideline, item.branch, item.assumption, item.reason, item.change), []).append(item)
    return AdviceData(
        models=tuple(models),
        robust=tuple(item for item in items if item.robust),
        remedies=tuple(map(tuple, remedies.values())),
        scale=scale_for([end for item in failing for one in (item.before, item.after) for end in (one.value, one.low, one.high)]),
    )


def advice_of(record: Mapping[str, Any]) -> Advice:
    """One record with its types."""
    guideline = as_number(record.get("guideline"))
    found: dict[str, Any] = {text: as_text(record.get(text)) for text in TEXTS}
    for which in ("before", "after", "gain"):
        found[which] = Value(*(as_number(record.get(which + end)) for end in ("", "_low", "_high")))
    return Advice(guideline=int(guideline) if math.isfinite(guideline) else 0, robust=bool(record.get("robust")), **found)


def robust_sentence(data: AdviceData) -> Markup:
    """Which explainers need no change, in one sentence; nothing if all do."""
    where: dict[tuple[str, ...], list[str]] = {}
    for model in dict.fromkeys(item.model for item in data.robust):
        where.setdefault(tuple(item.explainer for item in data.robust if item.model == model), []).append(model)
    parts = [
        listing(map(name, names)) + (piece(" on {}", listing(map(name, models))) if len(data.models) > 1 else Markup(""))
        for names, models in where.items()
    ]
    verb = "it respects" if len(data.robust) == 1 else "they respect"
    return say("advice.robust", Markup("; ").join(parts), verb, robust=len(data.robust))
