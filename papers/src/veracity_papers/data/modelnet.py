"""Benches, chairs and monitors as point clouds: the available part of ModelNet (Wu et al. 2015), or generated ones.

Available are 193 benches of ModelNet40 as sampled points, and 889 chairs and 465 monitors of ModelNet10 as 32x32x32 voxels. 64 of
these are copies and left out, which leaves 1,483 shapes. So that a network cannot tell the two sources apart, benches are put
into the same voxels, and every cloud is drawn in the same way: random surface voxels, a uniform point in each. Every fifth shape
of each class is for testing.

Generated shapes are cuboids of random sizes with random points in them, z upwards. A network learns to tell them apart in
seconds.
"""

from __future__ import annotations

import itertools

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from veracity.core.inputs import TensorInputs
from veracity.trainers.training import place_in_group
from veracity_papers.data import files
from veracity_papers.data.labelled import Labelled, check_split

ORIGIN = "modelnet.cs.princeton.edu (benches as points, chairs and monitors as packed 32x32x32 voxels)"
CLASSES = ("bench", "chair", "monitor")
CONCEPTS = {"foot": ("bench", "chair"), "parallelepiped": ("monitor",), "elongated": ("bench",)}
SIDE = 32
EVERY = 5

Grids = NDArray[np.bool_]


def modelnet(split: str = "test", points: int = 256, seed: int = 0) -> Labelled:
    """Clouds (N, points, 3), centred and within the unit ball, class labels, and three of the symmetry paper's concepts by class.

    None of the three classes is a container, so the paper's fourth concept has no example. The paper draws 1,000 points.
    """
    check_split(split)
    grids = [voxels(name) for name in CLASSES]
    shapes, labels = surface(np.concatenate(grids)), np.repeat(np.arange(len(CLASSES)), [len(part) for part in grids])
    clouds = normalise(sample_points(shapes, points, seed))
    rows = torch.from_numpy((place_in_group(labels) % EVERY == EVERY - 1) == (split == "test")).nonzero().squeeze(1)
    label = torch.from_numpy(labels)
    concepts = {name: torch.isin(label, torch.tensor([CLASSES.index(one) for one in members])) for name, members in CONCEPTS.items()}
    return Labelled(TensorInputs(torch.from_numpy(clouds)), label, concepts)[rows]


def voxels(name: str) -> Grids:
    """Occupied voxels (N, 32, 32, 32) of a class: each shape of ModelNet10 once, turned to ModelNet40's pose; ModelNet40's benches."""
    if name == "bench":
        with np.load(files.find("modelnet/modelnet40_bench_193x2048x6_f16.npz", ORIGIN)) as file:
            return cells(np.asarray(file["points"][..., :3], dtype=np.float32))
    with np.load(files.find("modelnet/modelnet10_voxels32_chair_monitor.npz", ORIGIN)) as file:
        packed = distinct(file[name])
    return np.unpackbits(packed, axis=1).reshape(-1, SIDE, SIDE, SIDE).astype(bool).transpose(0, 1, 3, 2)


def cells(points: NDArray[np.float32]) -> Grids:
    """The voxels (N, 32, 32, 32) that points (N, P, 3) fall into, with the longest extent filling the grid."""
    low = points.min(axis=1, keepdims=True)
    extent = (points - low).max(axis=(1, 2), keepdims=True)
    place = np.minimum((points - low) / extent * SIDE, SIDE - 1).astype(np.int64)
    grids = np.zeros((len(points), SIDE, SIDE, SIDE), dtype=bool)
    grids[np.arange(len(points))[:, None], place[..., 0], place[..., 1], place[..., 2]] = True
    return grids


