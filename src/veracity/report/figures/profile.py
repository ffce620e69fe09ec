"""How worst cases and probabilities grow with the radius: scores that differ by their radius alone, side by side."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from veracity.report.figures.axis import Axis, axis_for
from veracity.report.figures.dots import ARROW
from veracity.report.figures.facets import Facet, draw_facets
from veracity.report.figures.fans import HEIGHT
from veracity.report.figures.plane import Plane, Spot, draw_paths, draw_plane, draw_spots, group
from veracity.report.figures.scale import Scale, mark, tight_scale
from veracity.report.view import Result
from veracity.report.wording import NAMES, compact, word_of
from veracity.scores.robustness.base import SearchScore

Family = dict[float, str]


@dataclass(frozen=True, kw_only=True)
class Along:
    """One subject: its result at each radius, in ascending order."""

    label: str
    index: int
    results: tuple[tuple[float, Result], ...]


@dataclass(frozen=True, kw_only=True)
class Profile:
    """One score on one model, or of the models themselves, over the radius."""

    title: str
    middle: str
    lines: tuple[Along, ...]
    across: Axis
    up: Scale


def radius_families(scores: Mapping[str, SearchScore]) -> list[tuple[str, Family]]:
    """Scores that are one and the same but for their radius: [(name, {radius: label})], those of one radius left out.

    >>> from veracity.scores.robustness import SolHat
    >>> radius_families({"a": SolHat(radius=0.2), "b": SolHat(radius=0.1), "c": SolHat(radius=0.1, norm="l2")})
    [('sol_f_hat', {0.1: 'b', 0.2: 'a'})]
    """
    found: dict[str, Family] = {}
    names: dict[str, str] = {}
    for label, score in scores.items():
        if score.space is None:
            key = json.dumps({name: value for name, value in score.spec().items() if name != "radius"}, sort_keys=True, default=str)
            names[key] = score.name
            found.setdefault(key, {}).setdefault(float(score.radius), label)
    return [(names[key], dict(sorted(family.items()))) for key, family in found.items() if len(family) > 1]


def profile_data(scores: Mapping[str, SearchScore], rows: Sequence[Result], models: Sequence[str], names: Sequence[str]) -> list[Profile]:
    """A profile of each family and model; `names` are the explainers to show, in their order."""
    made = []
    for name, family in radius_families(scores):
        cells = {(row.score, row.model, row.explainer): row for row in rows if row.defined}
        title = NAMES.get(name, word_of(name))
        if any(row.explainer for row in rows if row.score in family.values()):
            for model in models:
                lines = [along(label, index, family, model, label, cells) for index, label in enumerate(names)]
                made += profile(f"{model}: {title}" if len(models) > 1 else title, lines)
        else:
            made += profile(title, [along(model, index, family, model, "", cells) for index, model in enumerate(models)])
    return made


def along(label: str, index: int, family: Family, model: str, explainer: str, cells: Mapping[tuple[str, str, str], Result]) -> Along:
    """What there is of one subject."""
    held = [(radius, cells[score, model, explainer]) for radius, score in family.items() if (score, model, explainer) in cells]
    return Along(label=label, index=index, results=tuple(held))


def profile(title: str, lines: Sequence[Along]) -> list[Profile]:
    """One plot, if there is anything at two radii."""
    met = tuple(line for line in lines if len(line.results) > 1)
    every = [result for line in met for _, result in line.results]
    if not every:
        return []
    radii = [radius for line in met for radius, _ in line.results]
    heights = [value for row in every for value in (row.value, row.low, row.high)]
    heights += [0.0] if every[0].middle == "median" else []
    return [Profile(title=title, middle=every[0].middle, lines=met, across=axis_for(radii, parts=4), up=tight_scale(heights, parts=5))]


def draw_profiles(data: Sequence[Profile]) -> Markup:
    """Every profile."""
    return draw_facets([draw_profile(item) for item in data], broad=True)


def draw_profile(item: Profile) -> Facet:
    """One plot: a line a subject, its intervals as bars, arrows where only a bound is known."""
    plane = Plane(across=item.across.scale, up=item.up, labels=item.across.labels, height=HEIGHT)
    parts, told = [], []
    for line in item.lines:
        places = [(item.across.at(radius), result.value) for radius, result in line.results]
        spots = [spot(line.label, x, radius, result, item.up.low) for (x, _), (radius, result) in zip(places, line.results, strict=True)]
        known = [one for one, (_, result) in zip(spots, line.results, strict=True) if not result.bound]
        bounds = [
            mark(plane.across.percent(one.x), plane.top(one.y), ARROW, "arrow")
            for one, (_, result) in zip(spots, line.results, strict=True)
            if result.bound
        ]
        parts += [group(line.index, draw_paths([places], "curve", plane) + Markup("").join(bounds)), draw_spots(known, line.index, plane)]
        told.append(f"{line.label} {', '.join(f'{result.shown()} at {compact(radius)}' for radius, result in line.results)}")
    drawing = draw_plane(plane, Markup("").join(parts), f"{item.title}, {item.middle} by radius: {'; '.join(told)}")
    return Facet(title=f"{item.title} ({item.middle})", frame="", drawing=drawing)


def spot(label: str, x: float, radius: float, result: Result, bottom: float) -> Spot:
    """One point with its interval, which reaches down to the bottom where its low end is not known."""
    low = bottom if math.isinf(result.low) else result.low
    title = f"{label} at radius {compact(radius)}: {result.shown()} ({result.ends()})"
    return Spot(x=x, y=result.value, low=low, high=result.high, title=title)
