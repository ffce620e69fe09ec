"""Which element is draw d of sample s: a function of (seed, sample, draw), whatever the block, the batch or the worker."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from veracity.core.draws import Draws
from veracity.core.spaces import Countable, Space, WeightSpace

DISTINCT = 100_000
"""The largest space from which draws are taken without replacement."""

SHUFFLED = 1_000_000
"""How many random numbers are sorted at once to choose without replacement."""

Elements = Callable[[Tensor, Tensor], Tensor]
"""From rows of a block (R,) and draw numbers (R,) to elements (R, p)."""


def countable(space: Space) -> Countable | None:
    """The space, if it is small enough for distinct draws."""
    return space if isinstance(space, Countable) and space.order <= DISTINCT else None


def owners(space: Space, samples: Tensor) -> Tensor:
    """Whose random numbers each sample uses: its own, or everybody's where draws are shared by all samples."""
    return samples if space.nested else torch.zeros_like(samples)


def by_rank(space: Countable) -> Elements:
    """Draw d is element number d, for every sample."""
    return lambda _row, draw: space.unrank(draw)


def independent(space: Space, samples: Tensor, seed: int) -> Elements:
    """Draw d is a fresh uniform element; of a model's copies, number d."""
    if isinstance(space, WeightSpace):
        return lambda _row, draw: draw[:, None]
    owner = owners(space, samples)
    return lambda row, draw: space.drawn(Draws(seed, owner[row], draw))


def distinct(space: Countable, samples: Tensor, seed: int, most: int) -> Elements:
    """Draw d is the d-th element of the sample's own random order, of which the first `most` are kept."""
    owner = owners(space, samples)
    tall = max(1, SHUFFLED // space.order)
    parts = [Draws.of(seed, part).choice(space.order, most, stream="walk").clone() for part in torch.split(owner, tall)]
    chosen = torch.cat(parts) if parts else torch.empty(0, most, dtype=torch.int64)
    return lambda row, draw: space.unrank(chosen[row, draw])
