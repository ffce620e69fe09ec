"""Blocks of samples, and the files that are to be measured of them, under keys that say everything a file depends on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Size, Tensor

ALGORITHMS = 3
"""To be raised whenever a change of this package changes numbers, so that old files are not mixed with new ones."""
BLOCK = 64
HELD = 64 << 20
"""How many bytes of one model's outputs are held at once; a block is one sample at least."""


@dataclass(frozen=True)
class Block:
    """Consecutive samples, and the key of their pictures."""

    start: int
    stop: int
    pictures: str

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def samples(self) -> Tensor:
        """Their numbers, (n,)."""
        return torch.arange(self.start, self.stop)


@dataclass(frozen=True)
class Cell:
    """One model on one block: what one table of metrics holds; with an explainer, how that follows the orbit."""

    key: str
    model: str
    explainer: str
    block: Block

    def entry(self) -> dict[str, Any]:
        """The cell's line in the manifest."""
        return {"key": self.key, "model": self.model, "explainer": self.explainer, "start": self.block.start, "stop": self.block.stop}


def block_length(output: Size, elements: int) -> int:
    """How many samples make a block, where one output has this shape: 64, or fewer whose float32 outputs can be held.

    >>> block_length(Size([10]), 72), block_length(Size([2, 256, 256]), 16)
    (64, 8)
    """
    return min(BLOCK, max(1, HELD // (4 * max(1, math.prod(output)) * elements)))


def spans(samples: int, length: int) -> Sequence[tuple[int, int]]:
    """Where blocks of this length begin and end.

    >>> spans(5, 2)
    [(0, 2), (2, 4), (4, 5)]
    """
    return [(start, min(start + length, samples)) for start in range(0, samples, length)]
