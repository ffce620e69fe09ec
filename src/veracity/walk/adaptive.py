"""Random elements until every sample's mean is known well enough."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from veracity.core.confidence import Array, Betting
from veracity.core.errors import SpecError
from veracity.core.registry import WALKS
from veracity.core.settings import Count, Inside, Positive
from veracity.core.spaces import Space
from veracity.core.walks import Ask, Sampling, Walk, Walker
from veracity.walk.elements import Elements, countable, distinct, independent
from veracity.walk.planned import ROWS, rows_for


@WALKS.add
@dataclass(frozen=True, kw_only=True)
class Adaptive(Walk):
    """Uniform random elements for each sample until its confidence interval is narrower than `width`.

    The interval has level `confidence` at any stopping time, so that looking and stopping does not spoil it. A sample is
    looked at after every `block` draws and given up after `most`. Finite spaces of up to 100,000 elements are drawn from
    without replacement. The measure must be bounded.
    """

    name = "adaptive"
    reference = "Waudby-Smith and Ramdas 2023"
    adaptive: ClassVar[bool] = True
    width: Positive = 0.05
    confidence: Inside = 0.95
    most: Count = 500
    block: Count = 16

    def start(self, space: Space, samples: Tensor, seed: int, bounds: tuple[float, float]) -> Walker:
        """Begin with a block of draws for every sample."""
        self.check(bounds)
        if not space.nested or space.levels > 1:
            raise SpecError(f"The walk 'adaptive' follows single draws of single samples, not '{space.name}': use the walk 'monte_carlo'.")
        finite, length = countable(space), self.length(space)
        elements = independent(space, samples, seed) if finite is None else distinct(finite, samples, seed, length)
        order = None if finite is None else finite.order
        bets = Betting.start(len(samples), bounds=bounds, alpha=1.0 - self.confidence, population=order)
        return Narrowing(bets, elements, self.width, length, self.block, rows_for(space))

    def sampling(self, space: Space) -> Sampling:
        """Draws that stopped by looking at their values."""
        finite = countable(space)
        return Sampling(population=None if finite is None else finite.order, anytime=self.confidence)

    def length(self, space: Space) -> int:
        """`most`, or the order of a space that has fewer elements."""
        finite = countable(space)
        return self.most if finite is None else min(self.most, finite.order)

    def check(self, bounds: tuple[float, float]) -> None:
        """Raise on settings or a measure with which the walk cannot end."""
        if not all(math.isfinite(bound) for bound in bounds):
            raise SpecError(
                f"The walk 'adaptive' needs a measure with finite bounds, not {bounds[0]} to {bounds[1]}: use the walk 'monte_carlo'."
            )


class Narrowing:
    """Asks for a block of draws for the samples that are not known well enough yet."""

    def __init__(self, bets: Betting, elements: Elements, width: float, length: int, block: int, rows: int = ROWS) -> None:
        self.bets, self.elements = bets, elements
        self.width, self.length, self.block, self.rows = width, length, min(block, rows), rows
        self.active = np.ones(len(bets.counts), dtype=np.bool_)
        self.asked = np.zeros(0, dtype=np.int64)

    def ask(self) -> Ask | None:
        """A block for those that have had the fewest draws, with a bounded number of perturbations in all."""
        if not self.active.any():
            return None
        counts = np.where(self.active, self.bets.counts, self.length)
        fewest = int(counts.min())
        self.asked = np.flatnonzero(counts == fewest)[: self.rows // self.block]
        draws = torch.arange(fewest, min(fewest + self.block, self.length))
        row = torch.from_numpy(self.asked).repeat_interleave(len(draws))
        draw = draws.repeat(len(self.asked))
        return Ask(row, draw, torch.zeros_like(draw), self.elements(row, draw))

    def tell(self, values: Tensor) -> None:
        """Narrow the intervals, and let go of those that are narrow enough or have used up their draws."""
        told: Array = values.detach().cpu().double().numpy()
        self.bets.update(self.asked, told.reshape(len(self.asked), -1))
        low, high = self.bets.interval()
        self.active &= (high - low > self.width) & (self.bets.counts < self.length)
