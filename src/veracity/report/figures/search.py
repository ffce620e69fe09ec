"""How a search converges: the worst feasible point so far against the number of evaluations (Figures 7 and 8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from markupsafe import Markup
from numpy.typing import NDArray

from veracity.core.measures import Direction
from veracity.core.scores import Measured
from veracity.core.sentences import SENTENCES
from veracity.report.figures.axis import Axis
from veracity.report.figures.fans import Fan, Panel, draw_fans, path, shown
from veracity.report.figures.scale import exact_scale, tight_scale
from veracity.report.phrases import name, say, sentences
from veracity.report.view import SeriesView
from veracity.report.wording import compact, number
from veracity.scores.robustness.base import Misinterpretation, SearchScore
from veracity.walk import Strongest

Array = NDArray[np.float64]
LEAST = 2
"""Fewer steps are no line."""
SETTLED = 0.001


@dataclass(frozen=True, kw_only=True)
class SearchData:
    """One panel a model and search, or one a search where it is the models that are searched."""

    panels: tuple[Panel, ...]
    up: str


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


def harm(score: SearchScore, merit: Array) -> Array:
    """How bad each merit is; minus infinity where the constraint is broken or nothing is defined."""
    least = 0.0 if isinstance(score, Misinterpretation) else -np.inf
    return np.where(np.isfinite(merit) & (merit >= least), merit, -np.inf)


def harmed(score: SearchScore, merit: Array) -> Array:
    """The agreement (or the prediction loss) at which a score has this merit; NaN where the constraint is broken.

    >>> from veracity.scores.robustness import SolHat, SolTilde
    >>> harmed(SolHat(), np.array([0.75, -0.1])), harmed(SolTilde(), np.array([1.75]))
    (array([0.25,  nan]), array([0.75]))
    """
    bad = harm(score, merit)
    known = np.where(np.isfinite(bad), bad, np.nan)
    if not isinstance(score, Misinterpretation):
        return known
    low, high = score.compare.range
    if score.compare.direction is Direction.LOWER:
        return known if score.kept else 1.0 / known - 1.0
    return high - known if score.kept else known + low


def course(score: SearchScore, measured: Measured, search: int) -> Course | None:
    """One search of a subject; where a seed's search has ended, its last value stays. None if nothing was searched."""
    made, merit = measured["evaluations"][:, search], measured["merit"][:, search]
    searched = np.isfinite(made).any(axis=1)
    made, merit = made[searched], merit[searched]
    if not len(made):
        return None
    last = np.maximum.accumulate(np.where(np.isfinite(made), np.arange(made.shape[1]), 0), axis=1)
    levels = np.isfinite(made).any(axis=0)
    made, merit = np.take_along_axis(made, last, axis=1)[:, levels], np.take_along_axis(merit, last, axis=1)[:, levels]
    return Course(evaluations=made.max(axis=0), seeds=harmed(score, merit), middle=harmed(score, np.median(harm(score, merit), axis=0)))


def search_data(score: SearchScore, series: Sequence[SeriesView], models: Sequence[str], names: Sequence[str]) -> SearchData:
    """From the searches of one score; `names` are the explainers to show in their order, none where the models are searched."""
    found: dict[tuple[str, str], dict[tuple[int, str], Course]] = {}
    for one in series:
        if not {"evaluations", "merit"} <= set(one.measured.quantities) or (names and one.explainer not in names):
            continue
        for search, title in enumerate(titles(score, one.measured["merit"].shape[1])):
            line = course(score, one.measured, search)
            index = names.index(one.explainer) if names else models.index(one.model)
            if line is not None and len(line.evaluations) >= LEAST:
                found.setdefault((one.model if names else "", title), {})[index, one.explainer or one.model] = line
    order = {model: place for place, model in enumerate(models)}
    several = len(models) > 1
    panels = [
        panel(score, say_title(model if several else "", title), lines)
        for (model, title), lines in sorted(found.items(), key=lambda item: order.get(item[0][0], 0))
    ]
    measure = "the prediction loss" if not isinstance(score, Misinterpretation) else "the agreement"
    return SearchData(panels=tuple(panels), up=f"{measure} at the worst feasible point so far")


def say_title(model: str, search: str) -> str:
    """What a panel is of.

    >>> say_title("net", "genetic"), say_title("", "gradient_search")
    ('net: genetic', 'Gradient search')
    """
    text = search.replace("_", " ")
    return f"{model}: {text}" if model else text.capitalize()


def titles(score: SearchScore, count: int) -> list[str]:
    """The names of the searches that a score made of one subject, of which there are so many."""
    walk = score.walk
    if not isinstance(walk, Strongest):
        return [walk.name]
    parts = walk.parts()
    if count < len(parts):
        parts = [one for one in parts if not one.follows_slopes]
    return [one.name for one in parts][:count]


def panel(score: SearchScore, title: str, lines: Mapping[tuple[int, str], Course]) -> Panel:
    """One plot: every subject's seeds and middle."""
    fans = tuple(
        Fan(
            label=label,
            index=index,
            seeds=shown([path(line.evaluations, seed) for seed in line.seeds]),
            middle=path(line.evaluations, line.middle),
        )
        for (index, label), line in sorted(lines.items())
    )
    heights = [float(value) for line in lines.values() for value in line.seeds.ravel()]
    scale = exact_scale(0.0, max(float(line.evaluations[-1]) for line in lines.values()))
    alike = isinstance(score, Misinterpretation) and score.compare.direction is Direction.HIGHER
    return Panel(
        title=title,
        fans=fans,
        across=Axis(scale=scale, labels=tuple(compact(tick) for tick in scale.ticks)),
        up=tight_scale(heights, parts=5, least=0.2 if alike else 0.0),
        captions=tuple(
            f"{label}: {line.feasible} of {len(line.seeds)} seeds feasible"
            for (_, label), line in sorted(lines.items())
            if line.feasible < len(line.seeds)
        ),
    )


def search_sentences(data: SearchData) -> list[Markup]:
    """Whether the searches had settled when they ended: how far the middle seed moved over the last quarter of the evaluations."""
    said = []
    for item in data.panels:
        moved = [(move, fan) for fan in item.fans if (move := last_move(fan)) is not None]
        if moved:
            most, fan = max(moved, key=lambda pair: pair[0])
            records = min(recorded(fan) for _, fan in moved)
            text = say("search.moved", item.title, name(fan.label), number(most), records=records)
            said.append(text if most > SETTLED else say("search.still", item.title, SETTLED, records=records))
    return sentences(*said)


def recorded(fan: Fan) -> int:
    """How many records of a search have a middle seed."""
    return sum(bool(np.isfinite(place).all()) for place in fan.middle)


def last_move(fan: Fan) -> float | None:
    """How far the middle seed moved over the last quarter of the evaluations.

    None if the search has fewer than eight records with a middle seed, fewer than two of them in that quarter, or none before it.
    """
    known = [place for place in fan.middle if np.isfinite(place).all()]
    if len(known) < SENTENCES["search.still"].needs["records"]:
        return None
    begins = 0.75 * known[-1][0]
    before, after = [up for across, up in known if across <= begins], [up for across, up in known if across > begins]
    return abs(after[-1] - before[-1]) if before and len(after) > 1 else None


def draw_search(data: SearchData) -> Markup:
    """Every search."""
    return draw_fans(data.panels, f"{data.up}, against evaluations")


def limit_line(score: SearchScore) -> float:
    """Where the event begins, in the units of the axis."""
    target = torch.tensor([score.event], dtype=torch.float64).numpy()
    return float(harmed(score, target)[0])
