"""Does an explanation change as much as its model? Both distortions by level (Figure 8) and by sample, with contours (Figure 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from veracity.core.registry import FIGURES
from veracity.core.wording import number
from veracity.report.figure import Figure, Plot, sign, signs
from veracity.report.figures.chart import legend
from veracity.report.figures.curves import over_draws
from veracity.report.figures.panels import Facet, draw_facets, of_model
from veracity.report.figures.plane import (
    NEUTRAL,
    Place,
    Plane,
    Spot,
    contours,
    draw_cloud,
    draw_paths,
    draw_plane,
    draw_spots,
    group,
    stretched,
)
from veracity.report.figures.scale import Axis, Scale, axis_for, from_zero
from veracity.report.reading import Reading
from veracity.report.wording import name, piece, say, sentences

Array = NDArray[np.float64]
Distortions = Mapping[tuple[str, str], tuple[Array, Array]]


@dataclass(frozen=True, kw_only=True)
class Trace:
    """One explainer on one model: both distortions at each level, averaged over samples and draws; NaN where undefined."""

    model: int
    caused: tuple[float, ...]
    followed: tuple[float, ...]

    @property
    def still(self) -> bool:
        """Whether the explanation does not move at all."""
        return not any(value > 0 for value in self.followed)


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

    def traces(label: str) -> tuple[Trace, ...]:
        here = [(index, found[model, label]) for index, model in enumerate(models) if (model, label) in found]
        return tuple(trace(index, *both) for index, both in here if both[0].size)

    lines = tuple((label, frame, traces(label)) for label, frame in frames.items())
    shown = tuple(line for line in lines if line[2])
    nulls = tuple(item for label in random for item in traces(label))
    every = [*(item for _, _, met in shown for item in met), *nulls]
    return AlignmentData(
        models=tuple(models),
        explainers=shown,
        random=nulls,
        across=axis_for([value for item in every for value in item.caused]),
        up=from_zero([value for item in every for value in item.followed]),
        in_map_units=in_map_units,
    )


def trace(model: int, caused: Array, followed: Array) -> Trace:
    """Means over the samples and draws that have both.

    >>> trace(0, np.array([[[1.0, 2.0]], [[3.0, np.nan]]]), np.array([[[0.5, 1.0]], [[0.5, 9.0]]])).followed
    (0.5, 1.0)
    """
    both = np.isfinite(caused) & np.isfinite(followed)
    count = both.sum(axis=(0, 1))
    totals = (np.where(both, values, 0.0).sum(axis=(0, 1)) for values in (caused, followed))
    means = [np.where(count > 0, total / np.maximum(count, 1), np.nan) for total in totals]
    return Trace(model=model, caused=tuple(map(float, means[0])), followed=tuple(map(float, means[1])))


def alignment_sentences(data: AlignmentData) -> list[Markup]:
    """Whose explanations go furthest from the first level to the last, and how far random ones do."""
    moved = [(label, item) for label, _, met in data.explainers for item in met if known(item)]
    if not moved:
        return []
    label, most = max(moved, key=lambda pair: gain(pair[1]))
    who = name(label), piece(" on {}", name(data.models[most.model])) if len(data.models) > 1 else ""
    flat = [item for item in data.random if known(item)]
    far = max(flat, key=gain, default=most)
    levels = len(most.followed)
    return sentences(
        say("alignment.furthest", *who, *ends(most), curves=0 if data.in_map_units else len(moved), levels=levels)
        or say("alignment.single", *who, *ends(most), curves=1 if len(moved) == 1 else 0, levels=levels),
        say("alignment.random", *ends(far), curves=0 if data.in_map_units else len(flat), levels=levels),
    )


def known(item: Trace) -> bool:
    """Whether the first and the last level have a value."""
    return bool(np.isfinite([item.followed[0], item.followed[-1]]).all())


def gain(item: Trace) -> float:
    """How much further the explanation is at the last level than at the first."""
    return item.followed[-1] - item.followed[0]


def ends(item: Trace) -> tuple[str, str]:
    """The explanation distortion of the first and of the last level, in words."""
    return number(item.followed[0]), number(item.followed[-1])


def draw_alignment(data: AlignmentData) -> Markup:
    """One plot an explainer: its path on each model, the random controls', and those of all others of its kind behind."""
    plane = Plane(across=data.across.scale, up=data.up, labels=data.across.labels)
    null = group(NEUTRAL, draw_paths([places(item, data) for item in data.random], "reference", plane))
    facets = []
    for label, frame, met in data.explainers:
        others = [places(item, data) for other, kind, items in data.explainers if kind == frame and other != label for item in items]
        mine = [group(item.model, draw_paths([places(item, data)], "curve", plane)) for item in met]
        spots = [draw_spots(levels(item, label, data), item.model, plane) for item in met]
        drawing = draw_plane(
            plane,
            Markup("").join([draw_paths(others, "behind", plane), null, *mine, *spots]),
            f"{label}: explanation against model distortion",
        )
        still = [of_model(item.model, "no response", several=len(data.models) > 1) for item in met if item.still]
        facets.append(Facet(title=label, frame=frame, drawing=drawing, captions=tuple(still)))
    return draw_facets(facets)


