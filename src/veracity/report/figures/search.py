"""How a search goes: the worst feasible point so far by evaluations (Figures 7 and 8), and ln P by the threshold, level by level."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from veracity.core.registry import FIGURES
from veracity.core.scores import Array, Measured
from veracity.core.sentences import SENTENCES
from veracity.core.wording import number
from veracity.report.figure import Figure, Plot, line_sign, signs
from veracity.report.figures.chart import exact_scale, legend, plain_axis, tight_scale
from veracity.report.figures.panels import Fan, Panel, Path, draw_fans, path, some_seeds
from veracity.report.figures.plane import Place
from veracity.report.figures.robustness import in_run_order
from veracity.report.reading import RunReading
from veracity.report.wording import name, say, sentences
from veracity.results import Series
from veracity.walk import Strongest

LEAST = 2
"""Fewer steps are no line."""
SETTLED = 0.001


@dataclass(frozen=True, kw_only=True)
class SearchData:
    """The panels, and what their axis says: upwards for a search, across for a rarity."""

    panels: tuple[Panel, ...]
    axis: str


@dataclass(frozen=True, kw_only=True)
class Course:
    """One search of one subject: evaluations (levels,), the worst value of each seed so far (seeds, levels), and of the middle one."""

    evaluations: Array
    seeds: Array
    middle: Array

    @property
    def feasible(self) -> int:
        """For how many seeds a feasible point was found."""
        return int(np.isfinite(self.seeds[:, -1]).sum()) if self.seeds.size else 0


def harm(score: Any, merit: Array) -> Array:
    """How bad each merit is; minus infinity where the constraint is broken or nothing is defined."""
    return np.where(np.isfinite(merit) & (merit >= score.least), merit, -np.inf)


def course(score: Any, measured: Measured, search: int) -> Course | None:
    """One search of a subject; where a seed's search has ended, its last value stays. None if nothing was searched."""
    made, merit = measured["evaluations"][:, search], measured["merit"][:, search]
    searched = np.isfinite(made).any(axis=1)
    made, merit = made[searched], merit[searched]
    if not len(made):
        return None
    last = np.maximum.accumulate(np.where(np.isfinite(made), np.arange(made.shape[1]), 0), axis=1)
    levels = np.isfinite(made).any(axis=0)
    made, merit = np.take_along_axis(made, last, axis=1)[:, levels], np.take_along_axis(merit, last, axis=1)[:, levels]
    return Course(
        evaluations=made.max(axis=0), seeds=score.objective_at(merit), middle=score.objective_at(np.median(harm(score, merit), axis=0))
    )


def search_data(score: Any, series: Sequence[Series], models: Sequence[str], names: Sequence[str]) -> SearchData:
    """One panel per model and search, or one per search if the models are searched; `names` are the explainers to show, in their order."""
    found: dict[tuple[str, str], dict[tuple[int, str], Course]] = {}
    for one in series:
        if not {"evaluations", "merit"} <= set(one.measured.quantities) or (names and one.explainer not in names):
            continue
        for search, title in enumerate(titles(score, one.measured["merit"].shape[1])):
            line = course(score, one.measured, search)
            index = names.index(one.explainer) if names else models.index(one.model)
            if line is not None and len(line.evaluations) >= LEAST:
                found.setdefault((one.model if names else "", title), {})[index, one.explainer or one.model] = line
    panels = []
    for (model, walk), lines in sorted(found.items(), key=lambda item: models.index(item[0][0]) if item[0][0] else 0):
        text = walk.replace("_", " ")
        panels.append(panel(score, f"{model}: {text}" if model and len(models) > 1 else text.capitalize(), lines))
    return SearchData(panels=tuple(panels), axis=f"the {score.objective} at the worst feasible point so far")


def titles(score: Any, count: int) -> list[str]:
    """The names of the searches that a score made of one subject, of which there are so many."""
    walk = score.walk
    if not isinstance(walk, Strongest):
        return [walk.name]
    parts = walk.parts()
    if count < len(parts):
        parts = [one for one in parts if not one.follows_slopes]
    return [one.name for one in parts][:count]


