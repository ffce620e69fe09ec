"""Walks that draw: every element once, a fixed number of random elements, or random elements until a mean is known well enough.

Which element is draw d of sample s is a function of (seed, sample, draw), whatever the block, the batch or the worker.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from veracity.core.errors import SpecError
from veracity.core.randomness import Draws
from veracity.core.registry import WALKS
from veracity.core.settings import Count, Inside, Positive
from veracity.core.spaces import Countable, Space, WeightSpace
from veracity.core.walks import Ask, Sampling, Walk, Walker
from veracity.statistics.anytime import Array, Betting

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


ROWS = 4096
"""How many perturbations one ask holds at most, so that memory does not grow with the space."""

NUMBERS = 2**22
"""How many random numbers the perturbations of one ask are made from at most."""


def rows_for(space: Space) -> int:
    """How many perturbations of a space one ask holds.

    >>> from veracity.perturb import Permutations
    >>> rows_for(Permutations(size=4)), rows_for(Permutations(size=2**12))
    (4096, 1024)
    """
    return max(1, min(ROWS, NUMBERS // max(1, space.latents)))


class PlannedWalker:
    """Asks for `draws` draws of each of `samples` samples, each at every level, a bounded block at a time.

    Sample by sample; where draws are shared by all samples, draw by draw and level by level, so that what belongs to one
    copy of a model comes together.
    """

    def __init__(self, space: Space, samples: int, draws: int, elements: Elements, rows: int | None = None) -> None:
        most = rows_for(space) if rows is None else rows
        self.space, self.samples, self.draws, self.elements = space, samples, draws, elements
        self.rows = most if space.nested else max(samples, most // max(samples, 1) * samples)
        self.next, self.total = 0, samples * draws * space.levels

    def ask(self) -> Ask | None:
        """The next block of perturbations."""
        if self.next >= self.total:
            return None
        number = torch.arange(self.next, min(self.next + self.rows, self.total))
        self.next += len(number)
        levels = self.space.levels
        if self.space.nested:
            drawn, level = number // levels, number % levels
            row, draw = drawn // self.draws, drawn % self.draws
        else:
            row, copy = number % self.samples, number // self.samples
            draw, level = copy // levels, copy % levels
            drawn = row * self.draws + draw
        once, back = torch.unique(drawn, return_inverse=True)
        element = self.elements(once // self.draws, once % self.draws)
        return Ask(row, draw, level, self.space.at(element if levels == 1 and self.space.nested else element[back], level))

    def tell(self, values: Tensor) -> None:
        """Nothing depends on the values."""


LARGEST = 1_000_000


@WALKS.add
@dataclass(frozen=True, kw_only=True)
class Exhaustive(Walk):
    """Every element of a finite space once, so that a mean over the space is exact.

    Draw number d of every sample is element number d.
    """

    name = "exhaustive"

    def start(self, space: Space, samples: Tensor, seed: int, bounds: tuple[float, float]) -> Walker:
        """Begin at element 0 of the first sample."""
        finite = counted(space)
        return PlannedWalker(finite, len(samples), finite.order, by_rank(finite))

    def sampling(self, space: Space) -> Sampling:
        """All of them: no error from drawing."""
        return Sampling(exhaustive=True, population=counted(space).order)

    def length(self, space: Space) -> int:
        """The order of the space."""
        return counted(space).order


def counted(space: Space) -> Countable:
    """The space, if it can be visited as a whole."""
    if not isinstance(space, Countable):
        raise SpecError(f"The walk 'exhaustive' needs a finite space, and '{space.name}' has no end: use the walk 'monte_carlo'.")
    if space.order > LARGEST:
        count = f"{space.order:,}" if space.order < 10**12 else f"about 10^{math.floor(math.log10(space.order))}"
        given = f"'{space.name}' has {count}"
        raise SpecError(f"The walk 'exhaustive' visits at most {LARGEST:,} elements, and {given}: use the walk 'monte_carlo'.")
    return space


@WALKS.add
@dataclass(frozen=True, kw_only=True)
class MonteCarlo(Walk):
    """Uniform random elements, `draws` for every sample, each sample its own (appendix E of the symmetry paper).

    Finite spaces of up to 100,000 elements are drawn from without replacement unless `replace` is set, and visited as a
    whole, element by element, if `draws` reaches their order. From all other spaces draws are independent.
    """

    name = "monte_carlo"
    reference = "Crabbé and van der Schaar 2023, appendix E"
    draws: Count = 50
    replace: bool = False

    def start(self, space: Space, samples: Tensor, seed: int, bounds: tuple[float, float]) -> Walker:
        """Begin at draw 0 of the first sample."""
        finite = self.without_replacement(space)
        if finite is None:
            elements = independent(space, samples, seed)
        elif self.draws >= finite.order:
            elements = by_rank(finite)
        else:
            elements = distinct(finite, samples, seed, self.draws)
        return PlannedWalker(space, len(samples), self.length(space), elements)

    def sampling(self, space: Space) -> Sampling:
        """Distinct draws from a small space (all of them, if there are enough draws), independent ones otherwise."""
        finite = self.without_replacement(space)
        return Sampling() if finite is None else Sampling(exhaustive=self.draws >= finite.order, population=finite.order)

    def length(self, space: Space) -> int:
        """The number of draws, or the order of a space that has fewer elements."""
        finite = self.without_replacement(space)
        return self.draws if finite is None else min(self.draws, finite.order)

    def without_replacement(self, space: Space) -> Countable | None:
        """The space, if its elements are drawn at most once."""
        return None if self.replace else countable(space)


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
        return AdaptiveWalker(bets, elements, self.width, length, self.block, rows_for(space))

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


class AdaptiveWalker:
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