def places(item: Trace, data: AlignmentData) -> list[Place]:
    """A trace on the plane."""
    return [(data.across.at(x), y) for x, y in zip(item.caused, item.followed, strict=True)]


def levels(item: Trace, label: str, data: AlignmentData) -> list[Spot]:
    """A point for each level that is defined."""
    told = "{} on {} at level {}: model {}, explanation {}"
    return [
        Spot(x=x, y=y, title=told.format(label, data.models[item.model], level, number(item.caused[level - 1]), number(y)))
        for level, (x, y) in enumerate(places(item, data), start=1)
        if x == x and y == y
    ]


POINTS = 150
LEVELS = 3


@dataclass(frozen=True, kw_only=True)
class Scatter:
    """One explainer on one model: the samples (N, 2) that have both distortions at each of the levels shown."""

    model: int
    clouds: tuple[Array, ...]


@dataclass(frozen=True, kw_only=True)
class ScatterData:
    """Every explainer on every model, and which levels of how many are shown."""

    models: tuple[str, ...]
    levels: tuple[int, ...]
    explainers: tuple[tuple[str, str, tuple[Scatter, ...]], ...]
    across: Axis
    up: Scale


def scatter_data(found: Distortions, models: Sequence[str], frames: Mapping[str, str]) -> ScatterData:
    """From distortions (samples, draws, levels) by (model, explainer), averaged over draws; `frames` names what to show, in order."""
    count = max((both[0].shape[2] for both in found.values()), default=0)
    levels = shown_levels(count)
    lines = []
    for label, frame in frames.items():
        here = [(index, found[model, label]) for index, model in enumerate(models) if (model, label) in found]
        met = [Scatter(model=index, clouds=clouds(*both, levels)) for index, both in here if both[0].size]
        if any(len(cloud) for item in met for cloud in item.clouds):
            lines.append((label, frame, tuple(met)))
    every = np.concatenate([np.zeros((0, 2)), *(cloud for _, _, met in lines for item in met for cloud in item.clouds)])
    return ScatterData(
        models=tuple(models),
        levels=tuple(level + 1 for level in levels),
        explainers=tuple(lines),
        across=axis_for(map(float, every[:, 0])),
        up=from_zero(map(float, every[:, 1])),
    )


def shown_levels(count: int) -> tuple[int, ...]:
    """The first, the middle and the last of so many levels.

    >>> shown_levels(9), shown_levels(2), shown_levels(0)
    ((0, 4, 8), (0, 1), ())
    """
    return tuple(int(level) for level in np.unique(np.linspace(0, count - 1, min(LEVELS, count)).round())) if count else ()


def clouds(caused: Array, followed: Array, levels: Sequence[int]) -> tuple[Array, ...]:
    """The samples (N, 2) at each level; those without both distortions are left out."""
    both = np.stack([over_draws(caused), over_draws(followed)], axis=-1)
    return tuple(both[np.isfinite(both[:, level]).all(axis=1), level] for level in levels)


