"""Worst cases and probabilities of misinterpretation: ln P by sample, and both by the radius."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
from markupsafe import Markup
from scipy.special import ndtri

from veracity.core.registry import FIGURES
from veracity.core.wording import compact, count, number
from veracity.report.figure import Figure, Plot, SharedFigure, sign, signs
from veracity.report.figures.chart import Axis, Scale, axis_for, evenly, legend, mark, tight_scale
from veracity.report.figures.panels import HEIGHT, Facet, draw_facets
from veracity.report.figures.plane import Plane, Spot, draw_paths, draw_plane, draw_spots, group, row_spot
from veracity.report.reading import RunReading
from veracity.report.wording import as_json, word_of
from veracity.results import Row

ARROW = "M0 -5V4M-3.4 .8L0 4.8L3.4 .8"
TICKS = 4
CLASSES = {"stuck": "arrow stuck", "censored": "arrow"}


@dataclass(frozen=True, kw_only=True)
class SampleDot:
    """One sample: its number, ln P with the ends of its interval, and "censored", "stuck" or "" for how it ended."""

    sample: int
    value: float
    low: float
    high: float
    state: str = ""


@dataclass(frozen=True, kw_only=True)
class DotsData:
    """The samples of every subject as (title, frame, model, samples), all on one scale."""

    subjects: tuple[tuple[str, str, int, tuple[SampleDot, ...]], ...]
    across: Scale
    up: Scale


def dots_data(samples: pd.DataFrame, models: Sequence[str], frames: Mapping[str, str], confidence: float = 0.95) -> DotsData:
    """From a score's samples with their errors; `frames` names the explainers to show in their order, "" for the models themselves."""
    wide = float(ndtri((1 + confidence) / 2))
    subjects = []
    for label, frame in frames.items():
        for index, model in enumerate(models):
            mine = samples[(samples["model"] == model) & (samples["explainer"] == label)]
            found = tuple(one for record in mine.to_dict("records") if (one := sample_dot(record, wide)) is not None)
            title = " on ".join([label, model] if label and len(models) > 1 else [label or model])
            subjects += [(title, frame, index, found)] if found else []
    every = [one for *_, found in subjects for one in found]
    numbers = sorted({one.sample for one in every})
    ticks = tuple(float(numbers[place]) for place in evenly(len(numbers), TICKS))
    return DotsData(
        subjects=tuple(subjects),
        across=Scale(min(numbers, default=0) - 0.5, max(numbers, default=1) + 0.5, ticks),
        up=tight_scale([0.0, *(end for one in every for end in (one.value, one.low, one.high))], parts=5),
    )


def sample_dot(record: Mapping[object, object], wide: float) -> SampleDot | None:
    """One sample: ln P plus and minus so many standard errors, at most 0; None if it has no value."""
    value, error = (float(str(record.get(name, "nan"))) for name in ("value", "error"))
    state = next((name for name in CLASSES if record.get(name) is True), "")
    if not math.isfinite(value):
        return None
    ends = (math.nan, math.nan) if state else (value - wide * error, min(value + wide * error, 0.0))
    return SampleDot(sample=int(str(record["sample"])), value=value, low=ends[0], high=ends[1], state=state)


def draw_dots(data: DotsData) -> Markup:
    """One plot per subject: points with bars, and arrows for what lies below."""
    plane, facets = Plane(across=data.across, up=data.up), []
    for title, frame, model, found in data.subjects:
        points, below = [], []
        for one in found:
            if one.state:
                arrow = mark(plane.across.percent(one.sample), plane.top(one.value), ARROW, CLASSES[one.state])
                said = f"sample {one.sample}: at most {number(one.value)}, {one.state}"
                below.append(Markup("<g><title>{}</title>{}</g>").format(said, arrow))
            else:
                said = f"sample {one.sample}: {number(one.value)}"
                points.append(Spot(x=one.sample, y=one.value, low=one.low, high=one.high, title=said))
        counts = {state: sum(one.state == state for one in found) for state in CLASSES}
        told = ", ".join([count(len(found), "sample"), *(f"{number_of} {state}" for state, number_of in counts.items() if number_of)])
        drawing = draw_plane(plane, draw_spots(points, model, plane) + group(model, Markup("").join(below)), f"{title}: ln P of {told}")
        facets.append(Facet(title=title, frame=frame, drawing=drawing, captions=(Markup.escape(told),)))
    return draw_facets(facets)


Family = dict[float, str]


@dataclass(frozen=True, kw_only=True)
class Along:
    """One subject: its result at each radius, in ascending order."""

    label: str
    index: int
    results: tuple[tuple[float, Row], ...]


@dataclass(frozen=True, kw_only=True)
class Profile:
    """One score on one model, or of the models themselves, over the radius."""

    title: str
    middle: str
    lines: tuple[Along, ...]
    across: Axis
    up: Scale


