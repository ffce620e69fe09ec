"""Walks that draw: every element once, a fixed number of random elements, or random elements until a mean is precise enough.

Draw d of sample s depends only on (seed, sample, draw), not on the block, the batch or the worker.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from veracity.core.errors import SpecError
from veracity.core.randomness import Draws
from veracity.core.registry import WALKS
from veracity.core.settings import Count, Inside, Positive
from veracity.core.spaces import Countable, Space, WeightSpace
from veracity.core.walks import MEMORY, AdaptiveWalk, Ask, Sampling, Walk, Walker
from veracity.statistics.anytime import Array, Betting

CPU = torch.device("cpu")

DISTINCT = 100_000
"""The largest space from which draws are taken without replacement."""

SHUFFLED = 1_000_000
"""The most random numbers that are sorted at once to choose without replacement."""

Elements = Callable[[Tensor, Tensor], Tensor]
"""From rows of a block (R,) and draw numbers (R,) to elements (R, p)."""


def countable(space: Space) -> Countable | None:
    """The space if it is small enough for distinct draws, else None."""
    return space if isinstance(space, Countable) and space.order <= DISTINCT else None


def owners(space: Space, samples: Tensor) -> Tensor:
    """The sample whose random numbers each sample uses: itself, or sample 0 for all if draws are shared."""
    return samples if space.nested else torch.zeros(len(samples), dtype=torch.int64)


def independent(space: Space, samples: Tensor, seed: int) -> Elements:
    """Draw d is a random element; for copies of a model, copy number d."""
    if isinstance(space, WeightSpace):
        return lambda _row, draw: draw[:, None]
    owner = owners(space, samples)
    return lambda row, draw: space.sample(Draws(seed, owner[row], draw))


def distinct(space: Countable, samples: Tensor, seed: int, most: int) -> Elements:
    """Draw d is element d of the sample's own random order, of which the first `most` are stored."""
    owner = owners(space, samples)
    tall = max(1, SHUFFLED // space.order)
    parts = [Draws.of(seed, part).choice(space.order, most, stream="walk").clone() for part in torch.split(owner, tall)]
    chosen = torch.cat(parts) if parts else torch.empty(0, most, dtype=torch.int64)
    return lambda row, draw: space.unrank(chosen[row, draw])


ROWS = 4096
"""The most perturbations in one ask, which bounds the memory."""

NUMBERS, DEVICE_SHARE, MEMORY_SHARE = 2**22, 512, 256
"""The most random numbers that the perturbations of one ask are made from: on a CPU, one for so many bytes of a GPU's memory, and one for
so many bytes of the memory that a run may use there."""


def rows_for(space: Space, device: torch.device = CPU) -> int:
    """The number of perturbations of a space in one ask.

    >>> from veracity.perturb import Permutations
    >>> rows_for(Permutations(size=4)), rows_for(Permutations(size=2**12))
    (4096, 1024)
    """
    numbers, memory = NUMBERS, MEMORY.get()
    if device.type == "cuda":
        whole = torch.cuda.get_device_properties(device).total_memory // DEVICE_SHARE
        numbers = max(NUMBERS, whole if memory is None else min(whole, memory // MEMORY_SHARE))
    return max(1, min(ROWS, numbers // max(1, space.latents)))


class PlannedWalker:
    """Asks for `draws` draws of each sample at every level, in blocks of bounded size, on the samples' device.

    The order is by sample. If samples share their draws, it is by draw and level, to keep the rows of one copy of a model together;
    the elements, numbers of copies, are then on the CPU.
    """

    def __init__(self, space: Space, samples: Tensor, draws: int, elements: Elements, rows: int | None = None) -> None:
        most = rows_for(space, samples.device) if rows is None else rows
        self.space, self.samples, self.draws, self.elements, self.device = space, len(samples), draws, elements, samples.device
        self.rows = most if space.nested else max(self.samples, most // max(self.samples, 1) * self.samples)
        self.next, self.total = 0, self.samples * draws * space.levels

    def ask(self) -> Ask | None:
        """The next block of perturbations."""
        if self.next >= self.total:
            return None
        first, levels = self.next, self.space.levels
        self.next = min(first + self.rows, self.total)
        if not self.space.nested:
            number = torch.arange(first, self.next)
            row, copy = number % self.samples, number // self.samples
            draw, level = copy // levels, copy % levels
            element = self.space.at(self.elements(row, draw), level)
            return Ask(row.to(self.device), draw.to(self.device), level.to(self.device), element)
        number = torch.arange(first, self.next, device=self.device)
        drawn, level = number // levels, number % levels
        row, draw = drawn // self.draws, drawn % self.draws
        if levels == 1:
            return Ask(row, draw, level, self.space.at(self.elements(row, draw), level))
        once = torch.arange(first // levels, (self.next - 1) // levels + 1, device=self.device)  # levels of a draw share its element
        element = self.elements(once // self.draws, once % self.draws)
        return Ask(row, draw, level, self.space.at(element[drawn - first // levels], level))

    def tell(self, values: Tensor) -> None:
        """Ignore the values."""


LARGEST = 1_000_000
"""The largest space that is visited as a whole."""


@WALKS.add
@dataclass(frozen=True, kw_only=True)
class Exhaustive(Walk):
    """Every element of a finite space once, which makes the mean over the space exact. Draw d of every sample is element d."""

    name = "exhaustive"

    def start(self, space: Space, samples: Tensor, seed: int, bounds: tuple[float, float]) -> Walker:
        """Start at element 0 of the first sample."""
        finite = check_finite(space)
        return PlannedWalker(finite, samples, finite.order, lambda _row, draw: finite.unrank(draw))

    def sampling(self, space: Space) -> Sampling:
        """All elements, so drawing causes no error."""
        return Sampling(exhaustive=True, population=check_finite(space).order)

    def length(self, space: Space) -> int:
        """The order of the space."""
        return check_finite(space).order


def check_finite(space: Space) -> Countable:
    """The space; raises if it is infinite or too large to be visited as a whole."""
    if not isinstance(space, Countable):
        raise SpecError(f"The walk 'exhaustive' needs a finite space, but '{space.name}' is infinite: use the walk 'monte_carlo'.")
    if space.order > LARGEST:
        count = f"{space.order:,}" if space.order < 10**12 else f"about 10^{math.floor(math.log10(space.order))}"
        raise SpecError(
            f"The walk 'exhaustive' visits at most {LARGEST:,} elements, but '{space.name}' has {count}: use the walk 'monte_carlo'."
        )
    return space


@WALKS.add
@dataclass(frozen=True, kw_only=True)
class MonteCarlo(Walk):
    """`draws` uniform random elements per sample (appendix E of the symmetry paper).

    From finite spaces of up to 100,000 elements they are drawn without replacement unless `replace` is set; if `draws` reaches the
    order of the space, every element is visited once. In all other spaces draws are independent.
    """

    name = "monte_carlo"
    reference = "Crabbé and van der Schaar 2023, appendix E"
    draws: Count = 50
    replace: bool = False

    def start(self, space: Space, samples: Tensor, seed: int, bounds: tuple[float, float]) -> Walker:
        """Start at draw 0 of the first sample."""
        finite = self.without_replacement(space)
        if finite is not None and self.draws >= finite.order:
            return Exhaustive().start(space, samples, seed, bounds)
        elements = independent(space, samples, seed) if finite is None else distinct(finite, samples, seed, self.draws)
        return PlannedWalker(space, samples, self.draws, elements)

    def sampling(self, space: Space) -> Sampling:
        """Distinct draws from a small space, or all its elements if there are enough draws; otherwise independent draws."""
        finite = self.without_replacement(space)
        return Sampling() if finite is None else Sampling(exhaustive=self.draws >= finite.order, population=finite.order)

    def length(self, space: Space) -> int:
        """The number of draws, or the order of a space that has fewer elements."""
        finite = self.without_replacement(space)
        return self.draws if finite is None else min(self.draws, finite.order)

    def without_replacement(self, space: Space) -> Countable | None:
        """The space if its elements are drawn without replacement, else None."""
        return None if self.replace else countable(space)


@WALKS.add
@dataclass(frozen=True, kw_only=True)
class Adaptive(AdaptiveWalk):
    """Uniform random elements for each sample until its confidence interval is narrower than `width`.

    The interval is valid at any stopping time, with level `confidence`. It is computed after every `block` draws, and a sample gets at
    most `most` draws. From finite spaces of up to 100,000 elements they are drawn without replacement. The measure must be bounded.
    """

    name = "adaptive"
    reference = "Waudby-Smith and Ramdas 2023"
    width: Positive = 0.05
    confidence: Inside = 0.95
    most: Count = 500
    block: Count = 16

    def start(self, space: Space, samples: Tensor, seed: int, bounds: tuple[float, float]) -> Walker:
        """Start with a block of draws for every sample."""
        if not all(math.isfinite(bound) for bound in bounds):
            raise SpecError(
                f"The walk 'adaptive' needs a measure with finite bounds, not {bounds[0]} to {bounds[1]}: use the walk 'monte_carlo'."
            )
        if not space.nested or space.levels > 1:
            raise SpecError(f"The walk 'adaptive' follows single draws of single samples, not '{space.name}': use the walk 'monte_carlo'.")
        finite, length = countable(space), self.length(space)
        elements = independent(space, samples, seed) if finite is None else distinct(finite, samples, seed, length)
        order = None if finite is None else finite.order
        bets = Betting.start(len(samples), bounds=bounds, alpha=1.0 - self.confidence, population=order)
        return AdaptiveWalker(bets, elements, self.width, length, self.block, rows_for(space, samples.device), samples.device)

    def sampling(self, space: Space) -> Sampling:
        """Draws with a random stopping time."""
        finite = countable(space)
        return Sampling(population=None if finite is None else finite.order, anytime=self.confidence)

    def length(self, space: Space) -> int:
        """`most`, or the order of a space that has fewer elements."""
        finite = countable(space)
        return self.most if finite is None else min(self.most, finite.order)


class AdaptiveWalker:
    """Asks for a block of draws for the samples whose intervals are still too wide."""

    def __init__(
        self, bets: Betting, elements: Elements, width: float, length: int, block: int, rows: int = ROWS, device: torch.device = CPU
    ) -> None:
        self.bets, self.elements, self.device = bets, elements, device
        self.width, self.length, self.block, self.rows = width, length, min(block, rows), rows
        self.active = np.ones(len(bets.counts), dtype=np.bool_)
        self.asked = np.zeros(0, dtype=np.int64)

    def ask(self) -> Ask | None:
        """A block of draws for the active samples with the fewest draws, with at most `rows` perturbations."""
        if not self.active.any():
            return None
        counts = np.where(self.active, self.bets.counts, self.length)
        fewest = int(counts.min())
        self.asked = np.flatnonzero(counts == fewest)[: self.rows // self.block]
        draws = torch.arange(fewest, min(fewest + self.block, self.length), device=self.device)
        row = torch.from_numpy(self.asked).to(self.device).repeat_interleave(len(draws))
        draw = draws.repeat(len(self.asked))
        return Ask(row, draw, torch.zeros_like(draw), self.elements(row, draw))

    def tell(self, values: Tensor) -> None:
        """Update the intervals, and drop samples whose interval is narrow enough or whose draws are used up."""
        told: Array = values.detach().cpu().double().numpy()
        self.bets.update(self.asked, told.reshape(len(self.asked), -1))
        low, high = self.bets.interval()
        self.active &= (high - low > self.width) & (self.bets.counts < self.length)