def distinct(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The rows without those that are the same as an earlier one.

    >>> distinct(np.array([[2, 0], [1, 0], [2, 0]], dtype=np.uint8))
    array([[2, 0],
           [1, 0]], dtype=uint8)
    """
    _, first = np.unique(np.ascontiguousarray(rows).view(f"V{rows.shape[1]}"), return_index=True)
    return rows[np.sort(first)]


def surface(grids: Grids) -> Grids:
    """The occupied voxels that have at least one empty neighbour of six."""
    padded = np.pad(grids, ((0, 0), (1, 1), (1, 1), (1, 1)))
    whole = slice(1, -1)
    inner = np.ones_like(grids)
    for axis, side in itertools.product((1, 2, 3), (slice(None, -2), slice(2, None))):
        inner &= padded[(slice(None), *(side if axis == place else whole for place in (1, 2, 3)))]
    return grids & ~inner


def sample_points(grids: Grids, points: int, seed: int) -> NDArray[np.float32]:
    """`points` voxels of each grid, drawn with replacement from a seed, and a uniform point in each: (N, points, 3)."""
    generator = np.random.default_rng(seed)
    occupied = np.stack(grids.nonzero()[1:], axis=1)
    counts = grids.sum(axis=(1, 2, 3))
    number = (generator.random((len(grids), points)) * counts[:, None]).astype(np.int64)
    corners = occupied[(np.cumsum(counts) - counts)[:, None] + number]
    return np.asarray(corners + generator.random(corners.shape), dtype=np.float32)


def normalise(clouds: NDArray[np.float32]) -> NDArray[np.float32]:
    """Clouds (N, P, 3) with their mean at the origin and their farthest point at distance one."""
    centred = clouds - clouds.mean(axis=1, keepdims=True)
    return np.asarray(centred / np.linalg.norm(centred, axis=2, keepdims=True).max(axis=1, keepdims=True), dtype=np.float32)


LEAST, MOST = 0.8, 1.25
"""Every length is a usual one times a random factor between these."""
LEGS = ((-1, -1), (-1, 1), (1, -1), (1, 1))
CUBOIDS = {
    "bench": [((0.0, 0.0, 0.42), (0.95, 0.22, 0.03)), ((0.0, 0.2, 0.65), (0.95, 0.03, 0.15))]
    + [((0.85 * x, 0.18 * y, 0.2), (0.04, 0.04, 0.2)) for x, y in LEGS],
    "chair": [((0.0, 0.0, 0.45), (0.28, 0.28, 0.03)), ((0.0, 0.26, 0.8), (0.28, 0.03, 0.33))]
    + [((0.24 * x, 0.24 * y, 0.22), (0.03, 0.03, 0.22)) for x, y in LEGS],
    "monitor": [((0.0, 0.0, 0.5), (0.5, 0.03, 0.32)), ((0.0, 0.0, 0.12), (0.04, 0.03, 0.1)), ((0.0, 0.0, 0.01), (0.2, 0.14, 0.01))],
}
"""Centres and half sides of at most six cuboids: seat, back and four legs; or a screen, its neck and its foot."""


def furniture(count: int, points: int, seed: int) -> tuple[Tensor, Tensor]:
    """`count` clouds (count, points, 3), centred and within the unit ball, and their classes (count,), which take turns.

    >>> x, y = furniture(6, 32, seed=0)
    >>> tuple(x.shape), y.tolist()
    ((6, 32, 3), [0, 1, 2, 0, 1, 2])
    """
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % len(CLASSES)
    usual = torch.stack([pad(torch.tensor(CUBOIDS[name]), (0, 0, 0, 0, 0, 6 - len(CUBOIDS[name]))) for name in CLASSES])[labels]
    boxes = usual * torch.empty(count, 1, 2, 3).uniform_(LEAST, MOST, generator=generator)
    centre, half = boxes.unbind(dim=2)
    x, y, z = half.unbind(dim=-1)
    surface = x * y + y * z + z * x  # an eighth of each cuboid's surface
    part = surface.multinomial(points, replacement=True, generator=generator)[..., None].expand(-1, -1, 3)
    within = torch.empty(count, points, 3).uniform_(-1.0, 1.0, generator=generator)
    clouds = centre.gather(1, part) + half.gather(1, part) * within
    return torch.from_numpy(normalise(clouds.numpy())), labels
