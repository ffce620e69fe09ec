"""Were there enough draws? How each estimate settles as draws are added (Figure 7)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from markupsafe import Markup

from veracity.core.registry import FIGURES
from veracity.core.scores import Array
from veracity.core.walks import Sampling
from veracity.core.wording import count, interval, number
from veracity.report.figure import Figure, Plot, line_sign, sign, signs
from veracity.report.figures.chart import evenly, exact_scale, legend, tight_scale
from veracity.report.figures.panels import Facet, draw_facets, of_model, on_models, path
from veracity.report.figures.plane import Plane, draw_band, draw_paths, draw_plane, group
from veracity.report.reading import RunReading, Subject
from veracity.report.wording import name, say, sentences
from veracity.statistics.convergence import convergence, hoeffding_error

LEAST = 5
"""Fewer draws show nothing."""
AT_ONE = 0.999
"""An estimate from here on has settled, since no draw is better than 1."""
POINTS = 60
CLEAR = 3
"""Bounds of more curves than this hide the curves."""


MONTE_CARLO = "monte_carlo"


@dataclass(frozen=True, kw_only=True)
class DrawKind:
    """The draws of one score of one explainer on one model: how they were sampled, and the range of a value."""

    sampling: Sampling
    bounds: tuple[float, float]


def random_draws(reading: RunReading, score: str) -> dict[Subject, DrawKind]:
    """Draws whose first k are a random sample for every k, by (model, explainer).

    This holds for a Monte Carlo walk if each value is a mean over draws. An exhaustive walk visits elements in their order,
    an adaptive one stops by looking at its values, and a maximum over draws only ever grows.
    """
    cells = [cell for cell in reading.manifest.get("cells") or () if cell["score"] == score]
    kinds = {(str(cell["model"]), str(cell["explainer"])): Sampling(**cell["sampling"]) for cell in cells}
    random = {name for name, kind in kinds.items() if kind.nested and not kind.exhaustive and kind.anytime is None}
    given = (reading.about(score).get("spec") or {}).get("walk") or reading.spec.get("walk")
    walk = given.get("name", "") if isinstance(given, Mapping) else given or (MONTE_CARLO if len(random) == len(kinds) else "")
    if walk != MONTE_CARLO or (reading.about(score).get("reduce") or "mean") != "mean":
        return {}
    bounds = {(str(cell["model"]), str(cell["explainer"])): cell.get("bounds") or (-math.inf, math.inf) for cell in cells}
    return {
        name: DrawKind(sampling=kinds[name], bounds=(float(bounds[name][0]), float(bounds[name][1]))) for name in kinds if name in random
    }


@dataclass(frozen=True, kw_only=True)
class Running:
    """An estimate on one model after 1, 2 ... draws per sample, its interval, and Hoeffding's error (NaN where it does not apply)."""

    model: int
    samples: int
    draws: Array
    value: Array
    low: Array
    high: Array
    bound: Array

    @property
    def width(self) -> float:
        """The width of the last interval."""
        return float(self.high[-1] - self.low[-1])

    @property
    def ends(self) -> str:
        """The last interval in words."""
        return interval(float(self.low[-1]), float(self.high[-1]))


@dataclass(frozen=True, kw_only=True)
class ConvergenceData:
    """The running estimates of every explainer that does not score 1."""

    models: tuple[str, ...]
    explainers: tuple[tuple[str, str, tuple[Running, ...]], ...]


def convergence_data(
    draws: Mapping[Subject, Array],
    kinds: Mapping[Subject, DrawKind],
    models: Sequence[str],
    frames: Mapping[str, str],
    confidence: float = 0.95,
) -> ConvergenceData:
    """From every draw's value (samples, draws); `frames` names the explainers to show, in their order."""
    known = {subject: (values, kinds[subject]) for subject, values in draws.items() if subject in kinds and values.shape[1] >= LEAST}
    found = [(label, frame, on_models(label, known, models, partial(running_estimate, confidence))) for label, frame in frames.items()]
    lines = [(label, frame, tuple(item for item in items if item.value[-1] < AT_ONE)) for label, frame, items in found]
    return ConvergenceData(models=tuple(models), explainers=tuple(line for line in lines if line[2]))


