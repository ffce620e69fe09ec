"""Clouds of points, coloured by what an explanation says about each point."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from veracity.report.figures.exhibit import Exhibit, Layout
from veracity.report.figures.pixels import Array, bounds, reach

POINTS = 600
SIZE = 200
LEVELS = 8
SLANT = np.array([[1.0, 0.0], [0.0, -1.0], [0.42, -0.24]])
"""From (x, y, z) to the page: x to the right, y upwards, z away to the upper right."""


def cloud_like(item: Exhibit) -> bool:
    """Whether the input is a cloud whose points its explanations can colour."""
    return item.layout is Layout.POINTS and all(array.shape[:1] == item.input.shape[:1] for array in item.maps)


def panels(item: Exhibit) -> tuple[tuple[Markup, str, str], ...]:
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
    chosen = np.unique(np.linspace(0, len(places) - 1, min(len(places), POINTS)).round().astype(int))
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
