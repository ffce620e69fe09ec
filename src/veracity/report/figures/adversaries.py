"""Adversarial explanations: a seed, and beside it the points close by that deceive most, each with its map."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from veracity.core.registry import FIGURES
from veracity.core.wording import compact, number
from veracity.report.figure import SharedFigure
from veracity.report.figures.images import Array, Layout, bounds, draw_input, draw_map, layout_of, one_map, reach, tile, to_array
from veracity.report.reading import RunReading
from veracity.report.wording import as_json, breakable
from veracity.results import WorstPair

SEEDS = 2
"""How many seeds are shown of each model."""
NONE = "none found"
NOT_KEPT = "found, and not kept for display"
Subject = tuple[str, str, int]
"""Model, explainer, sample."""


@dataclass(frozen=True, kw_only=True)
class EventPairs:
    """What a run keeps of one event: the worst pairs, their labels before and after, and the samples without any."""

    pairs: Mapping[Subject, WorstPair]
    labels: Mapping[Subject, tuple[int, int]]
    none: frozenset[Subject]


@dataclass(frozen=True, kw_only=True)
class Point:
    """A deceptive point: its agreement, the label of the seed and its own where they are known, the input, and the map."""

    agreement: float
    labels: tuple[int, int] | None
    moved: Array
    found: Array


@dataclass(frozen=True, kw_only=True)
class Adversary:
    """One explainer on one seed: input and map, and what was found of each event, or why nothing is shown."""

    explainer: str
    sample: int
    layout: Layout
    input: Array
    explanation: Array
    events: tuple[tuple[str, Point | str], ...]


@dataclass(frozen=True, kw_only=True)
class AdversariesData:
    """By model, seed after seed; maps are absolute unless `signed`, and each has a scale of its own unless they `share` one."""

    models: tuple[tuple[str, tuple[Adversary, ...]], ...]
    signed: bool
    share: bool


def adversaries_data(
    events: Mapping[str, EventPairs],
    models: Sequence[str],
    names: Sequence[str],
    *,
    signed: bool,
    share: bool,
    groups: frozenset[str] = frozenset(),
) -> AdversariesData:
    """The seeds of each model for which most was kept, with all explainers that `names` lists in their order."""
    held = []
    for model in models:
        subjects = [subject for kept in events.values() for subject in kept.pairs if subject[0] == model and subject[1] in names]
        often = Counter(sample for _, _, sample in subjects)
        seeds = sorted(often, key=lambda sample: (-often[sample], sample))[:SEEDS]
        shown = [adversary((model, label, seed), events, groups) for seed in seeds for label in names if (model, label, seed) in subjects]
        held += [(model, tuple(shown))] if shown else []
    return AdversariesData(models=tuple(held), signed=signed, share=share)


def adversary(subject: Subject, events: Mapping[str, EventPairs], groups: frozenset[str]) -> Adversary:
    """One explainer on one seed."""
    first = next(kept.pairs[subject] for kept in events.values() if subject in kept.pairs)
    found: list[tuple[str, Point | str]] = []
    for event, kept in events.items():
        pair = kept.pairs.get(subject)
        if pair is None:
            found.append((event, NONE if subject in kept.none else NOT_KEPT))
        else:
            moved, map_found = to_array(pair.moved), to_array(pair.found)
            found.append((event, Point(agreement=pair.value, labels=kept.labels.get(subject), moved=moved, found=map_found)))
    x, explanation = to_array(first.input), to_array(first.explanation)
    _, label, sample = subject
    return Adversary(explainer=label, sample=sample, layout=layout_of(x, groups), input=x, explanation=explanation, events=tuple(found))


def draw_adversaries(items: Sequence[Adversary], data: AdversariesData) -> Markup:
    """The seeds of one model as HTML, under one another."""
    return Markup('<div class="gallery">{}</div>').format(Markup("").join(draw_adversary(item, data) for item in items))


def draw_adversary(item: Adversary, data: AdversariesData) -> Markup:
    """One row: the facts, the seed and its map, then each event."""
    points = [event for _, event in item.events if isinstance(event, Point)]
    low, high = bounds(item.input, *(one.moved for one in points))
    maps = [one_map(array if data.signed else np.abs(array), item.layout, None) for array in (item.explanation, *(p.found for p in points))]
    scales = [reach(*maps)] * len(maps) if data.share else [reach(array) for array in maps]
    drawings = iter([draw_map(array, item.layout, scale, "explanation") for array, scale in zip(maps, scales, strict=True)])

    def tiles(title: str, x: Array, name: str, formulas: tuple[str, str]) -> Markup:
        picture = tile(draw_input(x, item.layout, low, high, name), "input", formulas[0], "seen")
        return block.format(title, picture + tile(next(drawings), "map", formulas[1], "seen"))

    block = Markup('<div class="pair"><p>{}</p>{}</div>')
    labels = next((one.labels for one in points if one.labels), None)
    parts = [tiles(f"seed, class {labels[0]}" if labels else "seed", item.input, "input", ("x", "e(x)"))]
    for event, found in item.events:
        if isinstance(found, str):
            parts.append(block.format(event, Markup('<div class="shape">{}</div>').format(found)))
        else:
            parts.append(tiles(f"{event}: {point_text(found)}", found.moved, f"moved input, {event}", ("x'", "e(x')")))
    facts = Markup('<div class="facts"><strong>{}</strong><span>sample {}</span></div>').format(breakable(item.explainer), item.sample)
    return Markup('<article class="exhibit pairs">{}{}</article>').format(facts, Markup("").join(parts))


def point_text(found: Point) -> str:
    """The agreement, and the classes before and after.

    >>> point_text(Point(agreement=0.25, labels=(3, 5), moved=np.zeros(1), found=np.zeros(1)))
    'agreement 0.250, class 3 → 5'
    """
    classes = f", class {found.labels[0]} \N{RIGHTWARDS ARROW} {found.labels[1]}" if found.labels else ""
    return f"agreement {number(found.agreement)}{classes}"


EVENTS = {True: "F-hat", False: "F-tilde"}
BESIDE = ("name", "walk", "threshold", "common_draws")
"""Settings that two scores of the same place may differ in."""


@dataclass(frozen=True, kw_only=True)
class Gallery:
    """Adversarial explanations, drawn by model, with how to read them."""

    note: str
    signed: bool
    models: tuple[tuple[str, Markup], ...]


@FIGURES.add
class AdversariesFigure(SharedFigure):
    """Seeds, and the most deceptive points found around them; of several places, those where most events were asked for."""

    name = "adversaries"

    def data(self, reading: RunReading, labels: Sequence[str]) -> tuple[Any, AdversariesData, int] | None:
        """One of the scores, the pictures, and at how many places scores looked."""
        places: dict[str, dict[bool, str]] = {}
        scores: dict[str, Any] = {label: reading.score(label) for label in labels}
        for label, score in sorted(scores.items(), key=lambda item: item[1].centre == "median"):
            key = as_json({name: value for name, value in score.spec().items() if name not in BESIDE})
            places.setdefault(key, {}).setdefault(score.same_label, label)
        best = max(places.values(), key=len, default={})
        events = {EVENTS[kept]: event_pairs(reading, best[kept]) for kept in (True, False) if kept in best}
        label = next(iter(best.values()))
        names = [row.explainer for row in reading.rows if row.score in best.values() and row.frame == "input" and not row.control]
        found = adversaries_data(
            events,
            reading.models,
            list(dict.fromkeys(names)),
            signed=scores[label].signed,
            share=scores[label].compare.name != "pearson",
            groups=reading.groups(label),
        )
        return (scores[label], found, len(places)) if found.models else None

    def plot(self, reading: RunReading, labels: Sequence[str], data: tuple[Any, AdversariesData, int]) -> Gallery:
        """One gallery per model."""
        score, found, places = data
        drawn = tuple((model, draw_adversaries(items, found)) for model, items in found.models)
        return Gallery(note=gallery_note(score, found, places), signed=found.signed, models=drawn)


def gallery_note(score: Any, data: AdversariesData, places: int) -> str:
    """How to read the pictures."""
    where = f"within {compact(score.radius)} of the seed" if score.space is None else "in the space around the seed"
    said = [f"The worst points found {where}: F-hat keeps the label and changes the map, F-tilde changes the label and keeps the map."]
    said += ["The seeds are those for which most was kept; of several radii and settings one is shown."] if places > 1 else []
    kind = "Maps are signed" if data.signed else "Maps are shown as they are compared, in absolute value"
    scale = "those of a row share one scale" if data.share else "each on a scale of its own, since a correlation has none"
    return " ".join([*said, f"{kind}, summed over channels, {scale}."])


def event_pairs(reading: RunReading, label: str) -> EventPairs:
    """What the run keeps of one event: the pairs, the class of each seed and of the point found beside it, and seeds without a point."""
    pairs = {(one.model, one.explainer, one.sample): one for one in reading.worst(label, 1_000_000)}
    labels = {subject: (one.label, one.predicted) for subject, one in pairs.items() if one.label is not None and one.predicted is not None}
    vain = [row for row in reading.samples(label).to_dict("records") if row.get("infeasible") is True]
    none = frozenset((str(row["model"]), str(row["explainer"]), int(row["sample"])) for row in vain)
    return EventPairs(pairs=pairs, labels=labels, none=none)
