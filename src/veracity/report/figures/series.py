"""Series as lines, coloured by what an explanation says about each moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from veracity.report.figures.pixels import Array

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
