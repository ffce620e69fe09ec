"""Small plots of two quantities: points with intervals, curves, bands and clouds of samples.

As everywhere, horizontal places are percentages and vertical ones pixels; paths lie in a frame that stretches, with strokes
that do not. Contours are lines of equal density around a cloud, each of which encloses a given share of its points.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from veracity.core.scores import Array
from veracity.core.wording import compact
from veracity.report.figures.chart import Scale, colour_class, mark, shape_of
from veracity.report.html import draw
from veracity.report.rows import finite
from veracity.results import Row

HEIGHT = 150
WIDE = 1000
APART = 7.0
"""How many percent of the width lie between two numbers of an axis."""

NEUTRAL = -1
"""The colour of what belongs to no model."""

Place = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Spot:
    """A point with the ends of its intervals, upwards (low, high) and across (left, right); NaN where there is none."""

    x: float
    y: float
    low: float = math.nan
    high: float = math.nan
    left: float = math.nan
    right: float = math.nan
    title: str = ""


def row_spot(x: float, row: Row, title: str) -> Spot:
    """The value of a row with its interval, upwards."""
    return Spot(x=x, y=row.value, low=row.low, high=row.high, title=title)


@dataclass(frozen=True, kw_only=True)
class Plane:
    """Two axes; `labels` are the texts of the horizontal ticks where those are not plain numbers."""

    across: Scale
    up: Scale
    labels: tuple[str, ...] = ()
    height: int = HEIGHT

    def place(self, x: float, y: float) -> Place:
        """Where a point lies in the stretched frame, off it if it is off the axes.

        >>> Plane(across=Scale(0.0, 2.0, ()), up=Scale(0.0, 1.0, ()), height=100).place(0.5, 0.25)
        (250.0, 75.0)
        """
        across = (x - self.across.low) / (self.across.high - self.across.low)
        up = (y - self.up.low) / (self.up.high - self.up.low)
        return round(WIDE * across, 1), round(self.height * (1.0 - up), 1)

    def top(self, y: float) -> float:
        """How many pixels below the upper edge a value stands, kept on the plane."""
        return round(self.height * (1.0 - self.up.percent(y) / 100.0), 1)


def draw_plane(plane: Plane, content: Markup, label: str) -> Markup:
    """Lines at the ticks of both axes, numbers to the left and below, and what is drawn on them."""
    posts = [plane.across.percent(tick) for tick in plane.across.ticks]
    texts = plane.labels or tuple(map(compact, plane.across.ticks))
    return draw("plane", plane, [(posts[index], texts[index]) for index in label_indices(posts)], content, label)


def label_indices(places: Sequence[float], apart: float = APART) -> list[int]:
    """Indices of the ascending places that get a text: the last, and all others that are far enough apart.

    >>> label_indices([0.0, 2.0, 50.0, 97.0, 100.0])
    [0, 2, 4]
    """
    kept: list[int] = []
    for index, place in enumerate(places[:-1]):
        if (not kept or place - places[kept[-1]] >= apart) and places[-1] - place >= apart:
            kept.append(index)
    return [*kept, len(places) - 1] if places else []


def group(model: int, content: Markup) -> Markup:
    """What belongs to a model, in its colour."""
    return Markup('<g class="{}">{}</g>').format("m0" if model == NEUTRAL else colour_class(model), content)


def draw_spots(spots: Sequence[Spot], model: int, plane: Plane) -> Markup:
    """Points in a model's colour and shape, with their intervals as bars."""
    bar = Markup('<line class="ends" x1="{}%" x2="{}%" y1="{}" y2="{}"/>')
    across = plane.across.percent
    parts = []
    for spot in spots:
        x, y = across(spot.x), plane.top(spot.y)
        bars = [bar.format(x, x, plane.top(spot.low), plane.top(spot.high))] if finite(spot.low, spot.high) else []
        bars += [bar.format(across(spot.left), across(spot.right), y, y)] if finite(spot.left, spot.right) else []
        drawn = Markup("").join([*bars, mark(x, y, shape_of(max(model, 0)), "dot")])
        parts.append(Markup("<g><title>{}</title>{}</g>").format(spot.title, drawn))
    return group(model, Markup("").join(parts))


def draw_paths(paths: Iterable[Sequence[Place]], css: str, plane: Plane) -> Markup:
    """Lines through the defined points of each path, cut at the edges of the plane."""
    return stretch(Markup('<path class="{}" d="{}"/>').format(css, "".join(line(path, plane) for path in paths)), plane)


def draw_band(low: Sequence[Place], high: Sequence[Place], plane: Plane, css: str = "band") -> Markup:
    """The area between two lines, where both are defined."""
    both = [(a, b) for a, b in zip(low, high, strict=True) if finite(*a, *b)]
    if len(both) < 2:
        return Markup("")
    outline = line([a for a, _ in both], plane) + line([b for _, b in reversed(both)], plane).replace("M", "L", 1) + "Z"
    return stretch(Markup('<path class="{}" d="{}"/>').format(css, outline), plane)


