"""Adversarial explanations: a seed, and beside it the points close by that deceive most, each with its map."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from veracity.report.figures.exhibit import Layout, layout_of
from veracity.report.figures.gallery import breakable
from veracity.report.figures.pixels import Array, bounds, reach, to_array
from veracity.report.figures.tiles import draw_input, draw_map, one_map, tile
from veracity.report.view import WorstPair
from veracity.core.wording import number

SEEDS = 2
"""How many seeds are shown of each model."""
NONE = "none found"
NOT_KEPT = "found, and not kept for display"
Subject = tuple[str, str, int]
"""Model, explainer, sample."""


@dataclass(frozen=True, kw_only=True)
class Kept:
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
    events: Mapping[str, Kept],
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


def adversary(subject: Subject, events: Mapping[str, Kept], groups: frozenset[str]) -> Adversary:
    """One explainer on one seed."""
    first = next(kept.pairs[subject] for kept in events.values() if subject in kept.pairs)
    x = to_array(first.input)
    return Adversary(
        explainer=subject[1],
        sample=subject[2],
        layout=layout_of(x, groups),
        input=x,
        explanation=to_array(first.explanation),
        events=tuple((event, point(subject, kept)) for event, kept in events.items()),
    )


def point(subject: Subject, kept: Kept) -> Point | str:
    """What was found of one event."""
    pair = kept.pairs.get(subject)
    if pair is None:
        return NONE if subject in kept.none else NOT_KEPT
    return Point(agreement=pair.value, labels=kept.labels.get(subject), moved=to_array(pair.moved), found=to_array(pair.found))


def draw_adversaries(items: Sequence[Adversary], data: AdversariesData) -> Markup:
    """The seeds of one model as HTML, under one another."""
    return Markup('<div class="gallery">{}</div>').format(Markup("").join(draw_adversary(item, data) for item in items))


def draw_adversary(item: Adversary, data: AdversariesData) -> Markup:
    """One row: the facts, the seed and its map, then each event."""
    points = [event for _, event in item.events if isinstance(event, Point)]
    low, high = bounds(item.input, *(one.moved for one in points))
    maps = [one_map(array if data.signed else np.abs(array), item.layout, None) for array in (item.explanation, *(p.found for p in points))]
    scales = [reach(*maps)] * len(maps) if data.share else [reach(array) for array in maps]
    drawn = [draw_map(array, item.layout, scale, "explanation") for array, scale in zip(maps, scales, strict=True)]
    labels = next((one.labels for one in points if one.labels), None)
    seed = f"seed, class {labels[0]}" if labels else "seed"
    parts = [pair(seed, tiles(draw_input(item.input, item.layout, low, high, "input"), drawn[0], "x", "e(x)"))]
    maps_left = iter(drawn[1:])
    for event, found in item.events:
        if isinstance(found, str):
            parts.append(pair(event, Markup('<div class="shape">{}</div>').format(found)))
            continue
        picture = draw_input(found.moved, item.layout, low, high, f"moved input, {event}")
        parts.append(pair(f"{event}: {told(found)}", tiles(picture, next(maps_left), "x'", "e(x')")))
    facts = Markup('<div class="facts"><strong>{}</strong><span>sample {}</span></div>').format(breakable(item.explainer), item.sample)
    return Markup('<article class="exhibit pairs">{}{}</article>').format(facts, Markup("").join(parts))


def told(found: Point) -> str:
    """The agreement, and the classes before and after.

    >>> told(Point(agreement=0.25, labels=(3, 5), moved=np.zeros(1), found=np.zeros(1)))
    'agreement 0.250, class 3 → 5'
    """
    classes = f", class {found.labels[0]} \N{RIGHTWARDS ARROW} {found.labels[1]}" if found.labels else ""
    return f"agreement {number(found.agreement)}{classes}"


def pair(title: str, content: Markup) -> Markup:
    """What is said of two pictures, over them."""
    return Markup('<div class="pair"><p>{}</p>{}</div>').format(title, content)


def tiles(picture: Markup, explanation: Markup, x: str, e: str) -> Markup:
    """An input beside its map."""
    return tile(picture, "input", x, "seen") + tile(explanation, "map", e, "seen")
