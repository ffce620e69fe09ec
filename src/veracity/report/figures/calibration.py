"""Where a path ends: agreement with the unperturbed predictions against the strength of the perturbation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from veracity.core.wording import compact, number
from veracity.report.figure import Plot, line_sign, signs
from veracity.report.figures.chart import SHARES, log_axis
from veracity.report.figures.panels import Facet, draw_facets, of_model
from veracity.report.figures.plane import NEUTRAL, Plane, Spot, draw_paths, draw_plane, draw_spots, group
from veracity.report.reading import RunReading
from veracity.report.wording import listing, name, piece, say, sentences
from veracity.results.words import chance_level, strength_range

ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """One space on one model: its record in the manifest, and every (strength, agreement) that was measured, in ascending order."""

    model: int
    record: Mapping[str, Any]
    curve: tuple[tuple[float, float], ...]


@dataclass(frozen=True, kw_only=True)
class CalibrationData:
    """Every calibration of a run, in its order."""

    models: tuple[str, ...]
    found: tuple[Calibration, ...]


def calibration_data(records: Sequence[Mapping[str, Any]], models: Sequence[str]) -> CalibrationData:
    """The records of the manifest whose model is known."""
    known = [record for record in records if record["model"] in models and record["curve"]]
    curves = [tuple(sorted((float(x), float(y)) for x, y in record["curve"])) for record in known]
    found = [Calibration(model=models.index(one["model"]), record=one, curve=curve) for one, curve in zip(known, curves, strict=True)]
    return CalibrationData(models=tuple(models), found=tuple(found))


def calibration_sentences(data: CalibrationData) -> list[Markup]:
    """How strong the perturbation had to become for each model."""
    parts, above = [], []
    for item in data.found:
        record, model, beside = item.record, name(data.models[item.model]), strength_range(item.record)
        if record["agreement"] <= record["chance"] + record["tolerance"] + ROUNDING:
            numbers = number(record["sigma"]), number(100 * record["agreement"], 1), f"; {beside}" if beside else ""
            parts.append(piece("those of {} at {} ({} % are kept{})", model, *numbers))
        if level := chance_level(record):
            above.append(say("calibration.above", model, level, calibrations=1))
    return sentences(say("calibration", listing(parts), calibrations=len(parts)), *above)


def draw_calibration(data: CalibrationData) -> Markup:
    """One plot per model and space: the curve, the strength that was chosen, chance, and chance with its tolerance."""
    return draw_facets([draw_one(item, data) for item in data.found])


def draw_one(item: Calibration, data: CalibrationData) -> Facet:
    """One calibration on a strength axis of its own."""
    record, model, several = item.record, data.models[item.model], len(data.models) > 1
    sigma, agreement, chance, tolerance = (float(record[name]) for name in ("sigma", "agreement", "chance", "tolerance"))
    across = log_axis(item.curve[0][0], max(item.curve[-1][0], 2.0 * item.curve[0][0]))
    plane = Plane(across=across.scale, up=SHARES, labels=across.labels)

    def level(height: float) -> list[tuple[float, float]]:
        return [(side, height) for side in (across.scale.low, across.scale.high)]

    parts = [
        group(NEUTRAL, draw_paths([level(chance)], "reference", plane)),
        draw_paths([level(chance + tolerance)], "equal", plane),
        group(item.model, draw_paths([[(across.at(x), y) for x, y in item.curve]], "curve", plane)),
        draw_spots([Spot(x=across.at(sigma), y=agreement, title=f"{model}: {number(agreement)} at {number(sigma)}")], item.model, plane),
    ]
    beside = f" ({strength_range(record)})" if strength_range(record) else ""
    told = f"sigma {compact(round(sigma, 4))}{beside}, {record['draws']} draws; chance {number(chance)} + {number(tolerance)}"
    drawing = draw_plane(plane, Markup("").join(parts), f"{model}: agreement against the strength of {record['space']}")
    title = f"{model}: {str(record['space']).replace('_', ' ')}"
    return Facet(title=title, frame="", drawing=drawing, captions=(of_model(item.model, told, several=several),))


def calibration_plot(reading: RunReading) -> Plot | None:
    """How strong perturbations of the models had to become."""
    data = calibration_data(reading.manifest.get("calibrations") or (), reading.models)
    if not data.found:
        return None
    return Plot(
        title="Where the paths end",
        sentences=tuple(calibration_sentences(data)),
        note=(
            "A path leads from the model as it is to the smallest perturbation at which its predictions are kept no more often than by "
            "chance. Across: the strength of the perturbation, on a logarithmic scale. Up: the share of predictions that are kept."
        ),
        keys=signs(
            line_sign("curve", "agreement, and the end that was chosen", dot=True),
            line_sign("reference", "chance"),
            line_sign("equal", "chance and its tolerance"),
        ),
        drawing=draw_calibration(data),
    )
