"""Where a path ends: agreement with the unperturbed predictions against the strength of the perturbation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from veracity.core.wording import compact, number
from veracity.report.figure import Plot, sign, signs
from veracity.report.figures.chart import Axis, Scale, log_axis
from veracity.report.figures.panels import Facet, draw_facets, of_model
from veracity.report.figures.plane import NEUTRAL, Plane, Spot, draw_paths, draw_plane, draw_spots, group
from veracity.report.reading import Reading
from veracity.report.wording import listing, name, piece, say, sentences
from veracity.results.words import chance_level, strength_range

SHARES = Scale(0.0, 1.0, (0.0, 0.2, 0.4, 0.6, 0.8, 1.0))

ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class Calibrated:
    """One space on one model: every (strength, agreement) that was measured, what chance is, and the strength that was found."""

    model: int
    space: str
    sigma: float
    agreement: float
    chance: float
    tolerance: float
    draws: int
    beside: str
    chance_is: str
    curve: tuple[tuple[float, float], ...]
    across: Axis


@dataclass(frozen=True, kw_only=True)
class CalibrationData:
    """Every calibration of a run, in its order."""

    models: tuple[str, ...]
    found: tuple[Calibrated, ...]


def calibration_data(records: Sequence[Mapping[str, Any]], models: Sequence[str]) -> CalibrationData:
    """From the records of the manifest; each has a strength axis of its own."""
    place = {model: index for index, model in enumerate(models)}
    kept = [calibrated(record, place[record["model"]]) for record in records if record["model"] in place and record["curve"]]
    return CalibrationData(models=tuple(models), found=tuple(kept))


def calibrated(record: Mapping[str, Any], model: int) -> Calibrated:
    """One record."""
    curve = tuple(sorted((float(sigma), float(share)) for sigma, share in record["curve"]))
    return Calibrated(
        model=model,
        space=str(record["space"]),
        curve=curve,
        across=log_axis(curve[0][0], max(curve[-1][0], 2.0 * curve[0][0])),
        draws=int(record["draws"]),
        beside=strength_range(record),
        chance_is=chance_level(record),
        **{key: float(record[key]) for key in ("sigma", "agreement", "chance", "tolerance")},
    )


def calibration_sentences(data: CalibrationData) -> list[Markup]:
    """How strong the perturbation had to become for each model."""
    fell = [item for item in data.found if item.agreement <= item.chance + item.tolerance + ROUNDING]
    parts = [
        piece(
            "those of {} at {} ({} % are kept{})",
            name(data.models[item.model]),
            number(item.sigma),
            number(100 * item.agreement, 1),
            f"; {item.beside}" if item.beside else "",
        )
        for item in fell
    ]
    above = [
        say("calibration.above", name(data.models[item.model]), item.chance_is, calibrations=1) for item in data.found if item.chance_is
    ]
    return sentences(say("calibration", listing(parts), calibrations=len(parts)), *above)


def draw_calibration(data: CalibrationData) -> Markup:
    """One plot a model and space: the curve, the strength that was chosen, chance, and chance with its tolerance."""
    return draw_facets([draw_one(item, data) for item in data.found])


def draw_one(item: Calibrated, data: CalibrationData) -> Facet:
    """One calibration."""
    plane = Plane(across=item.across.scale, up=SHARES, labels=item.across.labels)
    sides = (item.across.scale.low, item.across.scale.high)
    path = [(item.across.at(sigma), share) for sigma, share in item.curve]
    model = data.models[item.model]
    parts = [
        group(NEUTRAL, draw_paths([[(side, item.chance) for side in sides]], "reference", plane)),
        draw_paths([[(side, item.chance + item.tolerance) for side in sides]], "equal", plane),
        group(item.model, draw_paths([path], "curve", plane)),
        draw_spots(
            [Spot(x=item.across.at(item.sigma), y=item.agreement, title=f"{model}: {number(item.agreement)} at {number(item.sigma)}")],
            item.model,
            plane,
        ),
    ]
    beside = f" ({item.beside})" if item.beside else ""
    told = f"sigma {compact(round(item.sigma, 4))}{beside}, {item.draws} draws; chance {number(item.chance)} + {number(item.tolerance)}"
    drawing = draw_plane(plane, Markup("").join(parts), f"{model}: agreement against the strength of {item.space}")
    caption = of_model(item.model, told, several=len(data.models) > 1)
    return Facet(title=f"{model}: {item.space.replace('_', ' ')}", frame="", drawing=drawing, captions=(caption,))


def calibration_plot(reading: Reading) -> Plot | None:
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
            sign('<line class="curve" x1="-12" x2="12"/><circle class="dot" r="4.2"/>', "agreement, and the end that was chosen"),
            sign('<line class="reference" x1="-12" x2="12"/>', "chance"),
            sign('<line class="equal" x1="-12" x2="12"/>', "chance and its tolerance"),
        ),
        drawing=draw_calibration(data),
    )
