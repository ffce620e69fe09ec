"""Were there enough draws? How each estimate settles as draws are added (Figure 7)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from veracity.core.registry import FIGURES
from veracity.core.walks import Sampling
from veracity.core.wording import count, interval, number
from veracity.report.figure import Figure, Plot, sign, signs
from veracity.report.figures.chart import legend
from veracity.report.figures.panels import Facet, draw_facets, of_model
from veracity.report.figures.plane import Place, Plane, draw_band, draw_paths, draw_plane, group
from veracity.report.figures.scale import exact_scale, tight_scale
from veracity.report.reading import Reading
from veracity.report.wording import name, say, sentences
from veracity.statistics.convergence import convergence, hoeffding_error

Array = NDArray[np.float64]
LEAST = 5
"""Fewer draws show nothing."""
AT_ONE = 0.999
"""From here on an estimate cannot but have settled: no draw is better than 1."""
POINTS = 60
CLEAR = 3
"""Bounds of more curves than this hide the curves."""


MONTE_CARLO = "monte_carlo"


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """The draws of one score of one explainer on one model: how they were sampled, and the range of a value."""

    sampling: Sampling
    bounds: tuple[float, float]

    @property
    def width(self) -> float:
        """The width of the range."""
        return self.bounds[1] - self.bounds[0]


def drawn(reading: Reading, score: str) -> dict[tuple[str, str], Drawn]:
    """Draws that are a random sample of their own from the first to any later one, by (model, explainer).

    Those of a Monte Carlo walk are, where each value is a mean over draws. An exhaustive walk visits elements in their order,
    an adaptive one stops by looking at its values, and a maximum over draws only ever grows.
    """
    if walk_of(reading, score) != MONTE_CARLO or (reading.about(score).get("reduce") or "mean") != "mean":
        return {}
    cells = {(str(cell["model"]), str(cell["explainer"])): cell for cell in reading.manifest.get("cells") or () if cell["score"] == score}
    found = {name: Drawn(sampling=Sampling(**cell["sampling"]), bounds=bounds_of(cell)) for name, cell in cells.items()}
    return {name: item for name, item in found.items() if random(item.sampling)}


def random(sampling: Sampling) -> bool:
    """Whether the first draws of every sample are a random sample of their own."""
    return sampling.nested and not sampling.exhaustive and sampling.anytime is None


def walk_of(reading: Reading, score: str) -> str:
    """The name of the walk that a score took: its own, or else the audit's, or else what its cells show; "" if unknown."""
    for given in ((reading.about(score).get("spec") or {}).get("walk"), reading.spec.get("walk")):
        if given:
            return str(given.get("name", "")) if isinstance(given, Mapping) else str(given)
    kinds = [cell["sampling"] for cell in reading.manifest.get("cells") or () if cell["score"] == score]
    return MONTE_CARLO if kinds and all(random(Sampling(**kind)) for kind in kinds) else ""


def bounds_of(cell: Mapping[str, Any]) -> tuple[float, float]:
    """The range of a value; unbounded where the manifest does not say."""
    low, high = cell.get("bounds") or (-math.inf, math.inf)
    return float(low), float(high)


@dataclass(frozen=True, kw_only=True)
class Running:
    """An estimate on one model after 1, 2 ... draws a sample, its interval, and Hoeffding's error (NaN where it does not apply)."""

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
    """The running estimates of every explainer that has not settled by being perfect."""

    score: str
    models: tuple[str, ...]
    explainers: tuple[tuple[str, str, tuple[Running, ...]], ...]


def convergence_data(
    draws: Mapping[tuple[str, str], Array],
    kinds: Mapping[tuple[str, str], Drawn],
    score: str,
    models: Sequence[str],
    frames: Mapping[str, str],
    confidence: float = 0.95,
) -> ConvergenceData:
    """From every draw's value (samples, draws); `frames` names the explainers to show, in their order."""
    lines = []
    for label, frame in frames.items():
        found = [
            running(index, draws[model, label], kinds[model, label], confidence)
            for index, model in enumerate(models)
            if (model, label) in draws and (model, label) in kinds and draws[model, label].shape[1] >= LEAST
        ]
        kept = tuple(item for item in found if math.isfinite(item.value[-1]) and item.value[-1] < AT_ONE)
        if kept:
            lines.append((label, frame, kept))
    return ConvergenceData(score=score, models=tuple(models), explainers=tuple(lines))


