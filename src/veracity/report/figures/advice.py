"""What to do about explanations that fall short: which branch of the flowchart, which change, and what it gained."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from veracity.core.wording import interval, number
from veracity.report.figures.chart import lane, strip
from veracity.report.figures.ranking import span
from veracity.report.figures.scale import CIRCLE, Scale, mark, scale_for
from veracity.report.wording import GUIDELINES, as_number, as_text, listing, name, piece, say


@dataclass(frozen=True, kw_only=True)
class Value:
    """A number with its interval; NaN where nothing was measured."""

    value: float
    low: float
    high: float

    @property
    def known(self) -> bool:
        """Whether there is a number."""
        return math.isfinite(self.value)

    def __str__(self) -> str:
        return f"{number(self.value)} ({self.ends})" if self.ends else number(self.value)

    @property
    def ends(self) -> str:
        """The interval in words, if there is one."""
        return interval(self.low, self.high) if math.isfinite(self.low) and math.isfinite(self.high) else ""


@dataclass(frozen=True, kw_only=True)
class Advice:
    """What was found about one explainer on one model, and what came of the change."""

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

    @property
    def remedy(self) -> tuple[int, str, str, str, str]:
        """What cases have in common that call for the same change."""
        return self.guideline, self.branch, self.assumption, self.reason, self.change


@dataclass(frozen=True, kw_only=True)
class AdviceData:
    """Robust explainers, and the others by what to change."""

    models: tuple[str, ...]
    robust: tuple[Advice, ...]
    remedies: tuple[tuple[Advice, ...], ...]
    scale: Scale

    @property
    def any(self) -> bool:
        """Whether there is anything to say."""
        return bool(self.robust or self.remedies)


def advice_data(records: Sequence[Mapping[str, Any]], models: Sequence[str]) -> AdviceData:
    """The run's advice as records, cases that call for the same change together, in the order of their appearance."""
    items = [advice_of(record) for record in records]
    remedies: dict[tuple[int, str, str, str, str], list[Advice]] = {}
    for item in items:
        if not item.robust:
            remedies.setdefault(item.remedy, []).append(item)
    ends = [end for item in items if not item.robust for one in (item.before, item.after) for end in (one.value, one.low, one.high)]
    return AdviceData(
        models=tuple(models),
        robust=tuple(item for item in items if item.robust),
        remedies=tuple(tuple(group) for group in remedies.values()),
        scale=scale_for(ends),
    )


def advice_of(record: Mapping[str, Any]) -> Advice:
    """A record with its types: missing texts are "", missing numbers NaN."""
    guideline = as_number(record.get("guideline"))
    return Advice(
        model=as_text(record.get("model")),
        explainer=as_text(record.get("explainer")),
        branch=as_text(record.get("branch")),
        guideline=int(guideline) if math.isfinite(guideline) else 0,
        robust=bool(record.get("robust")),
        assumption=as_text(record.get("assumption")),
        measured=as_text(record.get("measured")),
        reason=as_text(record.get("reason")),
        change=as_text(record.get("change")),
        after_label=as_text(record.get("after_label")),
        before=value_of(record, "before"),
        after=value_of(record, "after"),
        gain=value_of(record, "gain"),
    )


def value_of(record: Mapping[str, Any], which: str) -> Value:
    """A number of a record with the ends of its interval."""
    value, low, high = (as_number(record.get(key)) for key in (which, f"{which}_low", f"{which}_high"))
    return Value(value=value, low=low, high=high)


def robust_sentence(data: AdviceData) -> Markup:
    """Who needs no change, in one sentence; nothing if all do."""
    where: dict[tuple[str, ...], list[str]] = {}
    for model in dict.fromkeys(item.model for item in data.robust):
        where.setdefault(tuple(item.explainer for item in data.robust if item.model == model), []).append(model)
    several = len(data.models) > 1
    parts = [
        listing(map(name, names)) + (piece(" on {}", listing(map(name, models))) if several else Markup(""))
        for names, models in where.items()
    ]
    verb = "it respects" if len(data.robust) == 1 else "they respect"
    return say("advice.robust", Markup("; ").join(parts), verb, robust=len(data.robust))


def draw_advice(data: AdviceData) -> Markup:
    """One article a change: why, what, and the score before and after."""
    return Markup("").join(draw_remedy(group, data) for group in data.remedies)


def draw_remedy(group: Sequence[Advice], data: AdviceData) -> Markup:
    """The cases that call for one change."""
    first = group[0]
    rule = GUIDELINES.get(first.guideline)
    parts = [
        ("Branch", first.branch),
        ("What fails", first.assumption),
        ("Why", first.reason),
        ("Guideline", f"{first.guideline}. {rule}" if rule else ""),
    ]
    facts = Markup("").join(Markup("<div><dt>{}</dt><dd>{}</dd></div>").format(*part) for part in parts if part[1])
    frame = '<article class="remedy"><h3>{}</h3><dl>{}</dl>{}</article>'
    return Markup(frame).format(first.change or "Nothing is known that would help", facts, draw_cases(group, data))


def draw_cases(group: Sequence[Advice], data: AdviceData) -> Markup:
    """One row a case: what was measured, before as a ring and after as a dot, and the numbers."""
    several = len(data.models) > 1
    names = ["Explainer", *(["Model"] if several else []), "Measured", "Before and after", "Before", "After", "Gain"]
    head = Markup("").join(Markup('<th scope="col">{}</th>').format(title) for title in names)
    body = Markup("").join(draw_case(item, data, several=several) for item in group)
    frame = '<div class="scroll" tabindex="0"><table class="cases"><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>'
    return Markup(frame).format(head, body)


def draw_case(item: Advice, data: AdviceData, *, several: bool) -> Markup:
    """One explainer on one model."""
    model = Markup('<td class="id">{}</td>').format(item.model) if several else Markup("")
    row = '<tr><th scope="row">{}</th>{}<td>{}</td><td class="change">{}</td>{}{}{}</tr>'
    drawing = strip(data.scale, draw_change(item, data), 26)
    cells = (
        draw_value(item.before, "not measured"),
        draw_value(item.after, "not measured again", item.after_label),
        draw_value(item.gain, ""),
    )
    return Markup(row).format(item.explainer, model, item.measured, drawing, *cells)


def draw_value(value: Value, otherwise: str, label: str = "") -> Markup:
    """A number over its interval, and under what name it was measured."""
    if not value.known:
        return Markup("<td>{}</td>").format(otherwise)
    under = Markup("").join(Markup("<small>{}</small>").format(text) for text in (value.ends, label) if text)
    return Markup('<td class="value">{}{}</td>').format(number(value.value), under)


def draw_change(item: Advice, data: AdviceData) -> Markup:
    """Before as a ring, after as a dot, each with its interval."""
    place = data.models.index(item.model) if item.model in data.models else 0
    parts = [
        span(one.low, one.high, y, data.scale, "population") + mark(data.scale.percent(one.value), y, CIRCLE, css)
        for one, css, y in ((item.before, "ring", -4.0), (item.after, "dot", 4.0))
        if one.known
    ]
    return lane(place, f"{item.explainer} on {item.model}: before {item.before}, after {item.after}", Markup("").join(parts))
