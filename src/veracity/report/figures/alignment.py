"""Does an explanation change as much as its model? Both distortions by level (Figure 8) and by sample, with contours (Figure 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from veracity.core.registry import FIGURES
from veracity.core.scores import Array
from veracity.core.wording import number
from veracity.report.figure import BEHIND, DOT, Figure, Plot, line_sign, sign, signs
from veracity.report.figures.chart import Axis, Scale, axis_for, evenly, from_zero, legend
from veracity.report.figures.curves import over_draws
from veracity.report.figures.panels import Facet, draw_explainers, draw_facets, of_model, on_models
from veracity.report.figures.plane import NEUTRAL, Place, Plane, Spot, draw_cloud, draw_contours, draw_paths, draw_plane, draw_spots, group
from veracity.report.reading import RunReading
from veracity.report.wording import name, say, sentences, where

Distortions = Mapping[tuple[str, str], tuple[Array, Array]]
POINTS = 150
LEVELS = 3


@dataclass(frozen=True, kw_only=True)
class Trace:
    """One explainer on one model: both distortions at each level, averaged over samples and draws; NaN if undefined."""

    model: int
    caused: tuple[float, ...]
    followed: tuple[float, ...]

    @property
    def still(self) -> bool:
        """Whether the explanation does not move at all."""
        return not any(value > 0 for value in self.followed)

    @property
    def known(self) -> bool:
        """Whether the first and the last level have a value."""
        return bool(np.isfinite([self.followed[0], self.followed[-1]]).all())

    @property
    def gain(self) -> float:
        """How much further the explanation is at the last level than at the first."""
        return self.followed[-1] - self.followed[0]

    @property
    def ends(self) -> tuple[str, str]:
        """The explanation distortion of the first and of the last level, in words."""
        return number(self.followed[0]), number(self.followed[-1])


@dataclass(frozen=True, kw_only=True)
class AlignmentData:
    """The traces of every explainer, those of the random controls, both axes, and whether distortions are in each map's own units."""

    models: tuple[str, ...]
    explainers: tuple[tuple[str, str, tuple[Trace, ...]], ...]
    random: tuple[Trace, ...]
    across: Axis
    up: Scale
    in_map_units: bool = False


def alignment_data(
    found: Distortions, models: Sequence[str], frames: Mapping[str, str], random: Sequence[str] = (), *, in_map_units: bool = False
) -> AlignmentData:
    """From distortions (samples, draws, levels) by (model, explainer); `frames` names the explainers to show, in their order."""
    filled = {subject: both for subject, both in found.items() if both[0].size}
    lines = [(label, frame, on_models(label, filled, models, trace)) for label, frame in frames.items()]
    shown = tuple(line for line in lines if line[2])
    nulls = tuple(item for label in random for item in on_models(label, filled, models, trace))
    every = [*(item for _, _, met in shown for item in met), *nulls]
    return AlignmentData(
        models=tuple(models),
        explainers=shown,
        random=nulls,
        across=axis_for([value for item in every for value in item.caused]),
        up=from_zero([value for item in every for value in item.followed]),
        in_map_units=in_map_units,
    )


def trace(model: int, both: tuple[Array, Array]) -> Trace:
    """Means over the samples and draws that have both distortions.

    >>> trace(0, (np.array([[[1.0, 2.0]], [[3.0, np.nan]]]), np.array([[[0.5, 1.0]], [[0.5, 9.0]]]))).followed
    (0.5, 1.0)
    """
    known = np.isfinite(both[0]) & np.isfinite(both[1])
    count = known.sum(axis=(0, 1))
    totals = [np.where(known, values, 0.0).sum(axis=(0, 1)) for values in both]
    caused, followed = (tuple(map(float, np.where(count > 0, total / np.maximum(count, 1), np.nan))) for total in totals)
    return Trace(model=model, caused=caused, followed=followed)


