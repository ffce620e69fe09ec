"""Arrays as small pictures inside the page: PNG images, bars, and series as lines.

Signed maps use two hues whose opacity grows with the magnitude: zero is the page itself, light or dark. The scale is
symmetric about zero and linear.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

Array = NDArray[np.float64]

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
    """A picture (H, W) in greys, larger is darker, as ink on paper."""
    level = np.clip((shrink(values) - low) / (high - low if high > low else 1.0), 0.0, 1.0)
    return encode(Image.fromarray(np.rint(255 - 235 * np.nan_to_num(level)).astype(np.uint8)))


def colour_png(values: Array, low: float, high: float) -> str:
    """A picture (3, H, W) in its own colours."""
    level = np.clip((shrink(np.moveaxis(values, 0, -1)) - low) / (high - low if high > low else 1.0), 0.0, 1.0)
    return encode(Image.fromarray(np.rint(255 * np.nan_to_num(level)).astype(np.uint8)))


def encode(image: Image.Image, **settings: bytes) -> str:
    """A picture as a data URI."""
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", optimize=True, **settings)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


BAR_HEIGHT = 44
WIDE = 1000
BARS = 160
"""More bars than this cannot be told apart."""


def largest(vectors: tuple[Array, ...], limit: int = BARS) -> Array:
    """Which entries to draw: all, or those with the largest magnitude in any vector, in their order.

    >>> largest((np.array([0.0, 3.0, -1.0]), np.array([2.0, 0.0, 0.0])), limit=2)
    array([0, 1])
    """
    size = np.max([np.nan_to_num(np.abs(vector)) for vector in vectors], axis=0)
    return np.sort(np.argsort(-size, kind="stable")[:limit])


def draw_bars(values: Array, scale: float, label: str) -> Markup:
    """Bars from a line of zero, which lies in the middle if any value is negative and at the bottom if none is; `scale` is full height."""
    signed = bool((values < 0).any())
    level = np.clip(np.nan_to_num(values) / scale, -1.0, 1.0)
    zero, reach = (BAR_HEIGHT / 2, BAR_HEIGHT / 2 - 2) if signed else (BAR_HEIGHT - 2, BAR_HEIGHT - 4)
    place = WIDE * (np.arange(len(values)) + 0.5) / max(len(values), 1)
    paths = []
    for css, chosen in (("positive", level > 0), ("negative", level < 0)):
        path = "".join(f"M{place[i]:.1f} {zero:g}v{-reach * level[i]:.1f}" for i in np.flatnonzero(chosen))
        paths.append(Markup('<path class="{}" d="{}"/>').format(css, path) if path else Markup(""))
    frame = (
        '<svg class="series bars" role="img" aria-label="{0}" width="100%" height="{1}" viewBox="0 0 {2} {1}" '
        'preserveAspectRatio="none" style="--w:{3}"><path class="thread" d="M0 {4:g}H{2}"/>{5}</svg>'
    )
    return Markup(frame).format(
        label, BAR_HEIGHT, WIDE, min(max(round(240 / max(len(values), 1), 1), 1.2), 14), zero, Markup("").join(paths)
    )


CHANNELS = 4
MOMENTS = 320
HEIGHT = 54
LEVELS = 8


@dataclass(frozen=True, kw_only=True)
class SeriesData:
    """Up to four channels (C, T) within `low` to `high`, and the attribution of each moment from -1 to 1."""

    values: Array
    colours: Array
    low: float
    high: float
    channels: tuple[int, ...]


def series_data(values: Array, attribution: Array, *, low: float, high: float, scale: float, channels: Sequence[int]) -> SeriesData:
    """The channels to draw; long series are thinned by picking evenly spaced moments."""
    length = values.shape[-1]
    moments = np.unique(np.linspace(0, length - 1, min(length, MOMENTS)).round().astype(int))
    colours = np.broadcast_to(attribution, values.shape) / scale
    chosen = list(channels)
    return SeriesData(
        values=values[chosen][:, moments],
        colours=np.clip(np.nan_to_num(colours[chosen][:, moments]), -1.0, 1.0),
        low=low,
        high=high,
        channels=tuple(channels),
    )


def loudest(attributions: Sequence[Array], count: int) -> tuple[int, ...]:
    """The channels with the largest attribution in sum, at most four, in their order.

    >>> loudest([np.array([[0.0], [3.0], [1.0], [2.0], [4.0]])], 5)
    (1, 2, 3, 4)
    """
    total = np.sum([np.nan_to_num(np.abs(item)).sum(axis=-1) * np.ones(count) for item in attributions], axis=0)
    return tuple(sorted(int(index) for index in np.argsort(-total, kind="stable")[:CHANNELS]))


def draw_series(data: SeriesData, label: str) -> Markup:
    """The channels under one another as SVG that stretches to the width it gets."""
    count, length = data.values.shape
    span = data.high - data.low if data.high > data.low else 1.0
    across = 1000.0 * np.arange(length) / max(length - 1, 1)
    height = 4 + (HEIGHT - 8) * (1 - (np.nan_to_num(data.values, nan=data.low) - data.low) / span) + HEIGHT * np.arange(count)[:, None]
    lines = Markup("").join(draw_channel(across, height[index], data.colours[index]) for index in range(count))
    frame = (
        '<svg class="series" role="img" aria-label="{}" width="100%" height="{}" viewBox="0 0 1000 {}" preserveAspectRatio="none">{}</svg>'
    )
    return Markup(frame).format(label, HEIGHT * count, HEIGHT * count, lines)


def draw_channel(across: Array, height: Array, colour: Array) -> Markup:
    """A thin line, and over it its coloured parts, one path for each shade."""
    line = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in zip(across, height, strict=True))
    middle = (colour[1:] + colour[:-1]) / 2
    shades = np.rint(np.abs(middle) * LEVELS).astype(int)
    parts = []
    for shade in range(1, LEVELS + 1):
        for css, chosen in (("positive", middle > 0), ("negative", middle < 0)):
            starts = np.flatnonzero(chosen & (shades == shade))
            path = "".join(f"M{across[i]:.1f} {height[i]:.1f}L{across[i + 1]:.1f} {height[i + 1]:.1f}" for i in starts)
            if path:
                parts.append(Markup('<path class="{}" opacity="{}" d="{}"/>').format(css, shade / LEVELS, path))
    return Markup('<path class="thread" d="{}"/>').format(line) + Markup("").join(parts)
