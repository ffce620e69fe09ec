"""One of the worst pairs as tiles: how its arrays are laid out, and each drawn as a picture, a heat map, a cloud or words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from veracity.report.figures.images import (
    PIXELS,
    Array,
    bounds,
    colour_png,
    draw_bars,
    draw_series,
    grey_png,
    loudest,
    reach,
    series_data,
    signed_png,
    to_array,
)
from veracity.results import WorstPair

CHANNELS = 16
"""A matrix with more rows than this is no series, unless it is longer still."""
POINTS = 8
"""From so many rows of three on, a matrix is a cloud of points."""
SETS = frozenset({"permutations", "so3", "cube_rotations"})
NODES = "node_permutations"


class Layout(Enum):
    """What the axes of an input mean, as far as drawing goes."""

    PICTURE = "picture"
    SERIES = "series"
    POINTS = "points"
    ROWS = "rows"
    OTHER = "other"


@dataclass(frozen=True, kw_only=True)
class Formulas:
    """What the perturbed input and the explanations to compare are called."""

    moved: str
    expected: str
    found: str


MOVES = Formulas(moved="g x", expected="g e(x)", found="e(g x)")
STAYS = Formulas(moved="g x", expected="e(x)", found="e(g x)")
NEARBY = Formulas(moved="x'", expected="e(x)", found="e(x')")


@dataclass(frozen=True, kw_only=True)
class Exhibit:
    """One of the worst: its tensors as arrays, and what to say about it; `names` are those of its concepts, if it has any."""

    model: str
    explainer: str
    frame: str
    names: tuple[str, ...]
    layout: Layout
    formulas: Formulas
    sample: int
    draw: int
    element: tuple[float, ...]
    value: float
    input: Array
    moved: Array
    explanation: Array
    expected: Array
    found: Array

    @property
    def mapped(self) -> bool:
        """Whether explanations live where the input lives."""
        return self.frame == "input"

    @property
    def maps(self) -> tuple[Array, Array, Array]:
        """The three explanations, which share one scale."""
        return self.explanation, self.expected, self.found


def exhibit(item: WorstPair, *, score: str, frame: str, names: Sequence[str], groups: frozenset[str]) -> Exhibit:
    """A pair with its tensors as arrays."""
    x = to_array(item.input)
    return Exhibit(
        model=item.model,
        explainer=item.explainer,
        frame=frame,
        names=tuple(names),
        layout=layout_of(x, groups),
        formulas=formulas_of(score, frame),
        sample=int(item.sample),
        draw=int(item.draw),
        element=tuple(float(number) for number in item.element),
        value=float(item.value),
        input=x,
        moved=to_array(item.moved),
        explanation=to_array(item.explanation),
        expected=to_array(item.expected),
        found=to_array(item.found),
    )


def formulas_of(score: str, frame: str) -> Formulas:
    """What a score compares, in symbols."""
    if score == "max_sensitivity":
        return NEARBY
    return MOVES if frame == "input" and score in {"equivariance", "symmetry"} else STAYS


def layout_of(values: Array, groups: frozenset[str] = frozenset()) -> Layout:
    """How to draw an input, from its shape and the groups that act on it: those tell a set of rows from channels of a series."""
    if values.size == 0 or values.ndim not in {1, 2, 3}:
        return Layout.OTHER
    if values.ndim == 3:
        return Layout.PICTURE
    rows, columns = values.shape if values.ndim == 2 else (1, len(values))
    if values.ndim == 2 and columns == 3 and NODES not in groups and (rows >= POINTS or (groups & SETS and rows > 3)):
        return Layout.POINTS
    tall = rows > CHANNELS and columns < rows
    return Layout.ROWS if values.ndim == 2 and (groups & SETS or NODES in groups or tall) else Layout.SERIES


def group_names(spec: Any) -> frozenset[str]:
    """Every name in a group's spec, that of a product's factors among them.

    >>> sorted(group_names({"name": "product", "factors": [{"name": "so3"}, {"name": "permutations"}]}))
    ['permutations', 'product', 'so3']
    """
    return frozenset(found_names(spec))


def found_names(spec: Any) -> Iterator[str]:
    """The names in plain data, at any depth."""
    if isinstance(spec, str):
        yield spec
    elif isinstance(spec, Mapping):
        yield from (str(value) for key, value in spec.items() if key == "name")
        for value in spec.values():
            yield from found_names(value) if not isinstance(value, str) else ()
    elif isinstance(spec, (list, tuple)):
        for value in spec:
            yield from found_names(value)


DRAWN = 600
SIZE = 200
LEVELS = 8
SLANT = np.array([[1.0, 0.0], [0.0, -1.0], [0.42, -0.24]])
"""From (x, y, z) to the page: x to the right, y upwards, z away to the upper right."""


def cloud_like(item: Exhibit) -> bool:
    """Whether the input is a cloud whose points its explanations can colour."""
    return item.layout is Layout.POINTS and all(array.shape[:1] == item.input.shape[:1] for array in item.maps)


def cloud_panels(item: Exhibit) -> tuple[tuple[Markup, str, str], ...]:
    """Three clouds: the input by its explanation, and the moved input by the expected and by the found one."""
    low, high = bounds(item.input, item.moved)
    maps = [array.reshape(len(array), -1).sum(axis=1) for array in item.maps]
    scale, formulas = reach(*maps), item.formulas
    clouds = (
        (item.input, maps[0], "input by its explanation", "x, e(x)"),
        (item.moved, maps[1], "moved input, expected", f"{formulas.moved}, {formulas.expected}"),
        (item.moved, maps[2], "moved input, found", f"{formulas.moved}, {formulas.found}"),
    )
    return tuple((draw_points(places, colour / scale, low, high, name), name, formula) for places, colour, name, formula in clouds)


def draw_points(places: Array, colour: Array, low: float, high: float, label: str) -> Markup:
    """Points (P, 3) in a slanted view within `low` to `high`, coloured by values (P,) from -1 to 1; of very many, evenly spaced ones."""
    chosen = np.unique(np.linspace(0, len(places) - 1, min(len(places), DRAWN)).round().astype(int))
    span = high - low if high > low else 1.0
    flat = (np.nan_to_num(places[chosen], nan=low) - (low + high) / 2) / span @ SLANT
    corner = np.abs(SLANT).sum(axis=0).max() / 2
    where = SIZE * (0.5 + 0.47 * flat / corner)
    level = np.clip(np.nan_to_num(colour[chosen]), -1.0, 1.0)
    shades = np.rint(np.abs(level) * LEVELS).astype(int)
    parts = [dots(where[shades == 0], "thread", 1.0)]
    for shade in range(1, LEVELS + 1):
        parts += [
            dots(where[(shades == shade) & sign], css, shade / LEVELS) for css, sign in (("negative", level < 0), ("positive", level > 0))
        ]
    frame = '<svg class="series cloud" role="img" aria-label="{0}" width="100%" viewBox="0 0 {1} {1}">{2}</svg>'
    return Markup(frame).format(label, SIZE, Markup("").join(parts))


def dots(where: Array, css: str, opacity: float) -> Markup:
    """Points of one shade as one path."""
    path = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in where)
    return Markup('<path class="{}" opacity="{}" d="{}"/>').format(css, opacity, path) if path else Markup("")


def draw_tiles(item: Exhibit) -> Markup:
    """Five tiles; inputs share one scale and explanations another."""
    low, high = bounds(item.input, item.moved)
    shown = occupied(item)
    inputs = (item.input, item.moved) if shown is None else (item.input[shown], item.moved[shown])
    maps = [one_map(array, item.layout, shown) for array in item.maps]
    scale = reach(*maps)
    formulas = item.formulas
    tiles = [
        tile(draw_input(inputs[0], item.layout, low, high, "input"), "input", "x", "input"),
        tile(draw_map(maps[0], item.layout, scale, "explanation"), "explanation", "e(x)", "explanation"),
        tile(draw_input(inputs[1], item.layout, low, high, "moved input"), "moved input", formulas.moved, "moved"),
        tile(draw_map(maps[1], item.layout, scale, "expected"), "expected", formulas.expected, "expected"),
        tile(draw_map(maps[2], item.layout, scale, "found"), "found", formulas.found, "found"),
    ]
    return Markup("").join(tiles)


def occupied(item: Exhibit) -> NDArray[np.bool_] | None:
    """Of a matrix, the rows that are not zero throughout, before or after: slots without a node have nothing to show."""
    alike = all(array.shape[:1] == item.input.shape[:1] and array.ndim == 2 for array in (item.moved, *item.maps))
    if item.layout is not Layout.ROWS or not alike:
        return None
    used = np.asarray([(array != 0).any(axis=1) for array in (item.input, item.moved, *item.maps)])
    return np.asarray(used.any(axis=0)) if used.any() else None


def one_map(values: Array, layout: Layout, shown: NDArray[np.bool_] | None) -> Array:
    """An explanation of a picture (C, H, W) as one map (1, H, W), the sum over channels; of a wide matrix its rows' sums."""
    if values.ndim == 3:
        return np.asarray(values.sum(axis=0, keepdims=True))
    kept = values if shown is None else values[shown]
    return np.asarray(kept.sum(axis=1)) if layout is Layout.ROWS and kept.ndim == 2 and kept.shape[1] > PIXELS else kept


