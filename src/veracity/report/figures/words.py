"""Explanations of texts: the words of a sample in a line, each on a background in the colour of its attribution."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from veracity.core.errors import StoreError
from veracity.core.scores import Array
from veracity.report.figures.images import reach
from veracity.report.html import draw
from veracity.results import Result

FIRST = 3
"""How many texts are shown with all explainers."""
DECIMALS = 6
"""Values that need more are written with an exponent."""


@dataclass(frozen=True, kw_only=True)
class WordLine:
    """A text under a label: its words, the attribution of each as a share of the largest, from -1 to 1, and in digits.

    `left` words are cut. Attributions that are not `signed` say how much a word matters, not for which class.
    """

    label: str
    words: tuple[str, ...]
    shares: tuple[float, ...]
    values: tuple[str, ...]
    left: int = 0
    signed: bool = True


def word_line(label: str, words: Sequence[str], values: Array, scale: float | None = None, left: int = 0, signed: bool = True) -> WordLine:
    """Words with their values (U,), of which those of the padding come last; `scale` gets the full colour.

    >>> line = word_line("gradient", ["a", "dull"], np.array([1.0, -2.0, 0.0]))
    >>> line.shares, line.values
    ((0.5, -1.0), ('1.00', '−2.00'))
    """
    mine = np.nan_to_num(values[: len(words)])
    top = scale or float(np.abs(mine).max(initial=0.0)) or 1.0
    shares = tuple(np.clip(mine / top, -1.0, 1.0).round(3).tolist())
    return WordLine(label=label, words=tuple(words), shares=shares, values=digits(values[: len(words)], top), left=left, signed=signed)


def digits(values: Array, top: float) -> tuple[str, ...]:
    """Numbers with as many decimals as show three digits of the largest."""
    places = 2 - math.floor(math.log10(top))
    form = f".{max(places, 0)}f" if places <= DECIMALS else ".1e"
    return tuple(f"{value:{form}}".replace("-", "\N{MINUS SIGN}") if math.isfinite(value) else "?" for value in values.tolist())


@dataclass(frozen=True, kw_only=True)
class Text:
    """One sample of a model, with one line per explainer; `about` are its classes, such as ("predicted", "spam")."""

    sample: int
    lines: tuple[WordLine, ...]
    about: tuple[tuple[str, str], ...] = ()


def words_kept(manifest: Mapping[str, Any]) -> list[list[str]]:
    """The words of a run's first texts, as its manifest has them."""
    return (manifest.get("data") or {}).get("words") or []


def word_data(run: Result, model: str) -> tuple[Text, ...]:
    """The first texts with what every explainer says about their words; controls are left out."""
    kept, length = words_kept(run.manifest), (run.manifest.get("data") or {}).get("shape")
    cells = [cell for cell in run.manifest["cells"] if cell["model"] == model and cell["frame"] == "input" and not cell["control"]]
    maps: dict[str, Array] = {}
    for label in dict.fromkeys(cell["explainer"] for cell in cells if cell["explainer"]) if kept else ():
        try:
            found = run.explanations(model, label)
        except StoreError:
            continue
        if list(found.shape[1:]) == length:
            maps[label] = found[:FIRST].double().numpy()
    texts, signs = [], {cell["explainer"]: bool(cell["signed"]) for cell in cells}
    classes: Mapping[str, Sequence[str]] = ((run.manifest.get("models") or {}).get(model) or {}).get("classes") or {}
    for sample in range(min(FIRST, len(kept), *map(len, maps.values())) if maps else 0):
        lines = (
            word_line(label, kept[sample], values[sample], left=cut(kept[sample], values[sample]), signed=signs[label])
            for label, values in maps.items()
        )
        about = tuple((what, names[sample]) for what, names in classes.items() if sample < len(names))
        texts.append(Text(sample=sample, lines=tuple(lines), about=about))
    return tuple(texts)


def cut(words: Sequence[str], values: Array) -> int:
    """How many values beyond the kept words have an attribution."""
    return int(np.count_nonzero(np.nan_to_num(values[len(words) :])))


def draw_words(texts: Sequence[Text]) -> Markup:
    """Texts as HTML, one line per explainer."""
    return draw("texts", texts)


def draw_pair(words: Sequence[str], expected: Array, found: Array, formulas: Any) -> Markup:
    """One text with the expected and with the found attributions, which share one scale."""
    scale = reach(expected, found)
    pairs = ((f"expected {formulas.expected}", expected), (f"found {formulas.found}", found))
    return draw("word_lines", [word_line(label, words, values, scale, cut(words, values)) for label, values in pairs])
