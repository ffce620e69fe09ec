"""Names, kinds and table cells in words, and sentences whose parts are escaped."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup, escape

from veracity.core.registry import SCORES
from veracity.core.sentences import template_for

FRAMES = {
    "input": "Feature maps",
    "training set": "Examples",
    "concepts": "Concepts",
    "output": "Outputs",
    "global": "Whole models",
    "features": "Features of a layer",
}
"""What explanations are called by the frame in which they live, in the order of the page."""

ARROWS = {"higher": "\N{UPWARDS ARROW}", "lower": "\N{DOWNWARDS ARROW}"}
"""Which way is better."""

GUIDELINES = {
    1: "A feature map moves along with its input only if the baseline that the input is held against stays the same under the transforms.",
    2: "Examples ranked by the loss keep still by themselves; examples ranked by a representation do so on an invariant layer alone.",
    3: "Concept classifiers keep still on an invariant layer.",
    4: "Any explanation can be made symmetric by its mean over transforms; take as many as the target needs, and no more.",
    5: "An explainer that is robust on an invariant model may fail on one that is only nearly invariant: measure it there.",
}
"""The five guidelines of Crabbé and van der Schaar (2023), each in a sentence."""


def frame_title(frame: str) -> str:
    """What explanations of a frame are called.

    >>> frame_title("training set"), frame_title("folds")
    ('Examples', 'Folds')
    """
    return FRAMES.get(frame) or frame.capitalize() or "Other"


def in_order(frames: Iterable[str]) -> list[str]:
    """Frames, each once, in the order of the page; unknown ones last.

    >>> in_order(["concepts", "folds", "input", "concepts"])
    ['input', 'concepts', 'folds']
    """
    known = list(FRAMES)
    return sorted(dict.fromkeys(frames), key=lambda frame: known.index(frame) if frame in known else len(known))


def title_of(score: str) -> str:
    """A score's name as a heading.

    >>> title_of("model_invariance"), title_of("fast_gef"), title_of("RIS, no floor")
    ('Model invariance', 'Fast-GEF', 'RIS, no floor')
    >>> title_of("ln_p_f_hat, r = .1")
    'ln P of F-hat, r = .1'
    """
    text = word_of(score)
    return text if text.startswith("ln ") else text[:1].upper() + text[1:]


def word_of(score: str) -> str:
    """A score's name within a sentence.

    >>> word_of("model_invariance"), word_of("fast_gef")
    ('model invariance', 'Fast-GEF')
    >>> word_of("sol_f_hat at r = 0.1")
    'sol F-hat at r = 0.1'
    """
    known = re.split(r"\W", score, maxsplit=1)[0]
    title = SCORES[known].title if known in SCORES else ""
    return title + score[len(known) :] if title else score.replace("_", " ")


def say(key: str, *parts: object, **found: int) -> Markup:
    """A sentence of the table with its parts, escaped unless they are markup; empty if the data are fewer than it needs."""
    return piece(template_for(key, **found), *parts)


def piece(template: str, *parts: object) -> Markup:
    """A part of a sentence, whose own parts are escaped unless they are markup."""
    return Markup(template).format(*parts)


def sentences(*said: Markup) -> list[Markup]:
    """The sentences that are not empty."""
    return [one for one in said if one]


def name(text: str) -> Markup:
    """A user's word in a sentence, set apart."""
    return piece('<span class="id">{}</span>', text)


def where(model: str, models: Sequence[str]) -> Markup:
    """ " on" a model, within a sentence; nothing if it is the only one."""
    return piece(" on {}", name(model)) if len(models) > 1 else Markup("")


def breakable(name: str) -> Markup:
    """A name that may go on in a new line after each underscore, and nowhere else.

    >>> breakable("random_uniform")
    Markup('random_<wbr/>uniform')
    """
    return escape(name).replace("_", Markup("_<wbr/>"))


def capital(text: str) -> str:
    """A sentence with a capital first; one that begins with an identifier stays as it is.

    >>> capital("masked values become 0."), capital("my_map is random.")
    ('Masked values become 0.', 'my_map is random.')
    """
    return text[:1].upper() + text[1:] if text.split(" ", 1)[0].isalpha() else text


def listing(parts: Iterable[Markup], link: str = "and") -> Markup:
    """Parts with commas and a link before the last; nothing of no parts.

    >>> print(listing([Markup("a"), Markup("b"), Markup("c")], "or"))
    a, b or c
    """
    found = list(parts)
    return piece("{} {} {}", Markup(", ").join(found[:-1]), link, found[-1]) if len(found) > 1 else Markup("").join(found)


Specs = Mapping[str, Mapping[str, Any]]


def specs_of(explainers: Any) -> dict[str, Mapping[str, Any]]:
    """The specs {label: {"name": ...}} of a run's explainers, if it has any."""
    given = explainers if isinstance(explainers, Mapping) else {}
    return {str(label): spec for label, spec in given.items() if isinstance(spec, Mapping)}


def as_json(value: Any) -> str:
    """Plain data as text, so that any two can be compared."""
    return json.dumps(value, sort_keys=True, default=str)


def families(specs: Specs) -> dict[str, dict[int | None, str]]:
    """Symmetrised explainers by what is inside them, then by their number of draws: {(inner, space) as text: {draws: label}}.

    >>> families({"a": {"name": "symmetrised", "explainer": "cav", "draws": 4}, "b": {"name": "cav"}})
    {'[{"name": "cav"}, null]': {4: 'a'}}
    """
    found: dict[str, dict[int | None, str]] = {}
    for label, spec in specs.items():
        given = spec.get("explainer")
        inner = {"name": given} if isinstance(given, str) else given
        if spec.get("name") == "symmetrised" and isinstance(inner, Mapping):
            found.setdefault(as_json([inner, spec.get("space")]), {}).setdefault(spec.get("draws"), label)
    return found


def bare_label(inner: Mapping[str, Any], specs: Specs) -> str:
    """The explainer of the run that is what is inside: the same in every setting, or the only one in all that were given."""
    same = [label for label, spec in specs.items() if as_json(spec) == as_json(inner)]
    like = [label for label, spec in specs.items() if all(name in spec and spec[name] == value for name, value in inner.items())]
    return same[0] if same else like[0] if len(like) == 1 else ""


def relatives(specs: Specs) -> list[tuple[str, ...]]:
    """The explainers that differ only in how many transforms they average over: they learnt the same."""
    bare = {inner: bare_label(json.loads(inner)[0], specs) for inner in families(specs)}
    return [(*filter(None, [bare[inner]]), *members.values()) for inner, members in families(specs).items()]


def missing(value: Any) -> bool:
    """Whether a cell of a table is empty.

    >>> missing(None), missing(float("nan")), missing("")
    (True, True, False)
    """
    return value is None or value is pd.NA or (isinstance(value, (float, np.floating)) and math.isnan(value))


def as_number(value: Any) -> float:
    """A cell as a number, NaN if it is empty."""
    return math.nan if missing(value) else float(value)


def as_text(value: Any) -> str:
    """A cell as a text, "" if it is empty."""
    return "" if missing(value) else str(value)
