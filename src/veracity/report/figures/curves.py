"""What becomes of the prediction as the explanation's order is followed: faithfulness curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from veracity.core.registry import FIGURES
from veracity.core.scores import Array, per_sample_mean
from veracity.core.wording import compact, number
from veracity.report.figure import BEHIND, Figure, Plot, line_sign, sign, signs
from veracity.report.figures.chart import Scale, evenly, exact_scale, legend, scale_for
from veracity.report.figures.features import feature_names
from veracity.report.figures.panels import draw_explainers, on_models, path
from veracity.report.figures.plane import Plane, draw_band, draw_paths, group
from veracity.report.reading import RunReading
from veracity.report.wording import listing, name, piece, say, sentences, where
from veracity.scores.common import Curve
from veracity.statistics.intervals import mean_interval

Curves = Mapping[tuple[str, str], Array]
POINTS = 60
LEAST = 2
"""Fewer levels are no curve."""
EARLY = 0.1
"""The share of the input after which curves are compared in words."""


@dataclass(frozen=True, kw_only=True)
class MeanCurve:
    """The mean over samples at each place on one model, with its interval."""

    model: int
    value: Array
    low: Array
    high: Array


@dataclass(frozen=True, kw_only=True)
class CurvesData:
    """The mean curves of every explainer and of the random controls."""

    curve: Curve
    places: Array
    models: tuple[str, ...]
    explainers: tuple[tuple[str, str, tuple[MeanCurve, ...]], ...]
    random: tuple[MeanCurve, ...]
    across: Scale
    up: Scale


def curves_data(
    found: Curves,
    curve: Curve,
    models: Sequence[str],
    frames: Mapping[str, str],
    random: Sequence[str] = (),
    confidence: float = 0.95,
    units: NDArray[np.int64] | None = None,
) -> CurvesData:
    """From curves (samples, levels) by (model, explainer); `frames` names the explainers to show, in their order.

    Of very many levels evenly spaced ones are drawn. `units` (samples,) say which samples belong together.
    """
    count = len(curve.places)
    chosen = evenly(count, POINTS)
    whole = {subject: values[:, chosen] for subject, values in found.items() if values.shape[1] == count and len(values)}

    def mean_curve(model: int, values: Array) -> MeanCurve:
        own = units if units is not None and len(units) == len(values) else None
        intervals = [mean_interval(column, confidence, units=own) for column in values.T]
        value, *ends = (np.array([getattr(item, which) for item in intervals]) for which in ("value", "low", "high"))
        low, high = (np.clip(np.where(np.isnan(end), value, end), *curve.bounds) for end in ends)
        return MeanCurve(model=model, value=value, low=low, high=high)

    lines = [(label, frame, on_models(label, whole, models, mean_curve)) for label, frame in frames.items()]
    shown = tuple(line for line in lines if line[2])
    nulls = tuple(item for label in random for item in on_models(label, whole, models, mean_curve))
    heights = [float(value) for item in (*(item for _, _, met in shown for item in met), *nulls) for value in (*item.low, *item.high)]
    places = curve.places[chosen]
    return CurvesData(
        curve=curve,
        places=places,
        models=tuple(models),
        explainers=shown,
        random=nulls,
        across=exact_scale(float(places[0]) if places[0] >= 1 else 0.0, float(places[-1])),
        up=scale_for(heights, parts=6),
    )


def curves_sentences(data: CurvesData) -> list[Markup]:
    """Where the prediction has gone to early on, by whose order it falls soonest and latest, and at random; of masking alone."""
    if not data.curve.masking or not data.explainers or not data.places[0] <= 2 * EARLY <= data.places[-1]:
        return []
    early = int(np.abs(data.places - EARLY).argmin())
    first = min((item for _, _, met in data.explainers for item in met), key=lambda item: item.model).model
    here = [(label, float(item.value[early])) for label, _, met in data.explainers for item in met if item.model == first]
    here = sorted((pair for pair in here if np.isfinite(pair[1])), key=lambda pair: pair[1])
    if not here:
        return []
    ends = here if len(here) == 1 else [here[0], here[-1]]
    parts = [piece("{} by the order of {}", number(height), name(label)) for label, height in ends]
    chance = [float(item.value[early]) for item in data.random if item.model == first and np.isfinite(item.value[early])]
    parts += [piece("{} in random order", number(min(chance)))] if chance else []
    share, place = compact(round(100 * float(data.places[early]), 1)), where(data.models[first], data.models)
    return sentences(say("curves.early", share, data.curve.up, place, listing(parts), curves=len(here), levels=len(data.places)))


def draw_curves(data: CurvesData) -> Markup:
    """One plot per explainer: its mean curve on each model, the random controls' dashed, all others of its kind behind."""
    plane = Plane(across=data.across, up=data.up)
    null = [group(item.model, draw_paths([path(data.places, item.value)], "bound", plane)) for item in data.random]

    def own(item: MeanCurve) -> Markup:
        band = draw_band(path(data.places, item.low), path(data.places, item.high), plane)
        return group(item.model, band + draw_paths([path(data.places, item.value)], "curve", plane))

    return draw_explainers(
        data.explainers,
        plane,
        data.curve.up,
        paths=lambda items: [path(data.places, item.value) for item in items],
        parts=lambda label, items: [*null, *map(own, items)],
    )


def over_draws(values: Array) -> Array:
    """From (samples, draws, levels) to (samples, levels): the mean of what is defined.

    >>> over_draws(np.array([[[1.0, 2.0], [3.0, np.nan]]]))
    array([[2., 2.]])
    """
    samples, draws, levels = values.shape
    flat = np.moveaxis(values, 1, 2).reshape(samples * levels, draws)
    return per_sample_mean(flat).reshape(samples, levels)


@FIGURES.add
class CurveFigure(Figure):
    """The mean prediction along the order of each explanation; for randomised layers, the mean similarity."""

    name = "curve"

    def data(self, reading: RunReading, label: str) -> CurvesData | None:
        """The curve that the score describes by `curve(shape, levels)`."""
        series, shape = reading.series(label), (reading.manifest.get("data") or {}).get("shape") or ()
        features = feature_names(reading.manifest)
        shape = shape if features is None else (len(features.names),)
        levels = max((values.shape[2] for one in series for values in one.measured.quantities.values()), default=0)
        if levels < LEAST:
            return None
        score: Any = reading.score(label)
        line = score.curve(tuple(map(int, shape)), levels)
        mine = [one for one in series if line.quantity in one.measured.quantities]
        values = {(one.model, one.explainer): over_draws(one.measured[line.quantity]) for one in mine}
        controls = reading.random_controls(label)
        units = mine[0].units if mine else None
        found = curves_data(values, line, reading.models, reading.explained(label), controls, reading.confidence, units)
        return found if found.explainers else None

    def plot(self, reading: RunReading, label: str, data: CurvesData) -> Plot:
        """One plot per explainer."""
        return Plot(
            title="Step by step",
            sentences=tuple(curves_sentences(data)),
            note=f"Across: {data.curve.across}. Up: {data.curve.up}, over samples, with its {reading.level} interval.",
            keys=legend(reading.models)
            + signs(
                sign('<rect class="band" x="-12" y="-5" width="24" height="10"/><line class="curve" x1="-12" x2="12"/>', "the explainer"),
                line_sign("bound", "random explanations"),
                BEHIND,
            ),
            drawing=draw_curves(data),
        )