def running_estimate(confidence: float, model: int, drawn: tuple[Array, DrawKind]) -> Running:
    """The estimate of one explainer on one model; of very many draws, evenly spaced ones are drawn."""
    values, kind = drawn
    found = convergence(values, kind.sampling, kind.bounds, confidence=confidence)
    chosen, width = evenly(len(found.draws), POINTS), kind.bounds[1] - kind.bounds[0]
    holds = bool(np.isfinite(values).all()) and math.isfinite(width)
    errors = [hoeffding_error(len(values), int(m), confidence, width) if holds else math.nan for m in found.draws[chosen]]
    return Running(
        model=model,
        samples=len(values),
        draws=found.draws[chosen].astype(np.float64),
        value=found.value[chosen],
        low=found.low[chosen],
        high=found.high[chosen],
        bound=np.array(errors),
    )


def convergence_sentences(data: ConvergenceData, level: str) -> list[Markup]:
    """How wide the widest interval is after all draws, and what could be promised before the first."""
    shown = [(item, label) for label, _, found in data.explainers for item in found if math.isfinite(item.width)]
    if not shown:
        return []
    widest, label = max(shown, key=lambda item: item[0].width)
    draws, who = count(int(widest.draws[-1]), "draw"), (name(label), name(data.models[widest.model]))
    bound, samples = number(float(widest.bound[-1])), count(widest.samples, "sample")
    return sentences(
        say("convergence.width", draws, level, *who, widest.ends, widths=len(shown))
        or say("convergence.single", draws, level, *who, widest.ends, widths=len(shown)),
        say("convergence.bound", bound, samples, draws, widths=len(shown), bounds=int(math.isfinite(widest.bound[-1]))),
    )


def draw_convergence(data: ConvergenceData) -> Markup:
    """One plot per explainer with an upward axis of its own, one curve per model."""
    return draw_facets([draw_explainer(label, frame, found, data) for label, frame, found in data.explainers])


def draw_explainer(label: str, frame: str, found: Sequence[Running], data: ConvergenceData) -> Facet:
    """The running means within their intervals, and Hoeffding's bounds if there are few curves."""
    seen = [value for item in found for value in (*item.value[1:], *item.low[1:], *item.high[1:])]
    plane = Plane(across=exact_scale(1.0, max(float(item.draws[-1]) for item in found)), up=tight_scale(seen, least=0.01))
    parts = []
    for item in found:
        bounds = [path(item.draws, item.value - item.bound), path(item.draws, item.value + item.bound)]
        band = draw_band(path(item.draws, item.low), path(item.draws, item.high), plane)
        band += draw_paths(bounds, "bound", plane) if len(found) <= CLEAR else Markup("")
        parts.append(group(item.model, band + draw_paths([path(item.draws, item.value)], "curve", plane)))
    several = len(data.models) > 1
    captions = [of_model(item.model, f"{number(float(item.value[-1]))} ({item.ends})", several=several) for item in found]
    drawing = draw_plane(plane, Markup("").join(parts), f"{label}: estimate against the number of draws")
    return Facet(title=label, frame=frame, drawing=drawing, captions=tuple(captions))


@FIGURES.add
class ConvergenceFigure(Figure):
    """How the Monte Carlo estimates settle (Figure 7)."""

    name = "convergence"

    def data(self, reading: RunReading, label: str) -> ConvergenceData | None:
        """The running means of draws that are random samples of their own."""
        kinds = random_draws(reading, label)
        if not kinds:
            return None
        found = convergence_data(reading.draws(label), kinds, reading.models, reading.explained(label), reading.confidence)
        return found if found.explainers else None

    def plot(self, reading: RunReading, label: str, data: ConvergenceData) -> Plot:
        """One plot per explainer."""
        note = (
            "Across: draws per sample. Up: the mean over these samples, each plot on a scale of its own. Explainers that score 1 have "
            "settled from the first draw on and are left out."
        )
        return Plot(
            title="Were there enough draws?",
            sentences=tuple(convergence_sentences(data, reading.level)),
            note=note,
            keys=legend(reading.models)
            + signs(
                sign('<rect class="band" x="-12" y="-5" width="24" height="10"/>', f"{reading.level} interval over draws"),
                line_sign("bound", "Hoeffding's bounds, where they fit in"),
            ),
            drawing=draw_convergence(data),
        )
