"""How far averaging over transforms makes an explanation symmetric: its score against the number of transforms (Figure 4)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from veracity.core.registry import FIGURES
from veracity.core.wording import count, interval, number
from veracity.report.figure import Figure, Plot
from veracity.report.figures.chart import Scale, legend, scale_for
from veracity.report.figures.panels import Facet, draw_facets, of_model
from veracity.report.figures.plane import Plane, draw_paths, draw_plane, draw_spots, group, row_spot
from veracity.report.reading import RunReading
from veracity.report.rows import judged
from veracity.report.wording import GUIDELINES, bare_label, families, piece, specs_of, word_of
from veracity.results import Row

BARE = 0
"""The explainer as it is. This differs from the mean over one random transform, which looks at g x and never at x itself."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One explainer of a family: the mean over `draws` transforms (None: all of them), and its result on each model."""

    explainer: str
    draws: int | None
    results: tuple[Row | None, ...]


@dataclass(frozen=True, kw_only=True)
class Family:
    """One explainer made symmetric to different degrees, from the bare one to the whole group."""

    title: str
    frame: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, kw_only=True)
class SymmetrisationData:
    """Families with at least two steps, on common axes."""

    models: tuple[str, ...]
    families: tuple[Family, ...]
    judged: bool
    mark: float
    places: tuple[int | None, ...]
    scale: Scale


def symmetrisation_data(rows: Sequence[Row], score: str, models: Sequence[str], explainers: Any) -> SymmetrisationData:
    """The families among the explainers of a run, by their specs {label: {"name": ...}}."""
    cells = {(row.explainer, row.model): row for row in rows if row.score == score and row.explainer and row.defined}
    frames = {label: row.frame for (label, _), row in cells.items()}
    held = {label: spec for label, spec in specs_of(explainers).items() if any((label, model) in cells for model in models)}
    made = []
    for inner, members in families(held).items():
        spec, _ = json.loads(inner)
        bare, first = bare_label(spec, held), next(iter(members.values()))
        labels: dict[int | None, str] = {**members, **({BARE: bare} if bare else {})}
        steps = [
            Step(explainer=labels[draws], draws=draws, results=tuple(cells.get((labels[draws], model)) for model in models))
            for draws in sorted(labels, key=rank)
        ]
        made += [Family(title=bare or str(spec.get("name", first)), frame=frames[first], steps=tuple(steps))] if len(steps) > 1 else []
    titles = [item.title for item in made]
    kept = [replace(item, title=f"{item.title} ({item.steps[-1].explainer})") if titles.count(item.title) > 1 else item for item in made]
    shown = [result for item in kept for step in item.steps for result in step.results if result is not None]
    return SymmetrisationData(
        models=tuple(models),
        families=tuple(kept),
        judged=judged(shown),
        mark=shown[0].mark if shown else math.nan,
        places=tuple(sorted({step.draws for item in kept for step in item.steps}, key=rank)),
        scale=scale_for([value for row in shown for value in (row.value, row.low, row.high)], parts=6),
    )


def rank(draws: int | None) -> float:
    """The whole group comes last."""
    return math.inf if draws is None else float(draws)


def positions(places: Sequence[int | None]) -> dict[int | None, float]:
    """Where numbers of draws stand: at log2(1 + N), so that 0 has a place too, and the whole group one step after the last.

    >>> positions((0, 1, 3, None))
    {0: 0.0, 1: 1.0, 3: 2.0, None: 3.0}
    """
    known = {draws: math.log2(1.0 + draws) for draws in places if draws is not None}
    return {draws: max(known.values(), default=0.0) + 1.0 if draws is None else known[draws] for draws in places}


def draw_symmetrisation(data: SymmetrisationData) -> Markup:
    """One plot per family, one curve per model."""
    stand = positions(data.places)
    ticks = tuple(stand.values())
    words = {BARE: "none", None: "all"}
    plane = Plane(
        across=Scale(ticks[0], max(ticks[-1], ticks[0] + 1.0), ticks),
        up=data.scale,
        labels=tuple(words.get(draws) or f"{draws:,}" for draws in data.places),
    )
    return draw_facets([draw_family(item, data, plane, stand) for item in data.families])


def draw_family(item: Family, data: SymmetrisationData, plane: Plane, stand: Mapping[int | None, float]) -> Facet:
    """A family's curves, and how many draws the mark takes."""
    parts, captions = [], []
    for index, model in enumerate(data.models):
        met = [(step, result) for step in item.steps if (result := step.results[index]) is not None]
        told = "{} on {}: {}, {}"
        spots = [
            row_spot(stand[step.draws], row, told.format(step.explainer, model, number(row.value), interval(row.low, row.high)))
            for step, row in met
        ]
        averaged = [(point.x, point.y) for point in spots if point.x > stand.get(BARE, -1.0)]
        parts += [group(index, draw_paths([averaged], "curve", plane)), draw_spots(spots, index, plane)]
        captions += [of_model(index, reach_text(item, index, data.mark), several=len(data.models) > 1)] if met and data.judged else []
    drawing = draw_plane(plane, Markup("").join(parts), f"{item.title}: score against the number of transforms")
    return Facet(title=item.title, frame=item.frame, drawing=drawing, captions=tuple(captions))


def reach_text(item: Family, model: int, mark: float) -> str:
    """From which number of draws on the lower end reaches the mark, in words; an undefined end never does."""
    met = [(step, result) for step in item.steps if (result := step.results[model]) is not None]
    found = next((step for step, result in met if result.low >= mark), None)
    if found is None:
        most = max((step.draws or 0 for step, _ in met), default=0)
        whole = any(step.draws is None for step, _ in met)
        return f"{mark} is not reached with {'the whole group' if whole else count(most, 'transform')}"
    if found.draws is None:
        return f"{mark} is reached over the whole group"
    return f"{mark} is reached " + (f"with {count(found.draws, 'transform')}" if found.draws else "without any transform")


@FIGURES.add
class SymmetrisationFigure(Figure):
    """The score against the number of transforms that an explanation is averaged over (Figure 4)."""

    name = "symmetrisation"
    needs = ("families",)

    def data(self, reading: RunReading, label: str) -> SymmetrisationData | None:
        """The families of explainers that differ in their number of transforms alone."""
        found = symmetrisation_data(reading.rows, label, reading.models, reading.spec.get("explainers"))
        return found if found.families else None

    def plot(self, reading: RunReading, label: str, data: SymmetrisationData) -> Plot:
        """One plot per family."""
        note = (
            f"Up: {word_of(label)}, with its {reading.level} interval. Across: over how many random transforms an explanation was "
            f"averaged; none is the explainer as it is. {data.mark} counts as reached where the lower end of the interval does so."
        )
        return Plot(
            title="Explanations made symmetric",
            sentences=(piece("{}", GUIDELINES[4]), piece("It makes sense only for a model that is itself invariant.")),
            note=note,
            keys=legend(reading.models),
            drawing=draw_symmetrisation(data),
        )
