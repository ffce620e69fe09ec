"""The worst samples: input and explanation, before and after the transform, for every kind of explanation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from veracity.core.wording import compact, number
from veracity.report.figures import images
from veracity.report.figures.features import FeatureNames, draw_features
from veracity.report.figures.images import BARS, CHANNELS, PIXELS, Array, Layout
from veracity.report.figures.words import draw_pair
from veracity.report.html import draw
from veracity.report.wording import breakable, in_order
from veracity.results import WorstPair

NAMED = 12
"""More concepts than this are drawn as bars."""
EACH = 4
EACH_OF_SEVERAL = 2
"""How many of each kind, if there are several."""
NUMBERS = 6
"""A transform of more numbers is not spelt out."""


@dataclass(frozen=True, kw_only=True)
class Formulas:
    """The symbols of the perturbed input and of the explanations to compare."""

    moved: str
    expected: str
    found: str


MOVES = Formulas(moved="g x", expected="g e(x)", found="e(g x)")
STAYS = Formulas(moved="g x", expected="e(x)", found="e(g x)")
NEARBY = Formulas(moved="x'", expected="e(x)", found="e(x')")


def formulas_of(score: str, frame: str) -> Formulas:
    """What a score compares, in symbols."""
    if score == "max_sensitivity":
        return NEARBY
    return MOVES if frame == "input" and score in {"equivariance", "symmetry"} else STAYS


def group_names(spec: Any) -> frozenset[str]:
    """Every name in a group's spec, that of a product's factors among them.

    >>> sorted(group_names({"name": "product", "factors": [{"name": "so3"}, {"name": "permutations"}]}))
    ['permutations', 'product', 'so3']
    """

    def names(part: Any) -> Iterator[str]:
        if isinstance(part, Mapping):
            yield from (str(value) for key, value in part.items() if key == "name")
            part = [value for value in part.values() if not isinstance(value, str)]
        if isinstance(part, str):
            yield part
        elif isinstance(part, (list, tuple)):
            for value in part:
                yield from names(value)

    return frozenset(names(spec))


@dataclass(frozen=True, kw_only=True)
class Exhibit:
    """One of the worst pairs: its tensors as arrays, and what to say about it; `names` are those of its concepts, if it has any."""

    model: str
    explainer: str
    frame: str
    names: tuple[str, ...]
    layout: Layout
    formulas: Formulas
    sample: int
    draw: int
    element: Sequence[float]
    value: float
    input: Array
    moved: Array
    explanation: Array
    expected: Array
    found: Array
    features: FeatureNames | None = None
    words: Sequence[str] = ()

    @property
    def mapped(self) -> bool:
        """Whether explanations live where the input lives."""
        return self.frame == "input"

    @property
    def maps(self) -> tuple[Array, Array, Array]:
        """The three explanations, which share one scale."""
        return self.explanation, self.expected, self.found

    @property
    def table(self) -> FeatureNames | None:
        """The features of a table's row, if its explanations have a number for each of its values."""
        fits = self.features is not None and self.mapped and self.features.fits(self.input, self.moved, *self.maps)
        return self.features if fits else None

    @property
    def text(self) -> bool:
        """Whether explanations have a number for each word of a text."""
        return bool(self.words) and self.mapped and all(array.ndim == 1 and len(array) >= len(self.words) for array in self.maps)

    @property
    def cloud(self) -> bool:
        """Whether the input is a cloud whose points its explanations can colour."""
        return self.layout is Layout.POINTS and all(array.shape[:1] == self.input.shape[:1] for array in self.maps)

    @property
    def coloured(self) -> bool:
        """Whether the input itself, a cloud or a series, can carry the colours of its explanations."""
        if self.table is not None or self.text:
            return False
        if not self.mapped or self.layout is not Layout.SERIES:
            return self.mapped and self.cloud
        channels, length = np.atleast_2d(self.input).shape
        shapes = [np.atleast_2d(array).shape for array in self.maps]
        return all(len(shape) == 2 and shape[1] == length and shape[0] in {1, channels} for shape in shapes)


def exhibit(
    item: WorstPair,
    *,
    score: str,
    frame: str,
    names: Sequence[str],
    groups: frozenset[str],
    features: FeatureNames | None = None,
    words: Sequence[str] = (),
) -> Exhibit:
    """A pair with its tensors as arrays."""
    arrays: dict[str, Any] = {name: images.to_array(getattr(item, name)) for name in ("input", "moved", "explanation", "expected", "found")}
    return Exhibit(
        **{name: getattr(item, name) for name in ("model", "explainer", "sample", "draw", "element", "value")},
        **arrays,
        frame=frame,
        names=tuple(names),
        layout=images.layout_of(arrays["input"], groups),
        formulas=formulas_of(score, frame),
        features=features,
        words=words,
    )