def radius_families(scores: Mapping[str, Any]) -> list[tuple[str, Family]]:
    """Scores that are one and the same but for their radius: [(name, {radius: label})], those of one radius left out.

    >>> from veracity.scores.robustness import SolHat
    >>> radius_families({"a": SolHat(radius=0.2), "b": SolHat(radius=0.1), "c": SolHat(radius=0.1, norm="l2")})
    [('sol_f_hat', {0.1: 'b', 0.2: 'a'})]
    """
    found: dict[str, Family] = {}
    names: dict[str, str] = {}
    for label, score in scores.items():
        if score.space is None:
            key = as_json({name: value for name, value in score.spec().items() if name != "radius"})
            names[key] = score.name
            found.setdefault(key, {}).setdefault(float(score.radius), label)
    return [(names[key], dict(sorted(family.items()))) for key, family in found.items() if len(family) > 1]


def profile_data(scores: Mapping[str, Any], rows: Sequence[Row], models: Sequence[str], names: Sequence[str]) -> list[Profile]:
    """A profile of each family and model; `names` are the explainers to show, in their order."""
    made = []
    for name, family in radius_families(scores):
        cells = {(row.score, row.model, row.explainer): row for row in rows if row.defined}
        title = word_of(name)
        if any(row.explainer for row in rows if row.score in family.values()):
            for model in models:
                lines = [along(label, index, family, model, label, cells) for index, label in enumerate(names)]
                made += profile(f"{model}: {title}" if len(models) > 1 else title, lines)
        else:
            made += profile(title, [along(model, index, family, model, "", cells) for index, model in enumerate(models)])
    return made


def along(label: str, index: int, family: Family, model: str, explainer: str, cells: Mapping[tuple[str, str, str], Row]) -> Along:
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
    """One plot: a line per subject, its intervals as bars, arrows for upper bounds; an unknown low end reaches the bottom."""
    plane = Plane(across=item.across.scale, up=item.up, labels=item.across.labels, height=HEIGHT)
    parts, told = [], []
    for line in item.lines:
        known, bounds = [], []
        for radius, result in line.results:
            title = f"{line.label} at radius {compact(radius)}: {result.shown()} ({result.ends()})"
            spot = row_spot(item.across.at(radius), result, title)
            if result.bound:
                bounds.append(mark(plane.across.percent(spot.x), plane.top(spot.y), ARROW, "arrow"))
            else:
                known.append(replace(spot, low=item.up.low if math.isinf(spot.low) else spot.low))
        path = draw_paths([[(item.across.at(radius), result.value) for radius, result in line.results]], "curve", plane)
        parts += [group(line.index, path + Markup("").join(bounds)), draw_spots(known, line.index, plane)]
        told.append(f"{line.label} {', '.join(f'{result.shown()} at {compact(radius)}' for radius, result in line.results)}")
    drawing = draw_plane(plane, Markup("").join(parts), f"{item.title}, {item.middle} by radius: {'; '.join(told)}")
    return Facet(title=f"{item.title} ({item.middle})", frame="", drawing=drawing)


@FIGURES.add
class DotsFigure(Figure):
    """ln P of every sample with its interval."""

    name = "dots"

    def data(self, reading: RunReading, label: str) -> DotsData | None:
        """The samples of every explainer, or of the models."""
        found = dots_data(reading.samples(label), reading.models, in_run_order(reading, label) or {"": ""}, reading.confidence)
        return found if found.subjects else None

    def plot(self, reading: RunReading, label: str, data: DotsData) -> Plot:
        """One plot per subject."""
        keys = signs(
            sign('<line class="ends" y1="-7" y2="7"/><circle class="dot" r="4.2"/>', f"ln P with its {reading.level} interval"),
            sign(f'<path class="arrow" d="{ARROW}"/>', "censored: at most this"),
            sign(f'<path class="arrow stuck" d="{ARROW}"/>', "stuck: the walk found no further point"),
        )
        return Plot(
            title="Sample by sample",
            note="Across: the number of the sample. Up: ln P. The interval of a sample is that of other random walks.",
            keys=legend(reading.models) + keys,
            drawing=draw_dots(data),
        )


@FIGURES.add
class ProfileFigure(SharedFigure):
    """Worst cases and probabilities against the radius, where several scores differ by it alone."""

    name = "profile"

    def data(self, reading: RunReading, labels: Sequence[str]) -> list[Profile] | None:
        """Scores that differ by their radius alone."""
        scores = {label: reading.score(label) for label in labels}
        return profile_data(scores, reading.rows, reading.models, searched_explainers(reading)) or None

    def plot(self, reading: RunReading, labels: Sequence[str], data: list[Profile]) -> Plot:
        """One plot per family of scores and model."""
        return Plot(
            title="How it grows with the radius",
            note=(
                f"Across: the radius. Up: the mean over samples, or of ln P the median, with its {reading.level} interval; a median of "
                "fewer than six samples has none. An arrow stands where the median is only known to lie at or below."
            ),
            keys=legend(searched_explainers(reading)) + signs(sign(f'<path class="arrow" d="{ARROW}"/>', "at most this")),
            drawing=draw_profiles(data),
        )


def searched_explainers(reading: RunReading) -> list[str]:
    """The explainers that a search was about, without controls, in the run's order."""
    return list(dict.fromkeys(row.explainer for row in reading.rows if row.searched and row.explainer and not row.control))


def in_run_order(reading: RunReading, label: str) -> dict[str, str]:
    """The explainers of a score with their frames, in the run's order."""
    frames = reading.explained(label) if reading.of(label) else {}
    return {name: frames[name] for name in searched_explainers(reading) if name in frames}
