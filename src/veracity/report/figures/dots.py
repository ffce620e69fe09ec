"""ln P sample by sample, each with its own interval; what is only known to lie below a place points down from there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from markupsafe import Markup
from scipy.special import ndtri

from veracity.report.figures.facets import Facet, draw_facets
from veracity.report.figures.plane import Plane, Spot, draw_plane, draw_spots, group
from veracity.report.figures.scale import Scale, mark, tight_scale
from veracity.core.wording import compact, count, number

ARROW = "M0 -5V4M-3.4 .8L0 4.8L3.4 .8"
CLASSES = {"stuck": "arrow stuck", "censored": "arrow"}


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """One sample: its number, ln P with the ends of its interval, and "censored", "stuck" or "" for how it ended."""

    sample: int
    value: float
    low: float
    high: float
    state: str = ""


@dataclass(frozen=True, kw_only=True)
class DotsData:
    """The samples of every subject as (title, frame, model, samples), all on one scale."""

    subjects: tuple[tuple[str, str, int, tuple[Sampled, ...]], ...]
    across: Scale
    up: Scale


def dots_data(samples: pd.DataFrame, models: Sequence[str], frames: Mapping[str, str], confidence: float = 0.95) -> DotsData:
    """From a score's samples with their errors; `frames` names the explainers to show in their order, "" for the models themselves."""
    wide = float(ndtri((1 + confidence) / 2))
    subjects = []
    for label, frame in frames.items():
        for index, model in enumerate(models):
            mine = samples[(samples["model"] == model) & (samples["explainer"] == label)]
            found = tuple(one for record in mine.to_dict("records") if (one := sampled(record, wide)) is not None)
            title = " on ".join([label, model] if label and len(models) > 1 else [label or model])
            subjects += [(title, frame, index, found)] if found else []
    every = [one for *_, found in subjects for one in found]
    numbers = [one.sample for one in every]
    return DotsData(
        subjects=tuple(subjects),
        across=Scale(min(numbers, default=0) - 0.5, max(numbers, default=1) + 0.5, tuple(map(float, ticks(numbers)))),
        up=tight_scale([0.0, *(end for one in every for end in (one.value, one.low, one.high))], parts=5),
    )


def sampled(record: Mapping[object, object], wide: float) -> Sampled | None:
    """One sample: ln P plus and minus so many standard errors, at most 0; None if it has no value."""
    value, error = (float(str(record.get(name, "nan"))) for name in ("value", "error"))
    state = next((name for name in CLASSES if record.get(name) is True), "")
    if not math.isfinite(value):
        return None
    ends = (math.nan, math.nan) if state else (value - wide * error, min(value + wide * error, 0.0))
    return Sampled(sample=int(str(record["sample"])), value=value, low=ends[0], high=ends[1], state=state)


def ticks(numbers: Sequence[int], parts: int = 4) -> list[int]:
    """A few of the samples' numbers for the axis.

    >>> ticks([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    [0, 3, 6, 9]
    """
    each = sorted(set(numbers))
    return [each[place] for place in np.unique(np.linspace(0, len(each) - 1, min(len(each), parts)).round().astype(int))] if each else []


def draw_dots(data: DotsData) -> Markup:
    """One plot a subject."""
    plane = Plane(across=data.across, up=data.up, labels=tuple(compact(tick) for tick in data.across.ticks))
    return draw_facets([draw_subject(title, frame, model, found, plane) for title, frame, model, found in data.subjects])


def draw_subject(title: str, frame: str, model: int, found: Sequence[Sampled], plane: Plane) -> Facet:
    """Points with bars, and arrows for what lies below."""
    points = [
        Spot(x=one.sample, y=one.value, low=one.low, high=one.high, title=f"sample {one.sample}: {number(one.value)}")
        for one in found
        if not one.state
    ]
    below = [
        Markup("<g><title>{}</title>{}</g>").format(
            f"sample {one.sample}: at most {number(one.value)}, {one.state}",
            mark(plane.across.percent(one.sample), plane.top(one.value), ARROW, CLASSES[one.state]),
        )
        for one in found
        if one.state
    ]
    counts = {state: sum(one.state == state for one in found) for state in CLASSES}
    told = ", ".join([count(len(found), "sample"), *(f"{number_of} {state}" for state, number_of in counts.items() if number_of)])
    drawing = draw_plane(plane, draw_spots(points, model, plane) + group(model, Markup("").join(below)), f"{title}: ln P of {told}")
    return Facet(title=title, frame=frame, drawing=drawing, captions=(Markup.escape(told),))
