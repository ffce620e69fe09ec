"""Do samples with sensitive explanations have asymmetric ones? Sensitivity against the symmetry score, sample by sample (Figure 8)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from markupsafe import Markup

from veracity.core.registry import FIGURES
from veracity.core.scores import Array
from veracity.core.wording import interval, number
from veracity.report.figure import Plot, SharedFigure
from veracity.report.figures.chart import Scale, evenly, legend, scale_for, tight_scale
from veracity.report.figures.panels import Facet, draw_facets, of_model, on_models, path
from veracity.report.figures.plane import Plane, draw_cloud, draw_plane, group
from veracity.report.reading import RunReading
from veracity.report.wording import say, sentences, word_of
from veracity.statistics.correlation import pearson_interval
from veracity.statistics.intervals import Interval

POINTS = 300
ROUNDING = 1e-5
"""Similarities of single-precision explanations that differ by less are equal."""
LEAST = 3
"""Two samples always lie on a line."""


@dataclass(frozen=True, kw_only=True)
class Cloud:
    """The samples of one explainer on one model that have both scores, and the correlation of the two."""

    model: int
    sensitivity: Array
    symmetry: Array
    r: Interval


@dataclass(frozen=True, kw_only=True)
class SensitivityData:
    """Every explainer whose samples differ in both scores on some model, on a common upward axis."""

    symmetry: str
    models: tuple[str, ...]
    explainers: tuple[tuple[str, str, tuple[Cloud, ...]], ...]
    up: Scale


def sensitivity_data(
    sensitivity: pd.DataFrame,
    symmetry: pd.DataFrame,
    score: str,
    models: Sequence[str],
    frames: Mapping[str, str],
    confidence: float = 0.95,
) -> SensitivityData:
    """From the values of every sample in both scores; `frames` names the explainers to show, in their order."""
    keys = ["model", "explainer", "sample"]
    both = sensitivity[[*keys, "value"]].merge(symmetry[[*keys, "value"]], on=keys, suffixes=("_sensitivity", "_symmetry")).dropna()
    groups = {(str(found[0]), str(found[1])): frame for found, frame in both.groupby(["model", "explainer"], sort=False)}

    def cloud(model: int, frame: pd.DataFrame) -> Cloud:
        x, y = (frame[f"value_{which}"].to_numpy(dtype=np.float64) for which in ("sensitivity", "symmetry"))
        unknown = Interval(value=math.nan, low=math.nan, high=math.nan, n=len(y))
        return Cloud(model=model, sensitivity=x, symmetry=y, r=pearson_interval(x, y, confidence) if np.ptp(y) > ROUNDING else unknown)

    found = [(label, frame, on_models(label, groups, models, cloud)) for label, frame in frames.items()]
    lines = tuple(line for line in found if any(math.isfinite(item.r.value) for item in line[2]))
    shown = [float(value) for _, _, met in lines for item in met for value in item.symmetry]
    return SensitivityData(symmetry=score, models=tuple(models), explainers=lines, up=scale_for(shown, parts=6))


def sensitivity_sentences(data: SensitivityData) -> list[Markup]:
    """Between which values the correlations lie, and what that says."""
    known = [item.r.value for _, _, met in data.explainers for item in met if math.isfinite(item.r.value) and item.r.n >= LEAST]
    if not known:
        return []
    low, high, same = number(min(known), 2), number(max(known), 2), number(-1.0, 0)
    return sentences(
        say("sensitivity.range", low, high, same, correlations=len(known)) or say("sensitivity.single", low, same, correlations=len(known))
    )


def draw_sensitivity(data: SensitivityData) -> Markup:
    """One plot per explainer with a horizontal axis of its own, one cloud per model; of very many samples evenly spaced ones."""
    facets = []
    for label, frame, met in data.explainers:
        plane = Plane(across=tight_scale([0.0, *(float(value) for item in met for value in item.sensitivity)], parts=3), up=data.up)
        shown = [(item.model, evenly(len(item.symmetry), POINTS), item) for item in met]
        clouds = [group(model, draw_cloud(path(item.sensitivity[chosen], item.symmetry[chosen]), plane)) for model, chosen, item in shown]
        captions = [of_model(item.model, correlation_text(item.r), several=len(data.models) > 1) for item in met]
        drawing = draw_plane(plane, Markup("").join(clouds), f"{label}: symmetry against sensitivity")
        facets.append(Facet(title=label, frame=frame, drawing=drawing, captions=tuple(captions)))
    return draw_facets(facets)


def correlation_text(r: Interval) -> str:
    """A correlation in words."""
    if r.n < LEAST:
        return f"too few samples for a correlation, n = {r.n}"
    if not math.isfinite(r.value):
        return f"the samples do not differ, n = {r.n}"
    ends = f" ({interval(r.low, r.high, 2)})" if math.isfinite(r.low) else ""
    return f"r = {number(r.value, 2)}{ends}, n = {r.n}"


@FIGURES.add
class SensitivityFigure(SharedFigure):
    """Sensitivity against the symmetry score, sample by sample (Figure 8)."""

    name = "sensitivity"
    least = 2

    def data(self, reading: RunReading, labels: Sequence[str]) -> SensitivityData | None:
        """Both scores of every sample: the first that has a mark, and the first that has none."""
        marked = {row.score for row in reading.rows if row.marked}
        symmetry, sensitive = [label for label in labels if label in marked], [label for label in labels if label not in marked]
        if not symmetry or not sensitive:
            return None
        both = reading.samples(sensitive[0]), reading.samples(symmetry[0])
        found = sensitivity_data(*both, symmetry[0], reading.models, reading.explained(symmetry[0]), reading.confidence)
        return found if found.explainers else None

    def plot(self, reading: RunReading, labels: Sequence[str], data: SensitivityData) -> Plot:
        """One plot per explainer."""
        units = "in the explanation's own units" if any(map(reading.run.in_map_units, labels)) else "as a share of the explanation"
        return Plot(
            title="Sensitivity against symmetry",
            sentences=tuple(sensitivity_sentences(data)),
            note=(
                f"Each point is a sample. Across: its largest change under small noise, {units}. Up: its "
                f"{word_of(data.symmetry)}. Intervals of r are {reading.level} ones."
            ),
            keys=legend(reading.models),
            drawing=draw_sensitivity(data),
        )
