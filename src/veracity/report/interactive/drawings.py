"""Arrays as plain data that a page draws: pictures, words, named bars, traces, points, or a sentence on what has no picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from veracity.core.scores import Array
from veracity.report.figures import images
from veracity.report.figures.chart import evenly
from veracity.report.figures.features import FeatureNames
from veracity.report.figures.images import Layout

Drawing = dict[str, Any]
SHOWN = 20
"""The most named bars."""


def input_drawing(
    values: Array, layout: Layout, *, words: Sequence[str] = (), features: FeatureNames | None = None, like: Array | None = None
) -> Drawing:
    """An input; `like` is another one that shares its scale."""
    low, high = images.bounds(*(values, *([] if like is None else [like])))
    if words and values.ndim == 1:
        return {"kind": "words", "words": list(words), "shares": [0.0] * len(words)}
    if features is not None and features.fits(values):
        return {"kind": "facts", "names": list(features.names), "values": features.inputs(values)}
    if layout is Layout.PICTURE and values.shape[0] == 3:
        return picture(images.colour_png(values, low, high), values.shape[1:])
    if layout is Layout.PICTURE:
        return picture(images.grey_png(values.mean(axis=0), low, high), values.shape[1:])
    if layout is Layout.ROWS and 0 < values.shape[1] <= images.PIXELS:
        return picture(images.grey_png(values, low, high), values.shape)
    if layout is Layout.POINTS:
        return points(values, np.zeros(len(values)))
    return lines(values) if layout is Layout.SERIES else sentence(values)


def map_drawing(
    values: Array,
    layout: Layout,
    *,
    scale: float | None = None,
    mapped: bool = True,
    places: Array | None = None,
    words: Sequence[str] = (),
    features: FeatureNames | None = None,
    names: Sequence[str] = (),
) -> Drawing:
    """An explanation; `mapped` ones live where the input lives, `scale` gets the full colour, `places` are those of its points."""
    if values.size == 0:
        return sentence(values)
    top = scale or images.reach(values)
    if not mapped:
        return named_bars(values.ravel(), names, top) if values.ndim == 1 else sentence(values)
    if words and values.ndim == 1 and len(values) >= len(words):
        return {"kind": "words", "words": list(words), "shares": shares(values[: len(words)], top)}
    if features is not None and features.fits(values):
        return named_bars(features.sums(values), features.names, scale or 0.0)
    if layout is Layout.POINTS and places is not None and len(places) == len(values):
        sums = values.reshape(len(values), -1).sum(axis=1)
        return points(places, sums / (scale or images.reach(sums)))
    one = images.one_map(values, layout, None)
    if one.ndim == 3:
        return picture(images.signed_png(one[0], scale or images.reach(one)), one.shape[1:])
    if one.ndim == 2 and layout in {Layout.ROWS, Layout.POINTS}:
        return picture(images.signed_png(one, top), one.shape)
    return traces(one, top) if one.ndim in {1, 2} else sentence(values)


def picture(source: str, size: Sequence[int]) -> Drawing:
    """A PNG as a data URI, with its proportions."""
    return {"kind": "picture", "src": source, "width": int(size[1]), "height": int(size[0])}


def lines(values: Array) -> Drawing:
    """Channels (C, T) or one (T,) as lines within their common range."""
    rows = np.atleast_2d(values)
    chosen = rows[: images.CHANNELS, evenly(rows.shape[1], images.MOMENTS)]
    low, high = images.bounds(chosen)
    level = (np.nan_to_num(chosen, nan=low) - low) / (high - low if high > low else 1.0)
    return {"kind": "lines", "rows": level.round(4).tolist(), "left": len(rows) - len(chosen)}


def traces(values: Array, scale: float) -> Drawing:
    """Channels (C, T) or one (T,) as bars from zero, as shares of the scale."""
    rows = np.atleast_2d(values)
    channels = list(images.loudest([rows], len(rows)))
    chosen = rows[channels][:, evenly(rows.shape[1], images.MOMENTS)]
    return {"kind": "traces", "rows": [shares(row, scale) for row in chosen], "left": len(rows) - len(chosen)}


def points(places: Array, colours: Array) -> Drawing:
    """Points (P, 3) in a slanted view within the unit square, with colours from -1 to 1."""
    chosen = evenly(len(places), images.POINTS)
    low, high = images.bounds(places)
    flat = (np.nan_to_num(places[chosen], nan=low) - (low + high) / 2) / (high - low if high > low else 1.0) @ images.SLANT
    where = 0.5 + 0.47 * flat / (np.abs(images.SLANT).sum(axis=0).max() / 2)
    return {"kind": "points", "places": where.round(4).tolist(), "shares": shares(colours[chosen], 1.0)}


def named_bars(values: Array, names: Sequence[str], scale: float) -> Drawing:
    """Bars with names or numbers, the largest first; of very many, those."""
    order = np.argsort(-np.nan_to_num(np.abs(values)), kind="stable")[:SHOWN]
    top = scale or float(np.nan_to_num(np.abs(values)).max(initial=0.0)) or 1.0
    titles = [str(names[i]) if i < len(names) else str(i) for i in order.tolist()]
    largest = values[order]
    return {"kind": "bars", "names": titles, "values": finite(largest), "shares": shares(largest, top), "left": len(values) - len(order)}


def sentence(values: Array) -> Drawing:
    """An array that has no picture."""
    shape = " \N{MULTIPLICATION SIGN} ".join(str(side) for side in values.shape) or "one number"
    return {"kind": "none", "text": f"An array of shape {shape}, which has no picture."}


def shares(values: Array, scale: float) -> list[float]:
    """Values as shares of the scale from -1 to 1; undefined ones are 0."""
    return [float(share) for share in np.clip(np.nan_to_num(values / (scale or 1.0)), -1.0, 1.0).round(4)]


def finite(values: Array) -> list[float | None]:
    """Numbers as JSON can hold them."""
    return [float(value) if np.isfinite(value) else None for value in values]