@dataclass(frozen=True, kw_only=True)
class GalleryData:
    """Exhibits by model, in the order in which they came."""

    models: tuple[tuple[str, tuple[Exhibit, ...]], ...]

    @property
    def exhibits(self) -> tuple[Exhibit, ...]:
        """The exhibits of all models."""
        return tuple(item for _, items in self.models for item in items)


def gallery_data(
    worst: Sequence[WorstPair],
    order: Mapping[str, Sequence[str]],
    *,
    score: str = "equivariance",
    frames: Mapping[str, str] | None = None,
    concepts: Mapping[tuple[str, str], Sequence[str]] | None = None,
    groups: frozenset[str] = frozenset(),
    each: int | None = None,
    features: FeatureNames | None = None,
    words: Sequence[Sequence[str]] = (),
) -> GalleryData:
    """The worst pair of each model's worst explainers, which `order` lists worst first.

    Kinds of explanations, by the `frames` of explainers, follow one another; `groups` names what acts on the inputs, and
    `concepts` those of a (model, explainer), `features` those of a table, and `words` those of each text.
    """
    first = {(item.model, item.explainer): item for item in reversed(worst)}
    kinds = {label: (frames or {}).get(label, "input") for names in order.values() for label in names}
    present = in_order(kinds.values())
    limit = each or (EACH if len(present) == 1 else EACH_OF_SEVERAL)
    held = []
    for model, names in order.items():
        chosen = [label for kind in present for label in [name for name in names if kinds[name] == kind and (model, name) in first][:limit]]
        shown = tuple(
            exhibit(
                first[model, label],
                score=score,
                frame=kinds[label],
                names=(concepts or {}).get((model, label), ()),
                groups=groups,
                features=features,
                words=words[first[model, label].sample] if first[model, label].sample < len(words) else (),
            )
            for label in chosen
        )
        held += [(model, shown)] if shown else []
    return GalleryData(models=tuple(held))


def gallery_notes(data: GalleryData) -> list[str]:
    """What the pictures leave out, if anything."""
    shown = data.exhibits
    pictures, series, rows = ([item for item in shown if item.layout is kind] for kind in (Layout.PICTURE, Layout.SERIES, Layout.ROWS))
    mapped = [array for item in shown if item.mapped for array in item.maps]
    channels = [item.input for item in series] + [array for item in series if item.mapped for array in item.maps]
    sides = [max(array.shape[1:]) for array in [*(item.input for item in pictures), *mapped] if array.ndim == 3]
    said = {
        "Inputs with neither one nor three channels are shown as the mean of their channels.": [
            item for item in pictures if item.input.shape[0] not in {1, 3}
        ],
        "Explanations are summed over the channels for display; the score compares every channel.": [
            array for array in mapped if array.ndim == 3 and array.shape[0] > 1
        ],
        f"Pictures of more than {PIXELS} pixels a side are averaged down for display.": [side for side in sides if side > PIXELS],
        f"Of more than {CHANNELS} channels, the {CHANNELS} with the largest attribution are drawn.": [
            array for array in channels if array.ndim == 2 and len(array) > CHANNELS
        ],
        "Matrices are drawn row by row without their empty rows, one row per node, point or token.": rows,
        f"Of matrices with more than {PIXELS} columns, each row's sum is drawn.": [item for item in rows if item.input.shape[1] > PIXELS],
        "Points are coloured by the sum over their coordinates.": [item for item in shown if item.mapped and item.cloud],
        f"Of more than {BARS} numbers, the {BARS} with the largest magnitude are drawn.": [
            item for item in shown if not item.mapped and item.expected.ndim == 1 and len(item.expected) > BARS
        ],
    }
    return [note for note, found in said.items() if found]


def draw_gallery(items: Sequence[Exhibit], digits: int = 3) -> Markup:
    """Exhibits of one model as HTML: those alike in form together, pictures in rows under one another, panels in columns."""
    return Markup("").join(
        Markup('<div class="{}">{}</div>').format(
            "gallery columns" if panels else "gallery", Markup("").join(draw_exhibit(item, digits) for item in alike)
        )
        for panels, alike in groupby(items, key=lambda item: item.coloured)
    )


def draw_exhibit(item: Exhibit, digits: int) -> Markup:
    """One card: the facts, and the pictures that suit the shape of the tensors."""
    element = f", g = ({', '.join(map(compact, item.element))})" if 0 < len(item.element) <= NUMBERS else ""
    facts = Markup(
        '<div class="facts"><strong>{}</strong><span class="score">{}</span><span>sample {}</span><span>draw {}{}</span></div>'
    ).format(breakable(item.explainer), number(item.value, digits), item.sample, item.draw, element)
    if item.table is not None:
        css, drawing = "named", draw_features(item.table, item.input, item.moved, item.expected, item.found, item.formulas)
    elif item.text:
        css, drawing = "named", draw_pair(item.words, item.expected, item.found, item.formulas)
    elif item.coloured:
        css, drawing = "lines" if item.layout is Layout.SERIES else "cloudy", draw_coloured(item)
    else:
        css, drawing = ("tiles", draw_tiles(item)) if item.mapped else ("apart", draw_vectors(item))
    return Markup('<article class="exhibit {}">{}{}</article>').format(css, facts, drawing)


