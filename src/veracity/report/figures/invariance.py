"""Explanations and the model's own invariance: across models (Figure 5), and along a training (Figure 3d)."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from veracity.core.registry import FIGURES
from veracity.core.wording import compact, count, interval, number
from veracity.report.figure import BEHIND, Figure, Plot, line_sign, signs
from veracity.report.figures.chart import Scale, exact_scale, legend, scale_for, tight_scale
from veracity.report.figures.panels import draw_explainers
from veracity.report.figures.plane import NEUTRAL, Place, Plane, draw_paths, draw_spots, group, row_spot
from veracity.report.reading import RunReading
from veracity.report.rows import ON_SYMMETRY, Verdict, judged, own_invariance, verdict
from veracity.report.wording import GUIDELINES, listing, name, piece, say, sentences, word_of
from veracity.results import Row

APART = 1e-3
"""Models whose invariance differs by less are the same in this respect."""


@dataclass(frozen=True, kw_only=True)
class Meeting:
    """One explainer on one model: the model's own result and the explanations'."""

    model: int
    own: Row
    result: Row


@dataclass(frozen=True, kw_only=True)
class RelaxationData:
    """Every explainer on every model that has both numbers, models in ascending order of their invariance."""

    explainers: tuple[tuple[str, str, tuple[Meeting, ...]], ...]
    across: Scale
    up: Scale


def relaxation_data(
    rows: Sequence[Row], score: str, models: Sequence[str], order: Sequence[str], without: Collection[str] = ()
) -> RelaxationData:
    """Explainers, in the given order, that met at least two models whose own invariance differs; controls and some models left out."""
    own, cells, frames = defined_cells(rows, score)
    known = [index for index, model in enumerate(models) if model in own and model not in without]
    places = sorted(known, key=lambda index: own[models[index]].value)
    lines = []
    for label in (label for label in order if label in frames):
        met = [Meeting(model=i, own=own[models[i]], result=cells[label, models[i]]) for i in places if (label, models[i]) in cells]
        if len(met) > 1 and met[-1].own.value - met[0].own.value > APART:
            lines.append((label, frames[label], tuple(met)))
    shown = [item for _, _, met in lines for item in met]
    return RelaxationData(
        explainers=tuple(lines),
        across=tight_scale([value for item in shown for value in (item.own.value, item.own.low, item.own.high)], least=0.02),
        up=scale_for([value for item in shown for value in (item.result.value, item.result.low, item.result.high)], parts=6),
    )


def defined_cells(rows: Sequence[Row], score: str) -> tuple[dict[str, Row], dict[tuple[str, str], Row], dict[str, str]]:
    """What is defined: the models' own invariance, the score by (explainer, model) without controls, and the explainers' frames."""
    own = {model: row for model, row in own_invariance(rows).items() if row.defined}
    cells = {(row.explainer, row.model): row for row in rows if row.score == score and row.explainer and not row.control and row.defined}
    return own, cells, {label: row.frame for (label, _), row in cells.items()}


def relaxation_sentences(data: RelaxationData, models: Sequence[str]) -> list[Markup]:
    """How many explainers that respect the symmetry on the most invariant model fall short on each of the others."""
    shown = [item.result for _, _, met in data.explainers for item in met]
    if not shown or not judged(shown):
        return []
    best = max((item for _, _, met in data.explainers for item in met), key=lambda item: item.own.value).model
    robust = [met for _, _, met in data.explainers if any(item.model == best and verdict(item.result) is Verdict.KEEPS for item in met)]
    parts = []
    for index in sorted({item.model for met in robust for item in met} - {best}):
        here = [item for met in robust for item in met if item.model == index and verdict(item.result) in ON_SYMMETRY]
        short = sum(verdict(item.result) is Verdict.BREAKS for item in here)
        own = number(here[0].own.value) if here else ""
        parts += [piece("{} of {} on {} (its own invariance is {})", short, len(here), name(models[index]), own)] if here else []
    word = "respects" if len(robust) == 1 else "respect"
    said = (count(len(robust), "explainer"), word, name(models[best]), shown[0].mark, listing(parts))
    return sentences(say("relaxation", *said, kept=len(robust), invariances=1 + len(parts)))


def draw_relaxation(data: RelaxationData, models: Sequence[str]) -> Markup:
    """One plot per explainer: a point per model, the line of equal invariance, and all others of its kind behind."""
    plane = Plane(across=data.across, up=data.up)
    equal = draw_paths([[(tick, tick) for tick in (data.across.low, data.across.high)]], "equal", plane)

    def path(met: Sequence[Meeting]) -> list[list[Place]]:
        return [[(item.own.value, item.result.value) for item in met]]

    def parts(label: str, met: Sequence[Meeting]) -> Iterator[Markup]:
        yield equal
        yield draw_paths(path(met), "link", plane)
        for item in met:
            own, found = item.own, item.result
            model = f"the model {number(own.value)}, {interval(own.low, own.high)}"
            title = f"{label} on {models[item.model]}: {number(found.value)}, {interval(found.low, found.high)}; {model}"
            yield draw_spots([replace(row_spot(own.value, found, title), left=own.low, right=own.high)], item.model, plane)

    return draw_explainers(data.explainers, plane, "score against the invariance of the model", paths=path, parts=parts)


@dataclass(frozen=True, kw_only=True)
class TrainingData:
    """Steps in ascending order, and at each the model's own result and every explainer's; None where there is none."""

    steps: tuple[float, ...]
    own: tuple[Row | None, ...]
    explainers: tuple[tuple[str, str, tuple[Row | None, ...]], ...]
    across: Scale
    up: Scale


def training_data(rows: Sequence[Row], score: str, steps: Mapping[str, float], order: Sequence[str]) -> TrainingData:
    """The scores of the steps' models; explainers in the given order, those with fewer than two steps left out."""
    own, cells, frames = defined_cells(rows, score)
    lines = [(label, frames[label], tuple(cells.get((label, model)) for model in steps)) for label in order if label in frames]
    kept = tuple(line for line in lines if sum(row is not None for row in line[2]) > 1)
    stages = tuple(own.get(model) for model in steps)
    shown = [row for _, _, found in kept for row in found if row is not None] + [row for row in stages if row is not None]
    return TrainingData(
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
    """One plot per explainer: its curve, the model's, and all others of its kind behind."""
    plane = Plane(across=data.across, up=data.up)

    def path(found: Sequence[Row | None]) -> list[list[Place]]:
        return [[(step, math.nan if row is None else row.value) for step, row in zip(data.steps, found, strict=True)]]

    def parts(label: str, found: Sequence[Row | None]) -> list[Markup]:
        spots = [
            row_spot(step, row, f"{label} at step {compact(step)}: {number(row.value)}, {interval(row.low, row.high)}")
            for step, row in zip(data.steps, found, strict=True)
            if row is not None
        ]
        own = group(NEUTRAL, draw_paths(path(data.own), "reference", plane))
        return [own, group(0, draw_paths(path(found), "curve", plane)), draw_spots(spots, 0, plane)]

    return draw_explainers(data.explainers, plane, "score over the steps of the training", paths=path, parts=parts)


@FIGURES.add
class RelaxationFigure(Figure):
    """The score against the model's own invariance (Figure 5)."""

    name = "relaxation"
    needs = ("several",)

    def data(self, reading: RunReading, label: str) -> RelaxationData | None:
        """The explainers that have a score on several models, without those that are stages of a training."""
        found = relaxation_data(reading.rows, label, reading.models, reading.ranking(label).order, without=reading.steps)
        return found if found.explainers else None

    def plot(self, reading: RunReading, label: str, data: RelaxationData) -> Plot:
        """One plot per explainer."""
        return Plot(
            title="Models that are less invariant",
            sentences=(*relaxation_sentences(data, reading.models), piece("{}", GUIDELINES[5])),
            note=f"Across: the model's invariance. Up: {word_of(label)}. Bars are {reading.level} intervals of both.",
            keys=legend(reading.models) + signs(line_sign("equal", "explanation as invariant as its model"), BEHIND),
            drawing=draw_relaxation(data, reading.models),
        )


@FIGURES.add
class TrainingFigure(Figure):
    """The score over the steps of a training (Figure 3d)."""

    name = "training"
    needs = ("steps",)

    def data(self, reading: RunReading, label: str) -> TrainingData | None:
        """The explainers along the stages."""
        found = training_data(reading.rows, label, reading.steps, reading.ranking(label).order)
        return found if found.explainers else None

    def plot(self, reading: RunReading, label: str, data: TrainingData) -> Plot:
        """One plot per explainer."""
        return Plot(
            title="During training",
            sentences=tuple(training_sentences(data)),
            note=f"Across: the step of the training. Up: {word_of(label)}, with its {reading.level} interval.",
            keys=signs(line_sign("curve", "explanations", dot=True), line_sign("reference", "the model's own invariance"), BEHIND),
            drawing=draw_training(data),
        )