def running(model: int, values: Array, kind: Drawn, confidence: float) -> Running:
    """One explainer on one model; of very many draws evenly spaced ones."""
    found = convergence(values, kind.sampling, kind.bounds, confidence=confidence)
    chosen = np.unique(np.linspace(0, len(found.draws) - 1, min(len(found.draws), POINTS)).round().astype(int))
    holds = bool(np.isfinite(values).all()) and math.isfinite(kind.width)
    errors = [hoeffding_error(len(values), int(m), confidence, kind.width) if holds else math.nan for m in found.draws[chosen]]
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
    drawn, who = count(int(widest.draws[-1]), "draw"), (name(label), name(data.models[widest.model]))
    bound, samples = number(float(widest.bound[-1])), count(widest.samples, "sample")
    return sentences(
        say("convergence.width", drawn, level, *who, widest.ends, widths=len(shown))
        or say("convergence.single", drawn, level, *who, widest.ends, widths=len(shown)),
        say("convergence.bound", bound, samples, drawn, widths=len(shown), bounds=int(math.isfinite(widest.bound[-1]))),
    )


def draw_convergence(data: ConvergenceData) -> Markup:
    """One plot an explainer with an upward axis of its own, one curve a model."""
    return draw_facets([draw_explainer(label, frame, found, data) for label, frame, found in data.explainers])


def draw_explainer(label: str, frame: str, found: Sequence[Running], data: ConvergenceData) -> Facet:
    """The running means within their intervals, and Hoeffding's bounds where they fit in."""
    seen = [value for item in found for value in (*item.value[1:], *item.low[1:], *item.high[1:])]
    last = max(float(item.draws[-1]) for item in found)
    plane = Plane(across=exact_scale(1.0, last), up=tight_scale(seen, least=0.01))
    parts = []
    for item in found:
        drawn = [
            draw_band(places(item, item.low), places(item, item.high), plane),
            draw_bounds(item, plane) if len(found) <= CLEAR else Markup(""),
            draw_paths([places(item, item.value)], "curve", plane),
        ]
        parts.append(group(item.model, Markup("").join(drawn)))
    several = len(data.models) > 1
    captions = [of_model(item.model, f"{number(float(item.value[-1]))} ({item.ends})", several=several) for item in found]
    drawing = draw_plane(plane, Markup("").join(parts), f"{label}: estimate against the number of draws")
    return Facet(title=label, frame=frame, drawing=drawing, captions=tuple(captions))


def draw_bounds(item: Running, plane: Plane) -> Markup:
    """Hoeffding's bounds around a curve."""
    return draw_paths([places(item, item.value - item.bound), places(item, item.value + item.bound)], "bound", plane)


def places(item: Running, values: Array) -> list[Place]:
    """A curve over the draws."""
    return [(float(x), float(y)) for x, y in zip(item.draws, values, strict=True)]


@FIGURES.add
class ConvergenceFigure(Figure):
    """How the Monte Carlo estimates settle (Figure 7)."""

    name = "convergence"

    def data(self, reading: Reading, label: str) -> ConvergenceData | None:
        """The running means of draws that are random samples of their own."""
        kinds = drawn(reading, label)
        if not kinds:
            return None
        found = convergence_data(reading.draws(label), kinds, label, reading.models, reading.explained(label), reading.confidence)
        return found if found.explainers else None

    def plot(self, reading: Reading, label: str, data: ConvergenceData) -> Plot:
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
                sign('<line class="bound" x1="-12" x2="12"/>', "Hoeffding's bounds, where they fit in"),
            ),
            drawing=draw_convergence(data),
        )