def draw_coloured(item: Exhibit) -> Markup:
    """Three panels: the input coloured by its explanation, and the moved input coloured by the expected and by the found one."""
    low, high = images.bounds(item.input, item.moved)
    series, formulas = item.layout is Layout.SERIES, item.formulas
    maps = [np.atleast_2d(array) if series else array.reshape(len(array), -1).sum(axis=1) for array in item.maps]
    scale, before, after = images.reach(*maps), np.atleast_2d(item.input), np.atleast_2d(item.moved)
    channels = images.loudest(maps, len(before)) if series else ()
    panels = (
        (before, maps[0], "input by its explanation", "x, e(x)"),
        (after, maps[1], "moved input, expected", f"{formulas.moved}, {formulas.expected}"),
        (after, maps[2], "moved input, found", f"{formulas.moved}, {formulas.found}"),
    )
    parts = []
    for values, colours, name, formula in panels:
        if series:
            drawing = images.draw_series(images.series_data(values, colours, low=low, high=high, scale=scale, channels=channels), name)
        else:
            drawing = images.draw_points(values, colours / scale, low, high, name)
        parts.append(images.tile(drawing, name, formula, "panel"))
    return Markup("").join(parts)


def draw_tiles(item: Exhibit) -> Markup:
    """Five tiles; inputs share one scale and explanations another."""
    low, high = images.bounds(item.input, item.moved)
    shown = occupied_rows(item)
    before, after = (array if shown is None else array[shown] for array in (item.input, item.moved))
    maps = [images.one_map(array, item.layout, shown) for array in item.maps]
    scale, layout, formulas = images.reach(*maps), item.layout, item.formulas
    tiles = [
        images.tile(images.draw_input(before, layout, low, high, "input"), "input", "x", "input"),
        images.tile(images.draw_map(maps[0], layout, scale, "explanation"), "explanation", "e(x)", "explanation"),
        images.tile(images.draw_input(after, layout, low, high, "moved input"), "moved input", formulas.moved, "moved"),
        images.tile(images.draw_map(maps[1], layout, scale, "expected"), "expected", formulas.expected, "expected"),
        images.tile(images.draw_map(maps[2], layout, scale, "found"), "found", formulas.found, "found"),
    ]
    return Markup("").join(tiles)


def occupied_rows(item: Exhibit) -> NDArray[np.bool_] | None:
    """The rows of a matrix that are not all zero before and after; rows without a node have nothing to show."""
    arrays = (item.input, item.moved, *item.maps)
    if item.layout is not Layout.ROWS or any(array.ndim != 2 or len(array) != len(item.input) for array in arrays):
        return None
    used = np.any([(array != 0).any(axis=1) for array in arrays], axis=0)
    return np.asarray(used) if used.any() else None


def draw_vectors(item: Exhibit) -> Markup:
    """The input before and after, and what should have stayed the same: concepts as a table, other vectors as bars, the rest in words."""
    low, high = images.bounds(item.input, item.moved)
    expected, found, formulas = item.expected, item.found, item.formulas
    if item.frame == "concepts" and expected.ndim == 1 and len(expected) <= NAMED:
        pair = draw_concepts(item)
    else:
        drawings = (images.words(expected, "expected"), images.words(found, "found"))
        if expected.ndim == 1 and expected.shape == found.shape and len(expected):
            shown = images.largest((expected, found))
            scale = images.reach(expected[shown], found[shown])
            drawings = (images.draw_bars(expected[shown], scale, "expected"), images.draw_bars(found[shown], scale, "found"))
        pair = images.tile(drawings[0], "expected", formulas.expected, "bar") + images.tile(drawings[1], "found", formulas.found, "bar")
    return (
        images.tile(images.draw_input(item.input, item.layout, low, high, "input"), "input", "x", "input")
        + images.tile(images.draw_input(item.moved, item.layout, low, high, "moved input"), "moved input", formulas.moved, "moved")
        + Markup('<div class="vectors">{}</div>').format(pair)
    )


def draw_concepts(item: Exhibit) -> Markup:
    """One row per concept; those that changed stand out."""
    names = item.names if len(item.names) == len(item.expected) else tuple(f"concept {place + 1}" for place in range(len(item.expected)))
    lines = [(name, number(before, 2), number(after, 2)) for name, before, after in zip(names, item.expected, item.found, strict=True)]
    return draw("concepts", lines, item.formulas)