def tile(drawing: Markup, caption: str, formula: str, css: str) -> Markup:
    """A picture with its caption."""
    return Markup('<figure class="{}">{}<figcaption>{} <i>{}</i></figcaption></figure>').format(css, drawing, caption, formula)


def draw_input(values: Array, layout: Layout, low: float, high: float, name: str) -> Markup:
    """An input as a picture, a heat map, points, or lines; in words if it has no such shape."""
    if layout is Layout.PICTURE and values.shape[0] == 3:
        return image(colour_png(values, low, high), values.shape[1:], name, "colour")
    if layout is Layout.PICTURE:
        return image(grey_png(values.mean(axis=0), low, high), values.shape[1:], name, "grey")
    if layout is Layout.ROWS and 0 < values.shape[1] <= PIXELS:
        return image(grey_png(values, low, high), values.shape, name, "grey sheet")
    if layout is Layout.POINTS:
        return draw_points(values, np.zeros(len(values)), low, high, name)
    return plain_lines(values, name) if layout is Layout.SERIES else words(values, name)


def draw_map(values: Array, layout: Layout, scale: float, name: str) -> Markup:
    """An explanation as a signed map, bars, or lines; in words if it has no such shape."""
    if values.size == 0:
        return words(values, name)
    if values.ndim == 3:
        return image(signed_png(values[0], scale), values.shape[1:], name, "signed")
    if values.ndim == 2 and layout in {Layout.ROWS, Layout.POINTS}:
        return image(signed_png(values, scale), values.shape, name, "signed sheet")
    if values.ndim == 1 and layout is Layout.ROWS:
        return draw_bars(values, scale, name)
    return plain_lines(values, name) if values.ndim in {1, 2} else words(values, name)


def plain_lines(values: Array, name: str) -> Markup:
    """A vector or a few channels as lines without colour."""
    rows = np.atleast_2d(values)
    low, high = bounds(rows)
    data = series_data(rows, np.zeros_like(rows), low=low, high=high, scale=1.0, channels=loudest([rows], len(rows)))
    return draw_series(data, name)


def words(values: Array, name: str) -> Markup:
    """A tensor that has no picture."""
    shape = " \N{MULTIPLICATION SIGN} ".join(str(side) for side in values.shape) or "one number"
    return Markup('<div class="shape">{} of shape {}</div>').format(name, shape)


def image(source: str, size: Sequence[int], name: str, css: str) -> Markup:
    """A crisp picture of known proportions."""
    return Markup('<img class="{}" src="{}" width="{}" height="{}" alt="{}">').format(css, source, size[1], size[0], name)
