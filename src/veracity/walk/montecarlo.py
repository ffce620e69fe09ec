"""A fixed number of random elements for every sample."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from veracity.core.registry import WALKS
from veracity.core.settings import Count
from veracity.core.spaces import Countable, Space
from veracity.core.walks import Sampling, Walk, Walker
from veracity.walk.elements import by_rank, countable, distinct, independent
from veracity.walk.planned import Planned


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
        return Planned(space, len(samples), self.length(space), elements)

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