def draw_cloud(places: Sequence[Place], plane: Plane) -> Markup:
    """Points as dots, all in one path."""
    spots = (plane.place(*place) for place in places if finite(*place))
    path = "".join(f"M{x:.0f} {y:.0f}h0" for x, y in spots)
    return stretch(Markup('<path class="points" d="{}"/>').format(path), plane, clipped=False)


def line(path: Sequence[Place], plane: Plane) -> str:
    """The outline of a path; an undefined point interrupts it."""
    parts, joined = [], False
    for place in path:
        if finite(*place):
            x, y = plane.place(*place)
            parts.append(f"{'L' if joined else 'M'}{x:g} {y:g}")
        joined = finite(*place)
    return "".join(parts)


def stretch(content: Markup, plane: Plane, *, clipped: bool = True) -> Markup:
    """A frame of fixed width that is stretched over the plane."""
    frame = '<svg width="100%" height="{0}" viewBox="0 0 {1} {0}" preserveAspectRatio="none" overflow="{2}">{3}</svg>'
    return Markup(frame).format(plane.height, WIDE, "hidden" if clipped else "visible", content)


GRID = 28
LEAST = 8
"""Fewer points have no density to speak of."""
REACH = 2.5
"""How many bandwidths the grid reaches beyond the points."""
TINY = 1e-9


def contours(points: Array, shares: Sequence[float] = (0.5, 0.9), grid: int = GRID) -> list[Array]:
    """Segments (S, 2, 2) of the line around each share of the points (N, 2).

    The density is Gaussian, with Scott's bandwidth on each axis. Too few points, or points on a line along an axis, have none.

    >>> points = np.random.default_rng(0).normal(size=(400, 2))
    >>> (half,) = contours(points, shares=(0.5,))
    >>> round(float(np.linalg.norm(half.mean(axis=1), axis=1).mean()), 1)
    1.2
    """
    spread = points.std(axis=0) if len(points) >= LEAST else np.zeros(2)
    if not (spread > TINY * np.abs(points).max(axis=0, initial=0.0)).all():
        return []
    width = spread * len(points) ** (-1.0 / 6.0)
    ends = points.min(axis=0) - REACH * width, points.max(axis=0) + REACH * width
    ticks = [np.linspace(low, high, grid) for low, high in zip(*ends, strict=True)]
    kernels = [np.exp(-0.5 * ((tick[:, None] - points[None, :, axis]) / width[axis]) ** 2) for axis, tick in enumerate(ticks)]
    here = [np.exp(-0.5 * ((points[:, None, axis] - points[None, :, axis]) / width[axis]) ** 2) for axis in range(2)]
    at_points = (here[0] * here[1]).mean(axis=1)
    density = kernels[0] @ kernels[1].T / len(points)
    return [level_lines(density, float(np.quantile(at_points, 1.0 - share)), ticks[0], ticks[1]) for share in shares]


def draw_contours(points: Array, plane: Plane) -> Markup:
    """The lines around half and around nine tenths of the points, each as one path."""
    parts = []
    for segments in contours(points):
        ends = [(plane.place(*map(float, a)), plane.place(*map(float, b))) for a, b in segments]
        path = "".join(f"M{a[0]:.0f} {a[1]:.0f}L{b[0]:.0f} {b[1]:.0f}" for a, b in ends)
        parts.append(Markup('<path class="contour" d="{}"/>').format(path))
    return stretch(Markup("").join(parts), plane) if parts else Markup("")


def level_lines(values: Array, level: float, x: Array, y: Array) -> Array:
    """Where values (X, Y) on a grid, straight in between, cross a level: segments (S, 2, 2).

    Every cell is two triangles, and a triangle is crossed by one segment or by none: the one that cuts the vertex off
    which lies on a side of its own.

    >>> level_lines(np.array([[0.0, 0.0], [2.0, 2.0]]), 1.0, np.array([0.0, 4.0]), np.array([0.0, 1.0]))[:, :, 0]
    array([[2., 2.],
           [2., 2.]])
    """
    across, up = np.meshgrid(x, y, indexing="ij")
    nodes = np.stack([across, up, values - level], axis=-1)
    corners = nodes[:-1, :-1], nodes[1:, :-1], nodes[1:, 1:], nodes[:-1, 1:]
    triangles = np.concatenate([np.stack([corners[i] for i in three], axis=2).reshape(-1, 3, 3) for three in ((0, 1, 2), (0, 2, 3))])
    above = triangles[:, :, 2] > 0
    crossed = above.any(axis=1) & ~above.all(axis=1)
    triangles, above = triangles[crossed], above[crossed]
    alone = np.where(above.sum(axis=1) == 1, above.argmax(axis=1), (~above).argmax(axis=1))
    rows = np.arange(len(triangles))
    apex = triangles[rows, alone]
    return np.stack([crossing(apex, triangles[rows, (alone + step) % 3]) for step in (1, 2)], axis=1)


def crossing(a: Array, b: Array) -> Array:
    """Where the third coordinate is zero between nodes (S, 3) on either side of it: (S, 2)."""
    share = (a[:, 2] / (a[:, 2] - b[:, 2]))[:, None]
    found: Array = a[:, :2] + share * (b[:, :2] - a[:, :2])
    return found
