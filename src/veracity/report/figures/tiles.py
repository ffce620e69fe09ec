"""Inputs and explanations as tiles: pictures, heat maps of matrices, lines, or words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from veracity.report.figures.bars import draw_bars
from veracity.report.figures.clouds import draw_points
from veracity.report.figures.exhibit import Exhibit, Layout
from veracity.report.figures.pixels import LIMIT, Array, bounds, colour_png, grey_png, reach, signed_png
from veracity.report.figures.series import draw_series, loudest, series_data


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
    return np.asarray(kept.sum(axis=1)) if layout is Layout.ROWS and kept.ndim == 2 and kept.shape[1] > LIMIT else kept


def tile(drawing: Markup, caption: str, formula: str, css: str) -> Markup:
    """A picture with its caption."""
    return Markup('<figure class="{}">{}<figcaption>{} <i>{}</i></figcaption></figure>').format(css, drawing, caption, formula)


def draw_input(values: Array, layout: Layout, low: float, high: float, name: str) -> Markup:
    """An input as a picture, a heat map, points, or lines; in words if it has no such shape."""
    if layout is Layout.PICTURE and values.shape[0] == 3:
        return image(colour_png(values, low, high), values.shape[1:], name, "colour")
    if layout is Layout.PICTURE:
        return image(grey_png(values.mean(axis=0), low, high), values.shape[1:], name, "grey")
    if layout is Layout.ROWS and 0 < values.shape[1] <= LIMIT:
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
