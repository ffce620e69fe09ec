"""What becomes of explanations when the model itself is less invariant: their score against the model's (Figure 5)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from veracity.report.answer import judged
from veracity.report.figures.facets import Facet, draw_facets
from veracity.report.figures.plane import Plane, Spot, draw_paths, draw_plane, draw_spots
from veracity.report.figures.scale import Scale, scale_for, tight_scale
from veracity.report.phrases import listing, name, piece, say, sentences
from veracity.report.verdict import KEPT, KEPT_OR_NOT, Verdict, verdict
from veracity.report.view import Result
from veracity.core.wording import count, interval, number

APART = 1e-3
"""Models whose invariance differs by less are the same in this respect."""


@dataclass(frozen=True, kw_only=True)
class Meeting:
    """One explainer on one model: the model's own result and the explanations'."""

    model: int
    own: Result
    result: Result


@dataclass(frozen=True, kw_only=True)
class RelaxationData:
    """Every explainer on every model that has both numbers, models in ascending order of their invariance."""

    score: str
    explainers: tuple[tuple[str, str, tuple[Meeting, ...]], ...]
    across: Scale
    up: Scale


def relaxation_data(
    rows: Sequence[Result], score: str, models: Sequence[str], order: Sequence[str], without: Collection[str] = ()
) -> RelaxationData:
    """Explainers, in the given order, that met at least two models whose own invariance differs; controls and some models left out."""
    own = {row.model: row for row in rows if row.score == "model_invariance" and not row.explainer and row.defined}
    mine = [row for row in rows if row.score == score and row.explainer and not row.control and row.defined]
    places = [index for index, model in enumerate(models) if model in own and model not in without]
    ascending = sorted(places, key=lambda index: own[models[index]].value)
    cells = {(row.explainer, row.model): row for row in mine}
    frames = {row.explainer: row.frame for row in mine}
    lines = []
    for label in (label for label in order if label in frames):
        met = [Meeting(model=i, own=own[models[i]], result=cells[label, models[i]]) for i in ascending if (label, models[i]) in cells]
        if len(met) > 1 and met[-1].own.value - met[0].own.value > APART:
            lines.append((label, frames[label], tuple(met)))
    shown = [item for _, _, met in lines for item in met]
    return RelaxationData(
        score=score,
        explainers=tuple(lines),
        across=tight_scale([value for item in shown for value in (item.own.value, item.own.low, item.own.high)], least=0.02),
        up=scale_for([value for item in shown for value in (item.result.value, item.result.low, item.result.high)], parts=6),
    )


def relaxation_sentences(data: RelaxationData, models: Sequence[str]) -> list[Markup]:
    """How many explainers that respect the symmetry on the most invariant model fall short on each of the others."""
    shown = [item.result for _, _, met in data.explainers for item in met]
    if not shown or not judged(shown):
        return []
    best = max((item for _, _, met in data.explainers for item in met), key=lambda item: item.own.value).model
    robust = [met for _, _, met in data.explainers if any(item.model == best and verdict(item.result) is Verdict.KEEPS for item in met)]
    parts = []
    for index in sorted({item.model for met in robust for item in met} - {best}):
        here = [item for met in robust for item in met if item.model == index and verdict(item.result) in KEPT_OR_NOT]
        short = sum(verdict(item.result) is Verdict.BREAKS for item in here)
        own = number(here[0].own.value) if here else ""
        parts += [piece("{} of {} on {} (its own invariance is {})", short, len(here), name(models[index]), own)] if here else []
    word = "respects" if len(robust) == 1 else "respect"
    said = (count(len(robust), "explainer"), word, name(models[best]), KEPT, listing(parts))
    return sentences(say("relaxation", *said, kept=len(robust), invariances=1 + len(parts)))


def draw_relaxation(data: RelaxationData, models: Sequence[str]) -> Markup:
    """One plot an explainer: a point a model, the line of equal invariance, and all others of its kind behind."""
    plane = Plane(across=data.across, up=data.up)
    equal = [(tick, tick) for tick in (data.across.low, data.across.high)]
    facets = []
    for label, frame, met in data.explainers:
        others = [points(items) for other, kind, items in data.explainers if kind == frame and other != label]
        spots = [(item.model, spot(item, label, models[item.model])) for item in met]
        parts = [
            draw_paths(others, "behind", plane),
            draw_paths([equal], "equal", plane),
            draw_paths([points(met)], "link", plane),
            *(draw_spots([found], model, plane) for model, found in spots),
        ]
        drawing = draw_plane(plane, Markup("").join(parts), f"{label}: score against the invariance of the model")
        facets.append(Facet(title=label, frame=frame, drawing=drawing))
    return draw_facets(facets)


def points(met: Sequence[Meeting]) -> list[tuple[float, float]]:
    """The path through an explainer's models."""
    return [(item.own.value, item.result.value) for item in met]


def spot(item: Meeting, label: str, model: str) -> Spot:
    """A model as a point, with the intervals of both numbers."""
    own, found = item.own, item.result
    told = (
        f"{label} on {model}: {number(found.value)}, {interval(found.low, found.high)}; "
        f"the model {number(own.value)}, {interval(own.low, own.high)}"
    )
    return Spot(x=own.value, y=found.value, low=found.low, high=found.high, left=own.low, right=own.high, title=told)
