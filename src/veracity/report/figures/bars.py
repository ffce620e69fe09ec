"""A vector as bars on a common scale."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from veracity.report.figures.pixels import Array

HEIGHT = 44
WIDE = 1000
LIMIT = 160
"""More bars than this cannot be told apart."""


def largest(vectors: tuple[Array, ...], limit: int = LIMIT) -> Array:
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
    zero, reach = (HEIGHT / 2, HEIGHT / 2 - 2) if signed else (HEIGHT - 2, HEIGHT - 4)
    place = WIDE * (np.arange(len(values)) + 0.5) / max(len(values), 1)
    paths = []
    for css, chosen in (("positive", level > 0), ("negative", level < 0)):
        path = "".join(f"M{place[i]:.1f} {zero:g}v{-reach * level[i]:.1f}" for i in np.flatnonzero(chosen))
        paths.append(Markup('<path class="{}" d="{}"/>').format(css, path) if path else Markup(""))
    frame = (
        '<svg class="series bars" role="img" aria-label="{0}" width="100%" height="{1}" viewBox="0 0 {2} {1}" '
        'preserveAspectRatio="none" style="--w:{3}"><path class="thread" d="M0 {4:g}H{2}"/>{5}</svg>'
    )
    return Markup(frame).format(label, HEIGHT, WIDE, min(max(round(240 / max(len(values), 1), 1), 1.2), 14), zero, Markup("").join(paths))