def panel(score: Any, title: str, found: Mapping[tuple[int, str], Course]) -> Panel:
    """One plot: every subject's seeds and middle."""
    lines = [(index, label, line) for (index, label), line in sorted(found.items())]
    fans = []
    for index, label, line in lines:
        seeds = some_seeds([path(line.evaluations, seed) for seed in line.seeds])
        fans.append(Fan(label=label, index=index, seeds=seeds, middle=path(line.evaluations, line.middle)))
    heights = [float(value) for _, _, line in lines for value in line.seeds.ravel()]
    return Panel(
        title=title,
        fans=tuple(fans),
        across=plain_axis(exact_scale(0.0, max(float(line.evaluations[-1]) for _, _, line in lines))),
        up=tight_scale(heights, parts=5, least=0.2 if all(map(math.isfinite, score.bounds)) else 0.0),
        captions=tuple(
            f"{label}: {line.feasible} of {len(line.seeds)} seeds feasible" for _, label, line in lines if line.feasible < len(line.seeds)
        ),
    )


def search_sentences(data: SearchData) -> list[Markup]:
    """Whether the searches had settled when they ended: how far the middle seed moved over the last quarter of the evaluations."""
    said = []
    for item in data.panels:
        moved = [(move, fan) for fan in item.fans if (move := last_move(fan)) is not None]
        if moved:
            most, fan = max(moved, key=lambda pair: pair[0])
            records = min(len(known_places(fan)) for _, fan in moved)
            text = say("search.moved", item.title, name(fan.label), number(most), records=records)
            said.append(text if most > SETTLED else say("search.still", item.title, SETTLED, records=records))
    return sentences(*said)


def known_places(fan: Fan) -> list[Place]:
    """The records of a search that have a middle seed."""
    return [place for place in fan.middle if np.isfinite(place).all()]


def last_move(fan: Fan) -> float | None:
    """How far the middle seed moved over the last quarter of the evaluations.

    None if the search has fewer than eight records with a middle seed, fewer than two of them in that quarter, or none before it.
    """
    known = known_places(fan)
    if len(known) < SENTENCES["search.still"].needs["records"]:
        return None
    begins = 0.75 * known[-1][0]
    before, after = [up for across, up in known if across <= begins], [up for across, up in known if across > begins]
    return abs(after[-1] - before[-1]) if before and len(after) > 1 else None


NEEDED = {"probability", "threshold", "state"}
POINTS = 60


@dataclass(frozen=True, kw_only=True)
class Descent:
    """The levels of one subject: ln P (seeds, levels) of a merit of at least `merit` (seeds, levels), NaN beyond a seed's last level."""

    merit: Array
    ln_p: Array


def descent(score: Any, measured: Measured) -> Descent:
    """Cumulative ln P = sum of ln p_i up to each level (eq. 21), where the constraint is kept there; of the seeds that were walked."""
    share, threshold, state = (measured[name][:, 0] for name in ("probability", "threshold", "state"))
    walked = np.isfinite(state).any(axis=1)
    known = np.isfinite(share[walked]) & np.isfinite(harm(score, threshold[walked]))
    with np.errstate(invalid="ignore", divide="ignore"):
        total = np.cumsum(np.where(np.isfinite(share[walked]), np.log(share[walked]), 0.0), axis=1)
    return Descent(merit=np.where(known, threshold[walked], np.nan), ln_p=np.where(known, total, np.nan))


def middle(found: Descent, target: float) -> tuple[Array, Array]:
    """The median ln P over seeds at evenly spaced merits up to the target: (merits, ln P), NaN where half of the seeds have ended.

    Between two levels ln P is taken for linear; a seed's first level stands for all milder thresholds, and a seed that ended
    before the event counts as less likely than any other from there on.
    """
    known = np.isfinite(found.merit)
    if not known.any():
        return np.zeros(0), np.zeros(0)
    grid = np.linspace(float(found.merit[known].min()), target, POINTS)
    heights = np.full((len(found.merit), POINTS), -np.inf)
    for row, mine in enumerate(known):
        if mine.any():
            heights[row] = np.interp(grid, found.merit[row, mine], found.ln_p[row, mine], right=-np.inf)
            heights[row, -1] = found.ln_p[row, mine][-1] if found.merit[row, mine][-1] >= target - 1e-9 else -np.inf
    value = np.median(heights, axis=0)
    return grid, np.where(np.isfinite(value), value, np.nan)


