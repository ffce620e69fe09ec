"""Every element once."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from veracity.core.errors import SpecError
from veracity.core.registry import WALKS
from veracity.core.spaces import Countable, Space
from veracity.core.walks import Sampling, Walk, Walker
from veracity.walk.elements import by_rank
from veracity.walk.planned import Planned

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
        return Planned(finite, len(samples), finite.order, by_rank(finite))

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
