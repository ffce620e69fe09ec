"""A series three times: by its explanation, and moved by the expected and by the found one."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from veracity.report.figures.exhibit import Exhibit, Layout
from veracity.report.figures.pixels import Array, bounds, reach
from veracity.report.figures.series import draw_series, loudest, series_data


def series_like(item: Exhibit) -> bool:
    """Whether the input is a series that its explanations can colour."""
    return item.layout is Layout.SERIES and all(lines_up(array, item.input) for array in item.maps)


def lines_up(attribution: Array, values: Array) -> bool:
    """Whether an attribution can colour a series: equally long, and one channel or all of them."""
    a, b = np.atleast_2d(attribution), np.atleast_2d(values)
    return attribution.ndim <= 2 and a.shape[-1] == b.shape[-1] and a.shape[0] in {1, b.shape[0]}


def panels(item: Exhibit) -> tuple[tuple[Markup, str, str], ...]:
    """Three drawings with their captions and formulas."""
    before, after = np.atleast_2d(item.input), np.atleast_2d(item.moved)
    low, high = bounds(before, after)
    maps = [np.atleast_2d(array) for array in item.maps]
    scale, channels, formulas = reach(*maps), loudest(maps, len(before)), item.formulas
    drawn = (
        (before, maps[0], "input by its explanation", "x, e(x)"),
        (after, maps[1], "moved input, expected", f"{formulas.moved}, {formulas.expected}"),
        (after, maps[2], "moved input, found", f"{formulas.moved}, {formulas.found}"),
    )
    return tuple(
        (draw_series(series_data(values, colours, low=low, high=high, scale=scale, channels=channels), name), name, formula)
        for values, colours, name, formula in drawn
    )
