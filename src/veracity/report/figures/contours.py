"""Lines of equal density around a cloud of points, such that each encloses a given share of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
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
