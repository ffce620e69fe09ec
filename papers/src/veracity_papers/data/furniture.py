"""Generated benches, chairs and monitors as point clouds, z upwards: cuboids of random sizes, and random points in them.

They stand in for ModelNet's three classes where its files are not at hand; a network learns to tell them apart in seconds.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from veracity_papers.data.modelnet import CLASSES, normalised

LEAST, MOST = 0.8, 1.25
"""Every length is a usual one times a random factor between these."""
LEGS = ((-1, -1), (-1, 1), (1, -1), (1, 1))


def furniture(count: int, points: int, seed: int) -> tuple[Tensor, Tensor]:
    """`count` clouds (count, points, 3), centred and within the unit ball, and their classes (count,), which take turns.

    >>> x, y = furniture(6, 32, seed=0)
    >>> tuple(x.shape), y.tolist()
    ((6, 32, 3), [0, 1, 2, 0, 1, 2])
    """
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % len(CLASSES)
    usual = torch.stack([bench(), chair(), monitor()])[labels]
    boxes = usual * torch.empty(count, 1, 2, 3).uniform_(LEAST, MOST, generator=generator)
    centre, half = boxes.unbind(dim=2)
    part = surface(half).multinomial(points, replacement=True, generator=generator)[..., None].expand(-1, -1, 3)
    within = torch.empty(count, points, 3).uniform_(-1.0, 1.0, generator=generator)
    clouds = centre.gather(1, part) + half.gather(1, part) * within
    return torch.from_numpy(normalised(clouds.numpy())), labels


def surface(half: Tensor) -> Tensor:
    """How much of each cuboid (..., 3), by its half sides, there is to see: an eighth of its surface."""
    x, y, z = half.unbind(dim=-1)
    return x * y + y * z + z * x


def bench() -> Tensor:
    """Centres and half sides (6, 2, 3): a long seat, a low back, four legs."""
    legs = [((0.85 * x, 0.18 * y, 0.2), (0.04, 0.04, 0.2)) for x, y in LEGS]
    return torch.tensor([((0.0, 0.0, 0.42), (0.95, 0.22, 0.03)), ((0.0, 0.2, 0.65), (0.95, 0.03, 0.15)), *legs])


def chair() -> Tensor:
    """A square seat, a high back, four legs."""
    legs = [((0.24 * x, 0.24 * y, 0.22), (0.03, 0.03, 0.22)) for x, y in LEGS]
    return torch.tensor([((0.0, 0.0, 0.45), (0.28, 0.28, 0.03)), ((0.0, 0.26, 0.8), (0.28, 0.03, 0.33)), *legs])


def monitor() -> Tensor:
    """An upright screen, a neck, a foot, and three cuboids of nothing."""
    parts = ((0.0, 0.0, 0.5), (0.5, 0.03, 0.32)), ((0.0, 0.0, 0.12), (0.04, 0.03, 0.1)), ((0.0, 0.0, 0.01), (0.2, 0.14, 0.01))
    return functional.pad(torch.tensor(parts), (0, 0, 0, 0, 0, 3))
