"""The nearest points of a convex hull: simplex-constrained least squares for many targets at once.

min over w of ½ |Xᵀ w - t|² + ½ ridge |w|², w >= 0, Σ w = 1, where the n vertices are the rows of X (n, d). With a positive ridge
the minimum is unique. An active-set method after Lawson and Hanson: each target has a face (some vertices) and moves towards
the minimum on the face's affine hull. If a weight would turn negative on the way, its vertex leaves the face. At the minimum,
the vertices that lower the objective most enter. All targets advance together, and finished ones drop out.

On a face with m vertices y, Y their differences from their mean y0, the minimum of ½ |Σ w y - t|² + ½ ridge |w|² under Σ w = 1
is w = 1/m + v, where v solves either (Y Yᵀ + ridge I) v = Y (t - y0) or, equivalently, v = Y (Yᵀ Y + ridge I)⁻¹ (t - y0).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

SMALL_FACE = 3
"""Faces of up to 2 to the power of this many vertices are solved together."""

SYSTEM_NUMBERS = 1 << 22
"""How many numbers of a batch of systems are in memory at once."""

REFINEMENTS = 2
"""How many times a solution from the features is refined."""

STORED_PRODUCTS = 1 << 24
"""Up to this many inner products of vertices are stored; more are computed when needed."""

ENTRANTS = 3
"""How many vertices may enter a small face at once. A larger face takes in half as many as it has."""

ROUNDING_ERRORS = 1e3
"""Duality gaps of up to this many rounding errors of the largest inner product count as 0."""

PATIENCE = 100
"""How many times a face may reach its minimum without a smaller duality gap."""


def nearest(vertices: Tensor, targets: Tensor, ridge: float, tolerance: float) -> Tensor:
    """Weights (N, n) of the points nearest to `targets` (N, d) in the hull of `vertices` (n, d), in float64.

    Every row's duality gap, Σ w_n g_n - min g with g the objective's gradient, is at most tolerance (1 + |t|²), or zero up to
    rounding. A row is NaN if its target is not finite, or if its gap stays larger.

    >>> corners = torch.tensor([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]], dtype=torch.float64)
    >>> nearest(corners, torch.tensor([[2.0, 2.0], [-1.0, 0.5]]).double(), 1e-9, 1e-12).round(decimals=6)
    tensor([[0.0000, 0.5000, 0.5000],
            [0.7500, 0.0000, 0.2500]], dtype=torch.float64)
    """
    finite = targets.isfinite().all(1).nonzero().squeeze(1)
    weights = targets.new_full((len(targets), len(vertices)), torch.nan)
    return weights.index_copy_(0, finite, nearest_finite(Hull.of(vertices, targets[finite], ridge), tolerance))


def nearest_finite(hull: Hull, tolerance: float) -> Tensor:
    """The weights (N, n) for a hull whose targets are all finite."""
    allowed = tolerance * (1 + hull.targets.square().sum(1))
    reach = hull.vertices.norm(dim=1).amax() + hull.targets.norm(dim=1)
    rounding = ROUNDING_ERRORS * torch.finfo(reach.dtype).eps * reach.square()
    weights, best, stale = torch.full_like(hull.inner, torch.nan), torch.full_like(allowed, torch.inf), torch.zeros_like(allowed)
    near = (hull.inner - hull.vertices.square().sum(1) / 2).topk(min(ENTRANTS, len(hull.vertices)), dim=1).indices
    faces = Faces.uniform(near)
    for _ in range(100 + 10 * len(hull.vertices)):
        if len(faces) == 0:
            break
        faces, there = advance(faces, hull.minima(faces))
        arrived = faces[there]
        vertex, entering, gap = entrants(arrived, hull.slopes(arrived))
        row, lower = arrived.row, gap < best[arrived.row]
        best[row], stale[row] = torch.minimum(best[row], gap), torch.where(lower, 0.0, stale[row] + 1)
        last = ~entering.any(1) | (stale[row] >= PATIENCE)
        good = (gap <= allowed[row]) | ((gap <= rounding[row]) & (last | ~lower))
        done = arrived[good]
        weights[done.row] = torch.zeros_like(hull.inner[done.row]).scatter_add_(1, done.vertex, done.weights)
        faces = next_faces(faces, there, good | last, vertex, entering)
    return weights


def advance(faces: Faces, goal: Tensor) -> tuple[Faces, Tensor]:
    """Move the weights towards the goal (R, m) until one turns negative, drop that vertex, and list the rows that arrived."""
    out = faces.on & (goal <= 0)
    share = (faces.weights / (faces.weights - goal).clamp(min=torch.finfo(goal.dtype).tiny)).where(out, torch.inf)
    far = share.amin(1, keepdim=True).clamp(max=1)
    on = faces.on & ~(out & (share <= far * (1 + 1e-12)))
    weights = (faces.weights + far * (goal - faces.weights)) * on
    there = ~out.any(1)
    return replace(faces, on=on, weights=weights, cautious=faces.cautious | (~there & (far.squeeze(1) <= 0))), there.nonzero().squeeze(1)


def entrants(faces: Faces, slopes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The vertices (R, k) with the lowest slopes (R, n) outside each face, which of them may enter, and the duality gaps (R,)."""
    own = torch.where(faces.on, faces.vertex, faces.vertex[:, :1])
    here = slopes.gather(1, own)
    level = (faces.weights * here).sum(1)
    width = min(slopes.shape[1], max(ENTRANTS, faces.vertex.shape[1] // 2))
    low, vertex = slopes.scatter(1, own, torch.inf).topk(width, dim=1, largest=False)
    most = torch.where(faces.cautious, 1, (faces.on.sum(1) // 2).clamp(min=ENTRANTS))
    entering = (low < level[:, None]) & (torch.arange(width, device=low.device) < most[:, None])
    return vertex, entering, level - torch.minimum(low[:, 0], here.amin(1))


def next_faces(faces: Faces, there: Tensor, done: Tensor, vertex: Tensor, entering: Tensor) -> Faces:
    """The faces that are not done, with new vertices for those that arrived."""
    rows, width = len(faces), vertex.shape[1]
    more = vertex.new_zeros(rows, width).index_copy_(0, there, vertex)
    on = torch.zeros_like(more, dtype=torch.bool).index_copy_(0, there, entering)
    cautious, left = faces.cautious.index_fill(0, there, False), torch.ones_like(faces.cautious).index_fill(0, there[done], False)
    open_rows = left.nonzero().squeeze(1)
    return replace(faces, cautious=cautious)[open_rows].extend(more[open_rows], on[open_rows]) if len(open_rows) else faces[open_rows]


@dataclass(frozen=True)
class Faces:
    """Faces of R targets: vertex indices (R, m), the slots in use (`on`, the first ones) and their `weights`, 0 elsewhere.

    `row` (R,) is the index of the target; `cautious` (R,) means that only one vertex may enter next.
    """

    row: Tensor
    vertex: Tensor
    on: Tensor
    weights: Tensor
    cautious: Tensor

    @classmethod
    def uniform(cls, vertex: Tensor) -> Faces:
        """Equal weights for the vertices (R, m)."""
        on = torch.ones_like(vertex, dtype=torch.bool)
        return cls(torch.arange(len(vertex), device=vertex.device), vertex, on, on.double() / vertex.shape[1], ~on[:, 0])

    def __len__(self) -> int:
        return len(self.row)

    def __getitem__(self, rows: Tensor) -> Faces:
        return Faces(self.row[rows], self.vertex[rows], self.on[rows], self.weights[rows], self.cautious[rows])

    def extend(self, vertex: Tensor, on: Tensor) -> Faces:
        """Add vertices (R, k) at weight 0 where `on` is set. Used slots come first; unused columns are dropped."""
        both = torch.cat((self.on, on), dim=1)
        order = both.byte().argsort(dim=1, descending=True, stable=True)[:, : int(both.sum(1).amax())]
        weights = torch.cat((self.weights, torch.zeros_like(vertex, dtype=self.weights.dtype)), dim=1)
        vertices = torch.cat((self.vertex, vertex), dim=1)
        return Faces(self.row, vertices.gather(1, order), both.gather(1, order), weights.gather(1, order), self.cautious)

    def by_size(self, features: int, lean: bool) -> Iterator[tuple[Tensor, int, bool]]:
        """Rows with faces of similar size, the largest size among them, and whether they have more vertices than features.

        As many rows at a time as fit into memory: their systems if `lean`, else their vertices.
        """
        sizes = self.on.sum(1)
        kind = 2 * sizes.double().log2().ceil().clamp(min=SMALL_FACE) + (sizes > features)
        for one in kind.unique():
            rows, wide = (kind == one).nonzero().squeeze(1), bool(one % 2)
            most = int(sizes[rows].amax())
            for part in rows.split(max(1, SYSTEM_NUMBERS // (most * (most if lean and not wide else features)))):
                yield part, most, wide


@dataclass(frozen=True)
class Hull:
    """The hull of n `vertices` (n, d), with their inner products `gram` (n, n) if they fit into memory, and `targets` (N, d)."""

    vertices: Tensor
    gram: Tensor | None
    targets: Tensor
    inner: Tensor
    ridge: float

    @classmethod
    def of(cls, vertices: Tensor, targets: Tensor, ridge: float) -> Hull:
        """With all inner products."""
        gram = vertices @ vertices.T if len(vertices) ** 2 <= STORED_PRODUCTS else None
        return cls(vertices, gram, targets, targets @ vertices.T, ridge)

    def slopes(self, faces: Faces) -> Tensor:
        """The objective's gradient (R, n) at each face's weights."""
        if self.gram is None or faces.vertex.shape[1] > self.vertices.shape[1]:
            points = embedding_bag(faces.vertex, self.vertices, per_sample_weights=faces.weights, mode="sum")
            gradient = (points - self.targets[faces.row]) @ self.vertices.T
        else:
            gradient = embedding_bag(faces.vertex, self.gram, per_sample_weights=faces.weights, mode="sum") - self.inner[faces.row]
        return gradient.scatter_add_(1, faces.vertex, self.ridge * faces.weights)

    def minima(self, faces: Faces) -> Tensor:
        """The minimising weights (R, m) on the affine hull of each face, 0 in unused slots."""
        weights, features = torch.zeros_like(faces.weights), self.vertices.shape[1]
        for rows, most, wide in faces.by_size(features, self.gram is not None):
            vertex, on, row = faces.vertex[rows, :most], faces.on[rows, :most], faces.row[rows]
            share = on / on.sum(1, keepdim=True).double()
            if wide:
                offset = solve_features(self.vertices[vertex], on, share, self.targets[row], self.ridge)
            else:
                offset = solve_vertices(*self.products(vertex, row), on, share, self.ridge)
            weights[rows, :most] = share + offset
        return weights

    def products(self, vertex: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        """Inner products of vertices (R, m) with each other, (R, m, m), and with the target, (R, m)."""
        inner = self.inner[row[:, None], vertex]
        if self.gram is None:
            points = self.vertices[vertex]
            return points @ points.mT, inner
        return self.gram.flatten().take(vertex[:, :, None] * len(self.gram) + vertex[:, None, :]), inner


def solve_vertices(products: Tensor, inner: Tensor, on: Tensor, share: Tensor, ridge: float) -> Tensor:
    """v (R, m) from systems of size m; a term of its own holds the direction in which Σ v changes at 0."""
    both = on[:, :, None] & on[:, None, :]
    products = products.mul_(both)
    mean = (products @ share[:, :, None]).squeeze(2)
    right = (inner - mean) * on
    right = (right - (right * share).sum(1, keepdim=True)) * on
    products -= mean[:, :, None] + mean[:, None, :] - (mean * share).sum(1)[:, None, None] - share[:, :, None]
    products.mul_(both).diagonal(dim1=1, dim2=2).add_(torch.where(on, ridge, torch.ones_like(share)))
    return torch.cholesky_solve(right[:, :, None], torch.linalg.cholesky_ex(products)[0]).squeeze(2)


def solve_features(points: Tensor, on: Tensor, share: Tensor, targets: Tensor, ridge: float) -> Tensor:
    """v (R, m) from systems of size d, refined by the residual of ridge v = Y (t - y0 - Yᵀ v), and held at sum 0.

    Without both, targets off the affine hull of a face of fewer dimensions than features would lose digits to the ridge.
    """
    mean = (share[:, None, :] @ points).squeeze(1)
    centred = (points - mean[:, None, :]) * on[:, :, None]
    products = centred.mT @ centred
    products.diagonal(dim1=1, dim2=2).add_(ridge)
    away, factor = (targets - mean)[:, :, None], torch.linalg.cholesky_ex(products)[0]
    solution = subtract_mean(centred @ torch.cholesky_solve(away, factor), on, share)
    for _ in range(REFINEMENTS):
        residual = centred @ (away - centred.mT @ solution) - ridge * solution
        correction = (residual - centred @ torch.cholesky_solve(centred.mT @ residual, factor)) / ridge
        solution = subtract_mean(solution + correction, on, share)
    return solution.squeeze(2)


def subtract_mean(values: Tensor, on: Tensor, share: Tensor) -> Tensor:
    """Values (R, m, 1) minus their mean over the slots in use."""
    return values - (share[:, None, :] @ values) * on[:, :, None]
