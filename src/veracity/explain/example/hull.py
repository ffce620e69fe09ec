"""The nearest points of a convex hull: simplex-constrained least squares for many targets at once.

min over w of ½ |Xᵀ w - t|² + ½ ridge |w|², w >= 0, Σ w = 1, where the n vertices are the rows of X (n, d). An active-set method
after Lawson and Hanson: each target keeps a face (some vertices), moves towards the minimum on the face's affine hull
until a weight would turn negative and its vertex leaves, and once there takes in the vertices that lower the objective
most. All targets advance together, and those that are done leave. With a positive ridge the minimum is unique.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from veracity.explain.example.faces import Faces, Hull

TAKEN = 3
"""How many vertices may enter a small face at once; a larger one takes in half as many as it has."""


PATIENCE = 100
"""How many times a face may arrive without a smaller duality gap than before."""


def nearest(vertices: Tensor, targets: Tensor, ridge: float, tolerance: float) -> Tensor:
    """Weights (N, n) of the points nearest to `targets` (N, d) in the hull of `vertices` (n, d), in float64.

    Every row's duality gap, Σ w_n g_n - min g with g the objective's gradient, is at most tolerance (1 + |t|²), or as small as
    rounding lets it be. A row is NaN if its target is not finite, or if its gap stays larger.

    >>> corners = torch.tensor([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]], dtype=torch.float64)
    >>> nearest(corners, torch.tensor([[2.0, 2.0], [-1.0, 0.5]]).double(), 1e-9, 1e-12).round(decimals=6)
    tensor([[0.0000, 0.5000, 0.5000],
            [0.7500, 0.0000, 0.2500]], dtype=torch.float64)
    """
    finite = targets.isfinite().all(1).nonzero().squeeze(1)
    found = targets.new_full((len(targets), len(vertices)), torch.nan)
    return found.index_copy_(0, finite, nearest_finite(Hull.of(vertices, targets[finite], ridge), tolerance))


def nearest_finite(hull: Hull, tolerance: float) -> Tensor:
    """The same (N, n) for a hull's targets, all of which are finite."""
    allowed, rounding = tolerance * (1 + hull.targets.square().sum(1)), hull.rounding
    found, best, stale = torch.full_like(hull.inner, torch.nan), torch.full_like(allowed, torch.inf), torch.zeros_like(allowed)
    near = (hull.inner - hull.vertices.square().sum(1) / 2).topk(min(TAKEN, len(hull.vertices)), dim=1).indices
    faces = Faces.even(near)
    for _ in range(100 + 10 * len(hull.vertices)):
        if len(faces) == 0:
            break
        faces, there = moved(faces, hull.minima(faces))
        arrived = faces[there]
        vertex, entering, gap = entrants(arrived, hull.slopes(arrived))
        row, lower = arrived.row, gap < best[arrived.row]
        best[row], stale[row] = torch.minimum(best[row], gap), torch.where(lower, 0.0, stale[row] + 1)
        last = ~entering.any(1) | (stale[row] >= PATIENCE)
        good = (gap <= allowed[row]) | ((gap <= rounding[row]) & (last | ~lower))
        found[row[good]] = arrived[good].spread(len(hull.vertices))
        faces = continued(faces, there, good | last, vertex, entering)
    return found


def moved(faces: Faces, goal: Tensor) -> tuple[Faces, Tensor]:
    """Weights moved towards the goal (R, m) as far as none turns negative, without the vertices that stop them; who arrived."""
    out = faces.on & (goal <= 0)
    share = (faces.weights / (faces.weights - goal).clamp(min=torch.finfo(goal.dtype).tiny)).where(out, torch.inf)
    far = share.amin(1, keepdim=True).clamp(max=1)
    on = faces.on & ~(out & (share <= far * (1 + 1e-12)))
    weights = (faces.weights + far * (goal - faces.weights)) * on
    there = ~out.any(1)
    return replace(faces, on=on, weights=weights, wary=faces.wary | (~there & (far.squeeze(1) <= 0))), there.nonzero().squeeze(1)


def entrants(faces: Faces, slopes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The vertices (R, k) with the lowest slopes (R, n) outside each face, which of them may enter, and the duality gaps (R,)."""
    own = torch.where(faces.on, faces.vertex, faces.vertex[:, :1])
    here = slopes.gather(1, own)
    level = (faces.weights * here).sum(1)
    width = min(slopes.shape[1], max(TAKEN, faces.vertex.shape[1] // 2))
    low, vertex = slopes.scatter(1, own, torch.inf).topk(width, dim=1, largest=False)
    most = torch.where(faces.wary, 1, (faces.on.sum(1) // 2).clamp(min=TAKEN))
    entering = (low < level[:, None]) & (torch.arange(width, device=low.device) < most[:, None])
    return vertex, entering, level - torch.minimum(low[:, 0], here.amin(1))


def continued(faces: Faces, there: Tensor, done: Tensor, vertex: Tensor, entering: Tensor) -> Faces:
    """The faces that are not done, with the vertices that enter those which arrived."""
    rows, width = len(faces), vertex.shape[1]
    more = vertex.new_zeros(rows, width).index_copy_(0, there, vertex)
    on = torch.zeros_like(more, dtype=torch.bool).index_copy_(0, there, entering)
    wary, left = faces.wary.index_fill(0, there, False), torch.ones_like(faces.wary).index_fill(0, there[done], False)
    kept = left.nonzero().squeeze(1)
    return replace(faces, wary=wary)[kept].joined(more[kept], on[kept]) if len(kept) else faces[kept]
