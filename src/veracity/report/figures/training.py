"""The symmetry of a model and of its explanations while it is trained (Figure 3d)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from veracity.report.figures.facets import Facet, draw_facets
from veracity.report.figures.plane import NEUTRAL, Plane, Spot, draw_paths, draw_plane, draw_spots, group
from veracity.report.figures.scale import Scale, exact_scale, scale_for
from veracity.report.phrases import name, piece, say, sentences
from veracity.report.view import Result
from veracity.core.wording import compact, interval, number


@dataclass(frozen=True, kw_only=True)
class TrainingData:
    """Steps in ascending order, and at each the model's own result and every explainer's; None where there is none."""

    score: str
    steps: tuple[float, ...]
    own: tuple[Result | None, ...]
    explainers: tuple[tuple[str, str, tuple[Result | None, ...]], ...]
    across: Scale
    up: Scale


def steps_of(manifest: Mapping[str, Any], models: Sequence[str]) -> dict[str, float]:
    """Which models are stages of one training, and at which step, as the run's spec says; in ascending order.

    >>> steps_of({"spec": {"steps": {"late": 20, "early": 0}}}, ["late", "early", "other"])
    {'early': 0.0, 'late': 20.0}
    """
    given = (manifest.get("spec") or {}).get("steps")
    found = given if isinstance(given, Mapping) else {}
    known = {model: float(found[model]) for model in models if isinstance(found.get(model), (int, float))}
    return dict(sorted(known.items(), key=lambda item: item[1])) if len(set(known.values())) > 1 else {}


def training_data(rows: Sequence[Result], score: str, steps: Mapping[str, float], order: Sequence[str]) -> TrainingData:
    """The scores of the steps' models; explainers in the given order, those with fewer than two steps left out."""
    cells = {(row.explainer, row.model): row for row in rows if row.score == score and row.explainer and not row.control and row.defined}
    own = {row.model: row for row in rows if row.score == "model_invariance" and not row.explainer and row.defined}
    frames = {label: row.frame for (label, _), row in cells.items()}
    lines = [(label, frames[label], tuple(cells.get((label, model)) for model in steps)) for label in order if label in frames]
    kept = tuple(line for line in lines if sum(row is not None for row in line[2]) > 1)
    stages = tuple(own.get(model) for model in steps)
    shown = [row for _, _, found in kept for row in found if row is not None] + [row for row in stages if row is not None]
    return TrainingData(
        score=score,
        steps=tuple(steps.values()),
        own=stages,
        explainers=kept,
        across=exact_scale(min(steps.values(), default=0.0), max(steps.values(), default=1.0)),
        up=scale_for([value for row in shown for value in (row.value, row.low, row.high)], parts=6),
    )


def training_sentences(data: TrainingData) -> list[Markup]:
    """Where the model goes from the first step to the last, and where the explainer goes that moves most."""
    if len(data.steps) < 2:
        return []
    ends = [(label, found[0], found[-1]) for label, _, found in data.explainers]
    moved = [(label, first, last) for label, first, last in ends if first is not None and last is not None]
    first, last = (data.own[0], data.own[-1]) if data.own else (None, None)
    parts = []
    if first is not None and last is not None:
        parts.append(piece("the model's invariance goes from {} to {}", number(first.value), number(last.value)))
    if moved:
        label, before, after = max(moved, key=lambda item: abs(item[2].value - item[1].value))
        verb = "changes most, from" if len(moved) > 1 else "goes from"
        parts.append(piece("{} {} {} to {}", name(label), verb, number(before.value), number(after.value)))
    steps = compact(data.steps[0]), compact(data.steps[-1])
    return sentences(say("training", *steps, Markup("; ").join(parts), steps=len(data.steps) if parts else 0))


def draw_training(data: TrainingData) -> Markup:
    """One plot an explainer: its curve, the model's, and all others of its kind behind."""
    plane = Plane(across=data.across, up=data.up)
    own = path(data.steps, data.own)
    facets = []
    for label, frame, found in data.explainers:
        others = [path(data.steps, items) for other, kind, items in data.explainers if kind == frame and other != label]
        parts = [
            draw_paths(others, "behind", plane),
            group(NEUTRAL, draw_paths([own], "reference", plane)),
            group(0, draw_paths([path(data.steps, found)], "curve", plane)),
            draw_spots(spots(data.steps, found, label), 0, plane),
        ]
        drawing = draw_plane(plane, Markup("").join(parts), f"{label}: score over the steps of the training")
        facets.append(Facet(title=label, frame=frame, drawing=drawing))
    return draw_facets(facets)


def path(steps: Sequence[float], found: Sequence[Result | None]) -> list[tuple[float, float]]:
    """A curve over the steps, interrupted where there is no result."""
    return [(step, math.nan if row is None else row.value) for step, row in zip(steps, found, strict=True)]


def spots(steps: Sequence[float], found: Sequence[Result | None], label: str) -> list[Spot]:
    """The points of a curve."""
    return [
        Spot(
            x=step,
            y=row.value,
            low=row.low,
            high=row.high,
            title=f"{label} at step {compact(step)}: {number(row.value)}, {interval(row.low, row.high)}",
        )
        for step, row in zip(steps, found, strict=True)
        if row is not None
    ]
