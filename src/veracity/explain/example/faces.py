"""Minima on the affine hulls of faces, for many faces of different sizes at once.

On a face with m vertices y, Y their differences from their mean y0, the minimum of ½ |Σ w y - t|² + ½ ridge |w|² under Σ w = 1
is w = 1/m + v, where v solves either (Y Yᵀ + ridge I) v = Y (t - y0) or, the same, v = Y (Yᵀ Y + ridge I)⁻¹ (t - y0).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

SMALL = 3
"""Faces of up to 2 to the power of this many vertices go together."""

NUMBERS = 1 << 22
"""How many numbers of a batch of systems to hold at once."""

REFINED = 2
"""How many times a solution from the features is refined."""

LARGEST = 1 << 24
"""How many inner products of vertices to hold; of more vertices they are made when they are needed."""


@dataclass(frozen=True)
class Faces:
    """Faces of R targets: vertex numbers (R, m), which of these slots are `on` (the first ones), the `weights` there, 0 elsewhere.

    `row` (R,) says which target; `wary` (R,) that only one vertex may enter next.
    """

    row: Tensor
    vertex: Tensor
    on: Tensor
    weights: Tensor
    wary: Tensor

    @classmethod
    def even(cls, vertex: Tensor) -> Faces:
        """The same weight for each of some vertices (R, m)."""
        on = torch.ones_like(vertex, dtype=torch.bool)
        return cls(torch.arange(len(vertex), device=vertex.device), vertex, on, on.double() / vertex.shape[1], ~on[:, 0])

    def __len__(self) -> int:
        return len(self.row)

    def __getitem__(self, rows: Tensor) -> Faces:
        return Faces(self.row[rows], self.vertex[rows], self.on[rows], self.weights[rows], self.wary[rows])

    def spread(self, count: int) -> Tensor:
        """The weights of all `count` vertices, (R, count)."""
        return self.weights.new_zeros(len(self), count).scatter_add_(1, self.vertex, self.weights)

    def joined(self, vertex: Tensor, on: Tensor) -> Faces:
        """With more vertices (R, k) at weight 0, where they are on; the slots that are on come first, empty ones go."""
        both = torch.cat((self.on, on), dim=1)
        order = both.byte().argsort(dim=1, descending=True, stable=True)[:, : int(both.sum(1).amax())]
        weights = torch.cat((self.weights, torch.zeros_like(vertex, dtype=self.weights.dtype)), dim=1)
        vertices = torch.cat((self.vertex, vertex), dim=1)
        return Faces(self.row, vertices.gather(1, order), both.gather(1, order), weights.gather(1, order), self.wary)

    def by_size(self, features: int, lean: bool) -> Iterator[tuple[Tensor, int, bool]]:
        """Rows with faces of like size, the largest size among them, and whether they have more vertices than features.

        As many at a time as their systems fit into memory, or, unless `lean`, as their vertices do.
        """
        sizes = self.on.sum(1)
        kind = 2 * sizes.double().log2().ceil().clamp(min=SMALL) + (sizes > features)
        for one in kind.unique():
            rows, wide = (kind == one).nonzero().squeeze(1), bool(one % 2)
            most = int(sizes[rows].amax())
            for part in rows.split(max(1, NUMBERS // (most * (most if lean and not wide else features)))):
                yield part, most, wide


@dataclass(frozen=True)
class Hull:
    """The hull of n `vertices` (n, d), with their inner products `gram` (n, n) if they fit, and `targets` (N, d) to come near to."""

    vertices: Tensor
    gram: Tensor | None
    targets: Tensor
    inner: Tensor
    ridge: float

    @classmethod
    def of(cls, vertices: Tensor, targets: Tensor, ridge: float) -> Hull:
        """With the inner products (N, n) of targets and vertices."""
        gram = vertices @ vertices.T if len(vertices) ** 2 <= LARGEST else None
        return cls(vertices, gram, targets, targets @ vertices.T, ridge)

    @property
    def rounding(self) -> Tensor:
        """Duality gaps (N,) that float64 does not tell from 0: a thousand roundings of the largest inner product."""
        reach: Tensor = self.vertices.norm(dim=1).amax() + self.targets.norm(dim=1)
        return 1e3 * torch.finfo(reach.dtype).eps * reach.square()

    def slopes(self, faces: Faces) -> Tensor:
        """The objective's gradient (R, n) at each face's weights."""
        if self.gram is None or faces.vertex.shape[1] > self.vertices.shape[1]:
            at = embedding_bag(faces.vertex, self.vertices, per_sample_weights=faces.weights, mode="sum")
            found = (at - self.targets[faces.row]) @ self.vertices.T
        else:
            found = embedding_bag(faces.vertex, self.gram, per_sample_weights=faces.weights, mode="sum") - self.inner[faces.row]
        return found.scatter_add_(1, faces.vertex, self.ridge * faces.weights)

    def minima(self, faces: Faces) -> Tensor:
        """The minimising weights (R, m) on the affine hull of each face, 0 where a slot is off."""
        found, features = torch.zeros_like(faces.weights), self.vertices.shape[1]
        for rows, most, wide in faces.by_size(features, self.gram is not None):
            vertex, on, row = faces.vertex[rows, :most], faces.on[rows, :most], faces.row[rows]
            share = on / on.sum(1, keepdim=True).double()
            if wide:
                moved = from_features(self.vertices[vertex], on, share, self.targets[row], self.ridge)
            else:
                moved = from_products(*self.products(vertex, row), on, share, self.ridge)
            found[rows, :most] = share + moved
        return found

    def products(self, vertex: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        """Inner products of some vertices (R, m) with each other, (R, m, m), and with the target, (R, m)."""
        inner = self.inner[row[:, None], vertex]
        if self.gram is None:
            points = self.vertices[vertex]
            return points @ points.mT, inner
        return self.gram.flatten().take(vertex[:, :, None] * len(self.gram) + vertex[:, None, :]), inner


def from_products(products: Tensor, inner: Tensor, on: Tensor, share: Tensor, ridge: float) -> Tensor:
    """v (R, m) from systems of the vertices; the direction in which Σ v changes is held at 0 by a weight of its own."""
    both = on[:, :, None] & on[:, None, :]
    products = products.mul_(both)
    mean = (products @ share[:, :, None]).squeeze(2)
    right = (inner - mean) * on
    right = (right - (right * share).sum(1, keepdim=True)) * on
    products -= mean[:, :, None] + mean[:, None, :] - (mean * share).sum(1)[:, None, None] - share[:, :, None]
    products.mul_(both).diagonal(dim1=1, dim2=2).add_(torch.where(on, ridge, torch.ones_like(share)))
    return torch.cholesky_solve(right[:, :, None], torch.linalg.cholesky_ex(products)[0]).squeeze(2)


def from_features(points: Tensor, on: Tensor, share: Tensor, targets: Tensor, ridge: float) -> Tensor:
    """v (R, m) from systems of the features, refined by what is left of ridge v = Y (t - y0 - Yᵀ v), and held at sum 0.

    Without both, targets off the affine hull of a face of fewer dimensions than features would lose digits to the ridge.
    """
    mean = (share[:, None, :] @ points).squeeze(1)
    centred = (points - mean[:, None, :]) * on[:, :, None]
    products = centred.mT @ centred
    products.diagonal(dim1=1, dim2=2).add_(ridge)
    away, factor = (targets - mean)[:, :, None], torch.linalg.cholesky_ex(products)[0]
    found = without_mean(centred @ torch.cholesky_solve(away, factor), on, share)
    for _ in range(REFINED):
        left = centred @ (away - centred.mT @ found) - ridge * found
        found = without_mean(found + (left - centred @ torch.cholesky_solve(centred.mT @ left, factor)) / ridge, on, share)
    return found.squeeze(2)


def without_mean(values: Tensor, on: Tensor, share: Tensor) -> Tensor:
    """Values (R, m, 1) less their mean over the slots that are on."""
    return values - (share[:, None, :] @ values) * on[:, :, None]
