"""Sample by sample: explanation against model distortion at a weak, a middling and a strong level, with contours (Figure 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from veracity.report.figures.alignment import Distortions
from veracity.report.figures.axis import Axis, axis_for, from_zero
from veracity.report.figures.contours import contours
from veracity.report.figures.facets import Facet, draw_facets, of_model
from veracity.report.figures.plane import Plane, draw_cloud, draw_plane, stretched
from veracity.report.figures.scale import Scale
from veracity.report.measured import over_draws

Array = NDArray[np.float64]
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