def rarity_data(score: Any, series: Sequence[Series], models: Sequence[str], names: Sequence[str]) -> SearchData:
    """One panel per model, or one if the models are perturbed; `names` are the explainers to show, in their order."""
    groups: dict[str, list[Fan]] = {}
    for one in series:
        if not set(one.measured.quantities) >= NEEDED or (names and one.explainer not in names):
            continue
        found = descent(score, one.measured)
        lines: list[Path] = [
            path(score.objective_at(merit[np.isfinite(merit)]), ln_p[np.isfinite(merit)])
            for merit, ln_p in zip(found.merit, found.ln_p, strict=True)
            if np.isfinite(merit).any()
        ]
        if lines:
            places, heights = middle(found, score.event)
            index = names.index(one.explainer) if names else models.index(one.model)
            fan = Fan(
                label=one.explainer or one.model, index=index, seeds=some_seeds(lines), middle=path(score.objective_at(places), heights)
            )
            groups.setdefault(one.model if names else "", []).append(fan)
    event = float(score.objective_at(np.array([score.event]))[0])
    drawn = [place for fans in groups.values() for fan in fans for line in (*fan.seeds, fan.middle) for place in line]
    across = plain_axis(tight_scale([*(x for x, _ in drawn), event]))
    up = tight_scale([0.0, *(y for _, y in drawn)], parts=5)
    ordered = {model: sorted(groups[model], key=lambda fan: fan.index) for model in [*models, ""] if model in groups}
    panels = [Panel(title=model or "All models", fans=tuple(fans), across=across, up=up, marks=(event,)) for model, fans in ordered.items()]
    return SearchData(panels=tuple(panels), axis=f"the threshold of the {score.objective}")


@FIGURES.add
class SearchFigure(Figure):
    """The worst point so far against evaluations."""

    name = "search"

    def data(self, reading: RunReading, label: str) -> SearchData | None:
        """The course of every search."""
        found = search_data(reading.score(label), reading.series(label), reading.models, list(in_run_order(reading, label)))
        return found if found.panels else None

    def plot(self, reading: RunReading, label: str, data: SearchData) -> Plot:
        """One plot per model and search."""
        score: Any = reading.score(label)
        free = " A seed without a feasible point counts as harmless, so that the middle begins where half of the seeds have one."
        return Plot(
            title="How the search went",
            sentences=tuple(search_sentences(data)),
            note=f"Across: evaluations of one seed. Up: {data.axis}.{free if math.isfinite(score.least) else ''}",
            keys=search_keys(reading, label),
            drawing=draw_fans(data.panels, f"{data.axis}, against evaluations"),
        )


@FIGURES.add
class RarityFigure(Figure):
    """ln P against the threshold, level by level."""

    name = "rarity"

    def data(self, reading: RunReading, label: str) -> SearchData | None:
        """The levels of every subset simulation."""
        found = rarity_data(reading.score(label), reading.series(label), reading.models, list(in_run_order(reading, label)))
        return found if found.panels else None

    def plot(self, reading: RunReading, label: str, data: SearchData) -> Plot:
        """One plot per model."""
        return Plot(
            title="Probability against rarity",
            note=(
                f"Across: {data.axis} that a random point close by has to get past. Up: ln P of doing so, as the product of the "
                "levels passed so far. A seed's first level stands for all milder thresholds; the middle ends where half of the seeds were "
                "given up."
            ),
            keys=search_keys(reading, label, line_sign("reference", "the event")),
            drawing=draw_fans(data.panels, f"ln P against {data.axis}, level by level"),
        )


def search_keys(reading: RunReading, label: str, *more: Markup) -> Markup:
    """Which mark is which explainer, or which model if the models are searched, and which line is the middle seed."""
    who = list(in_run_order(reading, label)) or reading.models
    return legend(who) + signs(line_sign("seed", "one seed"), line_sign("curve", "the middle seed", dot=True), *more)
