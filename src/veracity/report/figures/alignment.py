"""Does an explanation change as much as its model? Model against explanation distortion along the path (Figure 8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from veracity.report.figures.axis import Axis, axis_for, from_zero
from veracity.report.figures.facets import Facet, draw_facets, of_model
from veracity.report.figures.plane import NEUTRAL, Place, Plane, Spot, draw_paths, draw_plane, draw_spots, group
from veracity.report.figures.scale import Scale
from veracity.report.phrases import name, piece, say, sentences
from veracity.core.wording import number

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