def alignment_sentences(data: AlignmentData) -> list[Markup]:
    """Whose explanations go furthest from the first level to the last, and how far random ones do."""
    moved = [(label, item) for label, _, met in data.explainers for item in met if item.known]
    if not moved:
        return []
    label, most = max(moved, key=lambda pair: pair[1].gain)
    who = name(label), where(data.models[most.model], data.models)
    flat = [item for item in data.random if item.known]
    far = max(flat, key=lambda item: item.gain, default=most)
    levels, ranked = len(most.followed), not data.in_map_units
    return sentences(
        say("alignment.furthest", *who, *most.ends, curves=len(moved) if ranked else 0, levels=levels)
        or say("alignment.single", *who, *most.ends, curves=1 if len(moved) == 1 else 0, levels=levels),
        say("alignment.random", *far.ends, curves=len(flat) if ranked else 0, levels=levels),
    )


def draw_alignment(data: AlignmentData) -> Markup:
    """One plot per explainer: its path on each model, the random controls', and those of all others of its kind behind."""
    plane = Plane(across=data.across.scale, up=data.up, labels=data.across.labels)
    told = "{} on {} at level {}: model {}, explanation {}"

    def path(item: Trace) -> list[Place]:
        return [(data.across.at(x), y) for x, y in zip(item.caused, item.followed, strict=True)]

    def spots(label: str, item: Trace) -> list[Spot]:
        return [
            Spot(x=x, y=y, title=told.format(label, data.models[item.model], level, number(item.caused[level - 1]), number(y)))
            for level, (x, y) in enumerate(path(item), start=1)
            if x == x and y == y
        ]

    null = group(NEUTRAL, draw_paths(map(path, data.random), "reference", plane))
    return draw_explainers(
        data.explainers,
        plane,
        "explanation against model distortion",
        paths=lambda items: list(map(path, items)),
        parts=lambda label, items: [
            null,
            *(group(item.model, draw_paths([path(item)], "curve", plane)) for item in items),
            *(draw_spots(spots(label, item), item.model, plane) for item in items),
        ],
        captions=lambda items: [of_model(item.model, "no response", several=len(data.models) > 1) for item in items if item.still],
    )


@dataclass(frozen=True, kw_only=True)
class Scatter:
    """One explainer on one model: the samples (N, 2) that have both distortions at each of the levels shown."""

    model: int
    clouds: tuple[Array, ...]


@dataclass(frozen=True, kw_only=True)
class ScatterData:
    """Every explainer on every model, and the numbers of the levels that are shown."""

    models: tuple[str, ...]
    levels: tuple[int, ...]
    explainers: tuple[tuple[str, str, tuple[Scatter, ...]], ...]
    across: Axis
    up: Scale


def scatter_data(found: Distortions, models: Sequence[str], frames: Mapping[str, str]) -> ScatterData:
    """From distortions (samples, draws, levels) by (model, explainer), averaged over draws; `frames` names what to show, in order.

    The first, the middle and the last level are shown, without the samples that lack a distortion.
    """
    levels = evenly(max((both[0].shape[2] for both in found.values()), default=0), LEVELS)

    def scatter(model: int, both: tuple[Array, Array]) -> Scatter:
        means = np.stack([over_draws(part) for part in both], axis=-1)
        return Scatter(model=model, clouds=tuple(means[np.isfinite(means[:, level]).all(axis=1), level] for level in levels))

    filled = {subject: both for subject, both in found.items() if both[0].size}
    lines = [(label, frame, on_models(label, filled, models, scatter)) for label, frame in frames.items()]
    shown = tuple(line for line in lines if any(len(cloud) for item in line[2] for cloud in item.clouds))
    every = np.concatenate([np.zeros((0, 2)), *(cloud for _, _, met in shown for item in met for cloud in item.clouds)])
    return ScatterData(
        models=tuple(models),
        levels=tuple(int(level) + 1 for level in levels),
        explainers=shown,
        across=axis_for(map(float, every[:, 0])),
        up=from_zero(map(float, every[:, 1])),
    )


