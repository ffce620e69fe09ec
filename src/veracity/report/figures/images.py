"""Arrays as small pictures inside the page: PNG images, bars, clouds of points, and series as lines.

Signed maps use two hues whose opacity grows with the magnitude: zero is the page itself, light or dark. The scale is
symmetric about zero and linear.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from veracity.core.scores import Array
from veracity.report.figures.chart import evenly

BARS = 160
"""More bars than this cannot be told apart."""
BAR_HEIGHT = 44
WIDE = 1000
CHANNELS = 4
"""The most channels of a series that are drawn."""
MOMENTS = 320
"""The most moments of a series that are drawn."""
HEIGHT = 54
SHADES = 8
POINTS = 600
"""The most points of a cloud that are drawn."""
SIZE = 200
SLANT = np.array([[1.0, 0.0], [0.0, -1.0], [0.42, -0.24]])
"""From (x, y, z) to the page: x to the right, y upwards, z away to the upper right."""
POSITIVE = (209, 52, 70)
NEGATIVE = (43, 117, 208)
MISSING = (128, 128, 128)
SATURATION = 99.5
PIXELS = 128
STEPS = 127
HOLE = 255


def to_array(tensor: Tensor) -> Array:
    """A tensor of any device and type as float64."""
    array: Array = tensor.detach().cpu().double().numpy()
    return array


def reach(*maps: Array) -> float:
    """The magnitude that gets the full colour: the 99.5th percentile of |values| over all maps, so that one pixel hides no other.

    >>> reach(np.array([-2.0, 1.0]), np.array([0.5]))
    1.99
    """
    magnitudes = np.concatenate([np.abs(item[np.isfinite(item)]).ravel() for item in maps])
    if not len(magnitudes):
        return 1.0
    high = float(np.percentile(magnitudes, SATURATION)) or float(magnitudes.max())
    return high if high > 0 else 1.0


def bounds(*arrays: Array) -> tuple[float, float]:
    """The range that inputs share: from 0 to 1 if they keep within it, else from the least to the largest."""
    finite = np.concatenate([array[np.isfinite(array)].ravel() for array in arrays])
    if not len(finite):
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    return (0.0, 1.0) if low >= 0 and 0.5 < high <= 1 else (low, high)


def shrink(image: Array, limit: int = PIXELS) -> Array:
    """Averages over square blocks until neither side of (H, W, ...) is longer than the limit.

    >>> shrink(np.arange(4.0).reshape(1, 4), limit=2)
    array([[0.5, 2.5]])
    """
    block = -(-max(image.shape[:2]) // limit)
    if block <= 1:
        return image
    rows, columns = (np.arange(0, side, block) for side in image.shape[:2])
    total = np.add.reduceat(np.add.reduceat(image, rows, axis=0), columns, axis=1)
    height, width = (np.minimum(block, side - starts) for side, starts in zip(image.shape[:2], (rows, columns), strict=True))
    area = (height[:, None] * width[None, :]).astype(np.float64)
    averaged: Array = total / area.reshape(*area.shape, *[1] * (image.ndim - 2))
    return averaged


def signed_png(values: Array, scale: float) -> str:
    """A map (H, W) in two hues, with `scale` as the magnitude of the full colour."""
    small = shrink(values)
    level = np.clip(np.nan_to_num(small / scale), -1.0, 1.0)
    index = np.where(np.isfinite(small), np.rint(level * STEPS) + STEPS, HOLE).astype(np.uint8)
    image = Image.fromarray(index)
    image.putpalette([*NEGATIVE * STEPS, *POSITIVE * (HOLE - STEPS), *MISSING])
    ramp = np.abs(np.arange(HOLE) - STEPS) / STEPS
    opacity = bytes([*np.rint(255 * ramp).clip(0, 255).astype(np.uint8), 90])
    return encode(image, transparency=opacity)


def grey_png(values: Array, low: float, high: float) -> str:
    """A picture (H, W) in greys, larger is lighter, as in the app."""
    level = np.clip((shrink(values) - low) / (high - low if high > low else 1.0), 0.0, 1.0)
    return encode(Image.fromarray(np.rint(255 * np.nan_to_num(level)).astype(np.uint8)))


def colour_png(values: Array, low: float, high: float) -> str:
    """A picture (3, H, W) in its own colours."""
    level = np.clip((shrink(np.moveaxis(values, 0, -1)) - low) / (high - low if high > low else 1.0), 0.0, 1.0)
    return encode(Image.fromarray(np.rint(255 * np.nan_to_num(level)).astype(np.uint8)))


def encode(image: Image.Image, **settings: bytes) -> str:
    """A picture as a data URI."""
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", optimize=True, **settings)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


class Layout(Enum):
    """What the axes of an input mean, as far as drawing goes."""

    PICTURE = "picture"
    SERIES = "series"
    POINTS = "points"
    ROWS = "rows"
    OTHER = "other"


SETS = frozenset({"permutations", "so3", "cube_rotations"})
NODES = "node_permutations"
MOST_CHANNELS = 16
"""A matrix with more rows than this is no series, unless it is longer still."""
LEAST_POINTS = 8
"""A matrix with three columns and at least this many rows is a cloud of points."""


def layout_of(values: Array, groups: frozenset[str] = frozenset()) -> Layout:
    """How to draw an input, from its shape and the groups that act on it: groups tell a set of rows from the channels of a series."""
    if values.size == 0 or values.ndim not in {1, 2, 3}:
        return Layout.OTHER
    if values.ndim != 2:
        return Layout.PICTURE if values.ndim == 3 else Layout.SERIES
    rows, columns = values.shape
    if columns == 3 and NODES not in groups and (rows >= LEAST_POINTS or (groups & SETS and rows > 3)):
        return Layout.POINTS
    return Layout.ROWS if groups & {*SETS, NODES} or (rows > MOST_CHANNELS and columns < rows) else Layout.SERIES


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


def one_map(values: Array, layout: Layout, shown: NDArray[np.bool_] | None) -> Array:
    """An explanation of a picture (C, H, W) as one map (1, H, W), the sum over channels; of a wide matrix its rows' sums."""
    if values.ndim == 3:
        return np.asarray(values.sum(axis=0, keepdims=True))
    rows = values if shown is None else values[shown]
    return np.asarray(rows.sum(axis=1)) if layout is Layout.ROWS and rows.ndim == 2 and rows.shape[1] > PIXELS else rows


