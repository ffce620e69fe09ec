"""The worst samples: input and explanation, before and after the transform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from veracity.report.figures.pixels import LIMIT, Array, colour_png, grey_png, reach, signed_png, to_array
from veracity.report.figures.series import CHANNELS, draw_series, loudest, series_data
from veracity.report.view import WorstPair
from veracity.report.wording import compact, number

EACH = 4
CAPTIONS = {
    "input": ("input", "x"),
    "explanation": ("explanation", "e(x)"),
    "moved": ("moved input", "g x"),
    "expected": ("expected", "g e(x)"),
    "found": ("found", "e(g x)"),
}


@dataclass(frozen=True, kw_only=True)
class Exhibit:
    """One of the worst: its tensors as arrays, and what to say about it."""

    model: str
    explainer: str
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
    def maps(self) -> tuple[Array, Array, Array]:
        """The three explanations, which share one scale."""
        return self.explanation, self.expected, self.found


@dataclass(frozen=True, kw_only=True)
class GalleryData:
    """Exhibits by model, in the order in which they came."""

    models: tuple[tuple[str, tuple[Exhibit, ...]], ...]

    @property
    def exhibits(self) -> tuple[Exhibit, ...]:
        """All of them."""
        return tuple(item for _, items in self.models for item in items)


def gallery_data(worst: Sequence[WorstPair], order: Mapping[str, Sequence[str]], each: int = EACH) -> GalleryData:
    """The worst pair of each model's worst explainers, which `order` names worst first, with tensors as arrays."""
    first: dict[tuple[str, str], WorstPair] = {}
    for item in worst:
        first.setdefault((item.model, item.explainer), item)
    held = {model: [first[model, explainer] for explainer in names if (model, explainer) in first] for model, names in order.items()}
    return GalleryData(models=tuple((model, exhibits(pairs[:each])) for model, pairs in held.items() if pairs))


def exhibits(pairs: Sequence[WorstPair]) -> tuple[Exhibit, ...]:
    """Pairs with their tensors as arrays."""
    return tuple(
        Exhibit(
            model=item.model,
            explainer=item.explainer,
            sample=int(item.sample),
            draw=int(item.draw),
            element=tuple(float(number) for number in item.element),
            value=float(item.value),
            input=to_array(item.input),
            moved=to_array(item.moved),
            explanation=to_array(item.explanation),
            expected=to_array(item.expected),
            found=to_array(item.found),
        )
        for item in pairs
    )


def gallery_notes(data: GalleryData) -> list[str]:
    """What the pictures leave out, if anything."""
    notes = []
    if any(item.input.ndim == 3 and item.input.shape[0] not in {1, 3} for item in data.exhibits):
        notes.append("Inputs with neither one nor three channels are shown as the mean of their channels.")
    if any(array.ndim == 3 and array.shape[0] > 1 for item in data.exhibits for array in item.maps):
        notes.append("Explanations are summed over the channels for display; the score compares every channel.")
    if any(array.ndim == 3 and max(array.shape[1:]) > LIMIT for item in data.exhibits for array in (item.input, *item.maps)):
        notes.append(f"Pictures of more than {LIMIT} pixels a side are averaged down for display.")
    if any(array.ndim == 2 and len(array) > CHANNELS for item in data.exhibits for array in (item.input, *item.maps)):
        notes.append(f"Of more than {CHANNELS} channels, the {CHANNELS} with the largest attribution are drawn.")
    return notes


def draw_gallery(items: Sequence[Exhibit], digits: int = 3) -> Markup:
    """Exhibits of one model as HTML: pictures in rows under one another, series in columns."""
    css = "gallery columns" if all(series_like(item) for item in items) else "gallery"
    return Markup('<div class="{}">{}</div>').format(css, Markup("").join(draw_exhibit(item, digits) for item in items))


def series_like(item: Exhibit) -> bool:
    """Whether the input is a series that its explanations can colour."""
    return item.input.ndim in {1, 2} and all(lines_up(array, item.input) for array in item.maps)


def draw_exhibit(item: Exhibit, digits: int) -> Markup:
    """One card: the facts, and the pictures that suit the tensors' shape."""
    facts = Markup(
        '<div class="facts"><strong>{}</strong><span class="score">{}</span><span>sample {}</span><span>draw {}, g = ({})</span></div>'
    ).format(
        breakable(item.explainer), number(item.value, digits), item.sample, item.draw, ", ".join(compact(place) for place in item.element)
    )
    line = series_like(item)
    return Markup('<article class="exhibit {}">{}{}</article>').format(
        "lines" if line else "tiles", facts, draw_lines(item) if line else draw_tiles(item)
    )