def draw_scatter(data: ScatterData) -> Markup:
    """One plot per explainer and model: points coloured by level, within contours around half and nine tenths of them."""
    plane = Plane(across=data.across.scale, up=data.up, labels=data.across.labels)

    def coloured(drawings: Sequence[Markup]) -> list[Markup]:
        return [Markup('<g class="l{}">{}</g>').format(place, drawing) for place, drawing in enumerate(drawings, start=1)]

    facets = []
    for label, frame, met in data.explainers:
        for item in met:
            clouds = [np.array([[data.across.at(float(x)), float(y)] for x, y in cloud]).reshape(-1, 2) for cloud in item.clouds]
            dots = [draw_cloud(list(map(tuple, points[evenly(len(points), POINTS)].tolist())), plane) for points in clouds]
            lines = [draw_contours(points, plane) for points in clouds]
            content = Markup("").join(coloured(dots) + coloured(lines))
            drawing = draw_plane(plane, content, f"{label}: samples by explanation and model distortion")
            captions = (of_model(item.model, data.models[item.model], several=True),) if len(data.models) > 1 else ()
            facets.append(Facet(title=label, frame=frame, drawing=drawing, captions=captions))
    return draw_facets(facets)


def distortions(reading: RunReading, label: str) -> Distortions:
    """Model and explanation distortions, (samples, draws, levels) each, by (model, explainer); the score adds up the segments of a path."""
    score: Any = reading.score(label)
    mine = [one for one in reading.series(label) if all(name in one.measured.quantities for name in score.quantities)]
    return {(one.model, one.explainer): score.distortions(one.measured) for one in mine}


def logarithmic(across: Axis) -> str:
    """The note on a logarithmic axis."""
    return " The scale across is logarithmic." if across.log else ""


@FIGURES.add
class AlignmentFigure(Figure):
    """Both distortions by level (Figure 8)."""

    name = "alignment"

    def data(self, reading: RunReading, label: str) -> AlignmentData | None:
        """The path of every explainer."""
        score = reading.score(label)
        units = score.measure is not None and score.measure.in_map_units and not getattr(score, "normalise", False)
        controls = reading.random_controls(label)
        found = alignment_data(distortions(reading, label), reading.models, reading.explained(label), controls, in_map_units=units)
        return found if found.explainers else None

    def plot(self, reading: RunReading, label: str, data: AlignmentData) -> Plot:
        """One plot per explainer."""
        return Plot(
            title="Model against explanation, level by level",
            sentences=tuple(alignment_sentences(data)),
            note=(
                "Each point is a level of the path, from weak to strong, as a mean over samples and draws. Across: how far the model's "
                f"output has moved. Up: how far the explanation has. Faithful explanations rise throughout.{logarithmic(data.across)}"
            ),
            keys=legend(reading.models)
            + signs(line_sign("curve", "the explainer", dot=True), line_sign("reference", "random explanations"), BEHIND),
            drawing=draw_alignment(data),
        )


@FIGURES.add
class ScatterFigure(Figure):
    """Both distortions by sample (Figure 3)."""

    name = "scatter"

    def data(self, reading: RunReading, label: str) -> ScatterData | None:
        """The samples of every explainer at a few levels."""
        found = scatter_data(distortions(reading, label), reading.models, reading.explained(label))
        return found if found.explainers else None

    def plot(self, reading: RunReading, label: str, data: ScatterData) -> Plot:
        """One plot per explainer."""
        levels = [sign(f'<g class="l{place}">{DOT}</g>', f"level {level}") for place, level in enumerate(data.levels, start=1)]
        return Plot(
            title="Model against explanation, sample by sample",
            sentences=tuple(sentences(say("scatter.overlap", curves=len(data.explainers), levels=len(data.levels)))),
            note="Each point is a sample, as a mean over draws; lines enclose half and nine tenths of a level's points. Axes as above."
            f"{logarithmic(data.across)}",
            keys=signs(*levels),
            drawing=draw_scatter(data),
        )