def image(source: str, size: Sequence[int], name: str, css: str) -> Markup:
    """A crisp picture of known proportions."""
    return Markup('<img class="{}" src="{}" width="{}" height="{}" alt="{}">').format(css, source, size[1], size[0], name)


def words(values: Array, name: str) -> Markup:
    """A tensor that has no picture."""
    shape = " \N{MULTIPLICATION SIGN} ".join(str(side) for side in values.shape) or "one number"
    return Markup('<div class="shape">{} of shape {}</div>').format(name, shape)


def tile(drawing: Markup, caption: str, formula: str, css: str) -> Markup:
    """A picture with its caption."""
    return Markup('<figure class="{}">{}<figcaption>{} <i>{}</i></figcaption></figure>').format(css, drawing, caption, formula)


def coloured_path(css: str, path: str, opacity: float | None = None) -> Markup:
    """A path in its colour; empty if nothing is on it."""
    shade = "" if opacity is None else Markup(' opacity="{}"').format(opacity)
    return Markup('<path class="{}"{} d="{}"/>').format(css, shade, path) if path else Markup("")


def largest(vectors: tuple[Array, ...], limit: int = BARS) -> Array:
    """Which entries to draw: all, or those with the largest magnitude in any vector, in their order.

    >>> largest((np.array([0.0, 3.0, -1.0]), np.array([2.0, 0.0, 0.0])), limit=2)
    array([0, 1])
    """
    size = np.max([np.nan_to_num(np.abs(vector)) for vector in vectors], axis=0)
    return np.sort(np.argsort(-size, kind="stable")[:limit])


def draw_bars(values: Array, scale: float, label: str) -> Markup:
    """Bars from zero, which lies in the middle if any value is negative and at the bottom if none is; `scale` is the full height."""
    signed, width = bool((values < 0).any()), min(max(round(240 / max(len(values), 1), 1), 1.2), 14)
    level = np.clip(np.nan_to_num(values) / scale, -1.0, 1.0)
    zero, reach = (BAR_HEIGHT / 2, BAR_HEIGHT / 2 - 2) if signed else (BAR_HEIGHT - 2, BAR_HEIGHT - 4)
    place = WIDE * (np.arange(len(values)) + 0.5) / max(len(values), 1)
    bars = [
        coloured_path(css, "".join(f"M{place[i]:.1f} {zero:g}v{-reach * level[i]:.1f}" for i in np.flatnonzero(chosen)))
        for css, chosen in (("positive", level > 0), ("negative", level < 0))
    ]
    frame = (
        '<svg class="series bars" role="img" aria-label="{0}" width="100%" height="{1}" viewBox="0 0 {2} {1}" '
        'preserveAspectRatio="none" style="--w:{3}"><path class="thread" d="M0 {4:g}H{2}"/>{5}</svg>'
    )
    return Markup(frame).format(label, BAR_HEIGHT, WIDE, width, zero, Markup("").join(bars))


