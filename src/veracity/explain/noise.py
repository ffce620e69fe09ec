"""Gaussian noise for (row, item) pairs that depends on the sample, the draw and the item, never on the chunk."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

from veracity.core.draws import Draws

BLOCK = 2**14  # numbers a row that are drawn together


def noise_of(draws: Draws, like: Tensor, items: int, stream: str) -> Callable[[Tensor, Tensor], Tensor]:
    """A function from pairs, in the order of `pairs`, to standard normal noise of `like`'s shape, (R, ...).

    Small items are drawn in blocks, each a stream of its own, of which one at a time is kept; large ones one by one.
    """
    shape = like.shape[1:]
    together = min(items, max(1, BLOCK // shape.numel()))

    @lru_cache(maxsize=1)
    def block(number: int) -> Tensor:
        return draws.normal(together, *shape, stream=f"{stream}.{number}")

    def one(number: int, row: Tensor, item: Tensor) -> Tensor:
        inside = item // together == number
        if together == 1:
            return draws[row[inside]].normal(*shape, stream=f"{stream}.{number}")
        return block(number)[row[inside], item[inside] % together]

    def noise(row: Tensor, item: Tensor) -> Tensor:
        row, item = row.cpu(), item.cpu()
        blocks = range(int(item[0]) // together, int(item[-1]) // together + 1)
        return torch.cat([one(number, row, item) for number in blocks]).to(like)

    return noise
