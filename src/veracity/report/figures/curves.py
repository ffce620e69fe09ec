"""What becomes of the prediction as the explanation's order is followed: faithfulness curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from veracity.core.registry import FIGURES
from veracity.core.scores import per_sample_mean
from veracity.core.wording import compact, number
from veracity.report.figure import Figure, Plot, sign, signs
from veracity.report.figures.chart import legend
from veracity.report.figures.panels import Facet, draw_facets
from veracity.report.figures.plane import Place, Plane, draw_band, draw_paths, draw_plane, group
from veracity.report.figures.scale import Scale, exact_scale, scale_for
from veracity.report.reading import Reading
from veracity.report.wording import listing, name, piece, say, sentences
from veracity.scores.common import Curve
from veracity.statistics.intervals import mean_interval

Array = NDArray[np.float64]
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
    found: Curves, curve: Curve, models: Sequence[str], frames: Mapping[str, str], random: Sequence[str] = (), confidence: float = 0.95
) -> CurvesData:
    """From curves (samples, levels) by (model, explainer); `frames` names the explainers to show, in their order.

    Of very many levels evenly spaced ones are drawn.
    """
    count = len(curve.places)
    chosen = np.unique(np.linspace(0, count - 1, min(count, POINTS)).round().astype(int))

    def means(label: str) -> tuple[MeanCurve, ...]:
        here = [(index, found[model, label]) for index, model in enumerate(models) if (model, label) in found]
        return tuple(
            mean_curve(index, values[:, chosen], confidence, curve.bounds)
            for index, values in here
            if values.shape[1] == count and len(values)
        )

    lines = tuple((label, frame, means(label)) for label, frame in frames.items())
    shown = tuple(line for line in lines if line[2])
    nulls = tuple(item for label in random for item in means(label))
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


def mean_curve(model: int, values: Array, confidence: float, bounds: tuple[float, float]) -> MeanCurve:
    """The mean of each column of values (samples, places), its interval cut to the bounds of a value."""
    found = [mean_interval(column, confidence) for column in values.T]
    value, *ends = (np.array([getattr(item, which) for item in found]) for which in ("value", "low", "high"))
    low, high = (np.clip(np.where(np.isnan(end), value, end), *bounds) for end in ends)
    return MeanCurve(model=model, value=value, low=low, high=high)


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
    parts = [
        piece("{} by the order of {}", number(height), name(label))
        for label, height in ([here[0]] if len(here) == 1 else [here[0], here[-1]])
    ]
    chance = [float(item.value[early]) for item in data.random if item.model == first and np.isfinite(item.value[early])]
    parts += [piece("{} in random order", number(min(chance)))] if chance else []
    share, where = (
        compact(round(100 * float(data.places[early]), 1)),
        piece(" on {}", name(data.models[first])) if len(data.models) > 1 else "",
    )
    return sentences(say("curves.early", share, data.curve.up, where, listing(parts), curves=len(here), levels=len(data.places)))


def draw_curves(data: CurvesData) -> Markup:
    """One plot an explainer: its mean curve on each model, the random controls' dashed, all others of its kind behind."""
    plane = Plane(across=data.across, up=data.up)
    null = [group(item.model, draw_paths([places(data, item.value)], "bound", plane)) for item in data.random]
    facets = []
    for label, frame, met in data.explainers:
        others = [places(data, item.value) for other, kind, items in data.explainers if kind == frame and other != label for item in items]
        mine = [
            group(
                item.model,
                draw_band(places(data, item.low), places(data, item.high), plane) + draw_paths([places(data, item.value)], "curve", plane),
            )
            for item in met
        ]
        content = Markup("").join([draw_paths(others, "behind", plane), *null, *mine])
        facets.append(Facet(title=label, frame=frame, drawing=draw_plane(plane, content, f"{label}: {data.curve.up}")))
    return draw_facets(facets)


def places(data: CurvesData, values: Array) -> list[Place]:
    """A curve over the places."""
    return [(float(x), float(y)) for x, y in zip(data.places, values, strict=True)]


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

    def data(self, reading: Reading, label: str) -> CurvesData | None:
        """The curve that the score describes by `curve(shape, levels)`."""
        series, shape = reading.series(label), (reading.manifest.get("data") or {}).get("shape") or ()
        levels = max((values.shape[2] for one in series for values in one.measured.quantities.values()), default=0)
        if levels < LEAST:
            return None
        score: Any = reading.score(label)
        line = score.curve(tuple(map(int, shape)), levels)
        mine = [one for one in series if line.quantity in one.measured.quantities]
        values = {(one.model, one.explainer): over_draws(one.measured[line.quantity]) for one in mine}
        controls = reading.random_controls(label)
        found = curves_data(values, line, reading.models, reading.explained(label), controls, reading.confidence)
        return found if found.explainers else None

    def plot(self, reading: Reading, label: str, data: CurvesData) -> Plot:
        """One plot per explainer."""
        return Plot(
            title="Step by step",
            sentences=tuple(curves_sentences(data)),
            note=f"Across: {data.curve.across}. Up: {data.curve.up}, over samples, with its {reading.level} interval.",
            keys=legend(reading.models)
            + signs(
                sign('<rect class="band" x="-12" y="-5" width="24" height="10"/><line class="curve" x1="-12" x2="12"/>', "the explainer"),
                sign('<line class="bound" x1="-12" x2="12"/>', "random explanations"),
                sign('<line class="behind" x1="-12" x2="12"/>', "the other explainers"),
            ),
            drawing=draw_curves(data),
        )