def draw_points(places: Array, colour: Array, low: float, high: float, label: str) -> Markup:
    """Points (P, 3) in a slanted view within `low` to `high`, coloured by values (P,) from -1 to 1; of very many, evenly spaced ones."""
    chosen = evenly(len(places), POINTS)
    flat = (np.nan_to_num(places[chosen], nan=low) - (low + high) / 2) / (high - low if high > low else 1.0) @ SLANT
    where = SIZE * (0.5 + 0.47 * flat / (np.abs(SLANT).sum(axis=0).max() / 2))
    level = np.clip(np.nan_to_num(colour[chosen]), -1.0, 1.0)
    shades = np.rint(np.abs(level) * SHADES).astype(int)
    kinds = [("thread", 1.0, shades == 0)]
    for shade in range(1, SHADES + 1):
        kinds += [(css, shade / SHADES, (shades == shade) & sign) for css, sign in (("negative", level < 0), ("positive", level > 0))]
    dots = [coloured_path(css, "".join(f"M{x:.1f} {y:.1f}h0" for x, y in where[mine]), opacity) for css, opacity, mine in kinds]
    frame = '<svg class="series cloud" role="img" aria-label="{0}" width="100%" viewBox="0 0 {1} {1}">{2}</svg>'
    return Markup(frame).format(label, SIZE, Markup("").join(dots))


@dataclass(frozen=True, kw_only=True)
class SeriesData:
    """Up to four channels (C, T) within `low` to `high`, and the attribution of each moment from -1 to 1."""

    values: Array
    colours: Array
    low: float
    high: float


def series_data(values: Array, attribution: Array, *, low: float, high: float, scale: float, channels: Sequence[int]) -> SeriesData:
    """The channels to draw; long series are thinned to evenly spaced moments."""
    chosen = np.ix_(np.array(channels, dtype=np.int64), evenly(values.shape[-1], MOMENTS))
    colours = (np.broadcast_to(attribution, values.shape) / scale)[chosen]
    return SeriesData(values=values[chosen], colours=np.clip(np.nan_to_num(colours), -1.0, 1.0), low=low, high=high)


def loudest(attributions: Sequence[Array], count: int) -> tuple[int, ...]:
    """The channels with the largest attribution in sum, at most four, in their order.

    >>> loudest([np.array([[0.0], [3.0], [1.0], [2.0], [4.0]])], 5)
    (1, 2, 3, 4)
    """
    total = np.sum([np.nan_to_num(np.abs(item)).sum(axis=-1) * np.ones(count) for item in attributions], axis=0)
    return tuple(sorted(int(index) for index in np.argsort(-total, kind="stable")[:CHANNELS]))


def plain_lines(values: Array, name: str) -> Markup:
    """A vector or a few channels as lines without colour."""
    rows = np.atleast_2d(values)
    low, high = bounds(rows)
    return draw_series(series_data(rows, np.zeros_like(rows), low=low, high=high, scale=1.0, channels=loudest([rows], len(rows))), name)


def draw_series(data: SeriesData, label: str) -> Markup:
    """The channels under one another as SVG that stretches to the width it gets: thin lines, and over them one path per shade."""
    count, length = data.values.shape
    span = data.high - data.low if data.high > data.low else 1.0
    x = float(WIDE) * np.arange(length) / max(length - 1, 1)
    heights = 4 + (HEIGHT - 8) * (1 - (np.nan_to_num(data.values, nan=data.low) - data.low) / span) + HEIGHT * np.arange(count)[:, None]
    parts = []
    for y, colour in zip(heights, data.colours, strict=True):
        parts.append(coloured_path("thread", "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x, y, strict=True))))
        middle = (colour[1:] + colour[:-1]) / 2
        shades = np.rint(np.abs(middle) * SHADES).astype(int)
        for shade in range(1, SHADES + 1):
            for css, chosen in (("positive", middle > 0), ("negative", middle < 0)):
                starts = np.flatnonzero(chosen & (shades == shade))
                path = "".join(f"M{x[i]:.1f} {y[i]:.1f}L{x[i + 1]:.1f} {y[i + 1]:.1f}" for i in starts)
                parts.append(coloured_path(css, path, shade / SHADES))
    size = 'width="100%" height="{1}" viewBox="0 0 {2} {1}" preserveAspectRatio="none"'
    frame = f'<svg class="series" role="img" aria-label="{{0}}" {size}>{{3}}</svg>'
    return Markup(frame).format(label, HEIGHT * count, WIDE, Markup("").join(parts))
