"""All about one component, for `veracity ls KIND NAME`: what it is, its settings with their defaults, and what it needs."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

from torch import Size

from veracity.core import registry
from veracity.core.component import Component
from veracity.core.errors import VeracityError, unknown
from veracity.core.explainers import Explainer, Frame, learner
from veracity.core.measures import Direction, Measure
from veracity.core.registry import Registry
from veracity.core.scores import Score
from veracity.core.settings import declared_parameters, short_repr
from veracity.explain import Saliency
from veracity.explain.wrapper import Wrapper
from veracity.scores.presets import PRESETS, needs

COMMON = {
    "measure": "How two readings, such as explanations before and after, are compared: see veracity ls measures.",
    "walk": "How the perturbations are explored: see veracity ls walks.",
    "space": "The perturbations, in the place of the usual ones: see veracity ls spaces and veracity ls groups.",
    "follow": "Whether the class that is predicted for the perturbed input is explained, not the first one.",
    "radius": "The size of the ball of perturbations around the input, in the input's units.",
    "norm": 'The norm of the ball: "linf", "l2" or "l1".',
    "sigma": "The standard deviation of the noise; None lets the audit find it.",
    "draws": "The number of draws per sample.",
    "steps": "The number of steps.",
    "baseline": "The value that stands for a missing feature.",
    "patch_size": "The side of the patches that are masked as a whole.",
    "tolerance": "How far the assumption may fail, as a share.",
    "range": "The values that perturbed inputs keep within.",
    "relative": "Whether the value is a share, free of the map's units.",
}
"""Settings that mean the same wherever no docstring says more."""


def describe(kind: str, name: str) -> Iterator[str]:
    """Lines about one component; raises with a suggestion if there is none of this name."""
    if kind == "presets":
        if name not in PRESETS:
            raise unknown("preset", name, PRESETS, "presets")
        yield f"{name}: {PRESETS[name].why}"
        for score in PRESETS[name].scores:
            yield f"  {score}: {registry.SCORES[score].summary()}"
        return
    known = next(one for one in vars(registry).values() if isinstance(one, Registry) and one.plural == kind)
    item = known[name]
    yield from paragraphs(name, item)
    example = made(item)
    for label, text in facts(item, example):
        yield f"{label}: {text}"
    settings = list(setting_lines(item))
    if settings:
        yield "settings:"
        yield from settings


def paragraphs(name: str, item: Any) -> Iterator[str]:
    """The title and the docstring without its doctests."""
    title = getattr(item, "title", "")
    yield name if not isinstance(title, str) or not title else f"{name} ({title})"
    text = inspect.getdoc(getattr(item, "function", item)) or ""
    for part in re.split(r"\n\s*\n", text):
        if part.strip() and ">>>" not in part:
            yield part if part.startswith(" ") else " ".join(part.split())


def made(item: Any) -> Any:
    """The component with its defaults; None if it needs settings."""
    try:
        found = item() if isinstance(item, type) else item
        if isinstance(found, Explainer):
            found.cost(Size((1, 16, 16)))
        return found if not isinstance(found, Wrapper) or found.signed is not None else None
    except (VeracityError, TypeError):
        return None


def facts(item: Any, example: Any) -> Iterator[tuple[str, str]]:
    """What a component declares about itself, label by label."""
    if isinstance(example, Score):
        yield from score_facts(example)
    if isinstance(example, Measure):
        yield "better", "higher" if example.direction is Direction.HIGHER else "lower"
        yield "range", interval(example.range)
    if isinstance(example, Explainer):
        what = "whole classes" if example.frame is Frame.GLOBAL else f"the {example.frame.value}"
        yield "explains", f"{what}, {'with' if example.signed else 'without'} signs"
        yield "random", "yes" if example.stochastic else "no"
        one, shape = learner(example), Size((1, 16, 16))
        passes = example.cost(shape) if one is None else example.cost(shape) + one.lesson_cost(shape, 1)
        wanted = ["gradients"] if passes.backward else []
        wanted += [need.value for need in sorted(example.needs, key=lambda one: one.value)]
        wanted += [] if example.structured else ["inputs without structure: it takes no graphs or texts"]
        if wanted:
            yield "needs", "; ".join(wanted)
    reference = getattr(item, "reference", "")
    if isinstance(reference, str) and reference:
        yield "reference", reference


def score_facts(score: Score) -> Iterator[tuple[str, str]]:
    """Direction, range and needs of a score; those of its measure may depend on the explanation."""
    try:
        yield "better", score.direction.value
        yield "range", interval(score.bounds)
    except VeracityError:
        yield "better", "as its measure says"
    yield "about", "explanations" if score.reads.value == "explanation" else "the model alone"
    yield "value", "one per data set" if score.pooled else "one per sample"
    wanted = needs(score, Saliency()).words()
    if wanted:
        yield "needs", "; ".join(wanted)
    holds = score.assumption
    if holds is not None:
        yield "assumes", getattr(holds, "assumes", "") or holds.name


def interval(bounds: tuple[float, float]) -> str:
    """A range in words.

    >>> interval((0.0, math.inf)), interval((-1.0, 1.0))
    ('0 and more', '-1 to 1')
    """
    low, high = bounds
    if math.isinf(low) and math.isinf(high):
        return "any number"
    return f"{low:g} and more" if math.isinf(high) else f"at most {high:g}" if math.isinf(low) else f"{low:g} to {high:g}"


def setting_lines(item: Any) -> Iterator[str]:
    """One line per setting: its default, what it may be, and what it means."""
    if not isinstance(item, type):
        function = getattr(item, "function", None)
        if isinstance(item, Measure) and function is not None:
            for name, parameter in list(inspect.signature(function).parameters.items())[2:]:
                yield f"  {name} = {short_repr(parameter.default)}"
        return
    if not is_dataclass(item):
        return
    kinds = declared_parameters(item).kinds
    for one in fields(item):
        if not one.init:
            continue
        words = kinds[one.name].words if one.name in kinds else ""
        about = [text for text in (words if words != "anything" else "", meaning(item, one.name)) if text]
        yield f"  {one.name}{default_of(one)}{': ' if about else ''}{'. '.join(about)}"


def default_of(one: Field[Any]) -> str:
    """ " = default" of a setting; what must be given has none."""
    if one.default is MISSING and one.default_factory is MISSING:
        return " (needed)"
    value = one.default_factory() if one.default_factory is not MISSING else one.default
    if isinstance(value, Component):
        kept = {key: part for key, part in value.spec().items() if key != "name"}
        inner = ", ".join(f"{key}={short_repr(part)}" for key, part in kept.items())
        return f" = {value.name}({inner})"
    return f" = {value.name}" if isinstance(value, Measure) else f" = {short_repr(value)}"


def meaning(item: type, name: str) -> str:
    """The first sentence about a setting in the docstrings of a class and its bases, or what it commonly means.

    >>> from veracity.scores import FaithfulnessCorrelation
    >>> meaning(FaithfulnessCorrelation, "nr_runs")
    'There are `nr_runs` subsets of `subset_size` entries per sample (a share of the entries if it is below 1).'
    """
    for base in item.__mro__:
        text = base.__dict__.get("__doc__") or ""
        if not issubclass(base, Component) or base is Component:
            continue
        for part in re.split(r"\n\s*\n", inspect.cleandoc(text)):
            for sentence in re.split(r"(?<=\.)\s+(?=[A-Z`])", " ".join(part.split())):
                if f"`{name}`" in sentence or re.search(rf"\b{name}=", sentence):
                    return sentence if sentence.endswith(".") else f"{sentence}."
    return COMMON.get(name, "")