def draw_scatter(data: ScatterData) -> Markup:
    """One plot an explainer and model: points coloured by level, within contours around half and nine tenths of them."""
    plane = Plane(across=data.across.scale, up=data.up, labels=data.across.labels)
    facets = []
    for label, frame, met in data.explainers:
        for item in met:
            placed = [on_plane(cloud, data.across) for cloud in item.clouds]
            parts = [coloured(place, draw_cloud(thinned(points), plane)) for place, points in enumerate(placed)]
            parts += [coloured(place, draw_lines(contours(points), plane)) for place, points in enumerate(placed)]
            drawing = draw_plane(plane, Markup("").join(parts), f"{label}: samples by explanation and model distortion")
            captions = (of_model(item.model, data.models[item.model], several=True),) if len(data.models) > 1 else ()
            facets.append(Facet(title=label, frame=frame, drawing=drawing, captions=captions))
    return draw_facets(facets)


def on_plane(cloud: Array, across: Axis) -> Array:
    """Points in the coordinates of the axes."""
    return np.array([[across.at(float(x)), float(y)] for x, y in cloud]).reshape(-1, 2)


def coloured(place: int, content: Markup) -> Markup:
    """What belongs to a level, in its colour."""
    return Markup('<g class="l{}">{}</g>').format(place + 1, content)


def thinned(points: Array) -> list[tuple[float, float]]:
    """At most so many points, evenly spaced."""
    chosen = np.unique(np.linspace(0, max(len(points) - 1, 0), min(len(points), POINTS)).round().astype(int))
    return [(float(points[index, 0]), float(points[index, 1])) for index in chosen]


def draw_lines(lines: Sequence[Array], plane: Plane) -> Markup:
    """Contours, each as one path."""
    parts = []
    for segments in lines:
        ends = [(plane.place(*map(float, a)), plane.place(*map(float, b))) for a, b in segments]
        path = "".join(f"M{a[0]:.0f} {a[1]:.0f}L{b[0]:.0f} {b[1]:.0f}" for a, b in ends)
        parts.append(Markup('<path class="contour" d="{}"/>').format(path))
    return stretched(Markup("").join(parts), plane) if parts else Markup("")


DOT = '<circle class="dot" r="4.2"/>'


def distortions(reading: Reading, label: str) -> Distortions:
    """Model and explanation distortions, (samples, draws, levels) each, by (model, explainer); the score adds up the segments of a path."""
    score: Any = reading.score(label)
    mine = [one for one in reading.series(label) if all(name in one.measured.quantities for name in score.quantities)]
    return {(one.model, one.explainer): score.distortions(one.measured) for one in mine}


@FIGURES.add
class AlignmentFigure(Figure):
    """Both distortions by level (Figure 8)."""

    name = "alignment"

    def data(self, reading: Reading, label: str) -> AlignmentData | None:
        """The path of every explainer."""
        score = reading.score(label)
        units = score.measure is not None and score.measure.in_map_units and not getattr(score, "normalise", False)
        controls = reading.random_controls(label)
        found = alignment_data(distortions(reading, label), reading.models, reading.explained(label), controls, in_map_units=units)
        return found if found.explainers else None

    def plot(self, reading: Reading, label: str, data: AlignmentData) -> Plot:
        """One plot per explainer."""
        return Plot(
            title="Model against explanation, level by level",
            sentences=tuple(alignment_sentences(data)),
            note=(
                "Each point is a level of the path, from weak to strong, as a mean over samples and draws. Across: how far the model's "
                f"output has moved. Up: how far the explanation has. Faithful explanations rise throughout.{logarithmic(data.across)}"
            ),
            keys=legend(reading.models)
            + signs(
                sign(f'<line class="curve" x1="-12" x2="12"/>{DOT}', "the explainer"),
                sign('<line class="reference" x1="-12" x2="12"/>', "random explanations"),
                sign('<line class="behind" x1="-12" x2="12"/>', "the other explainers"),
            ),
            drawing=draw_alignment(data),
        )


@FIGURES.add
class ScatterFigure(Figure):
    """Both distortions by sample (Figure 3)."""

    name = "scatter"

    def data(self, reading: Reading, label: str) -> ScatterData | None:
        """The samples of every explainer at a few levels."""
        found = scatter_data(distortions(reading, label), reading.models, reading.explained(label))
        return found if found.explainers else None

    def plot(self, reading: Reading, label: str, data: ScatterData) -> Plot:
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


def logarithmic(across: Axis) -> str:
    """What to say of a logarithmic axis."""
    return " The scale across is logarithmic." if across.log else ""