def breakable(name: str) -> Markup:
    """A name that may break after an underscore, where there is little room."""
    return Markup("_<wbr>").join(name.split("_"))


def lines_up(attribution: Array, values: Array) -> bool:
    """Whether an attribution can colour a series: equally long, and one channel or all of them."""
    a, b = np.atleast_2d(attribution), np.atleast_2d(values)
    return attribution.ndim <= 2 and a.shape[-1] == b.shape[-1] and a.shape[0] in {1, b.shape[0]}


def draw_lines(item: Exhibit) -> Markup:
    """Three panels: the series by its explanation, and the moved series by the expected and by the found one."""
    before, after = np.atleast_2d(item.input), np.atleast_2d(item.moved)
    low, high = bounds(before, after)
    maps = [np.atleast_2d(array) for array in item.maps]
    scale, channels = reach(*maps), loudest(maps, len(before))
    panels = (
        (before, maps[0], "input by its explanation", "x, e(x)"),
        (after, maps[1], "moved input, expected", "g x, g e(x)"),
        (after, maps[2], "moved input, found", "g x, e(g x)"),
    )
    return Markup("").join(
        tile(draw_series(series_data(values, colours, low=low, high=high, scale=scale, channels=channels), name), name, formula, "panel")
        for values, colours, name, formula in panels
    )


def draw_tiles(item: Exhibit) -> Markup:
    """Five tiles; inputs share one scale and explanations another."""
    low, high = bounds(item.input, item.moved)
    maps = dict(zip(("explanation", "expected", "found"), (flat(array) for array in item.maps), strict=True))
    scale = reach(*maps.values())
    drawn = {
        "input": picture(item.input, low, high, "input"),
        "moved": picture(item.moved, low, high, "moved input"),
        **{name: attribution(array, scale, name) for name, array in maps.items()},
    }
    return Markup("").join(tile(drawn[name], *CAPTIONS[name], name) for name in CAPTIONS)


def flat(values: Array) -> Array:
    """An explanation of a picture (C, H, W) as one map (1, H, W), the sum over channels; others as they are."""
    return values.sum(axis=0, keepdims=True) if values.ndim == 3 else values


def tile(drawing: Markup, caption: str, formula: str, css: str) -> Markup:
    """A picture with its caption."""
    return Markup('<figure class="{}">{}<figcaption>{} <i>{}</i></figcaption></figure>').format(css, drawing, caption, formula)


def bounds(*arrays: Array) -> tuple[float, float]:
    """The range that inputs share: from 0 to 1 if they keep within it, else from the least to the largest."""
    finite = np.concatenate([array[np.isfinite(array)].ravel() for array in arrays])
    if not len(finite):
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    return (0.0, 1.0) if low >= 0 and 0.5 < high <= 1 else (low, high)


def picture(values: Array, low: float, high: float, name: str) -> Markup:
    """An input as a picture, or as lines, or in words if it has no such shape."""
    if values.ndim == 3 and values.shape[0] == 3:
        return image(colour_png(values, low, high), values.shape[1:], name, "colour")
    if values.ndim == 3:
        return image(grey_png(values.mean(axis=0), low, high), values.shape[1:], name, "grey")
    return plain_lines(values, name)


def attribution(values: Array, scale: float, name: str) -> Markup:
    """An explanation as a signed map, or as lines, or in words."""
    if values.ndim == 3:
        return image(signed_png(values[0], scale), values.shape[1:], name, "signed")
    return plain_lines(values, name)


def plain_lines(values: Array, name: str) -> Markup:
    """A vector or a few channels as lines without colour; shapes that fit neither are named instead."""
    if values.ndim not in {1, 2}:
        return Markup('<div class="shape">{} of shape {}</div>').format(
            name, " \N{MULTIPLICATION SIGN} ".join(str(side) for side in values.shape)
        )
    rows = np.atleast_2d(values)
    low, high = bounds(rows)
    data = series_data(rows, np.zeros_like(rows), low=low, high=high, scale=1.0, channels=loudest([rows], len(rows)))
    return draw_series(data, name)


def image(source: str, size: Sequence[int], name: str, css: str) -> Markup:
    """A crisp picture of known proportions."""
    return Markup('<img class="{}" src="{}" width="{}" height="{}" alt="{}">').format(css, source, size[1], size[0], name)
